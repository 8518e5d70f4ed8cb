"""Few-shot examples as people have them, labelled and free-form, from a file to numbers that are checked by hand."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.icl_results import asked, exemplar
from leakmeter.backends.toy import Toy
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.icl import report
from leakmeter.report import blocks as b

Call = Callable[..., Any]
SHOTS = (
    "review,sentiment\n"
    "A delight from start to end.,positive\n"
    '"Two hours lost, and no plot.",negative\n'
    "The songs are lovely.,Positive\n"
)
QUERIES = "review,response\nI slept through it.,negative\nBring a friend.,\n"
WHOLE = ("--label-scoring", "whole-sequence")
BLOCKS = [
    "Review: A delight from start to end.\nSentiment: positive",
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


def prompt(shots: list[str], query: str) -> str:
    """As people would write it."""
    return "\n\n".join(["Classify the sentiment.", *shots, f"Review: {query}\nSentiment:"])


def by_hand(query: str, gone: int | None) -> dict[str, float]:
    """log A of each label, with all exemplars or without one."""
    shots = [shot for i, shot in enumerate(BLOCKS) if i != gone]
    scores = {label: log_prob(prompt(shots, query), f" {label}") for label in ("positive", "negative")}
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
            assert one["id"] == f"line {number + 2}"
            assert one["text"] == BLOCKS[number]
            assert one["answer_signed_nats"] == pytest.approx(moved[case["answer"]], abs=1e-9)
            assert one["answer_posterior"] == pytest.approx(1 / (1 + math.exp(-moved[case["answer"]])), abs=1e-9)
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
    ended = cli(*given, "--task", "trec", *columns)
    assert (ended.code, ended.out) == (2, "")
    assert "a task defines its columns and instruction" in ended.err


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
    found = cli(
        *("icl", "select", "--exemplars", "named.csv", "--data", "named.csv", *columns),
        *("--max-steps", "1", "--json", "--out", "selected"),
    )
    (selection,) = results(found)
    assert set(selection["steps"][0]["exemplars"]) == set(ids)
    assert {id_ for one in selection["rounds"][0]["best"] for id_ in one["move"]["exemplars"]} <= set(ids)
    Path("twice.csv").write_text("\n".join([*named, named[1]]), encoding="utf-8")
    said = cli("icl", "--exemplars", "twice.csv", "--data", "queries.csv", *columns)
    assert "id 'shot-1' is used by two records" in said.err


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
    said = cli(*given, *columns, "--max-queries", "1").out
    assert "set of exemplars as a whole" in " ".join(said.split())
    assert "Exemplar" in said
    assert "Piece" not in said
    (run, *_) = Path("runs").iterdir()
    assert cli("report", run).code == 0
    for more, told in (
        ((), "line 2 has no column 'input'; it has 'question', 'said'; name the columns with --input-column"),
        ((*columns, "--samples", "2"), "has a response, so none is drawn"),
        ((*columns, "--pool", "qa.csv"), "give either exemplars"),
        (("--input-column", "said", "--output-column", "said"), "name two columns"),
    ):
        ended = cli(*given, *more)
        assert (ended.code, ended.out) == (2, "")
        assert told in ended.err


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


@pytest.mark.parametrize(
    ("nats", "met"),
    [((0.05, 0.05), ["little"]), ((0.5, 0.5), ["some"]), ((2.0, 2.0), ["much"]), ((0.05, 3.0), ["little", "worst"])],
)
def test_advice_is_the_row_that_the_results_meet(nats: tuple[float, float], met: list[str]) -> None:
    one = asked(exemplars=(exemplar(1, *nats),), loss_nats=max(nats), gold=None, is_right=None)
    for results_ in ([one], [one, asked("b", exemplars=one.exemplars, loss_nats=max(nats), gold=None, is_right=None)]):
        (shown,) = (block for block in type(one).report(results_).blocks if isinstance(block, b.Advice))
        assert list(shown.rows) == [report.EXEMPLARS[name] for name in met]
        assert len(shown.rows) + len(shown.others) == len(report.EXEMPLARS)
