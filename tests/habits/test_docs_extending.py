"""What the page on adding to leakmeter shows is added: written, installed, found, and used."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.docs_blocks import Block, blocks, command_lines, exit_code, words_of
from helpers.naive import log_softmax
from helpers.places import ROOT
from leakmeter.core import registry

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
    registry._others.cache_clear()
    yield [block for block in blocks(page=PAGE) if block.title is None]
    registry._others.cache_clear()
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "mine" or name == "leakmeter.data.named.tides":
            del sys.modules[name]


def install(packages: Path, project: dict[str, Any]) -> None:
    """What an installer writes beside a package for its entry points."""
    folder = packages / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    told = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(told, encoding="utf-8")
    points = {group: "".join(f"{n} = {v}\n" for n, v in of.items()) for group, of in project["entry-points"].items()}
    lines = "".join(f"[{group}]\n{of}" for group, of in points.items())
    (folder / "entry_points.txt").write_text(lines, encoding="utf-8")


def test_everything_shown_is_added_and_used(shown: list[Block], capsys: pytest.CaptureFixture[str]) -> None:
    from leakmeter.core.backend import Backend

    for where, line in command_lines(PAGE):
        assert exit_code(words_of(line)) == 0, where
    said = capsys.readouterr().out
    assert "how much the order of two statements" in said
    assert "The order moves an answer by up to" in said
    names: dict[str, Any] = {"__name__": "__example__"}
    for block in shown:
        if block.language == "python":
            exec(compile(block.text, block.id, "exec", dont_inherit=True), names)
    assert "order" in registry.instruments()
    assert isinstance(names["bigram"], Backend)
    assert names["none"].whole_nats == 0
    assert [result.nats for result in leakmeter.load_run(names["deaf"])] == [0, 0]
    assert {result.id: result.nats for result in names["run"]} == pytest.approx(by_hand(), abs=1e-9)
    assert len(list(Path("runs").glob("decode-*"))) == 2
    for page in (Path("order.html").read_text(encoding="utf-8"), names["run"].render_page()):
        assert page.startswith("<!doctype html>")
        assert "Order of statements" in page
    worst = max(by_hand().values())
    assert exit_code(["gate", str(names["path"]), "--max", f"order <= {worst + 1e-6}"]) == 0
    assert exit_code(["gate", str(names["path"]), "--max", f"order <= {worst - 1e-6}"]) == 1


def test_a_run_of_it_that_was_killed_goes_on(shown: list[Block], monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.backends.toy import Toy

    words = ["order", "--data", "statements.jsonl", "--model", "toy", "--out", "killed"]
    score, n_scored = Toy.score, [0]

    def dying(self: Toy, chunk: Any) -> Any:
        n_scored[0] += 1
        if n_scored[0] == 2:
            raise KeyboardInterrupt
        return score(self, chunk)

    monkeypatch.setattr(Toy, "score", dying)
    assert exit_code(words) == 130
    (run,) = Path("killed").glob("order-*")
    assert not (run / "spec.json").exists()
    assert exit_code(words) == 0
    assert n_scored[0] == 3
    assert [result.id for result in leakmeter.load_run(run)] == ["1", "2"]


def test_an_instrument_with_cases_of_its_own_takes_few_lines() -> None:
    shown = [block for block in blocks(page=PAGE) if (block.title or "").startswith("mine/order/")]
    assert len(shown) == 6
    assert sum(len(block.text.splitlines()) for block in shown) < 150


def by_hand() -> dict[str, float]:
    """log p(y | A, B) − log p(y | B, A) by the toy's own logits."""
    from leakmeter.backends.toy import Toy

    toy = Toy()

    def log_prob(texts: tuple[str, ...], response: str) -> float:
        ids, total = [*toy.tokenizer.start_ids, *"\n".join(texts).encode()], 0.0
        for token in response.encode():
            total += log_softmax(toy.logits(np.asarray(ids), np.arange(len(ids))))[token]
            ids.append(token)
        return total

    def moved(one: dict[str, str]) -> float:
        orders = ((one["first"], one["second"]), (one["second"], one["first"]))
        given, swapped = (log_prob((*order, one["query"]), one["response"]) for order in orders)
        return abs(given - swapped)

    lines = Path("statements.jsonl").read_text(encoding="utf-8").splitlines()
    return {str(number): moved(json.loads(line)) for number, line in enumerate(lines, 1)}
