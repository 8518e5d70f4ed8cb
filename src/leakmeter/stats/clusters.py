"""Statistics of items that are alike within clusters, such as queries about one relation.

An interval resamples clusters, with all items of each. A resample is how often each cluster is in it, and an item
counts as often as its cluster.

The percentile interval of a mean, simulated with 24 items a cluster that have two thirds of their variance in common,
covers in 94 % of draws of 60 clusters, 92 % of 20, 90 % of 10 and 85 % of 6, where it should in 95 %; in 93, 90, 87 and
81 % where clusters are as skew as an exponential. One that takes the items for independent covers in 34 %.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.ranks import signed_rank_p
from leakmeter.stats.stats import FloatArray

Statistic = Callable[[FloatArray], FloatArray]
"""How often each item counts, (resample, item), to a number of each resample; NaN where it has none."""

_TAIL: Final = 0.025
_AT_ONCE: Final = 1 << 20
"""Numbers of a block of resamples, so that many items take time and not memory."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic, and its 95 % interval over clusters."""

    value: float | None
    """None where nothing can be said."""
    interval: tuple[float, float] | None
    """Percentiles; None for a single cluster, or where over a tenth of the resamples have no value."""


class Resamples:
    """Draws of clusters, one an item, with replacement, as many as there are."""

    def __init__(self, clusters: Sequence[Hashable], *, seed: int, n_resamples: int = 2000) -> None:
        distinct = list(dict.fromkeys(clusters))
        number = {cluster: i for i, cluster in enumerate(distinct)}
        self.n_clusters = len(distinct)
        self.of_item = np.asarray([number[cluster] for cluster in clusters], dtype=np.int64)
        drawn = np.random.default_rng(seed).integers(0, max(len(distinct), 1), size=(n_resamples, len(distinct)))
        self.counts = (
            np.stack([np.bincount(draw, minlength=len(distinct)) for draw in drawn]) if distinct else drawn
        )  # (resample, cluster)

    def blocks(self) -> Iterator[FloatArray]:
        """How often each item is in each resample, (resample, item), in blocks of resamples."""
        size = max(1, _AT_ONCE // max(1, len(self.of_item)))
        for first in range(0, len(self.counts), size):
            yield self.counts[first : first + size, self.of_item].astype(np.float64)

    def estimate(self, statistic: Statistic) -> Estimate:
        (value,) = statistic(np.ones((1, len(self.of_item))))
        return self._estimate(float(value), lambda: np.concatenate([statistic(times) for times in self.blocks()]))

    def ratio(self, parts: npt.ArrayLike, wholes: npt.ArrayLike) -> Estimate:
        """Σ parts / Σ wholes of numbers of each item, (item,), and its interval; NaN where wholes are all 0."""
        part, whole = self._sums(parts), self._sums(wholes)
        return self._estimate(
            float(_divided(part.sum(), whole.sum())), lambda: _divided(self.counts @ part, self.counts @ whole)
        )

    def mean(self, values: npt.ArrayLike) -> Estimate:
        """Mean of one number an item, (item,), in the values' unit, and its interval."""
        return self.ratio(values, np.ones(len(self.of_item)))

    def signed_rank_p(self, differences: npt.ArrayLike) -> float:
        """Two-sided p of Wilcoxon's signed-rank test that clusters' mean differences, (item,), lie evenly about 0.

        Of n clusters that differ it is 2^(1 − n) or more, which for five is above 0.05; NaN for fewer than two
        clusters.
        """
        if self.n_clusters < 2:
            return float("nan")
        means = self._sums(differences) / np.bincount(self.of_item)
        return signed_rank_p(means, np.zeros(self.n_clusters))

    def _sums(self, values: npt.ArrayLike) -> FloatArray:
        """Sums over each cluster of one number an item, (item,)."""
        weights = np.asarray(values, dtype=np.float64)
        return np.bincount(self.of_item, weights=weights, minlength=self.n_clusters).astype(np.float64)

    def _estimate(self, value: float, resampled: Callable[[], FloatArray]) -> Estimate:
        if np.isnan(value):
            return Estimate(None, None)
        if self.n_clusters < 2:
            return Estimate(value, None)
        estimates = resampled()
        defined = estimates[~np.isnan(estimates)]
        if 10 * len(defined) < 9 * len(estimates):
            return Estimate(value, None)
        low, high = np.quantile(defined, [_TAIL, 1.0 - _TAIL])
        return Estimate(value, (float(low), float(high)))


def _divided(parts: npt.ArrayLike, wholes: npt.ArrayLike) -> FloatArray:
    whole = np.asarray(wholes, dtype=np.float64)
    is_whole = whole > 0
    return np.where(is_whole, np.asarray(parts, dtype=np.float64) / np.where(is_whole, whole, 1.0), np.nan)
