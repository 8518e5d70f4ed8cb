"""The difference between two settings over items that belong together pair by pair: how large, how sure, how even."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakmeter.stats.aggregates import aggregate
from leakmeter.stats.paired import signed_rank_p
from leakmeter.stats.ranks import rank_biserial
from leakmeter.stats.stats import FloatArray, bootstrap_interval_of_mean


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

        Args:
            floor: amount by which noise may move the mean, in the unit.
        """
        if np.isposinf(self.differences).any():
            return True
        return bool(self.mean > floor) and (self.interval is None or self.interval[0] > 0.0)

    def is_below(self, floor: float) -> bool:
        """Whether the values are smaller, by more than chance and noise; see `is_above`."""
        if np.isneginf(self.differences).any():
            return True
        return bool(self.mean < -floor) and (self.interval is None or self.interval[1] < 0.0)


def paired_difference(values: npt.ArrayLike, others: npt.ArrayLike, *, seed: int) -> PairedDifference:
    """Values less others over pairs.

    Args:
        values: one or more, one number an item, infinite ones among them, (pair,).
        others: of the same items in the same order, (pair,).
        seed: of the bootstrap.

    Raises:
        ValueError: no pairs, or not as many of one as of the other.
    """
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
