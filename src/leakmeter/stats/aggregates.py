"""Aggregates of items: mean, median, extremes and percentiles, with intervals over the items; all may be infinite."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.stats import independent_items, interval_of_mean, interval_of_share

IntervalEnds = tuple[float, float]

EXTREMES: Final = ("min", "max")
"""Aggregates that say nothing of other items than those measured."""
FORMS: Final = ("mean", "median", *EXTREMES, "p1 … p99")
_CONFIDENCE: Final = 0.95
_PERCENTILE: Final = re.compile(r"p([1-9]\d?)")


def is_aggregate(name: str) -> bool:
    return name in ("mean", "median", *EXTREMES) or _PERCENTILE.fullmatch(name) is not None


def aggregate(values: npt.ArrayLike, name: str) -> float:
    """Percentiles are linear between order statistics; the mean of −∞ and ∞ is NaN.

    Raises `ValueError` for no values, for NaN among them, and for a name that is not in `FORMS`.
    """
    sample = np.sort(np.asarray(values, dtype=np.float64))
    if not sample.size or np.isnan(sample).any():
        raise ValueError(f"{name} is of one number or more, and of no NaN")
    if name == "mean":
        if math.isinf(sample[0]) and math.isinf(sample[-1]) and sample[0] != sample[-1]:
            return float("nan")
        return float(sample.mean())
    if name in EXTREMES:
        return float(sample[0 if name == "min" else -1])
    below, share = divmod(_level(name) * (sample.size - 1), 1.0)
    low, high = (float(sample[min(int(below) + step, sample.size - 1)]) for step in (0, 1))
    # Of an infinite number there is no share: ∞ − ∞ and 0 · ∞ have no meaning.
    return low if share == 0.0 or low == high or math.isinf(low) else low + share * (high - low)


def interval_of_aggregate(
    values: npt.ArrayLike, name: str, *, seed: int, is_share: bool = False, clusters: Sequence[Hashable] | None = None
) -> IntervalEnds | None:
    """95 % interval of an aggregate over the items; None of `EXTREMES`, of one item, and where `interval_of_mean` has
    none.

    Of the mean it is that of `interval_of_mean`, of the mean of zeros and ones Wilson's. Of the median and percentiles
    it is between order statistics: the number of items below the true percentile is binomial, whatever their
    distribution (Thompson, "On confidence ranges for the median and other expectation distributions for populations of
    unknown distribution form", 1936). Too few items leave an end infinite: the upper one of p95 below 72 items. A
    bootstrap never goes beyond the largest item, so that of p95 is far too narrow.

    Of items in `clusters`, one an item, within which they are alike, the mean's is over clusters, and all others are
    those of as many items as `independent_items` says.
    """
    sample = np.asarray(values, dtype=np.float64)
    if clusters is None or len(set(clusters)) == len(clusters):
        sample, clusters, n = np.sort(sample), None, float(sample.size)
    else:
        n = independent_items(clusters)
    if name in EXTREMES or sample.size < 2:
        return None
    if name == "mean":
        if is_share:
            return interval_of_share(float(sample.mean()) * n, n, confidence=_CONFIDENCE)
        return interval_of_mean(sample, seed=seed, clusters=clusters, confidence=_CONFIDENCE)
    from scipy.stats import binom

    level, tail, whole = _level(name), (1.0 - _CONFIDENCE) / 2.0, int(n)
    first, last = (int(binom.ppf(p, whole, level)) for p in (tail, 1.0 - tail))
    # Each independent item stands for so many neighbours in order, of which the outermost is on the safe side.
    ordered, each = np.sort(sample), Fraction(sample.size, whole)
    low = float(ordered[math.floor((first - 1) * each)]) if first else -math.inf
    high = float(ordered[math.ceil((last + 1) * each) - 1]) if last < whole else math.inf
    return low, high


def _level(name: str) -> float:
    """Of the median or a percentile, in (0, 1)."""
    if name == "median":
        return 0.5
    match = _PERCENTILE.fullmatch(name)
    if match is None:
        raise ValueError(f"no aggregate is named '{name}'; there are {', '.join(FORMS)}")
    return int(match[1]) / 100.0
