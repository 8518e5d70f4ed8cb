"""`leakmeter icl`: exemplars drawn and fixed, measured with the toy model."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import as_options, assert_refused, objects_of
from leakmeter.backends.toy import Toy
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.icl.result import IclResult
from leakmeter.instruments.icl.summary import summary

Call = Callable[..., Any]
TASK = {
    "name": "moods", "instruction": "Say how they feel.", "fields": {"said": "They said"}, "answer": "Mood",
    "label_column": "mood", "labels": {"g": "glad", "s": "sad"},
}  # fmt: skip
ROWS = [
    {"id": f"m{i}", "said": f"{said} {i}.", "mood": mood}
    for i, (said, mood) in enumerate([("The tide is out", "s"), ("Ines sang", "g"), ("Rain", "s"), ("Figs!", "g")] * 3)
]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A task of one's own, and files of it: queries without a label, and examples with one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "task.toml").write_text(
        'name = "moods"\ninstruction = "Say how they feel."\nanswer = "Mood"\nlabel_column = "mood"\n'
        '[fields]\nsaid = "They said"\n[labels]\ng = "glad"\ns = "sad"\n',
        encoding="utf-8",
    )
    write_csv(folder / "queries.csv", ROWS[:10])
    write_csv(folder / "few.csv", ROWS[10:])
    (folder / "examples.jsonl").write_text("\n".join(map(json.dumps, ROWS[8:])), encoding="utf-8")
    return folder


@pytest.fixture
def icl(cli: Call, mine: Path) -> Call:
    """`leakmeter icl` of one's own task with the toy model; options win, None drops one."""

    def call(*more: object, **options: object) -> Any:
        given: dict[str, object] = {
            "task": mine / "task.toml", "data": mine / "queries.csv", "pool": mine / "examples.jsonl", "shots": 2,
            "model": "toy", "label_scoring": "whole-sequence",
        }  # fmt: skip
        if "exemplars" in options:
            given |= {"pool": None, "shots": None}
        given |= options
        return cli("icl", *as_options(given), *more)

    return call


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_exemplars_are_drawn_for_each_query_and_summed_up(icl: Call) -> None:
    dry = json.loads(icl("--dry-run", "--json").out)
    assert not Path("runs").exists()
    cases, told = objects_of(icl("--json"))
    assert [case["tree_tokens"] for case in dry["cases"]] == [case["cost"]["tree_tokens"] for case in cases]
    assert dry["requests"] == sum(case["cost"]["requests"] for case in cases)
    assert told == summary(list(map(IclResult.from_dict, cases))).to_dict()
    assert (told["n"], told["n_with_label"], told["exemplars"]) == (10, 10, None)
    assert sorted(case["id"] for case in cases) == sorted(row["id"] for row in ROWS[:10])
    own = {row["id"]: row for row in ROWS}
    for case in cases:
        assert [exemplar["position"] for exemplar in case["exemplars"]] == [1, 2]
        assert case["query"] == own[case["id"]]["said"]
        assert case["gold"] == TASK["labels"][own[case["id"]]["mood"]]
        assert case["id"] not in {exemplar["id"] for exemplar in case["exemplars"]}
        assert len({exemplar["id"] for exemplar in case["exemplars"]}) == 2
        assert case["loss_nats"] == max(exemplar["loss_nats"] for exemplar in case["exemplars"]) > 0
    assert len({tuple(exemplar["id"] for exemplar in case["exemplars"]) for case in cases}) > 1
    again, _ = objects_of(icl("--json", seed=1))
    assert [case["exemplars"] for case in again] != [case["exemplars"] for case in cases]
    # From Python it is the same.
    measured = leakmeter.icl("toy", ROWS[:10], task=TASK, pool=ROWS[8:], shots=2, label_scoring="whole-sequence")
    for result, case in zip(measured, cases, strict=True):
        assert {**result.to_dict(), "cost": None} == {**case, "cost": None}
    assert measured.summary.mean_nats == told["mean_nats"]
    largest = measured.to_frame(detail=True).groupby("case")["loss_nats"].max()
    assert (len(largest), largest.mean()) == (10, pytest.approx(told["mean_nats"]))


def test_a_query_that_does_not_fit_is_named_or_left_out(icl: Call, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Toy()
    small.window = 150
    monkeypatch.setattr("leakmeter.engine.loading.load_backend", lambda *_, **__: small)
    write_csv(mine / "long.csv", [*ROWS[:4], {"id": "long", "said": "Rain. " * 30, "mood": "s"}])
    ended = icl(data=mine / "long.csv")
    assert (ended.code, "case 'long' needs " in ended.err) == (2, True)
    ended = icl("--json", "--skip-bad", data=mine / "long.csv")
    assert (objects_of(ended)[1]["n"], "left out 1 bad case" in ended.err) == (4, True)


def test_without_options_tickets_are_sorted(cli: Call) -> None:
    cases, told = objects_of(
        cli("icl", "--model", "toy", "--label-scoring", "whole-sequence", "--max-queries", 5, "--json")
    )
    assert (told["n"], sum(row["n_right_label"] for row in told["labels"])) == (5, 5)
    texts = resources.files("leakmeter.samples").joinpath("tickets.csv").read_text(encoding="utf-8")
    assert all(case["query"] in texts for case in cases)
    assert all(case["query"] not in exemplar["text"] for case in cases for exemplar in case["exemplars"])


def test_what_python_refuses() -> None:
    for given in ({}, {"exemplars": ROWS, "pool": ROWS}):
        with pytest.raises(UsageError, match="give either exemplars, which precede every query, or a pool"):
            leakmeter.icl("toy", ROWS, task=TASK, **given)
    with pytest.raises(DataError, match="queries, record 1 has no column 'said'"):
        leakmeter.icl("toy", [{"text": "Rain."}], task=TASK, exemplars=ROWS)
    with pytest.raises(DataError, match="exemplars, record 1: 'mood' is 'x', expected one of 'g', 's'"):
        leakmeter.icl("toy", ROWS, task=TASK, exemplars=[{"said": "Rain.", "mood": "x"}])
    with pytest.raises(DataError, match="task: unknown key 'label'"):
        leakmeter.icl("toy", ROWS, task={**TASK, "label": "mood"}, exemplars=ROWS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "agnew"}, "no task named 'agnew'; did you mean 'agnews'?"),
        ({"task": "missing.toml"}, "task file 'missing.toml' cannot be read"),
        ({"data": None}, "task 'moods' has no texts of its own; give queries with --data FILE"),
        ({"pool": None}, "give examples to draw from with --pool FILE, or all with --exemplars FILE"),
        ({"data": "missing.csv"}, "data file 'missing.csv' cannot be read"), ({"data": "EMPTY"}, "is empty"),
        ({"data": "OTHER"}, "has no column 'said'"), ({"pool": "UNLABELLED"}, "has no column 'mood'"),
        ({"pool": "UNKNOWN"}, "'mood' is 'happy', expected one of 'g', 's'"),
        ({"shots": 9}, "needs 9 exemplars, and there are "), ({"shots": 0}, "shots is 0; it has to be 1 or more"),
        ({"max_queries": 0}, "max-queries is 0; it has to be 1 or more"), ({"seed": -1}, "seed is -1"),
        ({"task": "ONE"}, "has only the labels 'glad'"),
        ({"label_scoring": None}, "labels 'glad' and 'sad' begin with the same token"),
        ({"label_scoring": "first"}, "first-token"), ({"template": "plian"}, "plain"),
        ({"template": "chat"}, "no chat template"), ({"temperature": 0}, "temperature is 0.0; it has to be above 0"),
        ({"calibration": "blank", "space": "vocabulary"}, "calibration is for labels"),
        ({"exemplars": "FEW", "shots": 2}, "--shots is for drawn exemplars"),
        ({"exemplars": "FEW", "pool": "FEW"}, "--pool is for drawn exemplars"),
        ({"html": "no/such/icl.html"}, "is in a directory that does not exist"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(icl: Call, mine: Path, options: dict[str, Any], said: str) -> None:
    (mine / "empty.csv").write_text("", encoding="utf-8")
    write_csv(mine / "other.csv", [{"text": "Rain.", "mood": "s"}])
    write_csv(mine / "unlabelled.csv", [{"said": "Rain."}])
    write_csv(mine / "unknown.csv", [{"said": "Rain.", "mood": "happy"}])
    (mine / "one.toml").write_text('label_column = "mood"\nlabels = {g = "glad", s = "glad"}\n[fields]\nsaid = "S"\n')
    places = {name.upper(): mine / f"{name}.csv" for name in ("empty", "other", "unlabelled", "unknown", "few")}
    places["ONE"] = mine / "one.toml"
    ended = icl(**{name: places.get(str(value), value) for name, value in options.items()})
    assert_refused(ended, said)
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.long
def test_the_tickets_with_the_default_model(real_backend: Any) -> None:
    """docs/icl.md: float32 on a CPU; other processors differ in digits that are not told there."""
    folder = resources.files("leakmeter.samples")
    rows = list(csv.DictReader(folder.joinpath("tickets.csv").read_text(encoding="utf-8").splitlines()))
    measured = leakmeter.icl(real_backend, rows, task=str(folder.joinpath("tickets.toml")), pool=rows, shots=4, seed=0)
    told = measured.summary
    assert told.mean_nats == pytest.approx(2.65, abs=0.02)
    assert told.std_nats == pytest.approx(0.91, abs=0.02)
    assert [row.mean_nats for row in told.positions] == pytest.approx([1.25, 1.18, 1.74, 2.15], abs=0.02)
    assert told.accuracy == pytest.approx(1 / 3)
