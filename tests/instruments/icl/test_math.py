"""Calibration and log-ratios against the same written out label by label and token by token."""

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
from helpers.naive import log_softmax
from leakmeter.instruments.icl.math import (
    FARTHEST,
    PLAUSIBLE,
    LogRatioFromFirst,
    calibrated,
    farthest_losses,
    log_mean,
    log_ratio,
)

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
def test_it_is_what_appendix_b_says(
    make: Make, rows: list[list[float]], content_free: list[float], epsilon: float
) -> None:
    p, p_cf = [normalised(row) for row in rows], normalised(content_free)
    got = np.asarray(calibrated(make(logs(p).tolist()), make(logs([p_cf]).tolist()), epsilon))
    expected = [normalised([a / (b + epsilon) for a, b in zip(row, p_cf, strict=True)]) for row in p]
    np.testing.assert_allclose(np.exp(got), expected, rtol=1e-12, atol=1e-300)


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


N_VOCAB = 6
ROWS = st.lists(st.lists(st.floats(-40, 40), min_size=N_VOCAB, max_size=N_VOCAB), min_size=1, max_size=4)


def farthest(p0: list[float], p: list[float], least: float) -> tuple[int, float]:
    """The token and its loss, by looking at every one."""
    best, most = 0, -1.0
    for v, (a, b) in enumerate(zip(p0, p, strict=True)):
        if max(math.exp(a), math.exp(b)) >= least and abs(a - b) > most:
            best, most = v, abs(a - b)
    return best, most


@arrays
@given(ROWS, st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=examples(80))
@seed(5)
def test_every_token_is_looked_at(make: Make, rows: list[list[float]], temperature: float) -> None:
    got = np.asarray(LogRatioFromFirst(temperature).reduce(make(rows)[:, None, :], make([0])))
    assert got.shape == (len(rows), 1, len(FARTHEST))
    losses = np.asarray(farthest_losses(make(got.tolist())))
    p0 = log_softmax(z / temperature for z in rows[0])
    for i, row in enumerate(rows):
        p = log_softmax(z / temperature for z in row)
        for kind, least in enumerate((0.0, PLAUSIBLE)):
            token, a, b = got[i, 0, 3 * kind : 3 * kind + 3]
            assert (a, b) == pytest.approx((p0[int(token)], p[int(token)]), rel=1e-12, abs=1e-12)
            # Of tokens that rounding alone tells apart either may be named.
            assert losses[i, 0, kind] == pytest.approx(farthest(p0, p, least)[1], rel=1e-12, abs=1e-12)
            assert math.exp(max(a, b)) >= least
        assert losses[i, 0, 1] <= losses[i, 0, 0]
    assert (losses[0] == 0).all()


@arrays
def test_the_far_tail_is_left_out_of_the_plausible_ones(make: Make) -> None:
    # Token 2 has probabilities of about e^−20 and e^−25: the most is told by what is never said.
    rows = [[0.0, 0.0, -20.0], [0.0, 1.0, -25.0]]
    got = np.asarray(LogRatioFromFirst().reduce(make(rows)[:, None, :], make([0])))[1, 0]
    assert got[0] == 2
    # log ½ + 0.62 = log 1 / (1 + e): token 0 tells a little more than token 1.
    assert got[3] == 0
    all_, plausible = np.asarray(farthest_losses(make(got.tolist())))
    assert plausible == pytest.approx(math.log((1 + math.e) / 2), abs=1e-7)
    assert all_ == pytest.approx(5 + plausible, abs=1e-7)


@arrays
def test_a_token_that_one_prompt_rules_out_is_infinitely_far_and_one_that_both_do_is_none(make: Make) -> None:
    inf = math.inf
    rows = [[-inf, 0.0, 1.0, -inf], [-inf, 0.0, 1.0, 0.0], [-inf, 0.0, 1.0, -inf], [-inf, 0.0, -inf, -inf]]
    got = np.asarray(LogRatioFromFirst().reduce(make(rows)[:, None, :], make([0])))[:, 0]
    losses = np.asarray(farthest_losses(make(got.tolist())))
    assert got[:, 0].tolist() == [1, 3, 1, 2]  # the one that both rule out is never named
    assert losses.T.tolist() == [[0, inf, 0, inf]] * 2
    assert not np.isnan(got).any()
    # Not a number stays to be seen.
    got = np.asarray(LogRatioFromFirst().reduce(make([[0.0, 1.0], [math.nan, 1.0]])[:, None, :], make([0])))
    assert np.isnan(got[1]).any()


@arrays
def test_ratios_of_nothing_to_nothing_are_nought(make: Make) -> None:
    inf = math.inf
    got = np.asarray(log_ratio(make([-inf, -inf, -1.0, -1.0]), make([-inf, -2.0, -inf, -3.0])))
    assert got.tolist() == [0.0, -inf, inf, 2.0]
    assert np.isnan(np.asarray(log_ratio(make([math.nan]), make([-inf])))).all()


@arrays
def test_the_first_of_equal_tokens_is_named(make: Make) -> None:
    assert np.asarray(LogRatioFromFirst().reduce(make(np.zeros((2, 1, 5))), None))[1, 0, [0, 3]].tolist() == [0, 0]
