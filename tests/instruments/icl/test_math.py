"""Calibration against App. B written out label by label."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.instruments.icl.math import calibrated, log_mean

Make = Callable[[Any], Any]
arrays = pytest.mark.parametrize(
    "make", [np.asarray, lambda x: torch.tensor(x, dtype=torch.float64)], ids=["numpy", "torch"]
)
ROW = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3).filter(lambda row: sum(row) > 1e-3)


def normalised(row: list[float]) -> list[float]:
    return [one / math.fsum(row) for one in row]


def logs(rows: Any) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(rows, dtype=np.float64))


@arrays
@given(st.lists(ROW, min_size=1, max_size=3), ROW, st.sampled_from([1e-8, 1e-4, 0.1]))
@settings(max_examples=examples(80))
@seed(7)
def test_it_is_what_appendix_b_says_and_a_distribution(
    make: Make, rows: list[list[float]], content_free: list[float], epsilon: float
) -> None:
    p, p_cf = [normalised(row) for row in rows], normalised(content_free)
    got = np.asarray(calibrated(make(logs(p).tolist()), make(logs([p_cf]).tolist()), epsilon))
    expected = [normalised([a / (b + epsilon) for a, b in zip(row, p_cf, strict=True)]) for row in p]
    np.testing.assert_allclose(np.exp(got), expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(np.exp(got).sum(axis=-1), 1.0, rtol=1e-12)


@arrays
def test_a_uniform_baseline_changes_nothing_and_ones_own_leaves_nothing(make: Make) -> None:
    p = [0.7, 0.2, 0.1]
    same = np.asarray(calibrated(make(logs(p).tolist()), make(logs([1 / 3] * 3).tolist()), 1e-4))
    np.testing.assert_allclose(same, np.log(p), rtol=0, atol=1e-15)
    flat = np.asarray(calibrated(make(logs(p).tolist()), make(logs(p).tolist()), 1e-12))
    np.testing.assert_allclose(flat, [math.log(1 / 3)] * 3, rtol=1e-10)


def test_epsilon_bounds_what_a_label_that_never_comes_can_gain() -> None:
    p = [0.5, 0.5]
    for rare in (1e-6, 1e-12, 0.0):
        got = calibrated(logs(p), logs([1 - rare, rare]), 1e-4)
        # At most log 1 / ε = 9.21 nats, and the rest of the other label's.
        assert got[1] - got[0] == pytest.approx(math.log((1 + 1e-4) / 1e-4), abs=0.011)


def test_an_impossible_label_stays_impossible() -> None:
    got = calibrated(logs([0.0, 0.25, 0.75]), logs([0.0, 0.5, 0.5]), 1e-4)
    assert got[0] == -math.inf
    np.testing.assert_allclose(np.exp(got[1:]), [0.25, 0.75], rtol=1e-12)


@arrays
def test_the_mean_of_distributions(make: Make) -> None:
    rows = [[[0.5, 0.5, 0.0]], [[1e-200, 1.0, 0.0]]]
    got = np.asarray(log_mean(make(logs(rows).tolist())))
    assert got.shape == (1, 3)
    np.testing.assert_allclose(np.exp(got), [[0.25, 0.75, 0.0]], rtol=1e-12)
    one = logs([[0.2, 0.8]])
    np.testing.assert_allclose(np.asarray(log_mean(make(one.tolist()))), one[0], rtol=0, atol=1e-16)
