"""Statistics of items that are alike within clusters, such as queries about one relation.

An interval resamples clusters, with all items of each. A resample is how often each cluster is in it, and an item
counts as often as its cluster. Of means and ratios it is `stats.stats.interval_of_ratio` over clusters; of other
statistics the percentiles over resamples. What both cover is in docs/results/intervals.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.ranks import signed_rank_p
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL, cluster_means, cluster_sums, interval_of_ratio

ResampledStatistic = Callable[[FloatArray], FloatArray]
"""How often each item counts, (resample, item), to a number of each resample; NaN where it has none."""

_TAIL: Final = 0.025
_AT_ONCE: Final = 1 << 20
"""Numbers of a block of resamples, so that many items take time and not memory."""


@dataclass(frozen=True, slots=True)
class ClusterEstimate:
    """A statistic, and its 95 % interval over clusters."""

    value: float | None
    """None where nothing can be said."""
    interval: tuple[float, float] | None
    """None for fewer clusters than `stats.FEWEST_FOR_INTERVAL`, for a mean or ratio that is the same in all, and where
    over a tenth of the resamples have no value."""


class Resamples:
    """Draws of clusters, one an item, with replacement, as many as there are."""

    def __init__(self, clusters: Sequence[Hashable], *, seed: int, n_resamples: int = 2000) -> None:
        distinct = list(dict.fromkeys(clusters))
        number = {cluster: i for i, cluster in enumerate(distinct)}
        self.n_clusters, self._seed = len(distinct), seed
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

    def estimate(self, statistic: ResampledStatistic) -> ClusterEstimate:
        (value,) = statistic(np.ones((1, len(self.of_item))))
        return self._estimate(float(value), lambda: np.concatenate([statistic(times) for times in self.blocks()]))

    def ratio(self, parts: npt.ArrayLike, wholes: npt.ArrayLike) -> ClusterEstimate:
        """Σ parts / Σ wholes of numbers of each item, (item,), and its interval over clusters that have a whole."""
        part, whole = (cluster_sums(numbers, self.of_item.tolist()) for numbers in (parts, wholes))
        part, whole = part[whole > 0], whole[whole > 0]
        if not whole.size:
            return ClusterEstimate(None, None)
        interval = interval_of_ratio(part, whole, seed=self._seed, n_resamples=len(self.counts))
        return ClusterEstimate(float(part.sum() / whole.sum()), interval)

    def mean(self, values: npt.ArrayLike) -> ClusterEstimate:
        """Mean of one number an item, (item,), in the values' unit, and its interval."""
        return self.ratio(values, np.ones(len(self.of_item)))

    def signed_rank_p(self, differences: npt.ArrayLike) -> float:
        """Two-sided p of Wilcoxon's signed-rank test that clusters' mean differences, (item,), lie evenly about 0.

        Of n clusters that differ it is 2^(1 − n) or more, which for five is above 0.05; NaN for fewer than two
        clusters.
        """
        if self.n_clusters < 2:
            return float("nan")
        return signed_rank_p(cluster_means(differences, self.of_item.tolist()), np.zeros(self.n_clusters))

    def _estimate(self, value: float, resampled: Callable[[], FloatArray]) -> ClusterEstimate:
        if np.isnan(value):
            return ClusterEstimate(None, None)
        if self.n_clusters < FEWEST_FOR_INTERVAL:
            return ClusterEstimate(value, None)
        estimates = resampled()
        defined = estimates[~np.isnan(estimates)]
        if 10 * len(defined) < 9 * len(estimates):
            return ClusterEstimate(value, None)
        low, high = np.quantile(defined, [_TAIL, 1.0 - _TAIL])
        return ClusterEstimate(value, (float(low), float(high)))
