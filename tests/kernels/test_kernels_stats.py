"""Small statistics: posterior belief, bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakmeter.kernels.stats import bootstrap_interval_of_mean, posterior_from_even_odds


def test_posterior_from_even_odds() -> None:
    assert posterior_from_even_odds(0.0) == 0.5
    assert posterior_from_even_odds(math.log(3)) == pytest.approx(0.75, abs=1e-16)
    assert posterior_from_even_odds(1000.0) == 1.0
    # Bayes: odds times the likelihood ratio e^nats.
    for nats in (0.01, 0.3, 2.0, 7.0):
        odds = math.exp(nats)
        assert posterior_from_even_odds(nats) == pytest.approx(odds / (1 + odds), rel=1e-15)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_no_interval_without_two_values(values: list[float]) -> None:
    assert all(math.isnan(edge) for edge in bootstrap_interval_of_mean(values, seed=0))


def test_bootstrap_is_the_same_bytes_for_a_seed_and_differs_between_seeds() -> None:
    values = np.random.default_rng(0).exponential(size=12)
    first = np.asarray(bootstrap_interval_of_mean(values, seed=3)).tobytes()
    assert np.asarray(bootstrap_interval_of_mean(values, seed=3)).tobytes() == first
    assert np.asarray(bootstrap_interval_of_mean(values, seed=4)).tobytes() != first


def test_bootstrap_leaves_the_global_generator_alone() -> None:
    state = np.random.get_state()[1].tobytes()
    bootstrap_interval_of_mean([1.0, 2.0, 3.0], seed=0)
    assert np.random.get_state()[1].tobytes() == state


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert bootstrap_interval_of_mean([2.5] * 6, seed=0) == (2.5, 2.5)


def test_bootstrap_agrees_with_exact_enumeration_for_two_values() -> None:
    # Means of two draws from {0, 1}: 0, ½, 1 with probabilities ¼, ½, ¼: both 2.5 % tails lie at the ends.
    assert bootstrap_interval_of_mean([0.0, 1.0], seed=0) == (0.0, 1.0)
    assert bootstrap_interval_of_mean([0.0, 1.0], seed=0, confidence=0.4) == (0.5, 0.5)


def test_bootstrap_of_many_normal_values_is_near_the_normal_interval() -> None:
    values = np.random.default_rng(1).normal(size=400)
    low, high = bootstrap_interval_of_mean(values, seed=0)
    half = 1.96 * values.std() / math.sqrt(400)
    # 2,000 resamples put the 2.5 % quantile to about 6 % of the half width. Measured: 2.7 %.
    assert low == pytest.approx(values.mean() - half, abs=0.06 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.06 * half)
