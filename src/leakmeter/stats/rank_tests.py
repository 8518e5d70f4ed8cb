"""Tests by ranks: differences pair by pair, two groups against each other, items each among others of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from leakmeter.stats.aggregates import aggregate
from leakmeter.stats.ranks import rank_biserial
from leakmeter.stats.stats import FloatArray, bootstrap_interval_of_mean

Alternative = Literal["two-sided", "greater"]
_EXACT_AT_MOST: Final = 200_000
"""Sums of ranks whose distribution is written out; of more items it is as good as normal."""


def signed_rank_p(values: npt.ArrayLike, others: npt.ArrayLike, *, alternative: Alternative = "two-sided") -> float:
    """p of Wilcoxon's signed-rank test (1945) that the differences of pairs, (item,), lie evenly about 0, in [0, 1].

    Pairs without a difference are left out, as Wilcoxon had it; where no pair has one, p is 1, and NaN for no items. Of
    few differences p is exact, of more than 50 it is a normal approximation that counts ties (`scipy.stats.wilcoxon`).
    """
    from scipy.stats import wilcoxon

    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if ones.shape != twos.shape:
        raise ValueError(f"{ones.size} values and {twos.size} others are no pairs")
    if not ones.size:
        return float("nan")
    # Chosen first: two infinite losses are equal, and have no difference.
    differ = ones != twos
    differences = ones[differ] - twos[differ]
    return float(wilcoxon(differences, alternative=alternative).pvalue) if differences.size else 1.0


def holm(ps: Sequence[float]) -> list[float]:
    """p values to those that hold together, by Holm's step-down rule (1979), in [0, 1], in the same order.

    Of m values in ascending order the k-th becomes max over j ≤ k of min(1, (m − j + 1) · p_j): rejecting those of at
    most α errs at all with probability α at most, however the tests depend on each other. NaN is no test, stays, and
    counts as none.
    """
    order = sorted((i for i, p in enumerate(ps) if not np.isnan(p)), key=lambda i: ps[i])
    adjusted = [float("nan")] * len(ps)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


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
    """p of Wilcoxon's rank-sum test (1945) that either of (item,) and (item,) is as likely the larger, in [0, 1].

    It is Mann and Whitney's test, too: exact for few items without ties, else a normal approximation that counts ties
    (`scipy.stats.mannwhitneyu`). NaN for no items, 1 where all are equal.
    """
    from scipy.stats import mannwhitneyu

    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if not ones.size or not twos.size:
        return float("nan")
    if np.unique(np.concatenate([ones, twos])).size == 1:
        return 1.0
    return float(mannwhitneyu(ones, twos, alternative=alternative).pvalue)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Values less others, in their unit."""

    differences: FloatArray
    """Of each pair, (pair,); 0 where both are infinite alike."""
    mean: float
    """NaN where one difference is −∞ and one ∞."""
    interval: tuple[float, float] | None
    """95 % bootstrap interval of the mean over pairs; None of one pair, and where a difference is infinite."""
    p_value: float
    """Of Wilcoxon's signed-rank test, two-sided."""
    rank_biserial: float
    """Effect size, in [−1, 1]: 1 where every difference is above 0; NaN where there is none."""

    def is_above(self, floor: float) -> bool:
        """Whether the values are larger, by more than chance and noise.

        One infinite difference is enough. Of one pair there is no interval, and the noise floor alone decides.
        """
        if np.isposinf(self.differences).any():
            return True
        return bool(self.mean > floor) and (self.interval is None or self.interval[0] > 0.0)

    def is_below(self, floor: float) -> bool:
        if np.isneginf(self.differences).any():
            return True
        return bool(self.mean < -floor) and (self.interval is None or self.interval[1] < 0.0)


def paired_difference(values: npt.ArrayLike, others: npt.ArrayLike, *, seed: int) -> PairedDifference:
    """Values less others over pairs, (pair,) each, infinite ones among them."""
    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if ones.shape != twos.shape or not ones.size:
        raise ValueError(f"{ones.size} values and {twos.size} others are no pairs")
    differences = np.subtract(ones, twos, out=np.zeros_like(ones), where=ones != twos)
    is_known = differences.size > 1 and bool(np.isfinite(differences).all())
    return PairedDifference(
        differences,
        aggregate(differences, "mean"),
        bootstrap_interval_of_mean(differences, seed=seed) if is_known else None,
        signed_rank_p(ones, twos),
        rank_biserial(differences),
    )
