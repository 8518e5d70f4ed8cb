"""Bounds: read, and held against runs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from helpers.measured_runs import run
from leakmeter.core.quantity import Check, Counterexample, Number, RunQuantity
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.result import PiiResult
from leakmeter.products.gate.bounds import WORST_AT_MOST, Bound, check_bounds, parse_bound
from leakmeter.products.gate.gate_words import bound_sentence, check_lines, found_text
from leakmeter.results.results import MeasuredCases
from leakmeter.stats.aggregates import interval_of_aggregate


def check(text: str, run_: MeasuredCases, *, confident: bool = False) -> Check:
    (found,) = check_bounds([run_], [parse_bound(text, "max" if "<" in text else "min")], confident=confident)
    return found


def test_bounds_are_read_and_others_refused() -> None:
    for text, option, bound in (
        ("influence.p95 <= 5", "max", Bound("influence.p95", "<=", 5.0)),
        ("influence.p95<5.5", "max", Bound("influence.p95", "<", 5.5)),
        (" icl.accuracy >= 0.8 ", "min", Bound("icl.accuracy", ">=", 0.8)),
        ("pii.mean > -1e-3", "min", Bound("pii.mean", ">", -0.001)),
    ):
        assert parse_bound(text, option) == parse_bound(str(bound), option) == bound
    said = r"is not a bound; --max takes QUANTITY\.AGGREGATE <= or < NUMBER, such as"
    for text in (
        *("", "5", "influence", "influence.p95", "<= 5", "influence <= ", "influence <= five", "influence = 5"),
        *("influence <= nan", "influence <= inf", "influence <= 1e999", "influence <= 5 nats", "a b <= 5"),
        *("a <= <= 5", "a.max <= 5; a.max <= 6", "a.max <= 5 <= 6", "5 >= a.max"),
    ):
        with pytest.raises(UsageError, match=said):
            parse_bound(text, "max")
    for text, option in (("a.max >= 5", "max"), ("a.max > 5", "max"), ("a.max <= 5", "min")):
        with pytest.raises(UsageError, match=f"has the wrong direction; --{option} takes .*, or use --m(ax|in)"):
            parse_bound(text, option)


def test_a_bound_that_holds() -> None:
    leaks = [1.0, 2.0, 3.0, 4.0] * 2
    found = check("leak.mean <= 2.5", run(leaks))
    assert found.holds
    assert (found.claim, found.run, found.quantity, found.about) == ("leak.mean <= 2.5", 1, "leak", "What leaks.")
    assert (found.found.value, found.found.unit, found.found.n, found.n_missing) == (2.5, "nats", 8, 0)
    assert found.found.interval == interval_of_aggregate(leaks, "mean", seed=0)
    assert found.explained.endswith("nats over 8 cases: at most 2.5, as asked.")
    assert found.worst == ()
    several = check_bounds([run([1.0]), run([9.0])], [parse_bound("leak.max <= 5", "max")])
    assert [(one.run, one.holds) for one in several] == [(1, True), (2, False)]


@pytest.mark.parametrize(
    ("text", "leak", "ending"),
    [
        ("leak.max <= 5", 5.0012, "is 5.00 nats, the largest of 1 case (5.001): more than 5."),
        ("leak.max <= 100", 100.04, "is 100 nats, the largest of 1 case (100.04): more than 100."),
        ("leak.max < 5", 4.9996, "is 5.00 nats, the largest of 1 case (4.9996): below 5, as asked."),
        ("leak.max <= 5", 4.9996, "is 5.00 nats, the largest of 1 case: at most 5, as asked."),
        ("leak.max <= 5", 5.01, "is 5.01 nats, the largest of 1 case: more than 5."),
        ("leak.min >= -1", -1.0004, "is −1.00 nats, the smallest of 1 case (-1.0004): less than -1."),
    ],
)
def test_a_number_that_is_rounded_to_its_limit_has_more_digits(text: str, leak: float, ending: str) -> None:
    assert check(text, run([leak])).explained.endswith(ending)


def test_a_share_has_more_digits_too_and_its_interval_ends_at_all() -> None:
    number = Number(50 / 499, None, "share of people", 499, n_shared=499)
    said = bound_sentence(found_text("q", number), number, "<=", 0.1, is_within=False, holds=False)
    assert said == "q is 10\u00a0% of 499 people (10.02\u00a0%): more than 10\u00a0%."
    interval = check("leak.right >= 0.5", run([0.0] * 8, right=[1.0] * 7 + [0.2])).found.interval
    assert interval is not None
    assert interval[1] <= 1.0


@pytest.mark.parametrize(
    ("text", "leaks", "holds"),
    [
        *(("leak.max <= 4", [1.0, 4.0], True), ("leak.max < 4", [1.0, 4.0], False)),
        *(("leak.min >= 1", [1.0, 4.0], True), ("leak.min > 1", [1.0, 4.0], False)),
        # Infinite breaks every upper bound, and what is undefined keeps none.
        *((f"leak.{of} <= 1e300", [1.0, math.inf], False) for of in ("max", "mean", "p95")),
        *((f"leak.mean {sign} 5", [-math.inf, math.inf], False) for sign in ("<=", ">=")),
    ],
)
def test_edges(text: str, leaks: list[float], holds: bool) -> None:
    found = check(text, run(leaks))
    assert found.holds is holds
    assert ("not " in found.explained or math.inf in leaks) is not holds
    if math.inf in leaks and "1e300" in text:
        assert (found.found.value, found.worst) == (math.inf, (Counterexample(2, math.inf, "case 1"),))


def test_where_a_mean_has_no_interval_the_extreme_of_its_direction_can_be_bounded() -> None:
    for text, advice in (
        ("leak.mean <= 9", "bound the maximum instead"),
        ("leak.mean >= 1", "bound the minimum instead"),
    ):
        found = check(text, run([2.0, 3.0, 4.0]), confident=True)
        assert not found.holds
        assert advice in found.explained


def test_a_broken_bound_names_the_worst_cases_that_break_it() -> None:
    found = check("leak.p95 <= 2", run([1.0, 9.0, 2.0, 3.0]))
    assert not found.holds
    assert found.worst == (Counterexample(2, 9.0, "case 1"), Counterexample(4, 3.0, "case 3"))
    assert "more than 2" in found.explained
    least = check("leak.median >= 2.5", run([1.0, 9.0, 2.0, 3.0, 0.0]))
    assert least.worst == (
        Counterexample(5, 0.0, "case 4"),
        Counterexample(1, 1.0, "case 0"),
        Counterexample(3, 2.0, "case 2"),
    )
    assert len(check("leak.max <= 0", run([float(n) for n in range(1, 20)])).worst) == WORST_AT_MOST


def test_missing_is_missing() -> None:
    found = check("leak.mean <= 5", run([None, 8.0, None, 2.0]))
    assert (found.found.value, found.found.n, found.n_missing) == (5.0, 2, 2)
    assert check("leak.max <= 0", run([None, 8.0, None, 2.0])).worst == (
        Counterexample(2, 8.0, "case 1"),
        Counterexample(4, 2.0, "case 3"),
    )
    with pytest.raises(UsageError, match="none of the 2 cases of run 1 has leak, so"):
        check("leak.max <= 5", run([None, None]))
    with pytest.raises(UsageError, match=r"none of the 1 cases of run 1 has leak\.whole"):
        check("leak.whole <= 5", run([1.0], whole=None))


def test_a_usual_aggregate_goes_without_saying_and_a_run_as_a_whole_has_none() -> None:
    some = run([1.0, 2.0], right=[1.0, 0.0])
    assert check("leak.right >= 0.5", some).found.value == 0.5
    assert check("leak.right.min >= 0", some).found.value == 0.0
    with pytest.raises(UsageError, match=r"'leak' has one number per case; write leak.max, leak.p95 …"):
        check("leak <= 5", some)
    whole = check("leak.whole <= 0.5", some, confident=True)
    assert (whole.holds, whole.found.interval) == (True, None)
    with pytest.raises(UsageError, match=r"leave out '.mean'"):
        check("leak.whole.mean <= 1", some)


@pytest.mark.parametrize("name", ["lake.max", "leak.average", "leak.p100", "leak.right.avg", "max", "."])
def test_an_unknown_quantity_names_those_there_are(name: str) -> None:
    with pytest.raises(
        UsageError,
        match=r"known: 'leak', 'leak.length', 'leak.right', 'leak.spans', 'leak.whole', and after each of them .mean",
    ):
        check(f"{name} <= 5", run([1.0]))


def test_confident_asks_for_the_whole_interval() -> None:
    leaks = [1.0, 2.0, 3.0, 6.0] * 2
    some, high = run(leaks), interval_of_aggregate(leaks, "mean", seed=0)
    assert high is not None
    assert check("leak.mean <= 3.5", some).holds
    unsure = check("leak.mean <= 3.5", some, confident=True)
    assert not unsure.holds
    assert unsure.explained.endswith("at most 3.5, but not all of its interval.")
    assert check(f"leak.mean <= {high[1]}", some, confident=True).holds
    assert check(f"leak.mean >= {high[0]}", some, confident=True).holds
    assert not check(f"leak.mean >= {high[0] + 1e-6}", some, confident=True).holds
    # Of a 95th percentile eight cases say nothing from above.
    assert not check("leak.p95 <= 1000", some, confident=True).holds
    # The largest there is needs no interval; the mean of one case has none.
    assert check("leak.max <= 6", some, confident=True).holds
    # Shares have a width where every case is right.
    all_right = run([1.0] * 5, right=[1.0] * 5)
    assert not check("leak.right >= 0.9", all_right, confident=True).holds
    assert check("leak.right >= 0.9", all_right).holds
    for limit, verdict in ((100.0, "undecided"), (2.6, "broken"), (0.5, "broken")):
        of_bounds = run([1.0, 2.0, 3.0, 4.0] * 2, least=[3])
        assert check(f"leak.mean <= {limit}", of_bounds, confident=True).verdict == verdict
    for few, why in (
        ([1.0], "one case has"),
        ([1.0, 2.0, 3.0, 6.0, 1.0, 2.0, 3.0], "so few cases have"),
        ([1.0] * 9, "equal numbers"),
    ):
        without = check("leak.mean <= 6", run(few), confident=True)
        assert not without.holds
        assert f"but {why}" in without.explained
        assert check("leak.mean <= 6", run(few)).holds


@pytest.mark.parametrize(
    ("text", "leaks", "least", "why"),
    [
        ("leak.mean >= 1", [3.0] * 8 + [math.inf], (), "infinite numbers have"),
        ("leak.mean >= 1", [3.0, 4.0, math.inf], (), "so few cases have"),
        # What is at least so much has no interval to be outside of the bound either.
        ("leak.mean <= 9", [1.0, 2.0, 3.0], (0,), "so few cases have"),
        ("leak.mean <= 9", [2.0] * 9, (0,), "equal numbers have"),
    ],
)
def test_why_there_is_no_interval_is_true(text: str, leaks: list[float], least: tuple[int, ...], why: str) -> None:
    found = check(text, run(leaks, least=least), confident=True)
    assert not found.holds
    assert f"but {why} no interval to check" in found.explained


def test_few_cases_show_their_numbers_in_the_place_of_an_interval() -> None:
    found = check("leak.mean <= 3", run([1.0, 2.0, 9.0, None]))
    assert (found.found.interval, found.found.extremes) == (None, (1.0, 9.0))
    assert (
        found.explained == "leak.mean is 4.00 (1.00 to 9.00) nats over 3 cases, too few for an interval: more than 3."
    )
    for leaks in ([4.0], [1.0, 2.0] * 4, [1.0, math.inf]):
        extremes = (1.0, math.inf) if math.inf in leaks else None
        assert check("leak.mean <= 3", run(leaks)).found.extremes == extremes
    assert check("leak.max <= 3", run([1.0, 2.0])).found.extremes is None
    assert check("leak.mean <= 3", run([1.0, 2.0], least=[0])).found.extremes is None


def test_a_largest_number_is_called_that_and_a_count_is_told_with_its_total() -> None:
    assert (
        check("leak.max <= 3", run([1.0, 6.0])).explained
        == "leak.max is 6.00 nats, the largest of 2 cases: more than 3."
    )
    assert check("leak.min >= 1", run([1.0])).explained == (
        "leak.min is 1.00 nats, the smallest of 1 case: at least 1, as asked."
    )
    counts = [2.0, 0.0, 0.0, 1.0, 2.0, None]
    found = check("leak.spans <= 0", run([1.0] * 6, spans=counts))
    assert found.explained == "3 of 5 answers leak spans, 5 disclosures in total (allowed 0). Most in one answer: 2."
    assert check_lines([found]) == [
        f"BROKEN  {found.explained} 1 without it.", "        worst: case 0 (2), case 4 (2), case 3 (1)"
    ]  # fmt: skip
    for bound, spans, said in (
        ("<= 0", [0.0, 0.0], "0 of 2 answers leak spans (allowed 0)."),
        (
            "<= 0",
            [0.0, 1.0],
            "1 of 2 answers leaks spans, 1 disclosure in total (allowed 0). Most in one answer: 1.",
        ),
        # What is allowed is in one answer, and no total.
        ("<= 2", [3.0, 1.0], "2 of 2 answers leak spans, 4 disclosures in total. Most in one answer: 3 (allowed 2)."),
        ("<= 10", [3.0], "1 of 1 answer leaks spans, 3 disclosures in total. Most in one answer: 3 (allowed 10)."),
        (
            "< 2",
            [1200.0],
            "1 of 1 answer leaks spans, 1,200 disclosures in total. Most in one answer: 1,200 (allowed below 2).",
        ),
        (
            ">= 2",
            [1.0],
            "1 of 1 answer leaks spans, 1 disclosure in total. Most in one answer: 1 (asked for 2).",
        ),
    ):
        assert check(f"leak.spans {bound}", run([1.0] * len(spans), spans=spans)).explained == said
    least = check("leak.spans <= 0", run([1.0] * 2, spans=[1.0, 3.0], least=[1]))
    assert least.explained == (
        "2 of 2 answers are known to leak spans, at least 4 disclosures in total (allowed 0). Most in one answer: "
        "at least 3."
    )
    unknown = check("leak.spans <= 0", run([1.0] * 2, spans=[0.0, 0.0], least=[1]))
    assert unknown.undecided
    assert unknown.explained == (
        "0 of 2 answers are known to leak spans (allowed 0); for 1 case only a lower bound is known (not all was "
        "scored); score all."
    )
    # A mean of counts is no total either.
    assert "is 1.50 (1.00 to 2.00) disclosures a case over 2 cases" in (
        check("leak.spans.mean <= 0", run([1.0] * 2, spans=[1.0, 2.0])).explained
    )


@pytest.mark.parametrize("how", ["max", "mean", "median", "min"])
@pytest.mark.parametrize(("leaks", "limit"), [([1.0, 2.0, 3.0], 3.5), ([4.0, 4.0, 4.0], 3.5)])
def test_a_lower_bound_breaks_a_bound_or_decides_nothing(how: str, leaks: list[float], limit: float) -> None:
    """Above, whatever the true number is; below, it may be above."""
    upper, lower = (check(f"leak.{how} {sign} {limit}", run(leaks, least=[1])) for sign in ("<=", ">="))
    is_beyond = min(leaks) > limit
    assert upper.verdict == ("broken" if is_beyond else "undecided")
    assert lower.verdict == ("holds" if is_beyond else "undecided")
    assert check(f"leak.{how} <= {limit}", run(leaks)).verdict == ("broken" if is_beyond else "holds")
    for found in (upper, lower):
        assert (found.holds, found.undecided) == (found.verdict == "holds", found.verdict == "undecided")
        assert (found.found.is_lower_bound, found.found.interval, found.n_lower_bounds) == (True, None, 1)
        assert f"leak.{how} is at least " in found.explained
    unsure = check("leak.max <= 5", run([1.0, 2.0, None], least=[0, 1, 2]))
    assert unsure.worst == ()
    assert "is undecided: for 3 cases only a lower bound is known (not all was scored)" in unsure.explained


@pytest.mark.parametrize(
    ("number", "how", "text"),
    [
        (Number(10 / 14, None, "share of people", 28, n_shared=14), "", "q is 71\u00a0% of 14 people"),
        (Number(1.0, None, "share of people", 3, n_shared=1), "", "q is 100\u00a0% of 1 person"),
        (Number(0.0, None, "share of people", 6, n_shared=6), "", "q is 0\u00a0% of 6 people"),
        (Number(0.0004, None, "share of pairs", 9, n_shared=5000), "", "q is 0.04\u00a0% of 5,000 pairs"),
        (
            Number(2 / 3, (0.39, 0.86), "share of cases", 12),
            "mean",
            "q is 67\u00a0% [39\u00a0%, 86\u00a0%] of 12 cases",
        ),
        (
            *(Number(0.5, None, "share of cases", 2, extremes=(0.0, 1.0)), "mean"),
            "q is 50\u00a0% (0\u00a0% to 100\u00a0%) of 2 cases, too few for an interval",
        ),
        (Number(0.25, None, "share of tokens", 3), "", "q is 25\u00a0% of tokens over 3 cases"),
        (Number(0.25, None, "share of tokens", 3), "max", "q is 25\u00a0% of tokens, the largest of 3 cases"),
        (Number(2.5, None, "nats", 3), "", "q is 2.50 nats over 3 cases"),
    ],
)
def test_a_share_is_said_in_percent(number: Number, how: str, text: str) -> None:
    assert found_text("q", number, how) == text


def test_the_share_of_people_is_of_people_and_not_of_values() -> None:
    asked = Bound("q.at_risk", "<=", 0.1)
    held = bound_sentence(
        found_text("q", Number(0.05, None, "share of people", 40, n_shared=20)),
        *(Number(0.05, None, "share of people", 40, n_shared=20), asked.operator, asked.limit),
        is_within=True,
        holds=True,
    )
    assert held == "q is 5\u00a0% of 20 people: at most 10\u00a0%, as asked."
    (quantity,) = [one for one in PiiResult.quantities if one.name == "pii.people_at_risk"]
    assert isinstance(quantity, RunQuantity)
    assert quantity.of is not None
    assert quantity.of([SimpleNamespace(subject=name) for name in "aab"]) == 2
