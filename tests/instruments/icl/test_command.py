"""`leakmeter icl`: exemplars drawn and fixed, measured with the toy model."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.command_line import as_options, assert_refused, objects_of
from helpers.icl_results import asked, exemplar
from leakmeter.backends.toy import Toy
from leakmeter.commands.studies.tables import to_csv
from leakmeter.errors import DataError, LeakmeterError, UsageError
from leakmeter.instruments.icl import report
from leakmeter.instruments.icl.result import IclResult, summary
from leakmeter.report import blocks as b

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
    path.write_text(to_csv(rows), encoding="utf-8")


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
        assert (case["query"], case["gold"]) == (
            own[case["id"]]["said"], TASK["labels"][own[case["id"]]["mood"]],
        )  # fmt: skip
        assert len({case["id"], *(exemplar["id"] for exemplar in case["exemplars"])}) == 3
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
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *_, **__: small)
    write_csv(mine / "long.csv", [*ROWS[:4], {"id": "long", "said": "Rain. " * 30, "mood": "s"}])
    assert_refused(icl(data=mine / "long.csv"), "case 'long' needs ")
    ended = icl("--json", "--skip-bad", data=mine / "long.csv")
    assert (objects_of(ended)[1]["n"], "left out 1 bad case" in ended.err) == (4, True)


def test_without_options_tickets_are_sorted(cli: Call) -> None:
    cases, told = objects_of(cli("icl", "--model", "toy", *WHOLE, "--max-queries", 5, "--json"))
    assert (told["n"], sum(row["n_right_label"] for row in told["labels"])) == (5, 5)
    texts = resources.files("leakmeter.data.samples").joinpath("tickets.csv").read_text(encoding="utf-8")
    assert all(case["query"] in texts for case in cases)
    assert all(case["query"] not in exemplar["text"] for case in cases for exemplar in case["exemplars"])


def test_what_python_refuses() -> None:
    either = "give either exemplars, which precede every query, or a pool"
    bad = [{"said": "Rain.", "mood": "x"}]
    for rows, how, kind, told in (
        (ROWS, {}, UsageError, either),
        (ROWS, {"exemplars": ROWS, "pool": ROWS}, UsageError, either),
        ([{"text": "Rain."}], {"exemplars": ROWS}, DataError, "queries, record 1 has no column 'said'"),
        (ROWS, {"exemplars": bad}, DataError, "exemplars, record 1: 'mood' is 'x', expected one of 'g', 's'"),
        (ROWS, {"exemplars": ROWS, "task": {**TASK, "label": "mood"}}, DataError, "task: unknown key 'label'"),
    ):
        with pytest.raises(kind, match=told):
            leakmeter.icl("toy", rows, **{"task": TASK, **how})


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
        ({"shots": 9}, "needs 9 exemplars, and there are "), ({"task": "ONE"}, "has only the labels 'glad'"),
        ({"label_scoring": None}, "labels 'glad' and 'sad' begin with the same token"),
        ({"label_scoring": "first"}, "first-token"), ({"template": "chat"}, "no chat template"),
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
    folder = resources.files("leakmeter.data.samples")
    rows = list(csv.DictReader(folder.joinpath("tickets.csv").read_text(encoding="utf-8").splitlines()))
    measured = leakmeter.icl(real_backend, rows, task=str(folder.joinpath("tickets.toml")), pool=rows, shots=4, seed=0)
    told = measured.summary
    assert told.mean_nats == pytest.approx(2.65, abs=0.02)
    assert told.std_nats == pytest.approx(0.91, abs=0.02)
    assert [row.mean_nats for row in told.positions] == pytest.approx([1.25, 1.18, 1.74, 2.15], abs=0.02)
    assert told.accuracy == pytest.approx(1 / 3)


SHOTS = (
    'review,sentiment\nA delight.,positive\n"Two hours lost, and no plot.",negative\nThe songs are lovely.,Positive\n'
)
QUERIES = "review,response\nI slept through it.,negative\nBring a friend.,\n"
WHOLE = ("--label-scoring", "whole-sequence")
BLOCKS = [
    "Review: A delight.\nSentiment: positive",
    "Review: Two hours lost, and no plot.\nSentiment: negative",
    "Review: The songs are lovely.\nSentiment: positive",
]


@pytest.fixture
def files() -> None:
    Path("shots.csv").write_text(SHOTS, encoding="utf-8")
    Path("queries.csv").write_text(QUERIES, encoding="utf-8")


def log_prob(before: str, after: str) -> float:
    """Of a text behind another, one pass of the toy a byte, nats."""
    toy = Toy()
    ids, total = [*toy.tokenizer.start_ids, *before.encode()], 0.0
    for byte in after.encode():
        z = toy.logits(np.asarray(ids), np.arange(len(ids)))
        total += float(z[byte] - np.logaddexp.reduce(z))
        ids.append(byte)
    return total


def by_hand(query: str, gone: int | None) -> dict[str, float]:
    """log A of each label, with all exemplars or without one, behind a prompt as people would write it."""
    shots = [shot for i, shot in enumerate(BLOCKS) if i != gone]
    prompt = "\n\n".join(["Classify the sentiment.", *shots, f"Review: {query}\nSentiment:"])
    scores = {label: log_prob(prompt, f" {label}") for label in ("positive", "negative")}
    total = math.log(sum(math.exp(score) for score in scores.values()))
    return {label: score - total for label, score in scores.items()}


def results(ended: Any) -> list[dict[str, Any]]:
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def test_a_csv_of_few_shots_is_enough(cli: Call, files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("icl", "--model", "toy", *WHOLE, "--exemplars", "shots.csv", "--data", "queries.csv")
    columns = ("--text-column", "review", "--label-column", "sentiment", "--instruction", "Classify the sentiment.")
    first, second, total = results(cli(*given, *columns, "--json"))
    assert (first["answer"], first["answer_given"], second["answer_given"]) == ("negative", True, False)
    assert second["answer"] == second["prediction"]
    for case, query in ((first, "I slept through it."), (second, "Bring a friend.")):
        whole = by_hand(query, None)
        for number, one in enumerate(case["exemplars"]):
            without = by_hand(query, number)
            moved = {label: whole[label] - without[label] for label in whole}
            assert (one["id"], one["text"]) == (f"line {number + 2}", BLOCKS[number])
            assert one["answer_signed_nats"] == pytest.approx(moved[case["answer"]], abs=1e-9)
            assert one["answer_posterior"] is None
            assert one["worst_posterior"] is None
            assert one["loss_nats"] == pytest.approx(max(map(abs, moved.values())), abs=1e-9)
        assert case["answer_nats"] == max(one["answer_nats"] for one in case["exemplars"]) <= case["loss_nats"]
    assert total["summary"]["answers"]["n_given"] == 1
    # Columns by mapping, and from standard input, packed: the headings are other words, the numbers of the same kind.
    said = cli(*given).err
    assert said.startswith("leakmeter: shots.csv, line 2 has no column 'label'; it has 'review', 'sentiment'; name the")
    mapped = ("--map", "text=review,label=sentiment")
    packed = io.BytesIO(gzip.compress(QUERIES.encode()))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=packed, isatty=lambda: False))
    ended = cli(*given[:-1], "-", *mapped, "--json")
    assert [case["answer_given"] for case in results(ended)[:2]] == [True, False]
    assert cli(*given, "--map", "body=review").err.startswith("leakmeter: --map: there is no field 'body'")
    assert_refused(cli(*given, "--task", "trec", *columns), "a task defines its columns and instruction")


def test_one_name_for_one_exemplar(cli: Call, files: None) -> None:
    rows = SHOTS.splitlines()
    named = [f"id,{rows[0]}", *(f"shot-{i},{row}" for i, row in enumerate(rows[1:], 1))]
    Path("named.csv").write_text("\n".join(named), encoding="utf-8")
    columns = ("--text-column", "review", "--label-column", "sentiment", *WHOLE, "--model", "toy")
    given = ("icl", "--exemplars", "named.csv", "--data", "queries.csv", *columns)
    ids = ["shot-1", "shot-2", "shot-3"]
    first, *_ = results(cli(*given, "--json"))
    assert [one["id"] for one in first["exemplars"]] == ids
    assert {first["answer_exemplar"], first["worst_exemplar"]} <= set(ids)
    for shown in (cli(*given).out, cli(*given, "--html", "icl.html") and Path("icl.html").read_text("utf-8")):
        assert all(id_ in shown for id_ in ids)
        assert not any(other in shown.split() for other in ("e1", "e2", "e3"))
    rows_of_sql = cli("runs", "query", "select distinct piece from pieces order by piece", "--runs", "runs", "--json")
    assert [json.loads(line)["piece"] for line in rows_of_sql.out.splitlines()] == ids
    select = ("icl", "select", "--exemplars", "named.csv", "--data", "named.csv", *columns, "--max-steps", "1")
    (selection,) = results(cli(*select, "--json", "--out", "selected"))
    assert set(selection["steps"][0]["exemplars"]) == set(ids)
    assert {id_ for one in selection["rounds"][0]["best"] for id_ in one["move"]["exemplars"]} <= set(ids)
    Path("twice.csv").write_text("\n".join([*named, named[1]]), encoding="utf-8")
    twice = cli("icl", "--exemplars", "twice.csv", "--data", "queries.csv", *columns)
    assert_refused(twice, "id 'shot-1' is used by two records")


QA = ["Question: Who runs it?\nSaid: Ines Varga.", "Question: When?\nSaid: At six."]


def test_free_responses_are_scored_behind_inputs_and_outputs(cli: Call, files: None) -> None:
    Path("asked.csv").write_text("question,said\nWho sells tickets?,Ines.\nIs it late?,\n", encoding="utf-8")
    Path("qa.csv").write_text("question,said\nWho runs it?,Ines Varga.\nWhen?,At six.\n", encoding="utf-8")
    given = (
        "icl", "responses", "--model", "toy", "--exemplars", "qa.csv", "--data", "asked.csv", "--max-new-tokens", "5",
    )  # fmt: skip
    columns = ("--input-column", "question", "--output-column", "said", "--instruction", "Be brief.")
    first, second = results(cli(*given, *columns, "--json"))
    assert (first["unit"], first["response"]["sampled"], second["response"]["sampled"]) == ("exemplar", False, True)
    assert first["schema"].startswith("influence-")

    def score(blocks: list[str]) -> list[float]:
        before = "\n\n".join(["Be brief.", *blocks, "Question: Who sells tickets?\nSaid:"])
        return [log_prob(before + " Ines."[:end], " Ines."[end]) for end in range(len(" Ines."))]

    for number, piece in enumerate(first["pieces"]):
        signed = np.subtract(score(QA), score([block for i, block in enumerate(QA) if i != number]))
        assert (piece["name"], piece["text"]) == (f"line {number + 2}", QA[number])
        assert piece["signed_nats"] == pytest.approx(signed.sum(), abs=1e-9)
        assert piece["nats"] == pytest.approx(np.abs(signed).sum(), abs=1e-9)
        alone = np.subtract(score([QA[number]]), score([]))
        assert piece["alone_nats"] == pytest.approx(np.abs(alone).sum(), abs=1e-9)
    assert len(second["response"]["tokens"]) <= 5
    said = " ".join(cli(*given, *columns, "--max-queries", "1").out.split())
    assert [words in said for words in ("set of exemplars as a whole", "Exemplar", "Piece")] == [True, True, False]
    (run, *_) = Path("runs").iterdir()
    assert cli("report", run).code == 0
    for more, told in (
        ((), "line 2 has no column 'input'; it has 'question', 'said'; name the columns with --input-column"),
        ((*columns, "--samples", "2"), "has a response, so none is drawn"),
        ((*columns, "--pool", "qa.csv"), "give either exemplars"),
        (("--input-column", "said", "--output-column", "said"), "name two columns"),
    ):
        assert_refused(cli(*given, *more), told)


def test_python_takes_few_shots_of_any_kind() -> None:
    shots = [{"review": "A delight.", "mood": "good"}, {"review": "Two hours lost.", "mood": "bad"}]
    columns = {"text_column": "review", "label_column": "mood", "label_scoring": "whole-sequence"}
    of_texts = leakmeter.icl("toy", ["So long."], exemplars=shots, **columns)
    assert of_texts[0].labels == ("good", "bad")
    with pytest.raises(LeakmeterError, match="record 1 is not a JSON object, or another record with fields"):
        leakmeter.icl("toy", ["So long."], exemplars=[SimpleNamespace(**one) for one in shots], **columns)
    pandas = pytest.importorskip("pandas")
    of_frame = leakmeter.icl("toy", ["So long."], exemplars=pandas.DataFrame(shots), **columns)
    assert of_frame.summary.mean_nats == of_texts.summary.mean_nats
    drawn = leakmeter.icl("toy", iter(["So long.", "Short."]), pool=iter(shots), shots=1, **columns)
    assert [len(one.exemplars) for one in drawn] == [1, 1]
    free = leakmeter.icl_responses(
        "toy", ["C?"], exemplars=[{"ask": "A?", "to": {"say": "B."}}], map={"input": "ask", "output": "to.say"},
        max_new_tokens=3,
    )  # fmt: skip
    assert free[0].pieces[0].text == "Input: A?\nOutput: B."
    # Exemplars are the same in many cases, which are not held against each other.
    assert (free[0].controls, free[0].irrelevant_contexts) == ((), None)
    with pytest.raises(LeakmeterError, match=r"^controls is 2, and exemplars are held against no others"):
        leakmeter.icl_responses("toy", ["C?"], exemplars=[{"input": "A?", "output": "B."}], controls=2)


@pytest.mark.parametrize(
    ("nats", "met"),
    [((0.05, 0.05), ["little"]), ((0.5, 0.5), ["some"]), ((2.0, 2.0), ["much"]), ((0.05, 3.0), ["little", "worst"])],
)
def test_advice_is_the_row_that_the_results_meet(nats: tuple[float, float], met: list[str]) -> None:
    one, other = (
        asked(id_, exemplars=(exemplar(1, *nats),), loss_nats=max(nats), gold=None, is_right=None) for id_ in "ab"
    )
    for results_ in ([one], [one, other]):
        (shown,) = (block for block in type(one).report(results_).blocks if isinstance(block, b.Advice))
        assert list(shown.rows) == [(found, b.sentence(do)) for found, do in (report.EXEMPLARS[name] for name in met)]
        assert len(shown.rows) + len(shown.others) == len(report.EXEMPLARS)
