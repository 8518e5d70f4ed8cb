"""Differences over pairs: how large, how sure, and when they are anything."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from leakmeter.stats.rank_tests import PairedDifference, paired_difference, signed_rank_p
from leakmeter.stats.ranks import rank_biserial
from leakmeter.stats.stats import bootstrap_interval_of_mean_difference

ONES, TWOS = [3.0, 4.0, 6.0, 9.0, 2.5], [1.0, 2.0, 3.0, 4.0, 2.0]


def test_it_is_what_the_kernels_say() -> None:
    found = paired_difference(ONES, TWOS, seed=4)
    assert found.differences.tolist() == [2.0, 2.0, 3.0, 5.0, 0.5]
    assert found.mean == pytest.approx(2.5, rel=1e-12)
    assert found.interval == bootstrap_interval_of_mean_difference(ONES, TWOS, seed=4)
    assert found.p_value == signed_rank_p(ONES, TWOS)
    assert found.rank_biserial == rank_biserial(found.differences) == 1.0


def test_beyond_chance_and_noise() -> None:
    found = paired_difference(ONES, TWOS, seed=4)
    assert found.is_above(0.0)
    assert not found.is_above(2.5)
    assert not found.is_below(0.0)
    other = paired_difference(TWOS, ONES, seed=4)
    assert other.is_below(0.0)
    assert not other.is_below(2.5)
    assert not other.is_above(0.0)


def test_what_scatters_about_0_is_nothing() -> None:
    found = paired_difference([1.0, -1.0, 2.0, -1.5], [0.0] * 4, seed=0)
    assert found.interval is not None
    assert found.interval[0] < 0 < found.interval[1]
    assert not found.is_above(0.0)
    assert not found.is_below(0.0)


def test_the_same_twice() -> None:
    found = paired_difference([1.0, math.inf], [1.0, math.inf], seed=0)
    assert found.differences.tolist() == [0.0, 0.0]
    assert (found.mean, found.interval, found.p_value) == (0.0, (0.0, 0.0), 1.0)
    assert math.isnan(found.rank_biserial)
    assert not found.is_above(0.0)
    assert not found.is_below(0.0)


def test_chance_is_enough_for_neither_side() -> None:
    both = PairedDifference(np.asarray([-1.0, 0.4]), -0.3, (-1.0, 0.4), 0.5, 0.0)
    assert not both.is_below(0.0)
    assert not replace(both, mean=0.3).is_above(0.0)
    assert replace(both, interval=(-1.0, -0.1)).is_below(0.0)
    assert replace(both, mean=0.3, interval=(0.1, 0.4)).is_above(0.0)


def test_infinite_is_enough() -> None:
    found = paired_difference([1.0, math.inf, 0.0], [1.0, 2.0, 5.0], seed=0)
    assert (found.mean, found.interval) == (math.inf, None)
    assert found.is_above(1e9)
    assert not found.is_below(0.0)
    both = paired_difference([math.inf, 1.0], [1.0, math.inf], seed=0)
    assert math.isnan(both.mean)
    assert both.is_above(0.0)
    assert both.is_below(0.0)


def test_of_one_pair_the_noise_floor_decides() -> None:
    found = paired_difference([3.0], [1.0], seed=0)
    assert found.interval is None
    assert found.is_above(1.9)
    assert not found.is_above(2.0)


@pytest.mark.parametrize(("ones", "twos"), [([], []), ([1.0], [1.0, 2.0])])
def test_what_are_no_pairs(ones: list[float], twos: list[float]) -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_difference(np.asarray(ones), twos, seed=0)
