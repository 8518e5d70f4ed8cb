"""Knees of sweeps, against the slow and obvious way; and what may not change them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leakmeter.stats.frontier import (
    NO_KNEE,
    differ_beyond_chance,
    efficient,
    gains_beyond_chance,
    knee_shares,
    knees,
    resampled_means,
)

# Coarse numbers meet each other and lie on lines; nothing comes from rounding.
coarse = st.integers(0, 12).map(float)
points = st.integers(1, 7).flatmap(lambda n: st.tuples(*(arrays(np.float64, n, elements=coarse) for _ in range(2))))


def ends(leaks: np.ndarray, uses: np.ndarray) -> tuple[int, int]:
    numbers = range(len(leaks))
    return min(numbers, key=lambda i: (leaks[i], -uses[i])), min(numbers, key=lambda i: (-uses[i], leaks[i]))


@example((np.array([5.0, 0.0, 0.0, 9.0, 2.0]), np.array([7.0, 0.0, 5.0, 8.0, 6.0])))
@given(points)
def test_the_knee_is_the_point_farthest_above_the_chord(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Of a unit square between the ends."""
    (leaks, uses), found = pair, int(knees(*pair))
    a, b = ends(leaks, uses)
    if uses[b] <= uses[a]:
        assert found == NO_KNEE
        return
    heights = ((uses - uses[a]) / (uses[b] - uses[a]) - (leaks - leaks[a]) / (leaks[b] - leaks[a])).tolist()
    if max(heights) < 1e-9:
        assert found == NO_KNEE
    else:
        assert heights[found] == pytest.approx(max(heights), abs=1e-12)
        assert not [i for i in range(found) if heights[i] > heights[found] - 1e-13]


@given(points)
def test_the_hull_is_what_no_point_and_no_mix_of_two_matches(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """In both, between the ends; and the ends."""
    every = list(zip(*(of.tolist() for of in pair), strict=True))
    first, last = (every[i] for i in ends(*pair))

    def is_matched(x: float, y: float) -> bool:
        for (x0, y0), (x1, y1) in itertools.product({*every} - {(x, y)}, repeat=2):
            if (x0 <= x and y0 >= y) or (x0 < x < x1 and y0 + (y1 - y0) * (x - x0) / (x1 - x0) >= y - 1e-12):
                return True
        return False

    hull = [every[i] for i in efficient(*pair)]
    assert {*hull} == {first, last} | {(x, y) for x, y in every if x < last[0] and not is_matched(x, y)}
    assert len(hull) == len({*hull})
    assert [efficient(*pair)[i] for i in (0, -1)] == [*ends(*pair)]


def test_knees_by_hand() -> None:
    # Scaled: (0, 0), (¼, ¾), (½, 9/10), (1, 1): ½ above the chord at the second, 0.4 at the third.
    assert int(knees([0, 1, 2, 4], [10, 25, 28, 30])) == 1
    # A line, a curve that bends up, utility that falls, two settings, one, all of the same leakage or utility; and
    # thirds are on the chord, whatever rounding says.
    for leaks, uses in (
        *(([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [0, 0, 5]), ([0, 1, 2], [5, 4, 3]), ([0, 1], [0, 1]), ([3], [3])),
        *(([1, 1, 1], [0, 1, 2]), ([0, 1, 2], [1, 1, 1]), ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])),
    ):
        assert int(knees(leaks, uses)) == NO_KNEE


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 9))
def test_many_sweeps_at_once_are_one_after_another(n_sweeps: int, n_settings: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaks, uses = rng.integers(0, 9, size=(2, n_sweeps, n_settings)).astype(float)
    assert knees(leaks, uses).tolist() == [int(knees(x, y)) for x, y in zip(leaks, uses, strict=True)]


def test_resampled_means_are_those_of_the_bootstrap_and_paired() -> None:
    values = np.random.default_rng(0).exponential(size=(13, 3))
    found = resampled_means(np.column_stack([values, values[:, 0]]), seed=4)
    assert found.shape == (2000, 4)
    drawn = np.random.default_rng(4).integers(0, 13, size=(2000, 13))
    assert found[:, :3] == pytest.approx(np.stack([values[cases].mean(axis=0) for cases in drawn]), rel=1e-12)
    # Equal settings are equal in every resample, to the last bit.
    assert (found[:, 0] == found[:, 3]).all()
    # Every resample takes the same cases of each setting.
    shifted = resampled_means(np.column_stack([values[:, 0], values[:, 0] + 8.0]), seed=4)
    assert shifted[:, 1] - shifted[:, 0] == pytest.approx(np.full(2000, 8.0), abs=1e-12)


def test_shares_are_exact_where_resamples_can_be_enumerated() -> None:
    # Two cases: in one the knee is setting 1, in the other there is none. Both cases with probability ½, each alone ¼.
    leakage = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    utility = np.array([[0.0, 3.0, 3.5], [0.0, 0.0, 4.0]])
    leaks, uses = (resampled_means(values, seed=0, n_resamples=20_000) for values in (leakage, utility))
    shares = knee_shares(leaks, uses)
    # Together (0, 1.5, 3.75) lies below its chord: only the first case alone has a knee. 5 standard errors: 0.0153.
    assert shares.of_setting[1] == pytest.approx(0.25, abs=0.0153)
    assert shares.of_setting[0] == shares.of_setting[2] == 0.0
    assert shares.none + sum(shares.of_setting) == pytest.approx(1.0, abs=1e-12)


def test_settings_that_are_the_same_are_seldom_found_to_gain() -> None:
    rng = np.random.default_rng(0)
    n_found, n_sweeps = 0, 200
    for _ in range(n_sweeps):
        # As utilities are: what makes a case easy is easy under all settings.
        values = 0.15 + 0.05 * (rng.normal(size=(12, 1)) + rng.normal(size=(12, 8)))
        found = gains_beyond_chance(values, resampled_means(values, seed=0, n_resamples=400), 0)
        n_found += bool(found)
        assert 0 not in found
    # The best of eight unadjusted: about 30 %.
    assert n_found <= most_by_chance(n_sweeps)


@pytest.mark.parametrize(("n_cases", "n_settings"), [(8, 2), (8, 7), (12, 7), (50, 7)])
def test_settings_that_are_the_same_seldom_differ(n_cases: int, n_settings: int) -> None:
    rng = np.random.default_rng(0)
    n_found, n_sweeps = 0, 400
    for _ in range(n_sweeps):
        # As leakages are: skewed, and what leaks much leaks much under all settings.
        values = rng.gamma(2.0, 2.0, size=(n_cases, 1)) + rng.normal(size=(n_cases, n_settings))
        n_found += differ_beyond_chance(values, resampled_means(values, seed=0))
    # The most of seven less the least, as if that had not been chosen: about 30 %.
    assert n_found <= most_by_chance(n_sweeps)


def most_by_chance(n: int) -> float:
    """Of n with a chance of 5 % each, two standard errors above the mean."""
    return 0.05 * n + 2.0 * (0.05 * 0.95 * n) ** 0.5


def test_a_gain_is_found_and_a_loss_is_none() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, size=(30, 1)) + rng.normal(0, 0.2, size=(30, 4)) + [0.0, 0.02, 1.0, -1.0]
    resampled = resampled_means(values, seed=0)
    assert gains_beyond_chance(values, resampled, 0) == [2]
    assert gains_beyond_chance(values, resampled, 3) == [0, 1, 2]
    assert differ_beyond_chance(values, resampled)
    # Nothing differs at all.
    same = np.ones((5, 3))
    assert gains_beyond_chance(same, resampled_means(same, seed=0), 1) == []
    assert not differ_beyond_chance(same, resampled_means(same, seed=0))
