"""Rényi divergences against their definition in many digits, at every size of tilt; bounds between orders."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.examples import examples, few
from leakmeter.errors import UsageError
from leakmeter.privacy import renyi
from leakmeter.privacy.rdp import ORDERS, bound
from leakmeter.privacy.renyi import SPREAD, both_ways, chords, from_tilts, screened
from leakmeter.stats import logspace

LIBRARIES = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
SOME = (1.01, 1.5, 2, 3, 17.5, 100, math.inf)


def slow_tilted(log_p: np.ndarray, tilt: np.ndarray, orders: tuple[float, ...] = SOME) -> np.ndarray:
    """Both directions by the definition, of normalised numbers of 60 digits, (order, 2)."""

    def slow(p: list[Any], q: list[Any], order: float) -> Any:
        if order == math.inf:
            return max(mpmath.log(a / b) for a, b in zip(p, q, strict=True))
        power = mpmath.mpf(order) - 1
        return mpmath.log(mpmath.fsum(a * (a / b) ** power for a, b in zip(p, q, strict=True))) / power

    with mpmath.workdps(60):
        p = [mpmath.exp(mpmath.mpf(float(v))) for v in log_p]
        q = [a * mpmath.exp(-mpmath.mpf(float(x))) for a, x in zip(p, tilt, strict=True)]
        p, q = ([v / mpmath.fsum(of) for v in of] for of in (p, q))
        return np.asarray([[float(slow(p, q, a)), float(slow(q, p, a))] for a in orders])


@libraries
@pytest.mark.parametrize("size", [1e-8, 1e-4, 0.03, 0.2, 1.0, 5.0, 40.0, 300.0])
def test_divergences_are_their_definition_at_every_size_of_tilt(library: Any, size: float) -> None:
    rng = np.random.default_rng(70)
    log_p = logspace.log_softmax(rng.normal(size=23) * 4)
    tilts = rng.normal(size=(2, 23)) * size + rng.normal(size=(2, 1))
    found = np.asarray(from_tilts(library(log_p), library(tilts), SOME))
    assert found.shape == (2, len(SOME), 2)
    for row, tilt in zip(found, tilts, strict=True):
        # Centring tilts of size 1 rounds 1e-16 of it away.
        np.testing.assert_allclose(row, slow_tilted(log_p, tilt), rtol=1e-12 + 3e-15 / size, atol=0)


@pytest.mark.parametrize("library", few(LIBRARIES.values()), ids=LIBRARIES)
@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3])
def test_small_divergences_keep_their_digits(library: Any, size: float) -> None:
    """Logarithms of probabilities subtracted would leave none below 1e-15."""
    rng = np.random.default_rng(71)
    log_p = logspace.log_softmax(rng.normal(size=20) * 3)
    tilt = rng.uniform(-size, size, size=20)
    (found,) = np.asarray(from_tilts(library(log_p), library(tilt[None]), ORDERS))
    np.testing.assert_allclose(found, slow_tilted(log_p, tilt, ORDERS), rtol=1e-13, atol=0)
    assert (found < 100 * size**2).all()


@libraries
def test_masked_tokens_have_no_part_in_it_and_nan_shows(library: Any) -> None:
    rng = np.random.default_rng(76)
    logits, tilts = rng.normal(size=12), rng.normal(size=(2, 12))
    logits[[2, 9]] = -np.inf
    tilts[:, 2] = 1e300
    kept = np.isfinite(logits)
    found = from_tilts(library(logspace.log_softmax(logits)), library(tilts), SOME)
    expected = from_tilts(library(logspace.log_softmax(logits[kept])), library(tilts[:, kept].copy()), SOME)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12, atol=0)
    log_p, tilts = np.log(np.full(4, 0.25)), np.zeros((2, 4))
    tilts[1, 2] = np.nan
    assert np.isnan(np.asarray(from_tilts(library(log_p), library(tilts), SOME))[1]).all()
    ratio = screened(library(log_p), library(tilts), (2, 3, 4), (1.0, 1.0, 1.0), (2, 4)).ratio
    assert np.isnan(np.asarray(ratio)[1])


def test_chords_of_small_tilts_are_within_a_third_and_orders_without_a_divergence_are_refused() -> None:
    orders = np.asarray(ORDERS, dtype=np.float64)
    bounds = np.asarray(SPREAD) @ chords(SPREAD, ORDERS)  # of tilts that vanish: D_α is a multiple of α
    assert (bounds / orders).max() == pytest.approx(4 / 3, abs=1e-12)
    with pytest.raises(ValueError, match="no bounds for orders beyond 2 to 100"):
        chords(SPREAD, (2, 101))
    for order in (1.0, 0.5, -2.0, math.nan):
        with pytest.raises(UsageError, match="orders have to be above 1"):
            from_tilts(np.log([0.5, 0.5]), np.log([[0.5, 0.5]]), (2, order))


distributions = st.integers(2, 9).flatmap(
    lambda n: st.tuples(*(arrays(np.float64, n, elements=st.floats(-30, 30)) for _ in range(2)))
)


@seed(74)
@settings(max_examples=examples(80))
@given(distributions, st.floats(-50, 50))
def test_any_two_distributions(pair: tuple[np.ndarray, np.ndarray], shift: float) -> None:
    log_p, tilt = logspace.log_softmax(pair[0]), pair[1]
    orders = (1.0001, 1.5, 2, 3, 10, 64, math.inf)
    # Rounding of logarithms as large as the tilts counts 1 / (α − 1) times; a third of this was measured.
    rounding = 128 * np.finfo(np.float64).eps * (1 + np.abs(tilt).max()) * (1 + 1 / (np.asarray(orders)[:, None] - 1))
    expected = slow_tilted(log_p, tilt, orders)
    for library in LIBRARIES.values():
        found = np.asarray(from_tilts(library(log_p), library(tilt[None]), orders))[0]
        assert (found >= 0).all()
        assert (np.abs(found - expected) <= 1e-12 * expected + rounding).all()
    # One number more in every tilt, or in every log p, says the same: some 1e-14 of logarithms up to 60, counted
    # 10,000 times near order 1. The same tilt everywhere tells nothing.
    moved = from_tilts(log_p + shift, tilt[None] + shift, orders)[0]
    np.testing.assert_allclose(moved, expected, rtol=1e-9, atol=1e-9)
    assert (from_tilts(log_p, np.full((1, len(tilt)), shift), orders) <= 1e-14 * (1 + abs(shift))).all()


@pytest.mark.parametrize("size", [0.05, 0.7, 30.0])
def test_slices_of_the_vocabulary_add_up(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    rng = np.random.default_rng(75)
    log_p, tilts = logspace.log_softmax(rng.normal(size=1009)), rng.normal(size=(3, 1009)) * size
    whole = from_tilts(log_p, tilts, SOME)
    monkeypatch.setattr(renyi, "_ENTRIES", 50)
    np.testing.assert_allclose(from_tilts(log_p, tilts, SOME), whole, rtol=1e-12, atol=0)


@seed(77)
@settings(max_examples=examples(80))
@given(st.integers(1, 3), distributions, st.floats(1e-4, 30))
def test_chords_are_upper_bounds(n_tokens: int, pair: tuple[np.ndarray, np.ndarray], size: float) -> None:
    log_p, tilt = logspace.log_softmax(pair[0]), size / 30 * pair[1]
    tilts = np.stack([np.roll(tilt, i) for i in range(n_tokens)])
    exact, measured = (both_ways(from_tilts(log_p, tilts, orders)).sum(axis=0) for orders in (ORDERS, SPREAD))
    bounds = measured @ chords(SPREAD, ORDERS)
    assert (bounds >= exact * (1 - 1e-12) - 1e-15).all()
    at = [ORDERS.index(order) for order in SPREAD]
    np.testing.assert_allclose(bounds[at], measured, rtol=1e-15)


@libraries
@pytest.mark.parametrize("sensitivity", [1e-3, 0.05, 0.3, 2.0])
def test_screening_misses_nothing_and_measures_what_it_doubts(library: Any, sensitivity: float) -> None:
    rng = np.random.default_rng(78)
    limits = bound(sensitivity, ORDERS)
    measured = (*SPREAD, math.inf)
    # Rows from far below the limits to far above, and some on both sides of them.
    tilts = sensitivity * np.where(rng.random(size=(40, 20)) < 0.5, -1.0, 1.0) * np.geomspace(0.05, 3, 40)[:, None]
    log_p = logspace.log_softmax(rng.normal(size=20) * 0.3)
    found = screened(library(log_p), library(tilts), ORDERS, limits, measured)
    exact = both_ways(from_tilts(log_p, tilts, ORDERS)) / limits
    np.testing.assert_allclose(found.losses, both_ways(from_tilts(log_p, tilts, measured)), rtol=1e-12)
    ratio, order = np.asarray(found.ratio), np.asarray(found.order)
    broken = exact.max(axis=1) > 1
    assert 5 < broken.sum() < 35
    np.testing.assert_array_equal(ratio > 1, broken)
    np.testing.assert_allclose(ratio[broken], exact.max(axis=1)[broken], rtol=1e-12)
    np.testing.assert_array_equal(order[broken], np.asarray(ORDERS)[exact.argmax(axis=1)][broken])
    assert (ratio >= exact.max(axis=1) * (1 - 1e-12)).all()
