"""Expected influence: what measurements of many cases say together, with intervals over the cases, in nats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leakmeter.core.measure import LOSS, WHOLE, WITHOUT_THIS, Measurement
from leakmeter.errors import UsageError
from leakmeter.stats import stats
from leakmeter.stats.arrays import FloatArray

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the quantiles that are reported."""
_WHOLE = (LOSS, WHOLE)  # what `decode` and `influence` call the contrast with no context at all


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over items, with its interval and how the items lie."""

    mean: float
    interval: tuple[float, float] | None
    """95 %, over items; None where `stats.stats.interval_of_mean` has none."""
    quantiles: tuple[float, ...]
    """At `LEVELS`."""
    n: int
    """Number of items."""


def estimate(values: Sequence[float], *, seed: int) -> MeanEstimate:
    """One number an item to their mean; the seed is the bootstrap's."""
    if not len(values):
        raise UsageError("no measurements to average; give at least one record")
    return MeanEstimate(
        mean=stats.mean(values),
        interval=stats.interval_of_mean(values, seed=seed),
        quantiles=tuple(stats.quantiles(values, LEVELS)),
        n=len(values),
    )


def whole_context_nats(measurements: Sequence[Measurement]) -> float:
    """τ_|D| of one case: Σ_t |log p̄(y_t | D) − log p̄(y_t | ∅)|, mean over its responses, nats.

    Its mean over a data set is τ̂_|D| (Flemings et al., Eq. 5). It takes measurements of `decode`, where the contrast
    comes with the drawing of each token, or of `influence`.
    """
    return stats.mean([float(values.sum()) for values in whole_by_token(measurements)])


def whole_by_token(measurements: Sequence[Measurement]) -> list[FloatArray]:
    """|log p̄(y_t | D) − log p̄(y_t | ∅)| of each response of a case, nats: one array (token,) a response."""
    contrasts = [np.abs(measurement.values) for measurement in measurements if measurement.statistic in _WHOLE]
    if not contrasts:
        raise UsageError("these measurements hold no contrast with the blank prompt; measure 'decode' or 'influence'")
    return contrasts


def nats_by_piece(measurements: Sequence[Measurement]) -> list[float]:
    """τ_i of one case's pieces in their order: Σ_t |log p̄(y_t | D) − log p̄(y_t | D∖D_i)|, mean over responses, nats.

    Definition 3.2 for every n-gram; measurements of `influence`.
    """
    by_piece: dict[str, list[float]] = {}
    for measurement in measurements:
        if measurement.statistic == WITHOUT_THIS:
            by_piece.setdefault(measurement.piece, []).append(float(np.abs(measurement.values).sum()))
    if not by_piece:
        raise UsageError("these measurements hold no pieces; measure 'influence'")
    return [stats.mean(values) for values in by_piece.values()]


def by_position(series: Sequence[Sequence[float] | FloatArray], *, seed: int) -> list[MeanEstimate]:
    """Series of different lengths to an estimate at each position, over those that reach it.

    Used over responses (position t: Figure 2c) and over contexts (n-gram i: Figures 3 and 4). Late positions rest on
    few and on the longest, which `n` shows.
    """
    longest = max((len(values) for values in series), default=0)
    if not longest:
        raise UsageError("no measurements to average; give at least one record")
    return [estimate([float(values[i]) for values in series if len(values) > i], seed=seed) for i in range(longest)]


def early_and_late(pieces: Sequence[Sequence[float]], *, seed: int) -> Mapping[str, MeanEstimate]:
    """Mean τ_i, nats, over the first and the second half of each context's n-grams, and the first less the second.

    The difference is taken within each context, so that its interval is paired. Contexts of a single n-gram have no
    halves and are left out; the middle one of an odd number belongs to neither.
    """
    halved = [values for values in pieces if len(values) >= 2]
    if not halved:
        return {}
    early = [stats.mean(values[: len(values) // 2]) for values in halved]
    late = [stats.mean(values[-(len(values) // 2) :]) for values in halved]
    return {
        "early": estimate(early, seed=seed),
        "late": estimate(late, seed=seed),
        "early_less_late": estimate((np.asarray(early) - np.asarray(late)).tolist(), seed=seed),
    }
