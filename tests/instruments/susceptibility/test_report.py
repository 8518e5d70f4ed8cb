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


def test_the_words_say_what_was_measured() -> None:
    cases = several(4)
    uneven = [asked(), asked(n=9)]
    assert "with 4 to 9 contexts" in words.headline(summary(uneven), uneven)
    # An interval that is cut at 0 is taken to be as wide below as above.
    assert flat(words.verdict(replace(cases[0], interval_nats=(0.0, 2.0)))).endswith(
        "with 4 contexts. Too few contexts to distinguish it from noise: it takes 37 if they are like these."
    )
    assert "do not move this answer measurably" in words.verdict(asked(nats=1e-6))
    infinite = asked(from_bare_nats=math.inf, share_of_ceiling=None)
    assert flat(words.explanation(infinite)).startswith("Entropy of the answer: 2.00 nats")
    assert words.settings([asked(), asked(answers=("Yes",))])["Answers of a query"] == (
        "any next token or its own and the rest"
    )


def test_the_memorisation_ratio_is_told_or_why_there_is_none() -> None:
    many = flat(words.memorisation(MemorisationOfAll.from_dict({"n": 9, "n_knows": 4, **COUNTS})))
    assert "in the 4 of 9 queries that are answered right without a context are 3 original, 1 of the context" in many
    none = {**COUNTS, "ratio": None, "ratio_interval": None, "n_original": 0, "n_context": 0}
    for knows, said in ((True, "there is no ratio"), (False, "the right answer is not given without a context")):
        assert said in words.memorisation(Memorisation.from_dict({"knows": knows, **none}))
    assert "to none of 9 queries" in words.memorisation(MemorisationOfAll.from_dict({"n": 9, "n_knows": 0, **none}))


def test_an_infinite_divergence_is_shown() -> None:
    case = asked(contexts=(context(1, 0.5, persuasion_from_bare_nats=math.inf),), noise_floor_nats=math.inf)
    assert re.search(r"c1 .* 0\.50 +∞", printed(of(case)))
    told = printed(of(case, asked("q2")))
    assert re.search(r"c1 .* ∞", told)
    assert "differ by ∞ nats at most" in flat(told)


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
    n = page.count('<details class="line"')
    assert len(page.encode()) <= html.PAGE_BYTES
    assert 200 <= n < 700
    assert f"{700 - n} further queries that are less susceptible are left out" in page
    assert "q699" in page
    assert "bdi>q0<" not in page


def test_figures_show_queries_and_contexts_from_the_top() -> None:
    figures = SusceptibilityResult.findings(several(50)).figures
    assert list(figures) == ["queries", "contexts"]
    chart = figures["queries"]
    assert isinstance(chart, b.Chart)
    (series,) = chart.panels[0].series
    assert list(series.y) == pytest.approx([0.5 + 0.01 * i for i in range(49, 9, -1)])
    assert list(series.high) == pytest.approx([2 * y for y in series.y])
    assert chart.footer.endswith("; the first 40 of 50")
    assert set(charts.files(chart)) == {"png", "svg"}


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
