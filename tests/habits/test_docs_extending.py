"""What the page on adding to leakmeter shows is added: written, installed, found, and used."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs_blocks import ROOT, Block, blocks, command_lines, exit_code, words_of

from leakmeter.core.case import Case

PAGE = ROOT / "docs" / "extending.md"


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Block]]:
    """The page's files are where it says, and its package is installed; the blocks that are no files."""
    from leakmeter.data import named

    monkeypatch.chdir(tmp_path)
    own, packages = tmp_path / "own", tmp_path / "packages"
    for block in blocks(page=PAGE):
        if block.title is not None:
            # What is to lie in leakmeter lies beside it here, and is looked for there too.
            if block.title.startswith("leakmeter/data/named/"):
                path = own / Path(block.title).name
            else:
                path = (packages if "/" in block.title else tmp_path) / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    install(packages, tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"])
    monkeypatch.setattr(named, "__path__", [*named.__path__, str(own)])
    monkeypatch.syspath_prepend(packages)
    before = set(sys.modules)
    yield [block for block in blocks(page=PAGE) if block.title is None]
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "mine" or name == "leakmeter.data.named.tides":
            del sys.modules[name]


def install(packages: Path, project: dict[str, Any]) -> None:
    """What an installer writes beside a package for its entry points."""
    folder = packages / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_everything_shown_is_added_and_used(shown: list[Block]) -> None:
    from leakmeter.core import registry
    from leakmeter.core.backend import Backend
    from leakmeter.core.measure import Measure

    names: dict[str, Any] = {"__name__": "__example__"}
    for block in shown:
        if block.language == "python":
            exec(compile(block.text, block.id, "exec", dont_inherit=True), names)
    assert "together" in registry.instruments()
    assert isinstance(names["measure"], Measure)
    assert isinstance(names["bigram"], Backend)
    assert names["deaf"].whole == 0
    said = {pair["first"]: pair["nats"] for pair in names["result"].case["pairs"]}
    assert said == pytest.approx(by_influence(names["case"]), abs=1e-9)
    assert Path("together.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    for where, line in command_lines(PAGE):
        assert exit_code(words_of(line)) == 0, where
    assert len(list(Path("runs").glob("decode-*"))) == 2


def by_influence(case: Case) -> dict[str, float]:
    """The same from the measure that ships: of three pieces, D without two is the third alone."""
    from leakmeter.instruments.influence.measure import Influence
    from leakmeter.runs.loading import load_backend, measured_alone
    from leakmeter.text.build import PromptSettings

    ((_, readings),) = measured_alone(load_backend("toy"), Influence(), PromptSettings(), case)
    nats = {(r.statistic, r.piece): float(r.values.sum()) for r in readings}
    whole, missed = nats["whole", ""], {piece: nats["without_this", piece] for piece in ("s1", "s2", "s3")}
    return {
        first: (whole - nats["only_this", third]) - missed[first] - missed[second]
        for first, second, third in (("s1", "s2", "s3"), ("s2", "s3", "s1"))
    }
