"""Fisher susceptibility: its words and its report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.fisher_cases import asked, hostile, several, value
from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless, flat
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.fisher import report as words
from leakmeter.instruments.susceptibility.fisher.result import FisherResult
from leakmeter.report import blocks as b
from leakmeter.report import charts, html, markdown

SNAPSHOTS = Path(__file__).parent / "snapshots"
summary = FisherResult.summary


def of(*cases: FisherResult, **more: Any) -> b.Report:
    return FisherResult.report(cases, **more)


def test_what_a_report_says_is_as_reviewed() -> None:
    assert_as_reviewed(SNAPSHOTS / "several.txt", of(*several(12), command="leakmeter susceptibility"))


def test_the_words_say_what_was_measured() -> None:
    one, many = [asked()], several(3)
    assert flat(" ".join(words.numbers(one, summary(one)))) == (
        "Fisher susceptibility 50.0 [25.0, 100] (half the trace, sigma identity); 0.50 [0.25, 1.00] nats (sigma "
        "empirical), at place layer:3."
    )
    assert flat(b.plain(words.headline(many))) == (
        "Of 3 queries, the answer to “Query q2 meows.” begins to move fastest. These are ranks: no actual context was "
        "measured."
    )
    assert b.headline_of(of(*many)) == FisherResult.findings(many).headline == b.plain(words.headline(many))
    assert "squared embeddings" in words.scales([asked(place="query")])[1]
    taken = [asked(method="sketch", n_probes=n) for n in (4, 30)]
    assert words.settings(taken)["Estimator"] == "fisher, sketch with 4 to 30 probes"
    assert words.settings([asked(method="top-k")])["Estimator"] == "fisher, top-k of 16"


def test_colours_that_stand_for_nats_are_not_given_to_a_trace() -> None:
    for made in (of(asked()), of(*several(3))):
        page = html.page(made)
        shaded = re.findall(r'<b class="h\d+">([^<]*)</b>', page)
        assert shaded
        assert all(float(nats) < 10 for nats in shaded)  # those of identity are a hundred times as many


def test_what_else_explains_the_ranks_stands_beside_them() -> None:
    (row, _), (few, _) = (summary(several(n)).values for n in (12, 9))
    # Where entropies are all alike there is nothing to correlate with.
    assert flat(words.correlations(row) or "") == (
        "Spearman correlation of a query’s rank (sigma identity): −1.00 with its length."
    )
    assert words.correlations(few) is None
    both = words.correlations(replace(row, spearman_with_length=0.75, spearman_with_entropy=-0.25)) or ""
    assert "0.75 with its length; −0.25 with the entropy of its next token (too few queries: it takes 66)." in flat(
        both
    )
    # In front where it explains them.
    made = of(*several(12))
    assert all("Spearman" in one for one in (printed(made, explain=False), html.page(made), markdown.text(made)))
    weak = of(*(replace(case, n_query_tokens=9 + i % 2) for i, case in enumerate(several(12))))
    assert "Spearman" not in printed(weak, explain=False)
    assert "Spearman" in printed(weak)


def test_a_page_begins_with_a_picture_of_the_ranks() -> None:
    page = html.page(of(*several(3)))
    assert page.count("<svg") == 1
    assert page.index("<svg") < page.index('class="line"')
    assert page.index("Query q2 meows.</text>") < page.index("Query q0 meows.</text>")


def test_there_is_no_report_of_nothing() -> None:
    with pytest.raises(UsageError, match="at least one"):
        of()


def test_a_page_says_how_many_queries_it_leaves_out() -> None:
    made = of(*several(40))
    page = html.page(made, room=len(html.page(made).encode()) * 9 // 10)
    assert re.search(r"\d further queries that are lower are left out", page)
    assert "<bdi>q39</bdi>" in page
    assert "<bdi>q0</bdi>" not in page


def test_values_stand_against_what_else_explains_them() -> None:
    cases = [replace(case, entropy_nats=3.0 - 0.1 * number) for number, case in enumerate(several(12))]
    found = FisherResult.findings(cases)
    assert found.summary == summary(cases)
    chart = found.figures["values"]
    assert isinstance(chart, b.Chart)
    length, entropy = charts.figure(chart).axes[:2]
    assert list(length.lines[-1].get_xdata()) == [case.n_query_tokens for case in cases]  # type: ignore[arg-type]
    nats = [case.values[0].fisher_nats for case in cases]
    assert list(entropy.lines[-1].get_ydata()) == nats  # type: ignore[arg-type]
    assert (length.get_title(), entropy.get_title()) == ("Σ identity, Spearman −1.00", "Σ identity, Spearman −1.00")
    assert set(charts.files(chart)) == {"png", "svg"}
    attack = replace(hostile(), values=(value(HOSTILE + r" $\frac{1}{0}$", 1.0),), sigma=("empirical",))
    assert b"<script" not in charts.files(FisherResult.findings([attack]).figures["values"])["svg"]


def test_nothing_of_a_case_becomes_markup_or_obeyed() -> None:
    case = hostile()
    for cases in ([case], [case, replace(case, id="b"), replace(case, factors={HOSTILE: "x"})]):
        made = of(*cases, command=HOSTILE)
        assert_report_harmless(made)
        assert "[bold red]" in printed(made)


def test_many_queries_are_ranked_in_80_columns() -> None:
    out = printed(of(*several(25)))
    assert all(len(line) <= 80 for line in out.splitlines())
    queries = [line.split()[0] for line in out.splitlines() if re.match(r"q\d+ ", line)]
    assert queries == [f"q{i}" for i in range(24, 4, -1)]
    assert "5 more queries" in out
