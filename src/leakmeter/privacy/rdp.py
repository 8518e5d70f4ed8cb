"""Guarantees of private token generation, in nats: Rényi divergence of each token, of many, and (ε, δ) from it.

A bound holds whatever the logits. With Δ the sensitivity (`clipped_logits`), a token is drawn by an exponential
mechanism whose log-probabilities differ between neighbours by a tilt no wider than b = 2Δ, so that D_α↔ is at most the
smaller of two bounds (Li et al., Appendix C.3.1):

    ρα with ρ = Δ² / 2,    1 / (α − 1) · log( (sinh(αb) − sinh((α − 1)b)) / sinh b ).

The quotient is 1 + 2 sinh(αb / 2) sinh((α − 1)b / 2) / cosh(b / 2), in which nothing cancels. The first bound is the
smaller up to b = 4 at α = 2, 0.4 at α = 18 and 0.07 at α = 100; the second goes to b, the pure loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.core.record import Record, Unbounded
from leakmeter.errors import UsageError
from leakmeter.privacy.accounting import check_delta
from leakmeter.stats.arrays import FloatArray

DivergenceBound = Callable[[Sequence[float]], FloatArray]
"""Orders to the most that D_α↔ of a token can be, nats, (order,)."""

ORDERS: Final = tuple(range(2, 101))
"""Orders over which a conversion looks for the best: those of the paper."""
_LOG_2: Final = float(np.log(2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee(Record):
    """Upper bounds, nats, of what a number of tokens tell of one exemplar together."""

    n_tokens: int
    """Number of tokens that the bounds cover."""
    epsilon: Unbounded
    """Bound ε at δ, nats, 0 or more."""
    delta: float
    """δ of the (ε, δ) bound."""
    order: float
    """Order α of the Rényi divergence that gives the least ε (the paper's α*)."""
    rdp_nats: Unbounded
    """Bound on the Rényi divergence at `order`, of all tokens together, nats."""
    pure_epsilon: Unbounded
    """Bound ε at δ = 0, nats: basic composition of the most that each token costs."""


def line(sensitivity: float, orders: Sequence[float]) -> FloatArray:
    """ρα of a token, nats, (order,): Theorems C.2 and C.3, Eq. 8."""
    order = _orders(orders)
    return 0.5 * sensitivity**2 * order if sensitivity else np.zeros_like(order)


def exponential(sensitivity: float, orders: Sequence[float]) -> FloatArray:
    """The exponential mechanism's bound for a token, nats, (order,): the second of Theorem C.5, with b for its ε."""
    order, b = _orders(orders), 2.0 * sensitivity
    finite = np.isfinite(order)
    a = np.where(finite, order, 2.0)
    log_quotient = _log_sinh(0.5 * a * b) + _log_sinh(0.5 * (a - 1.0) * b) - _log_cosh(0.5 * b) + _LOG_2
    bound = np.logaddexp(0.0, log_quotient) / (a - 1.0)
    return np.asarray(np.where(finite, bound, b))


def bound(sensitivity: float, orders: Sequence[float]) -> FloatArray:
    """Most that D_α↔ of a token can be, nats, (order,), for Δ in nats: the smaller bound. At order ∞ it is b."""
    return np.minimum(line(sensitivity, orders), exponential(sensitivity, orders))


def conversion(orders: Sequence[float], delta: float) -> FloatArray:
    """What the conversion to (ε, δ) adds to a Rényi divergence, nats, (order,): the last two terms of Theorem C.8.

    log((α − 1) / α) − (log δ + log α) / (α − 1); it is what a mechanism costs that tells nothing.
    """
    check_delta(delta)
    order = _orders(orders)
    return np.asarray(np.log1p(-1.0 / order) - (np.log(delta) + np.log(order)) / (order - 1.0))


def to_epsilon(rdp: npt.ArrayLike, orders: Sequence[float], delta: float) -> tuple[float, float]:
    """ε at δ from Rényi divergences of each order, nats, and the order that gives it; the first of several
    (Algorithm 2). Not below 0: a mechanism that is (ε, δ)-private with a negative ε is so with 0."""
    epsilons = np.asarray(rdp, dtype=np.float64) + conversion(orders, delta)
    best = int(np.argmin(epsilons))
    return max(float(epsilons[best]), 0.0), orders[best]


def composed(
    bound_of_token: DivergenceBound, n_tokens: int, delta: float, orders: Sequence[float] = ORDERS
) -> Guarantee:
    """What so many tokens cost together, by whatever mechanism: their Rényi divergences add up (Theorem C.7).

    A guarantee is for the most tokens there may be, of all samples that one exemplar has a part in, fixed beforehand.
    For those that were generated it says what was spent: where the text itself decides when it ends, that number is no
    (ε, δ) guarantee.
    """
    if n_tokens < 0:
        raise UsageError(f"{n_tokens} tokens cannot be composed; give 0 or more")
    epsilon, order = to_epsilon(n_tokens * bound_of_token(orders), orders, delta)
    at_order, at_infinity = (float(limit) for limit in bound_of_token([order, math.inf]))
    return Guarantee(
        n_tokens=n_tokens,
        epsilon=epsilon,
        delta=delta,
        order=order,
        rdp_nats=n_tokens * at_order,
        pure_epsilon=n_tokens * at_infinity,
    )


def guarantee(sensitivity: float, n_tokens: int, delta: float) -> Guarantee:
    """The same of clipped-logit aggregation with this Δ, nats (`Aggregation.sensitivity`)."""
    return composed(partial(bound, sensitivity), n_tokens, delta)


def zcdp(sensitivity: float, n_tokens: int) -> float:
    """ρ of so many tokens: zero-concentrated differential privacy, nats."""
    return 0.5 * n_tokens * sensitivity**2


def _orders(orders: Sequence[float]) -> FloatArray:
    values = np.asarray(orders, dtype=np.float64)
    if not (values > 1.0).all():
        raise UsageError(f"a Rényi divergence is asked for at order {values.min():g}; orders have to be above 1")
    return values


def _log_sinh(x: FloatArray) -> FloatArray:
    """log sinh x for x ≥ 0, where e^x may be beyond a float64; −inf at 0."""
    with np.errstate(divide="ignore"):
        return x - _LOG_2 + np.log(-np.expm1(-2.0 * x))


def _log_cosh(x: float) -> float:
    return float(x - _LOG_2 + np.log1p(np.exp(-2.0 * x)))
