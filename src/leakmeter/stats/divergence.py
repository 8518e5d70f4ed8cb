"""Divergences between rows of log-probabilities, in nats."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace


def from_first(log_probs: Any) -> Any:
    """KL(p₀ ‖ p) and KL(p ‖ p₀) of every prompt's rows against the first prompt's, float64.

    Where p has an entry of probability zero that p₀ has not, the divergence of p₀ from it is infinite, as it should be.

    Args:
        log_probs: (prompt, row, vocab), normalised.

    Returns:
        (prompt, row, 2), zero or more.
    """
    xp = array_namespace(log_probs)
    first = log_probs[:1, ...]
    pairs = ((first, log_probs), (log_probs, first))
    parts = [xp.broadcast_to(_divergence(xp, p, q), log_probs.shape[:-1]) for p, q in pairs]
    return xp.stack(parts, axis=-1)


def _divergence(xp: Any, log_p: Any, log_q: Any) -> Any:
    p = xp.exp(log_p)
    # 0 · (−∞ − anything) is 0 in a divergence, and NaN in arithmetic.
    terms = xp.where(p > 0, p * xp.where(p > 0, log_p - log_q, xp.zeros_like(p)), xp.zeros_like(p))
    total = xp.sum(terms, axis=-1)
    # Rounding may leave a hair below zero between equal rows.
    return xp.where(total > 0, total, xp.zeros_like(total))
