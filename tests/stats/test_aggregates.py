"""Many numbers to one, and what is known of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.stats.aggregates import aggregate, interval_of_aggregate, is_aggregate
from leakmeter.stats.stats import interval_of_mean, interval_of_share

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def test_names_of_aggregates() -> None:
    assert all(map(is_aggregate, ("mean", "median", "min", "max", "p1", "p5", "p95", "p99")))
    for name in ("p0", "p100", "p05", "p9.5", "average", "", "P95", "p95 "):
        assert not is_aggregate(name)
    with pytest.raises(ValueError, match="no aggregate is named"):
        aggregate([1.0], "average")
    for name in ("mean", "p95", "max"):
        for values in ([], [1.0, math.nan]):
            with pytest.raises(ValueError):
                aggregate(values, name)


def test_intervals_of_means_and_shares_and_where_there_is_none() -> None:
    values = [0.0, 1.0, 1.0, 3.0, 7.0, 2.0, 2.0, 0.5]
    found = interval_of_aggregate(values, "mean", seed=3)
    assert found is not None
    assert found == interval_of_mean(sorted(values), seed=3)
    assert interval_of_aggregate([0.0, 1.0, 1.0], "mean", seed=0, is_share=True) == interval_of_share(2, 3)
    nothing = [([1.0, math.inf], "mean"), ([1.0, 2.0, 3.0], "mean"), ([1.0, 2.0], "min"), ([1.0, 2.0], "max")]
    nothing += [([1.0], name) for name in ("mean", "median", "p95", "min", "max")]
    assert {interval_of_aggregate(of, name, seed=0) for of, name in nothing} == {None}


def test_intervals_of_items_that_are_alike_are_as_wide_as_those_of_their_clusters() -> None:
    values = np.sort(np.random.default_rng(0).exponential(size=12))
    many, clusters = np.repeat(values, 5), [number for number in range(12) for _ in range(5)]
    alone = [*range(12)]
    for name in ("mean", "median", "p5"):
        alike = interval_of_aggregate(many, name, seed=0, clusters=clusters)
        assert alike == pytest.approx(interval_of_aggregate(values, name, seed=0), rel=1e-12)
        expected = interval_of_aggregate(values, name, seed=0)
        assert interval_of_aggregate(values, name, seed=0, clusters=alone) == expected
    hits = [float(number % 3 == 0) for number in clusters]
    assert interval_of_aggregate(hits, "mean", seed=0, is_share=True, clusters=clusters) == interval_of_share(4, 12)
    # Sixteen turns of four conversations are no more than four.
    assert interval_of_aggregate(many[:16], "mean", seed=0, clusters=[*range(4)] * 4) is None


@given(NUMBERS)
def test_finite_numbers_as_numpy_has_them(values: list[float]) -> None:
    for name, of in {"mean": np.mean, "median": np.median, "min": np.min, "max": np.max}.items():
        assert aggregate(values, name) == pytest.approx(float(of(values)), rel=1e-12, abs=1e-9)
    for level in (1, 5, 50, 95, 99):
        assert aggregate(values, f"p{level}") == pytest.approx(float(np.quantile(values, level / 100)), abs=1e-9)


def test_an_infinite_number_is_one() -> None:
    values = [1.0, 2.0, math.inf]
    assert aggregate(values, "mean") == aggregate(values, "max") == aggregate(values, "p95") == math.inf
    assert aggregate(values, "median") == 2.0
    assert aggregate([math.inf, math.inf], "p95") == math.inf
    assert aggregate([-math.inf, 1.0], "mean") == -math.inf
    assert math.isnan(aggregate([-math.inf, math.inf], "mean"))
    # A quarter of the way from −∞ to 1 there is no number but −∞.
    assert aggregate([-math.inf, 1.0], "p25") == -math.inf


def binomial(k: int, n: int, p: float) -> float:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize("n", [2, 5, 10, 71, 72, 100])
@pytest.mark.parametrize(("name", "p"), [("median", 0.5), ("p5", 0.05), ("p95", 0.95)])
def test_order_statistics_are_the_narrowest_with_a_fortieth_beyond_each(n: int, name: str, p: float) -> None:
    """By adding up the binomial distribution of how many items lie below the true percentile."""
    values = [float(i) for i in range(1, n + 1)]
    low, high = interval_of_aggregate(values, name, seed=0) or (math.nan, math.nan)
    below = [sum(binomial(k, n, p) for k in range(i)) for i in range(n + 1)]  # fewer than i items are below
    # The lowest item above the true percentile: i − 1 or fewer are below it.
    assert low == max((float(i) for i in range(1, n + 1) if below[i] < 0.025), default=-math.inf)
    assert high == min((float(i) for i in range(1, n + 1) if 1 - below[i] <= 0.025 + 1e-12), default=math.inf)
