"""Tests by ranks of many items: each among others of its own, and two groups of items against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.paired import Alternative

_EXACT_AT_MOST: Final = 200_000
"""Sums of ranks whose distribution is written out; of more items it is as good as normal."""


def ranks_p(ranks: Sequence[int], sizes: Sequence[int]) -> float:
    """One-sided p that ranks are no higher than chance has them, in (0, 1].

    Where an item is one of n that nothing tells apart, its rank is any of 1 to n, each as likely. p is the chance of a
    sum of ranks as small as this one: exact for up to some thousand items, from a normal distribution with the same
    mean and variance beyond.

    Args:
        ranks: of each item, from 1 for the highest.
        sizes: how many each is one of, itself among them.

    Returns:
        p; 1 for no items.

    Raises:
        ValueError: a rank out of range, or not as many of one as of the other.
    """
    if any(not 1 <= rank <= size for rank, size in zip(ranks, sizes, strict=True)):
        raise ValueError("a rank is below 1, or above the number of those ranked")
    if sum(sizes) > _EXACT_AT_MOST:
        from scipy.stats import norm

        mean, variance = sum((n + 1) / 2 for n in sizes), sum((n * n - 1) / 12 for n in sizes)
        return float(norm.cdf((sum(ranks) + 0.5 - mean) / np.sqrt(variance)))
    chances = np.ones(1)
    for n in sizes:
        # A sum over a window of n, of what the items before have added up to.
        ends = np.concatenate([chances.cumsum(), np.full(n - 1, chances.sum())])
        chances = (ends - np.concatenate([np.zeros(n), ends[:-n]])) / n
    below = sum(ranks) - len(ranks)
    return float(min(1.0, chances[: below + 1].sum()))


def rank_sum_p(values: npt.ArrayLike, others: npt.ArrayLike, *, alternative: Alternative = "two-sided") -> float:
    """p of Wilcoxon's rank-sum test (1945) that either is as likely the larger, in [0, 1].

    It is Mann and Whitney's test, too: exact for few items without ties, else a normal approximation that counts ties
    (`scipy.stats.mannwhitneyu`).

    Args:
        values: one number an item, (item,).
        others: of other items, (item,).
        alternative: what speaks against chance: a difference of either sign, or greater values.

    Returns:
        p; NaN for no items, 1 where all are equal.
    """
    from scipy.stats import mannwhitneyu

    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if not ones.size or not twos.size:
        return float("nan")
    if np.unique(np.concatenate([ones, twos])).size == 1:
        return 1.0
    return float(mannwhitneyu(ones, twos, alternative=alternative).pvalue)
