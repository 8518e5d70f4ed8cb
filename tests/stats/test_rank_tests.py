"""Tests by ranks against all that can happen, written out, and against drawing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from leakmeter.stats import rank_tests
from leakmeter.stats.rank_tests import rank_sum_p, ranks_p


@pytest.mark.parametrize("sizes", [(5,), (4, 4), (2, 3, 6), (7, 1, 3)])
def test_the_chance_of_a_sum_of_ranks_is_that_of_all_that_can_happen(sizes: tuple[int, ...]) -> None:
    everything = list(itertools.product(*(range(1, n + 1) for n in sizes)))
    for ranks in everything:
        expected = sum(sum(other) <= sum(ranks) for other in everything) / len(everything)
        assert ranks_p(ranks, sizes) == pytest.approx(expected, abs=1e-12)


def test_many_ranks_are_as_good_as_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    ranks, sizes = rng.integers(1, 101, 300).tolist(), [100] * 300
    exact = ranks_p(ranks, sizes)
    monkeypatch.setattr(rank_tests, "_EXACT_AT_MOST", 0)
    assert ranks_p(ranks, sizes) == pytest.approx(exact, abs=1e-4)


def test_chance_is_rejected_as_often_as_it_may_be() -> None:
    rng = np.random.default_rng(1)
    ps = [ranks_p(rng.integers(1, 52, 12).tolist(), [51] * 12) for _ in range(800)]
    assert np.mean(np.asarray(ps) <= 0.05) == pytest.approx(0.05, abs=0.023)


def test_two_groups_and_nothing() -> None:
    rng = np.random.default_rng(2)
    ones, twos = rng.normal(0.5, 1, 30), rng.normal(0, 1, 25)
    assert rank_sum_p(ones, twos) == pytest.approx(stats.ranksums(ones, twos).pvalue, rel=0.05)
    assert rank_sum_p(ones, twos, alternative="greater") < rank_sum_p(ones, twos)
    assert rank_sum_p([1.0, 1.0], [1.0]) == 1.0
    assert np.isnan(rank_sum_p([], [1.0]))
    assert ranks_p([], []) == 1.0
    for ranks, sizes in (([0], [3]), ([4], [3]), ([1, 2], [3])):
        with pytest.raises(ValueError):
            ranks_p(ranks, sizes)
