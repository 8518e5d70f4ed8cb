"""Many numbers to one: mean, median, extremes and percentiles, each with its interval over the items.

Infinite numbers are numbers: one makes the mean infinite, and the maximum. Missing ones are the caller's to leave out.
"""

from __future__ import annotations

import math
import re
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.stats import bootstrap_interval_of_mean, interval_of_share

Interval = tuple[float, float]

EXTREMES: Final = ("min", "max")
"""What says something of the items that were measured, and nothing of others."""
FORMS: Final = ("mean", "median", *EXTREMES, "p1 … p99")
"""The aggregates there are, as a message lists them."""
_CONFIDENCE: Final = 0.95
_PERCENTILE: Final = re.compile(r"p([1-9]\d?)")


def is_aggregate(name: str) -> bool:
    return name == "mean" or name in EXTREMES or _level(name) is not None


def aggregate(values: npt.ArrayLike, name: str) -> float:
    """One number of many, in their unit; percentiles are linear between order statistics.

    NaN for the mean of −∞ and ∞, and `ValueError` for no values, for NaN among them, or for a name that is not in
    `FORMS`.
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
    level = _level(name)
    if level is None:
        raise ValueError(_unknown(name))
    below, share = divmod(level * (sample.size - 1), 1.0)
    low, high = (float(sample[min(int(below) + step, sample.size - 1)]) for step in (0, 1))
    # Of an infinite number there is no share: ∞ − ∞ and 0 · ∞ have no meaning.
    return low if share == 0.0 or low == high or math.isinf(low) else low + share * (high - low)


def interval_of_aggregate(values: npt.ArrayLike, name: str, *, seed: int, is_share: bool = False) -> Interval | None:
    """95 % interval over the items of an aggregate, in their unit; None of `EXTREMES`, which say nothing of other
    items; of one item; and of the mean where a number is infinite.

    Of the mean the percentile bootstrap's; of the mean of zeros and ones Wilson's. Of the median and of percentiles it
    is between order statistics: the number of items below the true percentile is binomial, whatever their distribution
    (Thompson, "On confidence ranges for the median and other expectation distributions for populations of unknown
    distribution form", 1936). It is infinite where so few items do not bound it: of p95, up from 72 items. A bootstrap
    never goes beyond the largest item, and of p95 it is far too narrow.
    """
    sample = np.sort(np.asarray(values, dtype=np.float64))
    if name in EXTREMES or sample.size < 2:
        return None
    if name == "mean":
        if is_share:
            return interval_of_share(int(sample.sum()), sample.size, confidence=_CONFIDENCE)
        is_finite = bool(np.isfinite(sample).all())
        return bootstrap_interval_of_mean(sample, seed=seed, confidence=_CONFIDENCE) if is_finite else None
    from scipy.stats import binom

    level, tail = _level(name), (1.0 - _CONFIDENCE) / 2.0
    if level is None:
        raise ValueError(_unknown(name))
    first, last = (int(binom.ppf(p, sample.size, level)) for p in (tail, 1.0 - tail))
    low = float(sample[first - 1]) if first else -math.inf
    high = float(sample[last]) if last < sample.size else math.inf
    return low, high


def _unknown(name: str) -> str:
    return f"no aggregate is named '{name}'; there are {', '.join(FORMS)}"


def _level(name: str) -> float | None:
    if name == "median":
        return 0.5
    match = _PERCENTILE.fullmatch(name)
    return None if match is None else int(match[1]) / 100.0
