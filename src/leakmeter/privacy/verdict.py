"""Bound against measurement: Rényi divergence against Rényi divergence, of the same tokens, orders and neighbours.

Measurements along the tokens that were generated can refute a bound, never prove it: they know nothing of other
exemplars. It is compared before any conversion to (ε, δ), which adds a number to every Rényi
divergence that has nothing to do with the votes (`rdp.conversion`); at small ε that number is most of what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.core.record import Record, Unbounded
from leakmeter.privacy.rdp import DivergenceBound, conversion
from leakmeter.stats.arrays import FloatArray

TOLERANCE: Final = 1e-9
"""Share of a bound by which a measurement may exceed it: rounding."""


@dataclass(frozen=True, slots=True)
class DivergenceComparison:
    """A measurement beside its bound; nats."""

    exemplar: int
    token: int | None
    """Number of the token; None for all of them together."""
    order: float
    measured: float
    bound: float

    @property
    def ratio(self) -> float:
        return float(_shares(self.measured, self.bound))


@dataclass(frozen=True, slots=True)
class DivergenceVerdict:
    """The divergences of each exemplar against their bounds, nats."""

    orders: tuple[float, ...]
    """Orders that were measured; ∞ is pure differential privacy."""
    n_tokens: int
    bound_per_token: FloatArray
    """(order,)."""
    per_exemplar: FloatArray
    """Σ_t D_α↔ of each, (exemplar, order)."""
    sum_of_maxima: FloatArray
    """Σ_t max_i D_α↔, (order,): what the paper takes (Appendix C.3.3), at least as much as any one exemplar's."""
    worst_tokens: tuple[DivergenceComparison, ...]
    """Of each order the largest D_α↔ of a token and exemplar."""
    failures: tuple[DivergenceComparison, ...]
    """Of each exemplar its worst token and its worst total, where they are above the bound; the worst first."""

    @property
    def holds(self) -> bool:
        return not self.failures

    @property
    def bound(self) -> FloatArray:
        """Of all tokens together, (order,)."""
        return self.n_tokens * self.bound_per_token

    @property
    def worst_exemplar(self) -> npt.NDArray[np.int64]:
        """The exemplar with the largest total, (order,)."""
        return np.asarray(self.per_exemplar.argmax(axis=0))

    @property
    def measured(self) -> FloatArray:
        """The total of that exemplar, (order,)."""
        return np.asarray(self.per_exemplar.max(axis=0))

    @property
    def ratio(self) -> FloatArray:
        """Measured over bound, of all tokens together, (order,)."""
        return _shares(self.measured, self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure(Record):
    """ε as the paper gives it, beside what the same arithmetic gives a mechanism that tells nothing; nats.

    ε_empirical = 2 (Σ_t max_i D_α*↔ + c(α*, δ)), with c the conversion's term (Appendix C.3.3). The factor is Theorem
    C.9's, for replacing an exemplar; but the guarantee it is held against is that of adding or removing one, and so
    is the measurement. It is no verdict: with 2 c(α*, δ) for logits that tell nothing it is mostly conversion at
    small ε.
    """

    order: float
    """Order α* of the guarantee."""
    delta: float
    """δ of the guarantee."""
    sum_of_maxima_nats: Unbounded
    """Sum over tokens of the largest divergence of an exemplar, Σ_t max_i D_α*↔, nats."""
    epsilon: Unbounded
    """Empirical ε of the paper, nats: 2 (Σ_t max_i D_α*↔ + c(α*, δ))."""
    zero_leak_epsilon: float
    """Empirical ε of a mechanism that leaks nothing, nats: 2 c(α*, δ)."""


def judge(
    losses: npt.ArrayLike, orders: Sequence[float], bound: DivergenceBound, ratios: npt.ArrayLike, at: npt.ArrayLike
) -> DivergenceVerdict:
    """Compare every token of every exemplar, and every exemplar's total, with the bound.

    `losses` are measured D_α↔, nats, (token, exemplar, order), for one exemplar less. An order may be ∞, a bound
    infinite where there is none. `ratios` are the largest D_α↔ / bound over all orders that have one, (token,
    exemplar), from `renyi.screened`: they count, and are exact, above 1; `at` is the order of each. So orders that were
    not measured are judged too: their totals are above the bound only where a token is.
    """
    values = np.asarray(losses, dtype=np.float64)
    if 0 in values.shape:
        raise ValueError(f"nothing was measured that could be judged: shape {values.shape}")
    limits = bound(orders)
    worst_tokens = []
    for k, order in enumerate(orders):
        token, exemplar = (int(i) for i in np.unravel_index(values[:, :, k].argmax(), values.shape[:2]))
        worst_tokens.append(
            DivergenceComparison(exemplar, token, order, float(values[token, exemplar, k]), float(limits[k]))
        )
    shares = _shares(values, limits)
    worst, worst_at = shares.max(axis=-1), np.asarray(orders, dtype=np.float64)[shares.argmax(axis=-1)]
    screened = np.asarray(ratios, dtype=np.float64)
    beyond = ~(screened <= 1.0) & ~(worst >= screened)
    worst, worst_at = np.where(beyond, screened, worst), np.where(beyond, np.asarray(at, dtype=np.float64), worst_at)
    totals = values.sum(axis=0)
    total_shares = _shares(totals, len(values) * limits)
    failures = []
    for exemplar in range(values.shape[1]):
        token, k = int(worst[:, exemplar].argmax()), int(total_shares[exemplar].argmax())
        for share, number, order, n_tokens in (
            (float(worst[token, exemplar]), token, float(worst_at[token, exemplar]), 1),
            (float(total_shares[exemplar, k]), None, orders[k], len(values)),
        ):
            # NaN is within no bound.
            if not share <= 1.0 + TOLERANCE:
                limit = n_tokens * float(bound([order])[0])
                failures.append(DivergenceComparison(exemplar, number, order, share * limit, limit))
    return DivergenceVerdict(
        tuple(orders),
        len(values),
        limits,
        totals,
        np.asarray(values.max(axis=1).sum(axis=0)),
        tuple(worst_tokens),
        tuple(sorted(failures, key=lambda row: math.inf if math.isnan(row.ratio) else row.ratio, reverse=True)),
    )


def paper_figure(sum_of_maxima: float, order: float, delta: float) -> PaperFigure:
    """From Σ_t max_i D_α*↔, nats (`DivergenceVerdict.sum_of_maxima`), and α* of the guarantee."""
    added = float(conversion([order], delta)[0])
    return PaperFigure(
        order=order,
        delta=delta,
        sum_of_maxima_nats=sum_of_maxima,
        epsilon=2.0 * (sum_of_maxima + added),
        zero_leak_epsilon=2.0 * added,
    )


def _shares(measured: npt.ArrayLike, bound: npt.ArrayLike) -> FloatArray:
    """Measured over bound; 0 of a bound that is infinite, and NaN of NaN."""
    ones, others = np.asarray(measured, dtype=np.float64), np.asarray(bound, dtype=np.float64)
    finite = np.where(np.isinf(others), 1.0, others)
    return np.asarray(np.where(np.isinf(others) & ~np.isnan(ones), 0.0, ones / finite))
