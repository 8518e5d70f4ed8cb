"""`leakmeter runs compare`: two runs, case by case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakmeter.cli.runs import compare
from leakmeter.errors import LeakmeterError

Call = Callable[..., Any]


@pytest.fixture
def runs(cli: Call, tmp_path: Path) -> tuple[Path, Path]:
    """Of five notes and of four of them at another temperature, one with another text."""
    found = []
    for number, temperature in enumerate(("1", "0.5")):
        path = tmp_path / "cases.jsonl"
        lines = [
            {"id": name, "context": f"{name} sang.{' Often.' * (number and name == 'Bo')}", "query": "Who?"}
            for name in ("Anna", "Bo", "Cora", "Dan", "Eve")[: 5 - number]
        ]
        path.write_text("".join(json.dumps({**line, "response": "Bo"}) + "\n" for line in lines), encoding="utf-8")
        ended = cli("influence", "--data", path, "--model", "toy", "--temperature", temperature, "--json")
        found.append(Path(ended.err.splitlines()[-1].removeprefix("run: ")))
    return found[0], found[1]


def test_what_it_says(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    compare(*map(str, runs))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "4 cases in both, 1 in A only, 0 in B only",
        "1 with other texts in B than in A: the same id, but not the same case",
        "set otherwise: params.temperature: 1, then 0.5",
    ]
    assert [line.partition(",")[0] for line in lines[3:]] == [
        "influence",
        "influence.per_token",
        "influence.worst_piece",
    ]


def test_json_and_one_quantity(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    compare(*map(str, runs), quantity=["influence"], json=True)
    told = json.loads(capsys.readouterr().out)
    (row,) = told["quantities"]
    assert (told["n_pairs"], row["quantity"], row["n_pairs"]) == (4, "influence", 4)
    assert row["difference"] == pytest.approx(row["second"] - row["first"], rel=1e-12)
    low, high = row["interval"]
    assert low <= row["difference"] <= high


def test_by_name(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    compare(*(run.name for run in runs), runs=runs[0].parent)
    assert capsys.readouterr().out.startswith("4 cases in both")


def test_what_is_refused(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LeakmeterError, match="no quantity named 'lake'"):
        compare(*map(str, runs), quantity=["lake"])
    with pytest.raises(LeakmeterError, match="no run 'nosuch'"):
        compare(str(runs[0]), "nosuch")
    assert capsys.readouterr().out == ""
