"""Susceptibility by Monte Carlo: its words and its report."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless, flat
from helpers.report_snapshots import assert_as_reviewed, printed
from helpers.susceptibility_cases import COUNTS, asked, context, hostile, several, with_greedy_answers
from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility import report as words
from leakmeter.instruments.susceptibility.result import Memorisation, MemorisationOfAll, SusceptibilityResult
from leakmeter.report import blocks as b
from leakmeter.report import charts, html

SNAPSHOTS = Path(__file__).parent / "snapshots"
summary = SusceptibilityResult.summary


def of(*cases: SusceptibilityResult, **more: Any) -> b.Report:
    return SusceptibilityResult.report(cases, **more)


def test_what_a_report_says_is_as_reviewed() -> None:
    assert_as_reviewed(SNAPSHOTS / "several.txt", of(*several(25)))
    assert_as_reviewed(SNAPSHOTS / "one.txt", of(with_greedy_answers(), command="leakmeter"))


def said(*cases: SusceptibilityResult) -> str:
    return flat(b.plain(words.headline(cases, summary(cases)).text))


def numbers(*cases: SusceptibilityResult) -> str:
    return flat(" ".join(words.numbers(cases, summary(cases))))


@pytest.mark.parametrize(
    ("case", "found", "begins"),
    [
        (asked(nats=1e-6), "unmoved", "The contexts do not change the answers measurably."),
        (asked(nats=1e-6, noise_floor_nats=1.0), "doubtful", "Whether the contexts change the answers cannot be said"),
        (asked(interval_nats=(0.0, 2.0)), "too few", "Too little data to say whether"),
        (asked(nats=0.1), "little", "An answer reveals little of which context was given: on average 7.2 % of all"),
        (asked(), "much", "An answer reveals much of which context was given: on average 36 % of all there is to"),
        (asked(nats=0.7), "most", "An answer nearly gives its context away: on average, it reveals 51 % of all there"),
    ],
)
def test_the_headline_says_what_was_found_and_how_much_of_what_is_possible(
    case: SusceptibilityResult, found: str, begins: str
) -> None:
    assert said(case).startswith(begins)
    verdicts = {"most": "bad", "little": "good"}
    assert words.headline([case], summary([case])).verdict == verdicts.get(found, "")
    (row,) = words.decisions([case], summary([case]))
    assert row == words.rows_of(1)[found]
    assert "queries whose" not in row[1], "there is one"
    assert words.rows_of(2)[found] == words.FINDINGS[found][1]
    # The same sentence in all renderers, and in a run's last line.
    told = of(case)
    assert all(said(case) in flat(shown) for shown in (printed(told), printed(told, explain=False)))
    assert b.headline_of(told) == SusceptibilityResult.findings([case]).headline


def test_the_words_say_what_was_measured() -> None:
    assert numbers(asked(), asked(n=9)).startswith(
        "Susceptibility 0.50 nats (all are equal: no interval) of 1.39 possi"
    )
    assert "the mean of 2 queries, each with 4 to 9 contexts." in numbers(asked(), asked(n=9))
    # An interval that is cut at 0 is taken to be as wide below as above.
    assert numbers(asked(interval_nats=(0.0, 2.0))) == (
        "Susceptibility 0.50 [0, 2.00] nats of 1.39 possible, with 4 contexts. Too few contexts to distinguish it from "
        "noise: it takes 37 if they are like these."
    )
    facts = words.settings([asked(), asked(answers=("Yes",))])
    assert facts["Answers of a query"] == "any next token or its own and the rest"
    assert flat(facts["Entropy of an answer"]).startswith("2.00 nats without a context, 3.00")
    assert flat(words.settings([asked(nats=1e-6)])["Noise floor"]).endswith("at most; below it 1 of 1")


def test_the_memorisation_ratio_is_told_or_why_there_is_none() -> None:
    many = flat(words.memorisation(MemorisationOfAll.from_dict({"n": 9, "n_knows": 4, **COUNTS})))
    assert many.startswith(
        "Memorisation ratio 75 % [30, 95]: after contexts that state another answer to the 4 of 9 qu"
    )
    assert "3 times its own, 1 times the context’s, 2 times neither. Too few answers to decide which it prefers" in many
    none = {**COUNTS, "ratio": None, "ratio_interval": None, "n_original": 0, "n_context": 0}
    for knows, told in (
        (True, "no answer is the original"),
        (False, "without a context, the query is not answered right."),
    ):
        assert told in words.memorisation(Memorisation.from_dict({"knows": knows, **none}))
    assert "no query is answered right" in words.memorisation(
        MemorisationOfAll.from_dict({"n": 9, "n_knows": 0, **none})
    )


def test_an_infinite_divergence_is_shown() -> None:
    case = asked(contexts=(context(1, 0.5, persuasion_from_bare_nats=math.inf),), noise_floor_nats=math.inf)
    assert re.search(r"c1 .* 0\.50 .*∞", printed(of(case)))
    told = printed(of(case, asked("q2")))
    assert re.search(r"c1 .* ∞", told)
    assert "noise floor ∞ nats at most" in flat(told)


def test_below_the_noise_there_is_no_colour() -> None:
    quiet = context(1, 3.0, below_noise_floor=True)
    (table,) = (one for one in of(asked(contexts=(quiet, context(2, 2.0)))).blocks if isinstance(one, b.Table))
    assert [b.heat_of(row.cells[2], row) > 0 for row in table.rows] == [False, True]
    told = of(asked(below_noise_floor=True), asked("q2"))
    heats = {b.plain(one.name): b.heat_of(one.cells[0], b.Row(())) > 0 for one in told.sections}
    assert heats == {"q1": False, "q2": True}


@pytest.mark.long
def test_a_page_of_many_queries_is_under_2_megabytes() -> None:
    page = html.page(of(*(asked(f"q{i}", 0.5 + 1e-4 * i, n=25) for i in range(700))))
    n, lines = (page.split("<script>")[0].count(f'<details class="line{kind}"') for kind in ("", " only"))
    assert len(re.sub(r'<details class="line only".*?</details>', "", page, flags=re.DOTALL).encode()) < 2_000_000
    assert 200 <= n < 700
    assert lines == 700 - n
    assert f"{lines} further queries that are less susceptible are one line here, not in full" in page
    assert "q699" in page


def test_figures_show_queries_and_contexts_from_the_top() -> None:
    figures = SusceptibilityResult.findings(several(50)).figures
    assert list(figures) == ["queries", "contexts"]
    assert b.plain(figures["contexts"].footer) == ""  # type: ignore[union-attr]
    chart = figures["queries"]
    assert isinstance(chart, b.Chart)
    # The forms are drawn in colours, since they lie further apart than entities, of which there are too many.
    of_level = [zip(one.x, one.y, one.high, strict=True) for one in chart.panels[0].series]
    lines = sorted(line for alike in of_level for line in alike)
    assert [place for place, _, _ in lines] == list(range(20))
    assert [y for _, y, _ in lines] == pytest.approx([0.5 + 0.01 * i for i in range(49, 29, -1)])
    assert [high for _, _, high in lines] == pytest.approx([2 * y for _, y, _ in lines])
    assert [b.plain(one.name) for one in chart.panels[0].series] == ["form: completion", "form: question"]
    assert chart.footer.endswith("; the first 20 of 50")
    assert set(charts.files(chart)) == {"png", "svg"}


def test_a_page_of_many_queries_begins_with_their_picture() -> None:
    page = html.page(of(*several(3)))
    assert page.count("<svg") == 1
    assert page.index("<svg") < page.index('class="line"')
    # The number of nats that is possible, and the share that was found of it.
    assert "all that is possible" in page
    assert re.search(r"<text[^>]*>38\s%</text>", page)
    infinite = asked(noise_floor_nats=math.inf)
    assert "noise floor</text>" not in html.page(of(infinite, replace(infinite, id="b")))


def test_small_numbers_have_the_digits_that_compare() -> None:
    cells = [
        section.cells[0] for section in of(*(asked(f"q{nats}", nats) for nats in (0.012, 0.0091, 0.0008))).sections
    ]
    assert [b.plain(b.cell_phrase(cell, words._INDEX[0][0])) for cell in cells] == ["0.012", "0.009", "8e-4"]


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    case = hostile()
    for cases in ([case], [case, replace(case, id="b"), replace(case, factors={HOSTILE: "x"})]):
        made = of(*cases, command=HOSTILE)
        assert visible(HOSTILE)[:20] in assert_report_harmless(made).replace("&lt;", "<").replace("&gt;", ">")
        assert "[bold red]" in printed(made)


def test_there_is_no_report_of_nothing_and_nothing_in_it_of_what_there_is_none() -> None:
    with pytest.raises(UsageError, match="at least one"):
        of()
    assert "Greedy answer" not in html.page(of(asked()))
    assert "Factors" not in printed(of(asked("a", factors={}), asked("b", factors={})))
