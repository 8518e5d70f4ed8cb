"""Means and ratios of alike items against resamples that are written out item by item, and a test of clusters."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from leakmeter.stats.clusters import ClusterEstimate, Resamples
from leakmeter.stats.stats import interval_of_mean, interval_of_ratio

FEW = 60
CLUSTERS = ["a", "b", "a", "c", "b", "a", "d"]
VALUES = np.asarray([1.0, 4.0, 2.0, -3.0, 0.5, 2.5, 9.0])
MANY = [*CLUSTERS, *"efghe"]
OF_MANY = np.asarray([*VALUES, 0.0, 1.5, 2.5, 7.0, 3.0])


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
    over = Resamples(MANY, seed=3, n_resamples=FEW)
    found = over.estimate(lambda times: times @ OF_MANY / times.sum(axis=1))
    assert found.value == pytest.approx(OF_MANY.mean())
    by_hand = np.quantile([OF_MANY[items].mean() for items in written_out(over)], [0.025, 0.975])
    assert found.interval == pytest.approx(tuple(by_hand))
    # That of a mean is Student's and the studentised bootstrap's, over sums and numbers of items of clusters.
    mean = over.mean(OF_MANY)
    members = [np.flatnonzero(over.of_item == number) for number in range(8)]
    sums, sizes = [OF_MANY[items].sum() for items in members], [len(items) for items in members]
    assert mean.value == pytest.approx(found.value)
    assert mean.interval == interval_of_ratio(sums, sizes, seed=3, n_resamples=FEW)
    # Clusters of one item are items.
    alone = Resamples(range(12), seed=3, n_resamples=FEW).mean(OF_MANY)
    assert alone.interval == pytest.approx(interval_of_mean(OF_MANY, seed=3, n_resamples=FEW))


def test_a_ratio_is_of_sums_and_has_no_value_where_there_is_nothing() -> None:
    parts, wholes = [1, 0, 2, 3, 0, 1, 0, 2, 1, 0, 1, 2], [2, 0, 3, 4, 0, 1, 1, 2, 2, 3, 1, 4]
    over = Resamples([*MANY[:-1], "i"], seed=3, n_resamples=FEW)
    found = over.ratio(parts, wholes)
    assert found.value == pytest.approx(13 / 23)
    # The cluster "b" has no whole: it is not there.
    of_clusters = [4, 3, 0, 2, 1, 0, 1, 2], [6, 4, 1, 2, 2, 3, 1, 4]
    assert found.interval == interval_of_ratio(*of_clusters, seed=3, n_resamples=FEW)
    assert found.interval is not None
    assert over.ratio(np.zeros(12), np.zeros(12)) == ClusterEstimate(None, None)
    # Few clusters have any.
    assert over.ratio([0, 0, 0, 1, *[0] * 8], [0, 0, 0, 1, *[0] * 8]) == ClusterEstimate(1.0, None)


def test_a_single_cluster_has_no_interval_and_no_p() -> None:
    over = Resamples(["a"] * 7, seed=0, n_resamples=FEW)
    assert over.mean(VALUES) == ClusterEstimate(pytest.approx(VALUES.mean()), None)
    assert np.isnan(over.signed_rank_p(VALUES))
    none = Resamples([], seed=0, n_resamples=FEW)
    assert none.mean([]) == ClusterEstimate(None, None)
    assert np.isnan(none.signed_rank_p([]))


def test_p_is_of_the_means_of_clusters() -> None:
    over = Resamples(CLUSTERS, seed=0, n_resamples=FEW)
    means = [VALUES[[0, 2, 5]].mean(), VALUES[[1, 4]].mean(), VALUES[3], VALUES[6]]
    assert over.signed_rank_p(VALUES) == pytest.approx(scipy.stats.wilcoxon(means).pvalue)
    assert over.signed_rank_p(np.zeros(7)) == 1.0
    for n, p in ((5, 0.0625), (6, 0.03125)):
        assert Resamples([*range(n)] * 9, seed=0, n_resamples=2).signed_rank_p(np.arange(1.0, 9 * n + 1)) == p


def test_an_interval_needs_nine_of_ten_resamples() -> None:
    resamples = Resamples("abcdefgh", seed=0)
    for n_unknown, interval in ((1, (2.0, 2.0)), (2, None)):
        found = np.asarray([np.nan] * n_unknown + [2.0] * (10 - n_unknown))
        assert resamples._estimate(2.0, lambda found=found: found) == ClusterEstimate(2.0, interval)
