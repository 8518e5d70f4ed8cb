"""Small statistics: posterior belief, bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakmeter.stats.stats import (
    bootstrap_interval_of_mean,
    bootstrap_interval_of_mean_difference,
    interval_of_share,
    mean,
    posterior_from_even_odds,
    quantiles,
)


def test_posterior_from_even_odds() -> None:
    assert posterior_from_even_odds(0.0) == 0.5
    assert posterior_from_even_odds(1000.0) == posterior_from_even_odds(math.inf) == 1.0
    assert posterior_from_even_odds(-1000.0) == posterior_from_even_odds(-math.inf) == 0.0
    # The smaller side keeps its digits, where 1 − p has none.
    assert posterior_from_even_odds(-40.0) == pytest.approx(math.exp(-40.0), rel=1e-15)
    # Bayes: odds times the likelihood ratio e^nats, to either side.
    for nats in (0.01, 0.3, 2.0, 7.0, -0.3, -7.0):
        odds = math.exp(nats)
        assert posterior_from_even_odds(nats) == pytest.approx(odds / (1 + odds), rel=1e-15)


def test_a_bootstrap_is_its_seeds_and_that_of_all_resamples_of_two_values() -> None:
    values, state = np.random.default_rng(0).exponential(size=12), np.random.get_state()[1].tobytes()
    first = bootstrap_interval_of_mean(values, seed=3)
    assert bootstrap_interval_of_mean(values, seed=3) == first != bootstrap_interval_of_mean(values, seed=4)
    assert np.random.get_state()[1].tobytes() == state
    # Means of two draws from {0, 1}: 0, ½, 1 with probabilities ¼, ½, ¼: both 2.5 % tails lie at the ends.
    assert bootstrap_interval_of_mean([0.0, 1.0], seed=0) == (0.0, 1.0)
    assert bootstrap_interval_of_mean([0.0, 1.0], seed=0, confidence=0.4) == (0.5, 0.5)
    assert bootstrap_interval_of_mean([2.5] * 6, seed=0) == (2.5, 2.5)


def test_means_and_quantiles_by_hand_and_no_data_is_nan_and_never_nought() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3.0
    # Between order statistics 1, 2, 6 at 0, ½, 1.
    assert quantiles([6.0, 1.0, 2.0], [0.0, 0.25, 0.5, 0.75, 1.0]) == [1.0, 1.5, 2.0, 4.0, 6.0]
    nothing = (mean([]), *quantiles([], [0.1, 0.5]), *interval_of_share(0, 0))
    nothing += bootstrap_interval_of_mean_difference([], [], seed=0)
    for values in ([], [1.0]):
        nothing += bootstrap_interval_of_mean(values, seed=0)
    assert all(map(math.isnan, nothing))


def test_a_paired_interval_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(2)
    items = rng.normal(0, 100, size=50)
    ones, twos = items + 1.0 + rng.normal(0, 0.1, size=50), items
    low, high = bootstrap_interval_of_mean_difference(ones, twos, seed=5)
    assert (low, high) == bootstrap_interval_of_mean(ones - twos, seed=5)
    # What the items have in common has gone.
    assert 0.9 < low < 1.0 < high < 1.1
    with pytest.raises(ValueError, match="3 values and 2 others"):
        bootstrap_interval_of_mean_difference([1.0, 2.0, 3.0], [1.0, 2.0], seed=0)


def test_interval_of_a_share_against_published_values() -> None:
    # Newcombe 1998, Statistics in Medicine 17, Table I, method 3 (Wilson's score without continuity correction).
    for hits, n, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        assert interval_of_share(hits, n) == pytest.approx((low, high), abs=5e-5)
    assert interval_of_share(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)
    assert interval_of_share(20, 20) == pytest.approx((1 - 0.1611, 1.0), abs=5e-5)


def test_a_bootstrap_in_parts_is_the_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).normal(size=301)
    whole = np.random.default_rng(5).integers(0, 301, size=(2000, 301))
    expected = tuple(np.quantile(values[whole].mean(axis=1), [0.025, 0.975]))
    for at_once in (1_000_000, 1_000, 1):
        monkeypatch.setattr("leakmeter.stats.stats._DRAWN_AT_ONCE", at_once)
        assert bootstrap_interval_of_mean(values, seed=5) == pytest.approx(expected, rel=1e-14)
