"""ICL influence as blocks: what is said of one query and of many, in every renderer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.icl_results import asked, behind, exemplar, over_vocabulary
from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless, flat
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.instruments.icl import words
from leakmeter.instruments.icl.report import LABELS_SHOWN
from leakmeter.instruments.icl.result import IclResult, summary
from leakmeter.report import blocks as b
from leakmeter.report import charts, html, markdown

SNAPSHOTS = Path(__file__).parent / "snapshots"


def several(n: int, *, fixed: bool = True, **more: Any) -> list[IclResult]:
    cases = [asked(f"q{i}", loss_nats=0.5 + 0.01 * i, **more) for i in range(n)]
    if fixed:
        return cases
    return [behind(case, *(replace(one, id=f"{i}-{one.id}") for one in case.exemplars)) for i, case in enumerate(cases)]


def varied(n: int) -> list[IclResult]:
    """Queries with exemplars of their own, whose losses are not the same number over and over."""
    cases = several(n, fixed=False, warnings=("The labels have a probability of 0.01 together: few.",))
    found = []
    for i, case in enumerate(cases):
        more = [1 + 0.1 * ((i * k) % 7) for k in (1, 3, 5)]
        signed = [[x * times for x in one.signed_nats] for one, times in zip(case.exemplars, more, strict=True)]
        exemplars = tuple(exemplar(k, *both, id=f"{i}-x{k}") for k, both in enumerate(signed, 1))
        found.append(behind(case, *exemplars))
    return found


def made(*cases: IclResult, **more: Any) -> b.Report:
    return IclResult.report(cases, **more)


def said(phrase: b.Phrase) -> str:
    return flat(b.plain(phrase))


def label_rows(case: IclResult) -> Sequence[b.Row]:
    (rows,) = (one.rows for one in made(case).blocks if isinstance(one, b.Table) and not one.caption)
    return rows


def labels_of(case: IclResult) -> list[tuple[Any, ...]]:
    """Of each label its probability with all exemplars and without the worst one, and the nats between them."""
    return [tuple(flat(of) if isinstance(of, str) else of for of in row.cells[1:4]) for row in label_rows(case)]


def table(of: b.Report, caption: str) -> b.Table:
    """The table of all cases whose caption begins so."""
    (found,) = (one for one in of.blocks if isinstance(one, b.Table) and said(one.caption).startswith(caption))
    return found


FIXED = [
    over_vocabulary(worst_exemplar="x2"), over_vocabulary("b", worst_exemplar="x1", answer="dog", answer_given=True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cases"), [("one", [asked()]), ("drawn", varied(10)), ("fixed", FIXED)])
def test_what_a_report_says_is_as_reviewed(name: str, cases: list[IclResult]) -> None:
    shown = made(*cases, command="leakmeter icl")
    assert_as_reviewed(SNAPSHOTS / f"{name}.txt", shown, with_page=False)


def headline(*cases: IclResult) -> b.Headline:
    return words.headline(summary(cases), cases)


@pytest.mark.parametrize(
    ("nats", "more", "found", "verdict", "meant"),
    [
        (1e-6, {}, "nothing", "good", "The answers reveal nothing measurable of any one exemplar."),
        (1e-6, {"noise_floor_nats": 1.0, "answer_noise_floor_nats": 1.0}, "doubtful", "", "Whether the answers reveal"),
        (0.05, {}, "little", "good", "The answers reveal almost nothing of an exemplar: 0.050 nats at most."),
        (0.5, {}, "some", "", "The answers reveal a little of an exemplar: 0.50 nats at most."),
        (2.0, {}, "much", "bad", "The answers reveal much of an exemplar: up to 2.00 nats."),
    ],
)
def test_the_headline_says_what_was_found(
    nats: float, more: dict[str, Any], found: str, verdict: str, meant: str
) -> None:
    case = asked(exemplars=(exemplar(1, nats, 0.01),), **more)
    assert words.found(summary([case]), [case]) == found
    assert meant in said(headline(case).text)
    assert headline(case).verdict == verdict
    # The same of many, in all renderers, and in a run's last line.
    for told in (made(case), made(case, replace(case, id="b"))):
        assert b.headline_of(told) == b.plain(headline(case).text)
        shown = (printed(told), printed(told, explain=False), html.page(told).replace("&#39;", "'"))
        assert all(said(headline(case).text) in flat(one) for one in shown)
    assert IclResult.findings([case]).headline == b.plain(headline(case).text)


@pytest.mark.parametrize("more", [{}, {"answer": "dog", "answer_given": True}])
def test_no_report_says_how_sure_an_observer_is_of_a_label_that_was_not_drawn(more: dict[str, Any]) -> None:
    case = asked(exemplars=(exemplar(1, 2.0, 0.01),), **more)
    several_queries = made(case, replace(case, id="b"))
    for told in (made(case), several_queries):
        page = re.sub(r"<(style|script)>.*?</\1>", "", html.page(told), flags=re.DOTALL)
        assert all(
            not re.search(r"[Pp]osterior|% sure", flat(one)) for one in (printed(told), page, markdown.text(told))
        )
    (chart,) = (one for one in b.charts_of(several_queries) if one.name == "queries")
    assert [b.plain(guide.label) for guide in chart.panels[0].guides] == ["1 nat: a factor of 2.7"]


def test_the_words_say_what_was_measured() -> None:
    cases = several(4)
    told = summary(cases)
    given = several(4, answer="dog", answer_given=True)
    mixed = [*given[:3], cases[3]]
    nothing = several(2, exemplars=(exemplar(1, 1e-6, 0.2),))
    wrong = asked(gold="dog", is_right=False)
    for words_of, meant in (
        (words.whose(summary(given), "toy"), "4 of 4 answers were given; the others are the likeliest labels."),
        (words.whose(summary(mixed), "toy"), "The numbers are those of toy, whichever model gave the answers."),
        (words.whose(told, "toy"), "The answer to each query is the label that toy finds likeliest."),
        (words.most_revealed(given), "Most is revealed of exemplar “x2”, by the answer “dog” to query “q0”."),
        (words.most_revealed(cases[:1]), "Most is revealed of exemplar “x2”, by the answer “cat”."),
        (words.mean(told), "On average over 4 queries (too few for an interval):"),
        (words.accuracy(summary(several(2, gold=None, is_right=None))), "accuracy is unknown"),
        (words.accuracy(told), "The likeliest answer is right in 100 % [51, 100] of the 4 queries with a label;"),
        (words.noise(replace(told, share_below_noise_floor=0.5), cases), "not above it, in the worst case: 2 of 4"),
        (words.worst_case_of_one(nothing[0]), "Worst case over every label: 0.20 nats, at “"),
        (words.worst_case_of_one(over_vocabulary()), "token: 7.00 nats, at “ mou↵se” without exemplar “x2”"),
        (words.answer(given[0]), "dog (20.0 %) was given; the likeliest is cat (80.0 %), which is right."),
        (words.answer(wrong), "cat (80.0 %); right is dog. Before renormalising, all labels have 50.0 % together."),
    ):  # fmt: skip
        assert meant in said(words_of)
    shares = (0.0, 1e-9, 0.0015, 0.25, 0.9996, 1.0, None)
    told_shares = ["0.00 %", "< 0.01 %", "0.15 %", "25.0 %", "> 99.9 %", "100.0 %", "–"]
    assert [flat(words.probability(share)) for share in shares] == told_shares


def test_warnings_that_differ_in_a_number_are_counted_together() -> None:
    cases = several(12, warnings=("The labels have a probability of 0.01 together: few.",))
    cases[3] = replace(cases[3], warnings=("The labels have a probability of 2e-05 together: few.",))
    first = "! In 12 of 12 queries, the first: The labels have a probability of 0.01"
    assert first in flat(printed(made(*cases)))


def test_infinite_losses_are_said_to_be_so() -> None:
    # One answer that is possible with an exemplar and impossible without.
    case = asked(loss_nats=math.inf, exemplars=(exemplar(2, 0.2, math.inf),))
    cases = [case, asked("q2")]
    worst = flat(words.worst_case(summary(cases), cases))
    assert worst.startswith("In the worst case over every label: ICLInf ∞ nats, with 3 exemplars, since")
    assert worst.endswith("since an answer is possible with an exemplar and impossible without it.")
    assert labels_of(case) == [("80.0 %", "65.5 %", 0.2), ("20.0 %", "0.00 %", math.inf)]
    gone = replace(case.exemplars[0], signed_nats=(0.2, -math.inf))
    never = replace(case, label_probabilities=(1.0, 0.0), exemplars=(gone,))
    assert labels_of(never)[1] == ("0.00 %", "–", -math.inf)
    for shown in (made(*cases), made(case)):
        assert all("∞" in one for one in (printed(shown), html.page(shown), markdown.text(shown)))
    assert re.search(r"dog +20\.0 % +0\.00 % +\+∞", printed(made(case)))
    # No drawing of what is infinite: the page has what the answers reveal, without the worst case of the first.
    picture = next(one for one in made(*cases).blocks if isinstance(one, b.Chart) and one.first)
    strokes = [list(one.x) for one in picture.panels[0].series if one.draws == "ticks"]
    assert strokes == [[picture.panels[0].y.names.index(b.Untrusted(cases[1].query, 36))]]
    # What the answers reveal is finite.
    assert list(IclResult.findings([case] * 2).figures) == ["queries", "exemplars"]
    (chart,) = (one for one in b.charts_of(made(*cases)) if one.name == "positions")
    assert (chart.on, [float(y) for y in chart.panels[0].series[0].y]) == ("files", [math.log(2), 0.1])


def test_of_many_labels_those_that_matter_are_shown() -> None:
    labels = tuple(f"l{i}" for i in range(14))
    signed = (*[0.01] * 13, -0.9)
    probabilities = (0.5, 0.3, 0.05, 0.05, 0.03, 0.03, *[0.005] * 8)
    case = asked(
        labels=labels, label_probabilities=probabilities, prediction="l0", gold="l12", answer="l0",
        exemplars=(exemplar(1, 0.01, signed_nats=signed, worst_label="l13"),),
    )  # fmt: skip
    rows = label_rows(case)
    shown = [row.cells[0].text for row in rows]  # type: ignore[union-attr]
    assert shown[:LABELS_SHOWN] == ["l0", "l1", "l2", "l3", "l12", "l13"]
    assert len(rows) == 14
    assert "8 more labels" in printed(made(case))
    page = html.page(made(case, replace(case, id="b", gold=None)))
    assert page.count("8 further labels are left out") == 2


def test_tables_hold_the_numbers_of_the_summary() -> None:
    cases = several(12)
    told = summary(cases)
    shown = made(*cases)
    rows = table(shown, "Exemplars").rows
    assert told.exemplars is not None
    by_mean = sorted(told.exemplars, key=lambda row: -row.answers.mean_nats)
    assert [b.plain(row.cells[0]) for row in rows] == [one.id for one in by_mean]  # type: ignore[arg-type]
    assert [row.cells[3] for row in rows] == [one.answers.mean_nats for one in by_mean]
    assert [row.cells[5:] for row in rows] == [(one.mean_nats, one.max_nats, one.worst_share) for one in by_mean]
    ends = [row.cells[4] for row in rows]
    assert ends == [one.answers.interval_nats and b.Interval(*one.answers.interval_nats) for one in by_mean]
    places = table(made(*several(12, fixed=False)), "Positions").rows
    assert [row.cells[:2] for row in places] == [(one.position, one.mean_nats) for one in told.positions]


def test_figures_are_means_with_their_intervals() -> None:
    cases = several(12)
    told = summary(cases)
    figures = IclResult.findings(cases).figures
    assert list(figures) == ["queries", "positions", "exemplars"]
    assert list(IclResult.findings(several(12, fixed=False)).figures) == ["queries", "positions"]
    assert list(IclResult.findings(cases[:1]).figures) == ["positions", "exemplars"]
    positions, each = (figures[name].panels[0].series[0] for name in ("positions", "exemplars"))  # type: ignore[union-attr]
    assert list(positions.y) == [row.mean_nats for row in told.positions]
    assert list(zip(positions.low, positions.high, strict=True)) == [
        row.interval_nats or (row.mean_nats, row.mean_nats) for row in told.positions
    ]
    assert list(each.y) == sorted((row.answers.mean_nats for row in told.exemplars or ()), reverse=True)
    (drawn,) = charts.figure(figures["positions"]).axes  # type: ignore[arg-type]
    assert [bar.get_height() for bar in drawn.patches] == list(positions.y)
    # An exemplar that all queries have goes by the name that the tables give it.
    assert [label.get_text() for label in drawn.get_xticklabels()] == [one.id for one in told.exemplars or ()]
    own = IclResult.findings(several(12, fixed=False)).figures["positions"]
    assert list(own.panels[0].x.names) == ["1", "2", "3"]  # type: ignore[union-attr]
    assert {chart.on for chart in b.charts_of(made(cases[0]))} == {"files"}


def test_a_page_of_many_queries_begins_with_their_picture() -> None:
    cases = several(30)
    cases[7] = asked("q7", exemplars=(exemplar(1, 1.5, 2.5),))
    page = html.page(made(*cases))
    assert page.count("<svg") == 1
    assert page.index("<svg") < page.index('class="line"')
    picture = next(one for one in made(*cases).blocks if isinstance(one, b.Chart) and one.first)
    series = {b.plain(one.name): one for one in picture.panels[0].series}
    assert list(series) == ["in the worst case", "1 nat or more", "less than 1 nat"]
    assert (list(series["1 nat or more"].x), list(series["1 nat or more"].y)) == ([0], [1.5])
    assert [b.plain(label) for label in series["1 nat or more"].labels] == ["1.50 of x1"]
    assert len(picture.panels[0].y.names) == 20
    assert picture.footer == "The first 20 of 30 queries, largest leakage first"
    # One query has its exemplars in a table with bars.
    assert "<svg" not in html.page(made(cases[0]))


def test_the_page_has_every_query_largest_losses_first() -> None:
    page = html.page(made(*several(40, fixed=False), command="leakmeter icl"))
    ids = re.findall(r"<summary><span[^>]*><b[^>]*>[\d.]+</b></span> <strong><bdi>([^<]*)</bdi>", page)
    assert ids == [f"q{i}" for i in range(39, -1, -1)]
    assert "Queries, largest leakage first" in page
    assert "drawn for each" in page
    assert '<details class="line"' not in html.page(made(asked()))
    with pytest.raises(UsageError, match="at least one"):
        made()
    # What lies below the noise has no colour.
    quiet = asked(exemplars=(exemplar(1, 1e-6, 1e-7), exemplar(2, 1e-7, 1e-6)), loss_nats=1e-6)
    tables = [one for one in made(quiet).blocks if isinstance(one, b.Table)]
    assert all(row.quiet for row in tables[0].rows)
    assert made(quiet, asked("b")).sections[1].cells[0] == "1e-6"


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    names = ("id", "text", "label", "worst_label")
    case = asked(
        HOSTILE, model=HOSTILE, query=HOSTILE, warnings=(HOSTILE,), labels=(HOSTILE, "dog"), prediction=HOSTILE,
        gold=HOSTILE, template=HOSTILE, answer=HOSTILE, answer_given=True,
        exemplars=(exemplar(1, 0.5, 1.5, **dict.fromkeys(names, HOSTILE)),),
    )  # fmt: skip
    provenance = b.Provenance(facts=((b.Untrusted(HOSTILE), b.Untrusted(HOSTILE)),))
    for shown in (made(case, command=HOSTILE), made(case, replace(case, id="b"), provenance=provenance)):
        page = assert_report_harmless(shown)
        assert visible(HOSTILE)[:20] in page.replace("&lt;", "<").replace("&gt;", ">")
        assert "[bold red]" in printed(shown)
    for chart in b.charts_of(shown):
        assert b"<script" not in charts.files(chart)["svg"]
