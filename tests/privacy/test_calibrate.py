"""Settings that keep to a target: the paper's tables to every digit, and never the wrong side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.errors import UsageError
from leakmeter.privacy.calibrate import Calibrated, Free, Target, Unreachable, calibrate
from leakmeter.privacy.clipped_logits import Adjacency, Aggregation, NormaliseBy
from leakmeter.privacy.rdp import guarantee

N_TOKENS = 50 * 40
DELTA = 1e-5


def calibrated(voting: Aggregation, free: Free, target: Target) -> Calibrated:
    found = calibrate(voting, free, target)
    assert isinstance(found, Calibrated)
    return found


def test_what_only_no_influence_at_all_keeps_to_cannot_be_reached() -> None:
    least = Target(1.0, DELTA, N_TOKENS).guarantee(0.0).epsilon
    assert isinstance(calibrate(Aggregation(10.0, 50, 1.0), "temperature", Target(least, DELTA, N_TOKENS)), Unreachable)


@pytest.mark.parametrize(
    ("epsilon", "temperature", "order"),
    [(0.5, 68.58, 32), (1, 36.18, 18), (5, 8.53, 5), (10, 4.80, 3), (20, 2.81, 3), (50, 1.42, 2), (100, 0.94, 2)],
)
def test_table_4(epsilon: float, temperature: float, order: int) -> None:
    found = calibrated(Aggregation(10.0, 50, 1.0), "temperature", Target(epsilon, DELTA, N_TOKENS))
    assert round(found.aggregation.temperature, 2) == temperature
    assert found.guarantee.order == order
    assert found.guarantee.epsilon == pytest.approx(epsilon, rel=1e-14)


@pytest.mark.parametrize(
    ("epsilon", "clip", "order"), [(1, 0.55, 18), (5, 2.34, 5), (10, 4.16, 3), (50, 14.12, 2), (100, 21.20, 2)]
)
def test_table_5(epsilon: float, clip: float, order: int) -> None:
    found = calibrated(Aggregation(1.0, 50, 2.0), "clip", Target(epsilon, DELTA, N_TOKENS))
    assert round(found.aggregation.clip, 2) == clip
    assert found.guarantee.order == order
    assert found.guarantee.epsilon == pytest.approx(epsilon, rel=1e-14)


@pytest.mark.parametrize(("epsilon", "subset_size", "order"), [(5, 214, 5), (10, 121, 4), (50, 36, 2), (100, 24, 2)])
def test_table_6(epsilon: float, subset_size: int, order: int) -> None:
    """Its third column, headed as an ε, holds the order."""
    found = calibrated(Aggregation(10.0, 1, 2.0), "subset-size", Target(epsilon, DELTA, N_TOKENS))
    assert found.aggregation.subset_size == subset_size
    assert found.guarantee.order == order
    one_fewer = replace(found.aggregation, subset_size=subset_size - 1)
    assert found.guarantee.epsilon <= epsilon < guarantee(one_fewer.sensitivity(), N_TOKENS, DELTA).epsilon


@seed(90)
@settings(max_examples=examples(60))
@given(
    st.floats(0.01, 1000),
    st.sampled_from([1e-9, 1e-5, 0.01, 0.3]),
    st.integers(1, 100_000),
    st.floats(0.01, 100),
    st.integers(2, 500),
    st.floats(0.01, 100),
    st.sampled_from(["fixed", "present"]),
    st.sampled_from(["add-remove", "replace-one"]),
)
def test_the_target_is_kept_and_the_next_setting_misses_it(
    epsilon: float,
    delta: float,
    n_tokens: int,
    clip: float,
    subset_size: int,
    temperature: float,
    normalise_by: NormaliseBy,
    adjacency: Adjacency,
) -> None:
    voting = Aggregation(clip, subset_size, temperature, normalise_by)
    target = Target(epsilon, delta, n_tokens, adjacency)

    def epsilon_of(of: Aggregation) -> float:
        return guarantee(of.sensitivity(adjacency), n_tokens, delta).epsilon

    found = calibrate(voting, "temperature", target)
    if isinstance(found, Unreachable):
        assert found.least_epsilon >= epsilon
        assert epsilon_of(replace(voting, temperature=1e12)) >= epsilon
        return
    least = max(guarantee(0.0, n_tokens, delta).epsilon, 0.0)
    # An ε is told from its neighbours to 1e-16 of itself, and moves with Δ² above its least.
    room = 1e-12 * (1 + epsilon / (epsilon - least))
    cases: dict[Free, Callable[[Aggregation], Aggregation]] = {
        "temperature": lambda of: replace(of, temperature=of.temperature * (1 - room)),
        "clip": lambda of: replace(of, clip=of.clip * (1 + room)),
        "subset-size": lambda of: replace(of, subset_size=of.subset_size - 1),
    }
    for free, less_private in cases.items():
        made = calibrated(voting, free, target)
        assert made.guarantee.epsilon == epsilon_of(made.aggregation) <= epsilon
        fixed = {"temperature": "temperature", "clip": "clip", "subset-size": "subset_size"}[free]
        assert replace(made.aggregation, **{fixed: getattr(voting, fixed)}) == voting
        if free != "subset-size" or made.aggregation.subset_size > (2 if normalise_by == "present" else 1):
            assert epsilon_of(less_private(made.aggregation)) > epsilon


def test_a_replaced_exemplar_needs_twice_the_temperature() -> None:
    voting = Aggregation(10.0, 50, 1.0)
    one, other, present = (
        calibrated(replace(voting, normalise_by=by), "temperature", Target(10, DELTA, N_TOKENS, adjacency))
        for by, adjacency in (("fixed", "add-remove"), ("fixed", "replace-one"), ("present", "add-remove"))
    )
    assert other.aggregation.temperature == pytest.approx(2 * one.aggregation.temperature, rel=1e-12)
    assert present.aggregation.temperature == pytest.approx(2 * one.aggregation.temperature, rel=1e-12)


@pytest.mark.parametrize("free", ["temperature", "clip", "subset-size"])
def test_what_cannot_be_reached_is_said(free: Free) -> None:
    found = calibrate(Aggregation(10.0, 50, 2.0), free, Target(0.05, DELTA, N_TOKENS))
    assert isinstance(found, Unreachable)
    assert found.least_epsilon == pytest.approx(0.0597, abs=5e-5)
    assert str(found) == (
        "epsilon 0.05 at delta 1e-05 cannot be guaranteed: with orders up to 100 the epsilon of every setting is above "
        "0.05972; give a larger epsilon or delta"
    )
    assert "\n" not in str(found)
    # A little more can be, at the cost of a high temperature; and that much at a larger δ.
    assert isinstance(calibrate(Aggregation(10.0, 50, 2.0), free, Target(0.06, DELTA, N_TOKENS)), Calibrated)
    assert isinstance(calibrate(Aggregation(10.0, 50, 2.0), free, Target(0.05, 1e-4, N_TOKENS)), Calibrated)
    # So near to what cannot be reached that one unit in the last place lies between.
    barely = calibrated(
        Aggregation(10.0, 50, 2.0), free, Target(math.nextafter(found.least_epsilon, 1.0), DELTA, N_TOKENS)
    )
    assert barely.guarantee.epsilon <= math.nextafter(found.least_epsilon, 1.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0.0, DELTA, 5), "epsilon is 0.0; it has to be above 0"),
        ((math.nan, DELTA, 5), "epsilon is nan"),
        ((math.inf, DELTA, 5), "epsilon is inf"),
        ((1.0, DELTA, 0), "0 tokens cannot be generated; give 1 or more"),
        ((1.0, 0.0, 5), "delta is 0.0; it has to be above 0 and below 1"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments: tuple[float, float, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        calibrate(Aggregation(10.0, 50, 2.0), "temperature", Target(*arguments))
