"""Correlations against scipy, and their intervals against resamples that are written out item by item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.stats.agreement import held_out, pearson, spearman
from leakmeter.stats.clusters import ClusterEstimate, Resamples

FEW = 60


def drawn(seed: int = 0, n: int = 40, n_clusters: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Two numbers an item with ties, a third that both owe something to, and clusters of unequal size."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n).round(1)
    x, y = (np.round(z + rng.normal(size=n), 1) for _ in range(2))
    return x, y, z, [f"r{i}" for i in rng.integers(0, n_clusters, size=n)]


def interval_by_hand(over: Resamples, correlate: Callable[[np.ndarray], float]) -> tuple[float, float]:
    """Of every resample's items, each as often as its cluster was drawn."""
    items = np.arange(len(over.of_item))
    found = [correlate(np.repeat(items, counts[over.of_item])) for counts in over.counts]
    low, high = np.quantile(found, [0.025, 0.975])
    return (float(low), float(high))


def partial_by_hand(x: np.ndarray, y: np.ndarray, controls: list[np.ndarray]) -> float:
    """Pearson's correlation of what a regression on the controls' ranks leaves of the ranks."""
    of_x, of_y, *others = (scipy.stats.rankdata(one) for one in (x, y, *controls))
    design = np.column_stack([np.ones(len(x)), *others])
    left = [of - design @ np.linalg.lstsq(design, of, rcond=None)[0] for of in (of_x, of_y)]
    return float(scipy.stats.pearsonr(*left).statistic)


def test_correlations_and_intervals_are_those_of_resamples_written_out() -> None:
    x, y, z, clusters = drawn()
    other = np.asarray([float(cluster in ("r1", "r2", "r5")) for cluster in clusters])
    over = Resamples(clusters, seed=3, n_resamples=FEW)
    for found, by_hand in (
        (pearson(x, y, over), lambda i: scipy.stats.pearsonr(x[i], y[i]).statistic),
        (spearman(x, y, over), lambda i: scipy.stats.spearmanr(x[i], y[i]).statistic),
        (spearman(x, y, over, [z, other]), lambda i: partial_by_hand(x[i], y[i], [z[i], other[i]])),
    ):
        assert found.value == pytest.approx(by_hand(np.arange(len(x))), abs=1e-10)
        assert found.interval == pytest.approx(interval_by_hand(over, by_hand), abs=1e-10)


@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(-1e6, 1e6)), min_size=2, max_size=20))
def test_any_items_agree_with_scipy(items: list[tuple[int, float]]) -> None:
    x, y = (np.asarray(column, dtype=float) for column in zip(*items, strict=True))
    found = spearman(x, y, Resamples(range(len(x)), seed=0, n_resamples=2)).value
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-9)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _, clusters = drawn()
    over = Resamples(clusters, seed=0, n_resamples=FEW)
    whole = spearman(x, y, over)
    monkeypatch.setattr("leakmeter.stats.clusters._AT_ONCE", 7 * len(x))
    assert len(list(over.blocks())) == -(-FEW // 7)
    assert spearman(x, y, over).interval == pytest.approx(whole.interval, abs=1e-12)


def test_what_is_the_same_everywhere_has_no_correlation() -> None:
    x, y, z, clusters = drawn()
    over = Resamples(clusters, seed=0, n_resamples=FEW)
    same = np.full(len(x), 0.1)
    nothing = ClusterEstimate(None, None)
    assert pearson(same, y, over) == spearman(x, same, over) == nothing
    assert spearman(x, x, over, [x]) == spearman(same, y, over, [z]) == nothing
    # What is the same for all items controls nothing, and what is said twice is said once.
    assert spearman(x, y, over, [same]).value == pytest.approx(spearman(x, y, over).value or 0.0, abs=1e-12)
    once, twice = (spearman(x, y, over, controls).value for controls in ([z], [z, z]))
    assert once == pytest.approx(twice or 0.0, abs=1e-9)
    none = Resamples([], seed=0, n_resamples=FEW)
    assert pearson([], [], none) == spearman([], [], none) == nothing
    alone = spearman(x, y, Resamples(["r"] * len(x), seed=0, n_resamples=FEW))
    assert alone.value is not None
    assert alone.interval is None


def test_resamples_without_a_correlation_are_left_out_while_they_are_few() -> None:
    x, y = np.arange(12.0), np.arange(12.0)[::-1] ** 2
    # One cluster of eight differs from the others: a third of the resamples lack it, and nothing varies in them.
    eight = Resamples([*range(8)] * 2, seed=0, n_resamples=FEW)
    one, four = (np.repeat([[0.0] * (8 - n) + [1.0] * n], 2, axis=0).ravel() for n in (1, 4))
    assert spearman(one, np.arange(16.0), eight).interval is None
    assert spearman(four, np.arange(16.0), eight).interval is not None
    assert spearman(x, y, Resamples(range(12), seed=0, n_resamples=FEW)).interval == pytest.approx((-1.0, -1.0))


def test_no_pairs_and_no_numbers_are_refused() -> None:
    over = Resamples(["a", "b"], seed=0, n_resamples=FEW)
    with pytest.raises(ValueError, match="not of the same items"):
        pearson([1.0, 2.0], [1.0], over)
    with pytest.raises(ValueError, match="finite"):
        spearman([1.0, float("inf")], [1.0, 2.0], over)


def test_the_best_is_chosen_on_one_half_and_tried_on_the_other() -> None:
    x, y, _z, clusters = drawn(n=200, n_clusters=18)
    noise = np.random.default_rng(9).normal(size=200)
    predictors = [noise, x, np.ones(200), y + 0.1 * noise]
    found = held_out(predictors, y, clusters, reference=1, seed=4, n_resamples=FEW)
    assert found is not None
    assert (found.chosen, found.n_clusters) == (3, 9)
    names = list(dict.fromkeys(clusters))
    first = {names[i] for i in np.random.default_rng(4).permutation(len(names))[:9]}
    there = np.asarray([cluster not in first for cluster in clusters])
    assert found.n_items == there.sum()
    assert found.chosen_by == pytest.approx(scipy.stats.spearmanr(predictors[3][~there], y[~there]).statistic)
    over = Resamples([c for c in clusters if c not in first], seed=4, n_resamples=FEW)
    best, usual, of = predictors[3][there], x[there], y[there]
    assert (found.held_out, found.reference) == (spearman(best, of, over), spearman(usual, of, over))

    def more(i: np.ndarray) -> float:
        one, other = (scipy.stats.spearmanr(predictor[i], of[i]).statistic for predictor in (best, usual))
        return float(one - other)

    assert found.difference.value == pytest.approx(more(np.arange(there.sum())), abs=1e-10)
    assert found.difference.interval == pytest.approx(interval_by_hand(over, more), abs=1e-10)
    assert held_out(predictors, y, ["r"] * 200, reference=0, seed=0) is None
    assert held_out([np.ones(200)], y, clusters, reference=0, seed=0) is None
