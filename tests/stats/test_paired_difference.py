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
    found, other = paired_difference(ONES, TWOS, seed=4), paired_difference(TWOS, ONES, seed=4)
    for one, above, below in ((found, True, False), (other, False, True)):
        assert (one.is_above(0.0), one.is_below(0.0)) == (above, below)
    assert not found.is_above(2.5)
    assert not other.is_below(2.5)
    scattered = paired_difference([1.0, -1.0, 2.0, -1.5], [0.0] * 4, seed=0)
    same = paired_difference([1.0, math.inf], [1.0, math.inf], seed=0)
    assert (same.differences.tolist(), same.mean, same.interval, same.p_value) == ([0.0, 0.0], 0.0, (0.0, 0.0), 1.0)
    assert math.isnan(same.rank_biserial)
    # Chance is enough for neither side.
    both = PairedDifference(np.asarray([-1.0, 0.4]), -0.3, (-1.0, 0.4), 0.5, 0.0)
    for one in (scattered, same, both, replace(both, mean=0.3)):
        assert not one.is_above(0.0)
        assert not one.is_below(0.0)
    assert replace(both, interval=(-1.0, -0.1)).is_below(0.0)
    assert replace(both, mean=0.3, interval=(0.1, 0.4)).is_above(0.0)
    # Of one pair the noise floor decides.
    single = paired_difference([3.0], [1.0], seed=0)
    assert (single.interval, single.is_above(1.9), single.is_above(2.0)) == (None, True, False)


def test_infinite_is_enough() -> None:
    found = paired_difference([1.0, math.inf, 0.0], [1.0, 2.0, 5.0], seed=0)
    assert (found.mean, found.interval) == (math.inf, None)
    assert found.is_above(1e9)
    assert not found.is_below(0.0)
    both = paired_difference([math.inf, 1.0], [1.0, math.inf], seed=0)
    assert math.isnan(both.mean)
    assert both.is_above(0.0)
    assert both.is_below(0.0)
    for ones, twos in ([], []), ([1.0], [1.0, 2.0]):
        with pytest.raises(ValueError, match="no pairs"):
            paired_difference(np.asarray(ones), twos, seed=0)
