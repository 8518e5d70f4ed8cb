"""The example notebooks run from their first cell to their last, with the toy model, and hold no outputs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from helpers.places import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MODEL = 'MODEL = "smollm2-135m"'


def test_there_is_one_for_each_measure() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["audit", "decoding", "icl", "influence", "pii", "susceptibility"]


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in cells if cell.outputs or cell.execution_count]
    assert MODEL in cells[0].source
    cells[0].source = cells[0].source.replace(MODEL, 'MODEL = "toy"')
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in cells for output in cell.outputs if output.output_type != "stream"]
    assert len(shown) > 3
    # An object without a view of its own would show as Python writes it.
    written = [output.data.get("text/plain", "") for output in shown if output.output_type != "error"]
    assert [text for text in written if "<function" in text or " object at 0x" in text or "Composed" in text] == []
