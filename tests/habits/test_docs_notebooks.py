"""The example notebooks run from their first cell to their last, and hold outputs of the default model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.places import ROOT
from report import notebooks

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MOST_BYTES = 100_000
NEED_WEIGHTS = ("icl", "susceptibility")
"""The toy splits whole words into letters, which are no labels, and has no gradients."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_holds_outputs_and_nothing_of_the_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert notebooks.MODEL in "".join(cells[0]["source"])
    assert all(cell["execution_count"] for cell in cells)
    assert sum(bool(cell["outputs"]) for cell in cells) >= 2
    assert "site-packages" not in text
    assert len(text) < MOST_BYTES


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("nbformat", "nbclient", "ipykernel"):
        pytest.importorskip(package)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = notebooks.executed(path, model=None if path.stem in NEED_WEIGHTS else "toy")
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ()) if output.output_type != "stream"]
    assert len(shown) >= 2
    # An object without a view of its own would show as Python writes it.
    written = [output.data.get("text/plain", "") for output in shown if output.output_type != "error"]
    assert [text for text in written if "<function" in text or " object at 0x" in text or "Composed" in text] == []
