"""Limits of how many exceed, from a draw without replacement: against every draw written out, and with no tolerance."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

from leakmeter.stats import hypergeometric
from leakmeter.stats.hypergeometric import (
    coverage,
    decimal_fraction,
    draws_needed,
    expected_false,
    round_alpha,
    upper_limit,
)

ALPHAS = (Fraction(1, 20), Fraction(1, 3), Fraction(1, 100))


@cache
def chances(n_population: int, n_marked: int, n_drawn: int) -> list[Fraction]:
    """P(X = 0), P(X = 1) …, one by one from its definition."""
    draws = math.comb(n_population, n_drawn)
    return [
        Fraction(math.comb(n_marked, k) * math.comb(n_population - n_marked, n_drawn - k), draws)
        for k in range(n_drawn + 1)
    ]


@cache
def slow_limit(n_population: int, n_drawn: int, n_found: int, alpha: Fraction) -> int:
    return max(
        n_marked
        for n_marked in range(n_found, n_population - (n_drawn - n_found) + 1)
        if sum(chances(n_population, n_marked, n_drawn)[: n_found + 1]) > alpha
    )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_limit_is_the_largest_number_that_the_draw_does_not_speak_against(alpha: Fraction) -> None:
    for n_population in range(17):
        for n_drawn in range(n_population + 1):
            for n_found in range(n_drawn + 1):
                limit = upper_limit(n_population, n_drawn, n_found, alpha)
                assert limit == slow_limit(n_population, n_drawn, n_found, alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_coverage_is_the_share_of_all_draws_whose_limit_holds(alpha: Fraction) -> None:
    for n_population in range(8):
        for n_drawn in range(n_population + 1):
            draws = list(combinations(range(n_population), n_drawn))
            for n_exceeding in range(n_population + 1):
                found = [sum(item < n_exceeding for item in draw) for draw in draws]
                held = sum(upper_limit(n_population, n_drawn, a, alpha) >= n_exceeding for a in found)
                assert coverage(n_population, n_exceeding, n_drawn, alpha) == held / len(draws)


@pytest.mark.parametrize(("n_population", "n_drawn"), [(95, 40), (200, 190), (395, 97), (1000, 59)])
def test_coverage_of_more_items_is_what_was_said_too(n_population: int, n_drawn: int) -> None:
    found = [coverage(n_population, n_exceeding, n_drawn, 0.05) for n_exceeding in range(n_population + 1)]
    assert min(found) >= 0.95
    # It is no more than it has to be either.
    assert min(found) < 0.953


def test_missing_none_takes_as_many_draws_as_the_confidence_says() -> None:
    for n_population in range(501):
        for percent in (50, 95, 99):
            needed = draws_needed(n_population, 0, Fraction(100 - percent, 100))
            assert needed == -(-n_population * percent // 100)
    assert draws_needed(20, 0, 0.3) == 14  # in binary 0.3 is less, and 0.7 · 20 more than 14
    # Who may miss all need not draw.
    assert draws_needed(7, 7, 0.05) == draws_needed(7, 8, 0.05) == draws_needed(0, 0, 0.05) == 0
    assert (upper_limit(7, 0, 0, 0.05), upper_limit(7, 7, 3, 0.05)) == (7, 3)


def test_rounds_share_the_probability_of_a_false_statement() -> None:
    assert round_alpha(0.05, 1, 1) == Fraction(1, 20)
    assert [round_alpha(0.05, r, 3) for r in (1, 2, 3)] == [Fraction(1, 40), Fraction(1, 80), Fraction(1, 160)]
    assert sum(round_alpha(0.05, r, 50) for r in range(1, 51)) < Fraction(1, 20)
    assert (expected_false([]), expected_false([0.1, Fraction(1, 20), 0.05])) == (0.0, 0.2)
    # A float is the decimal that it prints as.
    assert decimal_fraction(0.3) == decimal_fraction(np.float64(0.3)) == Fraction(3, 10)
    assert (decimal_fraction(Fraction(1, 3)), decimal_fraction(1e-9)) == (Fraction(1, 3), Fraction(1, 10**9))


def test_numbers_that_no_draw_has_are_refused() -> None:
    for ask, given in (
        *((upper_limit, of) for of in ((10, 11, 0, 0.05), (10, 5, 6, 0.05), (10, 5, -1, 0.05), (-1, 0, 0, 0.05))),
        *((upper_limit, (10, 5, 1, alpha)) for alpha in (0.0, 1.0, math.nan)),
        *((draws_needed, (10, -1, 0.05)), (coverage, (10, 11, 5, 0.05))),
        *((round_alpha, of) for of in ((0.05, 0, 1), (0.05, 2, 1), (1.5, 1, 1))),
    ):
        with pytest.raises(ValueError, match="expected"):
            ask(*given)  # type: ignore[operator]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_as_few_draws_as_limit_what_is_missed(alpha: Fraction) -> None:
    for n_population in range(26):
        for most_missed in range(n_population + 2):
            needed = draws_needed(n_population, most_missed, alpha)
            assert upper_limit(n_population, needed, 0, alpha) <= most_missed
            if needed:
                assert upper_limit(n_population, needed - 1, 0, alpha) > most_missed


def test_large_populations_agree_with_scipy() -> None:
    for n_population, n_drawn, n_found in ((100_000, 59, 0), (99_999, 2000, 37)):
        limit = upper_limit(n_population, n_drawn, n_found, 0.05)
        assert hypergeom.cdf(n_found, n_population, limit, n_drawn) > 0.05
        assert hypergeom.cdf(n_found, n_population, limit + 1, n_drawn) < 0.05
        held = coverage(n_population, limit, n_drawn, 0.05)
        first = next(a for a in range(n_drawn) if hypergeom.cdf(a, n_population, limit, n_drawn) > 0.05)
        assert held == pytest.approx(hypergeom.sf(first - 1, n_population, limit, n_drawn), rel=1e-8)
    assert draws_needed(100_000, 0, 0.05) == 95_000
    needed = draws_needed(100_000, 5000, 0.05)
    assert hypergeom.pmf(0, 100_000, 5001, needed) < 0.05 < hypergeom.pmf(0, 100_000, 5001, needed - 1)


def test_floats_decide_nothing_that_whole_numbers_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    asked = []
    for n_population in (20, 300, 1500):
        for _ in range(12):
            n_drawn = int(rng.integers(n_population + 1))
            # Probabilities that the distribution has are the ones that rounding would get wrong.
            n_found, n_marked = int(rng.integers(n_drawn + 1)), int(rng.integers(n_population + 1))
            total, weights = hypergeometric._weights(n_population, n_marked, n_drawn)
            tail = Fraction(next(weights), total)
            asked += [(n_population, n_drawn, n_found, alpha) for alpha in (Fraction(1, 20), tail) if alpha < 1]
    quick = [upper_limit(*draw) for draw in asked]
    monkeypatch.setattr(hypergeometric, "_RELATIVE_ERROR", math.inf)
    assert [upper_limit(*draw) for draw in asked] == quick
