"""Small statistics of measurements; the posterior that a result shows, and where it shows none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_DRAWN_AT_ONCE: Final = 1_000_000  # numbers of a bootstrap


def posterior_from_even_odds(signed_nats: float) -> float:
    """Posterior probability of one of two hypotheses, prior 1/2, by Bayes' rule: 1 / (1 + e^−s).

    s is the log-likelihood ratio log p(seen | this one) − log p(seen | the other), nats; −∞ and ∞ are allowed. A sum of
    absolute values is no log-likelihood ratio: of it this is only an upper bound.
    """
    small = math.exp(-abs(signed_nats))  # at most 1: nothing overflows, and the smaller side keeps its digits
    return 1.0 / (1.0 + small) if signed_nats >= 0 else small / (1.0 + small)


def bootstrap_interval_of_mean(
    values: npt.ArrayLike, *, seed: int, confidence: float = 0.95, n_resamples: int = 2000
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean, in the values' unit; (nan, nan) for fewer than two values."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return (float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    # A few resamples at a time draw the same numbers as all at once, and take less memory.
    at_once = max(1, _DRAWN_AT_ONCE // sample.size)
    sizes = [min(at_once, n_resamples - first) for first in range(0, n_resamples, at_once)]
    means = np.concatenate([sample[rng.integers(0, sample.size, size=(n, sample.size))].mean(axis=1) for n in sizes])
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return (float(low), float(high))


def bootstrap_interval_of_mean_difference(
    values: npt.ArrayLike, others: npt.ArrayLike, *, seed: int
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of `values` − `others`, (item,) each, paired."""
    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if ones.shape != twos.shape:
        raise ValueError(f"{ones.size} values and {twos.size} others are no pairs")
    return bootstrap_interval_of_mean(ones - twos, seed=seed)


def mean(values: npt.ArrayLike) -> float:
    """NaN for no values."""
    sample = np.asarray(values, dtype=np.float64)
    return float(sample.mean()) if sample.size else float("nan")


def quantiles(values: npt.ArrayLike, levels: Sequence[float]) -> list[float]:
    """Quantiles, linear between order statistics, in the values' unit; NaN for no values."""
    sample = np.asarray(values, dtype=np.float64)
    if not sample.size:
        return [float("nan")] * len(levels)
    return [float(value) for value in np.quantile(sample, levels)]


def interval_of_share(n_hits: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Interval, in [0, 1], of the probability behind `n_hits` of `n` (Wilson 1927); (nan, nan) for none at all.

    Unlike the bootstrap's it has a width where no item or every item is a hit.
    """
    if n == 0:
        return (float("nan"), float("nan"))
    z2 = NormalDist().inv_cdf(0.5 + confidence / 2.0) ** 2
    centre = (n_hits + z2 / 2.0) / (n + z2)
    half = float(np.sqrt(z2 * (n_hits * (n - n_hits) / n + z2 / 4.0)) / (n + z2))
    return (max(centre - half, 0.0) if n_hits else 0.0, min(centre + half, 1.0) if n_hits < n else 1.0)


BELOW_NOISE: Final = "below the noise floor"
BELOW_PLACEBO: Final = "below the placebo"
UNDEFINED: Final = "undefined: impossible with it and without it"


class Posterior(NamedTuple):
    """What an observer concludes, or why that is not said; one of them is None."""

    probability: float | None
    """That the piece was there, from even odds."""
    note: str | None


def posterior_of(signed_nats: float, *, noise_nats: float, placebo_nats: float | None = None) -> Posterior:
    """The posterior from even odds, where the signed sum is larger in size than what moves it without meaning
    anything: Σ_t of each token's noise, in size, and that of an irrelevant piece; None where none was measured."""
    size = abs(signed_nats)
    if math.isnan(size):
        return Posterior(None, UNDEFINED)
    if size <= noise_nats:
        return Posterior(None, BELOW_NOISE)
    if placebo_nats is not None and size <= placebo_nats:
        return Posterior(None, BELOW_PLACEBO)
    return Posterior(posterior_from_even_odds(signed_nats), None)
