"""Ranks and what is made of them, by hand, against all pairs, against scipy, and by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.stats.ranks import (
    auc,
    cliffs_delta,
    exposure,
    extrapolated_exposure,
    rank,
    rank_biserial,
    rank_p,
    roc,
    subjects_needed,
)

INF = float("inf")
# Few different values, so that there are ties.
SCORES = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=12)


def test_ranks_by_hand() -> None:
    for values, place in (
        *(([5.0, 1.0, 2.0, 3.0], 1), ([2.5, 1.0, 2.0, 3.0], 2), ([0.0, 1.0, 2.0, 3.0], 4), ([-INF, -INF, 0.0], 3)),
        # Equal nulls come first: a verdict is on the safe side. Without nulls nothing can be said.
        *(([2.0, 2.0, 2.0, 3.0], 4), ([5.0], 1)),
    ):
        assert (rank(values), rank_p(values)) == (place, place / len(values))
    for values in ([], [1.0, float("nan")], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="a rank is of one target's score"):
            rank(values)


@given(SCORES)
def test_p_is_the_share_that_is_as_likely(values: list[float]) -> None:
    target, *nulls = values
    assert rank_p(values) == (1 + sum(null >= target for null in nulls)) / (len(nulls) + 1)
    assert rank_p(values) == pytest.approx(rank_p([math.exp(value) for value in values]))
    least, most = 1 + sum(null > target for null in nulls), rank(values)
    assert all(least <= rank(values, random=np.random.default_rng(i)) <= most for i in range(40))


@pytest.mark.parametrize("has_ties", [False, True])
def test_ranks_are_uniform_if_the_model_knows_nothing(has_ties: bool) -> None:
    rng = np.random.default_rng(11)
    n_nulls, n_targets = 19, 4000
    scores = rng.normal(size=(n_targets, 1 + n_nulls))
    scores = np.round(scores, 1) if has_ties else scores
    counts = np.bincount([rank(row, random=rng) for row in scores], minlength=n_nulls + 2)[1:]
    assert counts.sum() == n_targets
    assert scipy.stats.chisquare(counts).pvalue > 0.01
    # Unrandomised, p is below α no oftener than it may.
    ps = np.asarray([rank_p(row) for row in scores])
    for alpha in (0.05, 0.2, 0.5):
        allowed = alpha + 3 * math.sqrt(alpha * (1 - alpha) / n_targets)
        assert (ps <= alpha).mean() <= allowed
        assert has_ties or (ps <= alpha).mean() >= 2 * alpha - allowed


def test_exposure_ends_where_the_nulls_do() -> None:
    for n_nulls in (1, 3, 50):
        nulls = list(np.linspace(-1.0, 1.0, n_nulls))
        assert exposure([9.0, *nulls]) == exposure([2.0, *nulls]) == pytest.approx(math.log2(n_nulls + 1))
        assert exposure([-2.0, *nulls]) == 0
    # Third of eight: log₂ 8 − log₂ 3.
    assert exposure([5.0, 9.0, 8.0, 4.0, 3.0, 2.0, 1.0, 0.0]) == pytest.approx(3 - math.log2(3))


@pytest.mark.parametrize("shape", [-2.0, 0.0, 1.0, 3.0])
def test_extrapolated_exposure_is_a_tail_of_scipys_fit_by_moments(shape: float) -> None:
    nulls = scipy.stats.skewnorm.ppf((np.arange(60) + 0.5) / 60, shape)
    fitted = scipy.stats.skewnorm.fit(nulls, method="MM")
    for sds in (-2.0, 0.0, 2.0, 4.0):
        target = float(nulls.mean() + sds * nulls.std())
        expected = -math.log2(scipy.stats.skewnorm.sf(target, *fitted))
        assert extrapolated_exposure([target, *nulls]) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_extrapolated_exposure_says_nothing_of_what_it_cannot_fit() -> None:
    nulls = [0.1, 0.4, -0.3, 0.9, -1.2, 0.2, 0.7, -0.6]
    assert np.isfinite(extrapolated_exposure([2.0, *nulls]))
    for values in ([2.0, *nulls[:7]], [1.0] * 20, [1.0, -INF, *range(20)], [-INF, *range(20)]):
        assert math.isnan(extrapolated_exposure(values))
    assert extrapolated_exposure([1e6, *range(20)]) == 1074
    # Skewer than any skew-normal.
    assert extrapolated_exposure([60.0, 50.0, *([0.0] * 30)]) < 1074


def test_the_curve_by_hand() -> None:
    assert roc([3.0, 1.0], [2.0, 1.0]).tolist() == [[0, 0], [0, 0.5], [0.5, 0.5], [1, 1]]
    with pytest.raises(ValueError, match="one positive and one negative"):
        roc([], [1.0])
    assert all(math.isnan(value) for value in (*auc([], [1.0]), cliffs_delta([1.0], [])))


@settings(max_examples=examples(40))
@given(st.integers(0, 1000), st.floats(-50, 50), st.floats(0.01, 100))
def test_extrapolated_exposure_grows_with_the_target_and_has_no_unit(number: int, shift: float, scale: float) -> None:
    nulls = np.random.default_rng(number).gumbel(size=30)
    found = [extrapolated_exposure([target, *nulls]) for target in (-9.0, 0.0, 1.0, 3.0, 9.0)]
    assert found == sorted(found)
    assert found[0] >= 0
    moved = extrapolated_exposure([scale * 3.0 + shift, *(scale * nulls + shift)])
    assert moved == pytest.approx(found[3], rel=1e-6)


def test_rank_biserial_by_hand() -> None:
    for differences, expected in (
        *(([1.0, 2.0, 5.0], 1), ([-1.0, -2.0], -1)),
        # Ranks 1, 2, 3, 4 with the signs −, +, +, −: (5 − 5) / 10.
        ([-1.0, 2.0, 3.0, -4.0], 0),
        # Ranks 1½, 1½, 3: (4.5 − 1.5) / 6; and 0 is no difference.
        ([1.0, -1.0, 4.0, 0.0], pytest.approx(0.5)),
    ):
        assert rank_biserial(differences) == expected
    assert all(math.isnan(rank_biserial(nothing)) for nothing in ([0.0, 0.0], []))


@given(SCORES, SCORES)
def test_shares_of_pairs_are_those_of_all_pairs(ones: list[float], twos: list[float]) -> None:
    pairs = list(itertools.product(ones, twos))
    above, below = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    assert cliffs_delta(ones, twos) == pytest.approx((above - below) / len(pairs), abs=1e-12)
    found, low, high = auc(ones, twos)
    assert found == pytest.approx((above + (len(pairs) - above - below) / 2) / len(pairs), abs=1e-12)
    assert 0 <= low <= found <= high <= 1
    assert low < high
    # The other way round everything is mirrored.
    assert auc(twos, ones) == pytest.approx((1 - found, 1 - high, 1 - low), abs=1e-9)


@given(SCORES, SCORES)
def test_the_curve_encloses_the_auc(ones: list[float], twos: list[float]) -> None:
    points = roc(ones, twos)
    assert points[[0, -1]].tolist() == [[0, 0], [1, 1]]
    assert (np.diff(points, axis=0) >= 0).all()
    assert len(points) == 1 + len({*ones, *twos})
    assert np.trapezoid(points[:, 1], points[:, 0]) == pytest.approx(auc(ones, twos)[0], abs=1e-12)


def test_the_interval_of_groups_that_are_apart_has_a_width() -> None:
    found, low, high = auc(range(10, 22), range(-12, 0))
    assert (found, high) == (1, 1)
    # By hand: (1 − θ)² = z² V(θ) with m = n = 12, apart from the root at 1.
    variance = low * (1 - low) * (1 + 11 * ((1 - low) / (2 - low) + low / (1 + low))) / 144
    assert (1 - low) ** 2 == pytest.approx(1.959963984540054**2 * variance, rel=1e-9)
    assert 0.75 < low < 0.9


def test_subjects_needed_by_hand() -> None:
    # All above 0: (1.6449 + 0.8416)² / (3 / 4) = 8.24.
    assert subjects_needed([1.0, 2.0, 3.0, 4.0, 5.0]) == 9
    # Of the ten pairs of −6, 1, 2, 3, 4 all four with −6 are below 0: p = 0.6, 6.18 / 0.03 = 206.1.
    assert subjects_needed([-6.0, 1.0, 2.0, 3.0, 4.0]) == 207
    assert subjects_needed([-6.0, 1.0, 2.0, 3.0, 4.0], power=0.5) == math.ceil(1.6448536**2 / 0.03)
    for never in ([-1, -2, -3, -4, 5], [-2, -1, 0, 1, 2, 3, -3], [1, 2, 3, 4, 0], []):
        assert subjects_needed(never) is None
