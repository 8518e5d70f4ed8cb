"""Rules that turn rows of several prompts into one distribution, and draw from it."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from leakmeter.stats import logspace


def mix_with_first(logits: Any, context_weight: float) -> Any:
    """λ z + (1 − λ) z_bare for every prompt but the first, which is z_bare and stays as it is.

    Context influence decoding, Eq. 6 before the softmax; λ = 1 + β is context-aware decoding with weight β. A token
    that the bare prompt rules out (−inf) stays ruled out for every prompt, and so does one its own prompt rules out.

    Args:
        logits: (prompt, ..., vocab), the bare prompt first.
        context_weight: λ ≥ 0.
    """
    xp = array_namespace(logits)
    bare, full = logits[:1, ...], logits[1:, ...]
    impossible = xp.isinf(bare) | xp.isinf(full)
    zero = xp.zeros_like(full)
    mixed = context_weight * xp.where(impossible, zero, full) + (1.0 - context_weight) * xp.where(
        impossible, zero, bare
    )
    return xp.concat([bare, xp.where(impossible, -xp.inf, mixed)], axis=0)


def draw(logits: Any, uniform: float, temperature: float) -> Any:
    """One token a row from softmax(z / T), by inverting the float64 cumulative distribution at `uniform`.

    Args:
        logits: (prompt, row, vocab).
        uniform: in [0, 1).
        temperature: T > 0.

    Returns:
        (prompt, row, 2): token id and its log-probability in nats, float64.
    """
    xp = array_namespace(logits)
    log_probs = logspace.log_softmax(logits, temperature)
    token = invert(log_probs, uniform)
    chosen = xp.take_along_axis(log_probs, token, axis=-1)
    return xp.concat([xp.astype(token, xp.float64), chosen], axis=-1)


def invert(log_probs: Any, uniform: float) -> Any:
    """The token at which the cumulative distribution passes `uniform`.

    Args:
        log_probs: float64, (..., vocab).
        uniform: in [0, 1).

    Returns:
        Token ids, (..., 1).
    """
    xp = array_namespace(log_probs)
    cumulative = xp.cumulative_sum(xp.exp(log_probs), axis=-1)
    # Scaling by the last entry keeps rounding from leaving the top of [0, 1) without a token; strict "<=" skips
    # tokens of probability zero.
    return xp.sum(xp.astype(cumulative <= uniform * cumulative[..., -1:], xp.int64), axis=-1, keepdims=True)
