"""Small statistics of readings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def posterior_from_even_odds(nats: float) -> float:
    """Belief, in [0.5, 1], of an attacker who began undecided and has seen `nats` of evidence: 1 / (1 + e^−nats)."""
    return float(1.0 / (1.0 + np.exp(-nats)))


def bootstrap_interval_of_mean(
    values: npt.ArrayLike, *, seed: int, confidence: float = 0.95, n_resamples: int = 2000
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean, in the values' unit; (nan, nan) for fewer than two values."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return (float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    means = sample[rng.integers(0, sample.size, size=(n_resamples, sample.size))].mean(axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return (float(low), float(high))
