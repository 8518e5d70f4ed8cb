"""Means and ratios of alike items against resamples that are written out item by item, and a test of clusters."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from leakmeter.stats.clusters import Estimate, Resamples

FEW = 60
CLUSTERS = ["a", "b", "a", "c", "b", "a", "d"]
VALUES = np.asarray([1.0, 4.0, 2.0, -3.0, 0.5, 2.5, 9.0])


def written_out(over: Resamples) -> list[np.ndarray]:
    """The items of each resample, each as often as its cluster was drawn."""
    return [np.repeat(np.arange(len(over.of_item)), counts[over.of_item]) for counts in over.counts]


def test_resamples_are_of_clusters_with_all_their_items() -> None:
    over = Resamples(CLUSTERS[:6], seed=0, n_resamples=FEW)
    assert over.n_clusters == 3
    assert (over.counts.sum(axis=1) == 3).all()
    (times,) = over.blocks()
    assert times.shape == (FEW, 6)
    assert (times[:, 0] == times[:, 2]).all()
    assert (times[:, 0] == times[:, 5]).all()
    assert {tuple(row) for row in over.counts.tolist()} > {(1, 1, 1), (3, 0, 0)}


def test_a_mean_and_its_interval_are_those_of_resamples_written_out() -> None:
    over = Resamples(CLUSTERS, seed=3, n_resamples=FEW)
    found = over.mean(VALUES)
    assert found.value == pytest.approx(VALUES.mean())
    by_hand = np.quantile([VALUES[items].mean() for items in written_out(over)], [0.025, 0.975])
    assert found.interval == pytest.approx(tuple(by_hand))
    of_items = over.estimate(lambda times: times @ VALUES / times.sum(axis=1))
    assert (found.value, found.interval) == (pytest.approx(of_items.value), pytest.approx(of_items.interval))


def test_a_ratio_is_of_sums_and_has_no_value_where_there_is_nothing() -> None:
    parts, wholes = [1, 0, 2, 3, 0, 1, 0], [2, 0, 3, 4, 0, 1, 0]
    over = Resamples(CLUSTERS, seed=3, n_resamples=FEW)
    found = over.ratio(parts, wholes)
    assert found.value == pytest.approx(7 / 10)
    sums = [(np.take(parts, items).sum(), np.take(wholes, items).sum()) for items in written_out(over)]
    by_hand = np.quantile([part / whole for part, whole in sums if whole], [0.025, 0.975])
    assert found.interval == pytest.approx(tuple(by_hand))
    assert over.ratio(np.zeros(7), np.zeros(7)) == Estimate(None, None)
    # One cluster alone has any: a third of the resamples of four have nothing.
    assert over.ratio([0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0]) == Estimate(1.0, None)


def test_a_single_cluster_has_no_interval_and_no_p() -> None:
    over = Resamples(["a"] * 7, seed=0, n_resamples=FEW)
    assert over.mean(VALUES) == Estimate(pytest.approx(VALUES.mean()), None)
    assert np.isnan(over.signed_rank_p(VALUES))
    none = Resamples([], seed=0, n_resamples=FEW)
    assert none.mean([]) == Estimate(None, None)
    assert np.isnan(none.signed_rank_p([]))


def test_p_is_of_the_means_of_clusters() -> None:
    over = Resamples(CLUSTERS, seed=0, n_resamples=FEW)
    means = [VALUES[[0, 2, 5]].mean(), VALUES[[1, 4]].mean(), VALUES[3], VALUES[6]]
    assert over.signed_rank_p(VALUES) == pytest.approx(scipy.stats.wilcoxon(means).pvalue)
    assert over.signed_rank_p(np.zeros(7)) == 1.0
    for n, p in ((5, 0.0625), (6, 0.03125)):
        assert Resamples([*range(n)] * 9, seed=0, n_resamples=2).signed_rank_p(np.arange(1.0, 9 * n + 1)) == p


def test_an_interval_needs_nine_of_ten_resamples() -> None:
    resamples = Resamples(["a", "b"], seed=0)
    for n_unknown, interval in ((1, (2.0, 2.0)), (2, None)):
        found = np.asarray([np.nan] * n_unknown + [2.0] * (10 - n_unknown))
        assert resamples._estimate(2.0, lambda found=found: found) == Estimate(2.0, interval)
