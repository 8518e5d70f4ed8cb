"""Tests by ranks, paired or not: by hand, against all that can happen written out, scipy, and drawing."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.stats.ranks import (
    PairedDifference,
    holm,
    paired_difference,
    rank_biserial,
    rank_sum_p,
    ranks_p,
    signed_rank_p,
)
from leakmeter.stats.stats import interval_of_mean_difference


@pytest.mark.parametrize("sizes", [(5,), (4, 4), (2, 3, 6), (7, 1, 3)])
def test_the_chance_of_a_sum_of_ranks_is_that_of_all_that_can_happen(sizes: tuple[int, ...]) -> None:
    everything = list(itertools.product(*(range(1, n + 1) for n in sizes)))
    for ranks in everything:
        expected = sum(sum(other) <= sum(ranks) for other in everything) / len(everything)
        assert ranks_p(ranks, sizes) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [3, 100])
def test_many_ranks_are_as_good_as_normal(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    ranks, sizes = rng.integers(1, n + 1, 300).tolist(), [n] * 300
    exact = ranks_p(ranks, sizes)
    monkeypatch.setattr("leakmeter.stats.ranks._EXACT_AT_MOST", sum(sizes))
    assert ranks_p(ranks, sizes) == exact
    monkeypatch.setattr("leakmeter.stats.ranks._EXACT_AT_MOST", 0)
    assert ranks_p(ranks, sizes) == pytest.approx(exact, abs=1e-4)


def test_two_groups_and_nothing() -> None:
    rng = np.random.default_rng(2)
    ones, twos = rng.normal(0.5, 1, 30), rng.normal(0, 1, 25)
    assert rank_sum_p(ones, twos) == pytest.approx(scipy.stats.ranksums(ones, twos).pvalue, rel=0.05)
    assert rank_sum_p(ones, twos, alternative="greater") < rank_sum_p(ones, twos)
    assert rank_sum_p([1.0, 1.0], [1.0]) == 1.0
    assert np.isnan(rank_sum_p([], [1.0]))
    assert ranks_p([], []) == 1.0
    for ranks, sizes in (([0], [3]), ([4], [3]), ([1, 2], [3])):
        with pytest.raises(ValueError):
            ranks_p(ranks, sizes)


@given(st.lists(st.integers(-9, 9).filter(bool), min_size=1, max_size=9))
def test_few_differences_are_enumerated(differences: list[int]) -> None:
    """p by all signs that the differences might have had: the definition."""
    ranks = scipy.stats.rankdata(np.abs(differences))
    seen = abs(float(ranks @ np.sign(differences)))
    sums = [abs(float(ranks @ signs)) for signs in itertools.product((-1.0, 1.0), repeat=len(differences))]
    expected = sum(one >= seen - 1e-9 for one in sums) / len(sums)
    assert signed_rank_p(differences, [0.0] * len(differences)) == pytest.approx(expected, abs=1e-12)


def test_cases_by_hand() -> None:
    for values, others, p in (
        # One pair has two possible signs, and either is as far from even.
        ([1.0], [0.0], 1.0),
        # All of five differences of one sign: 2 of 2^5 sign patterns.
        ([2.0, 3.0, 4.0, 5.0, 6.0], [1.0] * 5, 2 / 32),
        # Ranks 1, 2, 3 with signs +, +, −: W⁺ = 3 = W⁻, as even as can be.
        ([1.0, 2.0, 0.0], [0.0, 0.0, 3.0], 1.0),
        # Ranks 1 … 4, the smallest negative: |W| ≥ 8 has 4 of 16 patterns.
        ([0.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 0.0], 4 / 16),
        # Eleven against three of one size: 470 of 2^14 patterns have three or fewer above.
        ([1.0] * 11 + [0.0] * 3, [0.0] * 11 + [1.0] * 3, 2 * 470 / 2**14),
        # Pairs without a difference say nothing.
        ([1.0, 2.0], [1.0, 2.0], 1.0),
        ([math.inf, 1.0], [math.inf, 0.0], 1.0),
    ):
        assert signed_rank_p(values, others) == pytest.approx(p, abs=1e-12)
        assert signed_rank_p(others, values) == pytest.approx(p, abs=1e-12)
    assert signed_rank_p([5.0, *range(1, 7)], [5.0] + [0.0] * 6) == signed_rank_p(range(1, 7), [0.0] * 6)
    # Infinite losses are ranked.
    assert signed_rank_p([math.inf, 1.0, 2.0], [0.0, 0.5, 1.0]) == signed_rank_p([9.0, 1.0, 2.0], [0.0, 0.5, 1.0])
    assert math.isnan(signed_rank_p([], []))
    with pytest.raises(ValueError, match="2 values and 1 others are no pairs"):
        signed_rank_p([1.0, 2.0], [1.0])


def test_holm_by_hand() -> None:
    # 4 · 0.01, 3 · 0.02, 2 · 0.03 and 1 · 0.04, none below the one before it.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert (holm([0.5, 0.6]), holm([])) == ([1.0, 1.0], [])
    unknown, *adjusted = holm([math.nan, 0.01, 0.5])
    assert math.isnan(unknown)
    assert adjusted == [0.02, 0.5]


def test_many_differences_agree_with_scipy() -> None:
    values, others = np.random.default_rng(0).normal([[0.2], [0.0]], 1.0, (2, 300))
    assert signed_rank_p(values, others) == pytest.approx(scipy.stats.wilcoxon(values, others).pvalue, rel=1e-12)


@given(st.lists(st.floats(0.0, 1.0), max_size=8))
def test_holm_rejects_what_the_step_down_procedure_rejects(ps: list[float]) -> None:
    """The procedure as Holm wrote it, at several levels, against the adjusted values."""
    adjusted = holm(ps)
    for alpha in (0.01, 0.05, 0.3):
        rejected: set[int] = set()
        for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
            if (len(ps) - rank) * ps[i] > alpha:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected


ONES, TWOS = [3.0, 4.0, 6.0, 9.0, 2.5], [1.0, 2.0, 3.0, 4.0, 2.0]


def test_it_is_what_the_kernels_say() -> None:
    found = paired_difference(ONES, TWOS, seed=4)
    assert found.differences.tolist() == [2.0, 2.0, 3.0, 5.0, 0.5]
    assert found.mean == pytest.approx(2.5, rel=1e-12)
    assert found.interval is None
    assert found.p_value == signed_rank_p(ONES, TWOS)
    twice, others = [*ONES, *TWOS], [*TWOS, *TWOS]
    of_many = paired_difference(twice, others, seed=4).interval
    assert of_many is not None
    assert of_many == interval_of_mean_difference(twice, others, seed=4)
    assert found.rank_biserial == rank_biserial(found.differences) == 1.0


def test_beyond_chance_and_noise() -> None:
    found, other = paired_difference(ONES, TWOS, seed=4), paired_difference(TWOS, ONES, seed=4)
    scattered = paired_difference([1.0, -1.0, 2.0, -1.5], [0.0] * 4, seed=0)
    same = paired_difference([1.0, math.inf], [1.0, math.inf], seed=0)
    assert (same.differences.tolist(), same.mean, same.interval, same.p_value) == ([0.0, 0.0], 0.0, None, 1.0)
    assert math.isnan(same.rank_biserial)
    both = PairedDifference(np.asarray([-1.0, 0.4]), -0.3, (-1.0, 0.4), 0.5, 0.0)
    for one, noise, above, below in (
        *((found, 0.0, True, False), (found, 2.5, False, False), (other, 0.0, False, True), (other, 2.5, False, False)),
        # Chance is enough for neither side.
        *((one, 0.0, False, False) for one in (scattered, same, both, replace(both, mean=0.3))),
        (replace(both, interval=(-1.0, -0.1)), 0.0, False, True),
        (replace(both, mean=0.3, interval=(0.1, 0.4)), 0.0, True, False),
    ):
        assert (one.is_above(noise), one.is_below(noise)) == (above, below)
    # Without an interval every pair has to be larger; of one pair the noise floor decides.
    for ones, above in (([3.0, 2.0, 9.0], True), ([3.0, -0.1, 9.0], False), ([3.0, 0.0, 9.0], False)):
        few, fewer = paired_difference(ones, [0.0] * 3, seed=0), paired_difference([0.0] * 3, ones, seed=0)
        assert (few.is_above(1.0), few.is_below(1.0), few.is_above(5.0)) == (above, False, False)
        assert (fewer.is_above(1.0), fewer.is_below(1.0), fewer.is_below(5.0)) == (False, above, False)
    single = paired_difference([3.0], [1.0], seed=0)
    assert (single.interval, single.is_above(1.9), single.is_above(2.0)) == (None, True, False)


def test_infinite_is_enough() -> None:
    found = paired_difference([1.0, math.inf, 0.0], [1.0, 2.0, 5.0], seed=0)
    assert (found.mean, found.interval, found.is_above(1e9), found.is_below(0.0)) == (math.inf, None, True, False)
    both = paired_difference([math.inf, 1.0], [1.0, math.inf], seed=0)
    assert math.isnan(both.mean)
    assert (both.is_above(0.0), both.is_below(0.0)) == (True, True)
    for ones, twos in ([], []), ([1.0], [1.0, 2.0]):
        with pytest.raises(ValueError, match="no pairs"):
            paired_difference(np.asarray(ones), twos, seed=0)
