"""`leakmeter runs compare`: two runs, case by case."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakmeter.cli.runs import compare
from leakmeter.errors import LeakmeterError

Call = Callable[..., Any]


MEASURED = ("influence", "--data", "cases.jsonl", "--model", "toy", "--json", "--max-new-tokens")


@pytest.fixture
def runs(cli: Call) -> tuple[Path, Path]:
    """Of five notes and of four of them with another limit, one with another text."""
    found = []
    for number, limit in enumerate((6, 7)):
        with Path("cases.jsonl").open("w", encoding="utf-8") as file:
            for name in ("Anna", "Bo", "Cora", "Dan", "Eve")[: 5 - number]:
                context = f"{name} sang.{' Often.' * (number and name == 'Bo')}"
                file.write(json.dumps({"id": name, "context": context, "query": "Who?", "response": "Bo"}) + "\n")
        found.append(Path(cli(*MEASURED, limit).err.splitlines()[-1].removeprefix("run: ")))
    return found[0], found[1]


def test_what_it_says(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    compare(*map(str, runs))
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert re.fullmatch(r"A: influence-[0-9a-f]{16}, .*cases\.jsonl, unit auto, 20.* UTC", lines[0])
    assert lines[1].startswith("B: influence-")
    assert lines[2:5] == [
        "4 cases in both, 1 in A only, 0 in B only",
        "1 with different texts in A and B: the same id, but not the same case",
        "differs: params.max_new_tokens: 6, then 7",
    ]
    names = [line.partition(",")[0] for line in lines[5:]]
    counted = ["influence.disclosures", "influence.disclosures.personal", "influence.worst_disclosure"]
    assert names == ["influence", "influence.per_token", "influence.worst_piece", *counted]
    compare(*(run.name for run in runs), runs=runs[0].parent)
    assert capsys.readouterr().out == said
    compare(*map(str, runs), quantity=["influence"], json=True)
    told = json.loads(capsys.readouterr().out)
    (row,) = told["quantities"]
    assert (told["n_pairs"], row["quantity"], row["n_pairs"]) == (4, "influence", 4)
    assert row["difference"] == pytest.approx(row["second"] - row["first"], rel=1e-12)
    low, high = row["interval"]
    assert low <= row["difference"] <= high
    with pytest.raises(LeakmeterError, match="no quantity named 'lake'"):
        compare(*map(str, runs), quantity=["lake"])
    with pytest.raises(LeakmeterError, match="no run 'nosuch'"):
        compare(str(runs[0]), "nosuch")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        (("--unit", "word"), "prompts.unit: auto, then word"),
        (("--removal", "mask"), "prompts.removal: drop, then mask"),
        (("--temperature", "0.5"), "params.temperature: 1, then 0.5"),
        (("--cid-lambda", "0.5"), "params.cid_lambda: 1, then 0.5"),
        (("--group",), "prompts.group: False, then True"),
    ],
)
def test_incomparable_runs(runs: tuple[Path, Path], cli: Call, options: tuple[str, ...], setting: str) -> None:
    other = cli(*MEASURED, 7, *options).err.splitlines()[-1].removeprefix("run: ")
    ended = cli("runs", "compare", runs[1], other)
    assert f"No verdict: the numbers mean different things ({setting})\n" in ended.out
    assert not any(word in ended.out for word in ("worse", "better", "no finding", "effect", " by "))
    told = json.loads(cli("runs", "compare", runs[1], other, "--json").out)
    assert [one["name"] for one in told["incomparable"]] == [setting.partition(":")[0]]
    assert {(row["verdict"], row["difference"], row["interval"]) for row in told["quantities"]} == {("", None, None)}
    cli("report", runs[1], other, "--html", "both.html")
    page = Path("both.html").read_text(encoding="utf-8")
    assert "No verdict: the numbers mean different things" in page
    assert "Paired differences" not in page
    if options[0] == "--unit":  # a unit that was named and the same by default are one
        same = cli(*MEASURED, 7, "--unit", "auto", "--out", "same").err.splitlines()[-1].removeprefix("run: ")
        out = cli("runs", "compare", runs[1], same).out
        assert "set otherwise" not in out
        assert "No verdict" not in out
