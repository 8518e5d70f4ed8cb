"""Tests of differences that belong together pair by pair: the same items under two settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Alternative = Literal["two-sided", "greater"]


def signed_rank_p(values: npt.ArrayLike, others: npt.ArrayLike, *, alternative: Alternative = "two-sided") -> float:
    """p of Wilcoxon's signed-rank test (1945) that the differences lie evenly about 0, in [0, 1].

    Pairs without a difference are left out, as Wilcoxon had it; where no pair has one, p is 1. Of few differences p is
    exact, of more than 50 it is a normal approximation that counts ties (`scipy.stats.wilcoxon`).

    Args:
        values: one number an item, (item,).
        others: of the same items in the same order, (item,).
        alternative: what speaks against chance: differences of either sign, or greater values.

    Returns:
        p; NaN for no items.

    Raises:
        ValueError: not as many of one as of the other.
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
    """p values to those that hold together, by Holm's step-down rule (1979), in [0, 1].

    Of m values in ascending order the k-th becomes max over j ≤ k of min(1, (m − j + 1) · p_j): rejecting those of at
    most α errs at all with probability α at most, however the tests depend on each other.

    Args:
        ps: in any order; NaN is no test, stays, and counts as none.

    Returns:
        As many, in the same order.
    """
    order = sorted((i for i, p in enumerate(ps) if not np.isnan(p)), key=lambda i: ps[i])
    adjusted = [float("nan")] * len(ps)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted
