"""A choice of exemplars in a terminal and as Markdown: 80 columns, no markup, and words that fit the verdict."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from helpers.report_checks import assert_markdown_harmless
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.core.plain import to_json
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.search import MOVES, MeasuredList, Move, Round
from leakmeter.instruments.icl.selection import Chosen, Model, Selection, Step
from leakmeter.instruments.icl.selection_report import report, round_line, sentences
from leakmeter.instruments.icl.summary import AnswerLosses, FixedExemplar, Summary
from leakmeter.report import markdown

SNAPSHOTS = Path(__file__).parent / "snapshots"
HOSTILE = "[red]x[/red]\x1b[31m|\n{} %s " + "long " * 40


def told(verdict: str = "lower", *, nats: float = 12.345, n_too_long: int = 0) -> Selection:
    """Of three exemplars with ids and texts that mean no good; one is dropped and one replaced."""
    is_finite = math.isfinite(nats)

    def half(ids: list[str]) -> Summary:
        interval = (nats - 1.5, nats + 1.5) if is_finite else None
        answers = AnswerLosses(
            mean_nats=1.0, std_nats=0.5, interval_nats=(0.5, 1.5), n_given=0, max_nats=2.0, share_below_noise_floor=0.0
        )
        exemplars = tuple(
            FixedExemplar(
                id=id_, position=i, answers=answers, label=HOSTILE, text=HOSTILE, n_tokens=9, mean_nats=nats,
                max_nats=nats, std_nats=0.5, interval_nats=interval, worst_query="q", worst_share=1.0,
                worst_share_interval=(0.9, 1.0),
            )
            for i, id_ in enumerate(ids, 1)
        )  # fmt: skip
        return Summary(
            n=50, answers=answers,
            mean_nats=nats, std_nats=0.5, interval_nats=interval, quantiles_nats={}, share_below_noise_floor=0.0,
            n_with_label=50, accuracy=1.0, accuracy_interval=(0.929, 1.0), macro_f1=1.0, positions=(), labels=(),
            exemplars=exemplars, median_tree_tokens=5.0, median_naive_tokens=9.0,
        )  # fmt: skip

    def measured(move: Move | None, exemplars: list[str]) -> MeasuredList:
        many = tuple(exemplars)
        return MeasuredList(move=move, exemplars=many, loss_nats=nats, largest_nats=nats, accuracy=0.999)

    one, two, new = HOSTILE, f"2 {HOSTILE}", f"pool {HOSTILE}"
    swap = measured(Move("replace", (two,), new), [new, "3"])
    lists = [measured(None, [one, two, "3"]), measured(Move("drop", (one,)), [two, "3"]), swap]
    names = MeasuredList.__slots__
    steps = tuple(Step(step=i, **{name: getattr(each, name) for name in names}) for i, each in enumerate(lists))
    moves = (Move("reorder", ("a", "b")), Move("add", (), "pool 4"))
    best = (lists[1], *(replace(lists[1], move=move) for move in moves))
    return Selection(
        **asdict(Icl()), model=Model(name="toy", weights_sha256=None, dtype="float64", device="cpu"), task=HOSTILE,
        template="plain", moves=MOVES, candidates=("pool 4", new), n_choosing=50, n_reporting=50, max_steps=2, seed=0,
        ended="max steps", n_lists=41, exemplars=(Chosen(id=new, label=HOSTILE), Chosen(id="3", label=HOSTILE)),
        steps=steps[:1] if verdict == "unchanged" else steps, verdict=verdict, warnings=(HOSTILE,),
        rounds=(Round(best=best, n_lists=40, n_too_long=n_too_long),), before=half([one, two, "3"]),
        after=half([new, "3"]), loss_difference_nats=-2.0 if is_finite else None,
        loss_difference_interval_nats=(-2.25, -1.75) if is_finite else None, wilcoxon_p=0.00012,
        accuracy_difference=-0.04, accuracy_difference_interval=(-0.131, 0.052),
    )  # fmt: skip


@pytest.mark.parametrize("verdict", ["lower", "not lower", "too few", "unchanged"])
@pytest.mark.parametrize("nats", [12.345, math.inf])
def test_everything_fits_80_columns_and_nothing_is_obeyed(verdict: str, nats: float) -> None:
    found = told(verdict, nats=nats)
    assert Selection.from_dict(json.loads(to_json(found))) == found
    made = report(found, command=HOSTILE)
    text, note = printed(made), markdown.text(made)
    assert max(map(len, text.splitlines())) <= 80
    assert_markdown_harmless(note)
    assert "[red]" in text
    assert "&#91;red&#93;" in note
    for one in (text, note):
        assert "\x1b" not in one
        assert "100 %" in one
        assert "99 %" in one
        assert ("∞" in one) == (nats == math.inf)
    rows = [line for line in note.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} <= {5, 6, 8}


def test_what_a_report_says_is_as_reviewed() -> None:
    made = report(told(n_too_long=3), command="leakmeter icl select")
    assert_as_reviewed(SNAPSHOTS / "selection.txt", made, with_page=False)


def test_words_follow_the_verdict() -> None:
    assert sentences(told("not lower"))[0].startswith("The new exemplars are not shown to leak less: on 50 queries not")
    assert sentences(told("too few"))[0] == "No conclusion from 50 of 100 queries; give 12 or more."
    assert sentences(told("unchanged"))[0].startswith("The exemplars stay the same: on the 50 queries that choose")
    assert "a difference" not in sentences(told("not lower", nats=math.inf))[0]


def test_a_round_in_one_line() -> None:
    before, taken, _ = told().steps
    lower = replace(taken, loss_nats=12.0)
    line = round_line(1, before, lower, 40)
    assert line.startswith("step 1: drop [red]")
    assert line.endswith("the best of 40 lists: ICLInf 12.0 nats, 0.35 less")
    assert "\x1b" not in line
    assert round_line(2, before, None, 7) == "step 2: none of 7 lists lowers ICLInf, 12.3 nats"
    assert round_line(1, replace(before, loss_nats=math.inf), lower, 7).endswith("ICLInf 12.0 nats, ∞ less")
