"""Mixtures of two branches, with a given λ or the largest at which the loss of no token exceeds a bound in nats.

With p the bare distribution softmax(z_bare / T), r = (z − z_bare) / T shifted so that its smallest value is 0, and
K(λ) = log E_{v~p} e^{λ r_v}, the mixture is p̄(v) = p(v) e^{λ r_v − K(λ)} and its largest loss over the vocabulary

    g(λ) = max_v |log p̄(v) − log p(v)| = max(λ R − K(λ), K(λ)),    R = max_v r_v.

g never decreases for λ ≥ 0: K′ is the mean of r under p̄, so that 0 ≤ K′ ≤ R and neither term falls. The two terms add
up to λ R, hence λ R / 2 ≤ g(λ) ≤ λ R, and the largest λ with g(λ) ≤ b lies between b / R and 2 b / R.

The bound holds for the rounded numbers. Tokens are drawn by weights, float64 numbers W̄(v) = e^(log p̄(v)) beside
W(v) = e^(log p(v)) of the bare branch (see `exact_draw`), and the loss that is compared with the bound is that of the
fractions W̄(v) / Σ W̄ and W(v) / Σ W, with every error of its own computation added to it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from leakmeter.stats import exact_draw, logspace

_HALVINGS: Final = 24  # of a bracket within a factor of two: λ to 6e-8 of itself
_EPS: Final = float(np.finfo(np.float64).eps)
_ROUNDINGS: Final = 64  # of the largest log-probability: what the search leaves to rounding
_LOG_TINY: Final = -700.0  # a token that the bare branch finds less likely is never drawn
_NARROW: Final = 1e-300  # of R: far below any difference that logits can show, far above what overflows a quotient
_LARGEST: Final = 1e250
"""Of logits, in size: far above any that a model has, and far below what overflows in a difference over any T."""


class Mixture(NamedTuple):
    """A mixture of two branches and how far it is from the bare one; nats, float64."""

    weight: Any
    """λ, (...)."""
    log_probs: Any
    """log p̄, (..., vocab), normalised."""
    bare_log_probs: Any
    """log p of the bare branch, (..., vocab), normalised."""
    max_loss: Any
    """max_v |log p̄(v) − log p(v)| over the tokens that the bare branch may say, (...); with a bound of the weights, and
    not below what it is."""
    weights: Any = None
    """With a bound, W̄: what tokens are to be drawn by, (..., vocab), 0 where they are ruled out."""
    bare_weights: Any = None
    """With a bound, W."""


def bounded_mixture(
    full: Any, bare: Any, bound_nats: float, temperature: float = 1.0, max_weight: float = 1.0
) -> Mixture:
    """Mix with the largest λ ≤ `max_weight` at which max_v |log p̄(v) − log p(v)| ≤ `bound_nats`.

    Flemings et al., Algorithm 1. Their line 2 names the sampled token; the maximum runs over the whole vocabulary here,
    as the proof of Theorem B.1 needs it. The weights that are returned were measured once more as they are, and are
    within the bound. The work is the same whatever the logits: λ takes no fewer steps where it is found early.

    A token that the bare branch rules out, or finds less likely than e^−700, stays ruled out: that much is known
    without the context. A token that only the full branch rules out (−inf) forces λ = 0, since ruling it
    out would tell of the context. A mask that both branches share has to stand in `bare` already.

    Args:
        full: logits under the context, (..., vocab).
        bare: logits without it; broadcasts against `full`. At least one is finite in each row.
        bound_nats: largest loss against the bare branch, 0 or more; ε / 2 makes a step ε-DP.
    """
    xp = array_namespace(full)
    full, bare = _narrow(full), _narrow(bare)
    log_bare = logspace.log_softmax(bare, temperature)
    # Written so that NaN counts as support: it has to show in the result.
    support = ~(log_bare < _LOG_TINY)
    least = xp.min(xp.where(support, log_bare, xp.zeros_like(log_bare)), axis=-1, keepdims=True)
    log_bare = xp.where(support, log_bare, xp.full_like(log_bare, -xp.inf))
    tilt, ruled_out = _tilt(full, bare, support, temperature)
    slack = _ROUNDINGS * _EPS * (1.0 - least) + _error(bound_nats, support)
    target = xp.clip(bound_nats - slack, min=0.0)
    weight = _largest_weight(log_bare, tilt, target, max_weight)
    weight = xp.where(ruled_out, xp.zeros_like(weight), weight)
    # What the bare branch may say stays possible, however small it gets.
    log_probs = xp.where(support, xp.clip(_tilted(log_bare, tilt, weight), min=exact_draw.LOG_LEAST), log_bare)
    weights, bare_weights = exact_draw.weights_of(log_probs), exact_draw.weights_of(log_bare)
    loss = _certified_loss(weights, bare_weights, support)
    # The prior itself, bit for bit: where λ is 0, and as a last resort.
    prior = (weight == 0.0) | (loss > bound_nats)
    return Mixture(
        xp.where(prior, xp.zeros_like(weight), weight)[..., 0],
        xp.where(prior, log_bare, log_probs),
        xp.broadcast_to(log_bare, log_probs.shape),
        xp.where(prior, xp.zeros_like(loss), loss)[..., 0],
        xp.where(prior, bare_weights, weights),
        xp.broadcast_to(bare_weights, log_probs.shape),
    )


def mixture(full: Any, bare: Any, weight: float, temperature: float = 1.0) -> Mixture:
    """Mix with a given λ, unbounded: Flemings et al., Eq. 6, p̄ = softmax((λ z + (1 − λ) z_bare) / T).

    Logits are (..., vocab). A token that either branch rules out (−inf) stays ruled out; where only the full branch
    does, the largest loss is infinite. At least one token has to be finite in both.
    """
    xp = array_namespace(full)
    full, bare = _narrow(full), _narrow(bare)
    log_bare = logspace.log_softmax(bare, temperature)
    support = ~(log_bare == -xp.inf)
    tilt, ruled_out = _tilt(full, bare, support, temperature)
    allowed = support & ~(full == -xp.inf)
    weights = xp.full_like(tilt[..., :1], float(weight))
    log_probs = _tilted(xp.where(allowed, log_bare, xp.full_like(tilt, -xp.inf)), tilt, weights)
    zero = xp.zeros_like(log_probs)
    gap = xp.where(allowed, log_probs, zero) - xp.where(allowed, log_bare, zero)
    loss = xp.max(xp.abs(gap), axis=-1, keepdims=True)
    return Mixture(
        weights[..., 0],
        log_probs,
        xp.broadcast_to(log_bare, log_probs.shape),
        xp.where(ruled_out, xp.full_like(loss, xp.inf), loss)[..., 0],
    )


def _narrow(logits: Any) -> Any:
    """Logits in float64, finite ones at most `_LARGEST` in size: two of ±1e308 have no finite difference."""
    xp = array_namespace(logits)
    if logits.dtype != xp.float64:
        return xp.astype(logits, xp.float64)
    return xp.where(xp.isinf(logits), logits, xp.clip(logits, min=-_LARGEST, max=_LARGEST))


def _tilt(full: Any, bare: Any, support: Any, temperature: float) -> tuple[Any, Any]:
    """r over the support, its smallest value 0, and 0 elsewhere, (..., vocab); whether D alone rules a token out."""
    xp = array_namespace(full)
    ruled_out = support & (full == -xp.inf)
    usable = support & ~ruled_out
    zero = xp.zeros_like(full)
    # Both sides are cleared before the subtraction: −inf less −inf is NaN.
    difference = xp.where(usable, full, zero) - xp.where(usable, bare, zero)
    ratio = difference / temperature
    least = xp.min(xp.where(usable, ratio, xp.full_like(ratio, xp.inf)), axis=-1, keepdims=True)
    return xp.where(usable, ratio - least, zero), xp.any(ruled_out, axis=-1, keepdims=True)


def _largest_weight(log_bare: Any, tilt: Any, target: Any, max_weight: float) -> Any:
    """The largest λ with g(λ) ≤ target, from below, by bisection; (..., 1)."""
    xp = array_namespace(tilt)
    width = xp.max(tilt, axis=-1, keepdims=True)
    limit = xp.full_like(width, float(max_weight))
    surely = target / xp.clip(width, min=_NARROW)
    low, high = xp.minimum(limit, surely), xp.minimum(limit, 2.0 * surely)
    low = xp.where(_loss(log_bare, tilt, width, high) <= target, high, low)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = _loss(log_bare, tilt, width, middle) <= target
        low, high = xp.where(fits, middle, low), xp.where(fits, high, middle)
    return low


def _loss(log_bare: Any, tilt: Any, width: Any, weight: Any) -> Any:
    """g(λ), (..., 1)."""
    xp = array_namespace(tilt)
    partition = _log_sum_exp(log_bare + weight * tilt)
    return xp.maximum(weight * width - partition, partition)


def _tilted(log_bare: Any, tilt: Any, weight: Any) -> Any:
    tilted = log_bare + weight * tilt
    return tilted - _log_sum_exp(tilted)


def _certified_loss(weights: Any, bare_weights: Any, support: Any) -> Any:
    """max_v |log of W̄(v) / Σ W̄ over W(v) / Σ W|, (..., 1): what it is, or more by the errors of computing it."""
    xp = array_namespace(weights)
    ones = xp.ones_like(weights)
    # Neither overflows nor loses digits: e^−708 ≤ W̄, e^−700 ≤ W, and neither is above 1 by more than rounding.
    ratio = xp.where(support, weights, ones) / xp.where(support, bare_weights, ones)
    total = xp.log(xp.sum(weights, axis=-1, keepdims=True) / xp.sum(bare_weights, axis=-1, keepdims=True))
    # Where a token is ruled out, the 1 is as good as any: some token gains, and some other loses.
    gain = xp.log(xp.max(ratio, axis=-1, keepdims=True)) - total
    loss = xp.maximum(gain, total - xp.log(xp.min(ratio, axis=-1, keepdims=True)))
    return loss + _error(loss, support)


def _error(loss: Any, support: Any) -> Any:
    """Most that rounding takes off a certified loss, nats, (..., 1).

    Two sums of n positive numbers are off by (n − 1) 2^-53 of themselves at most, in whatever order they are added; a
    quotient by 2^-53; a logarithm by a few units of its last digit, of which 8 are allowed for.
    """
    xp = array_namespace(support)
    n_tokens = xp.sum(xp.astype(support, xp.float64), axis=-1, keepdims=True)
    return _EPS * (1.25 * n_tokens + 16.0 * (1.0 + loss))


def _log_sum_exp(values: Any) -> Any:
    xp = array_namespace(values)
    top = xp.max(values, axis=-1, keepdims=True)
    # Numbers too small for all their digits would take a processor longer; beside 1 they are nothing.
    return top + xp.log(xp.sum(xp.exp(xp.clip(values - top, min=_LOG_TINY)), axis=-1, keepdims=True))
