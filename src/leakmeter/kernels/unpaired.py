"""Differences between items that have nothing to do with each other, such as real and invented entities."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def bootstrap_interval_of_difference(
    values: npt.ArrayLike, others: npt.ArrayLike, *, seed: int, confidence: float = 0.95, n_resamples: int = 2000
) -> tuple[float, float]:
    """Percentile bootstrap interval of mean(values) − mean(others), each resampled by itself, in the values' unit.

    Args:
        values: one number an item, (item,).
        others: of other items, (item,).
        seed: of the resamples.
        confidence: in (0, 1).
        n_resamples: number of resamples.

    Returns:
        (nan, nan) for fewer than two of either.
    """
    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if min(ones.size, twos.size) < 2:
        return (float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    means = [of[rng.integers(0, of.size, size=(n_resamples, of.size))].mean(axis=1) for of in (ones, twos)]
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means[0] - means[1], [tail, 1.0 - tail])
    return (float(low), float(high))


def rank_sum_p(values: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """Two-sided p of Wilcoxon's rank-sum test (1945) that either is as likely the larger, in [0, 1].

    It is Mann and Whitney's test, too: exact for few items without ties, else a normal approximation that counts ties
    (`scipy.stats.mannwhitneyu`).

    Args:
        values: one number an item, (item,).
        others: of other items, (item,).

    Returns:
        p; NaN for no items, 1 where all are equal.
    """
    from scipy.stats import mannwhitneyu

    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if not ones.size or not twos.size:
        return float("nan")
    if np.unique(np.concatenate([ones, twos])).size == 1:
        return 1.0
    return float(mannwhitneyu(ones, twos, alternative="two-sided").pvalue)
