"""Log-probabilities from logits, and divergences between rows of them, in nats."""

from __future__ import annotations

import math
from typing import Any, Final

from array_api_compat import array_namespace, device

COLDEST: Final = 1e-30
"""The lowest temperature: below it float32 has no number for an ordinary logit over T."""
STRONGEST: Final = 1e9
"""The largest λ: far beyond any use, and far below what overflows."""


def checked_temperature(temperature: float) -> tuple[bool, str, float, str]:
    """A check of a temperature for `core.limits.refuse_bad`."""
    good = math.isfinite(temperature) and temperature >= COLDEST
    return good, "temperature", temperature, "above 0" if not temperature > 0 else f"finite, and {COLDEST:g} or more"


def checked_weight(weight: float) -> tuple[bool, str, float, str]:
    """The same of a λ of context influence decoding."""
    good = 0 <= weight <= STRONGEST
    return good, "cid-lambda", weight, "0 or more" if not weight > 0 else f"at most {STRONGEST:g}"


def log_softmax(logits: Any, temperature: float = 1.0) -> Any:
    """log softmax(z / T) over the last axis, float64, nats; same shape as `logits`."""
    xp = array_namespace(logits)
    scaled, top, log_total = _normaliser(logits, temperature)
    return (xp.astype(scaled, xp.float64) - top) - log_total


def target_log_probs(logits: Any, targets: Any, temperature: float = 1.0) -> Any:
    """log softmax(z / T) of one token a row, float64, nats: (prompt, row, vocab) to (prompt, row)."""
    xp = array_namespace(logits)
    scaled, top, log_total = _normaliser(logits, temperature)
    index = xp.broadcast_to(xp.asarray(targets, device=device(logits))[None, :, None], (*scaled.shape[:-1], 1))
    chosen = xp.astype(xp.take_along_axis(scaled, index, axis=-1), xp.float64)
    return ((chosen - top) - log_total)[..., 0]


def label_log_probs(logits: Any, token_ids: tuple[int, ...], temperature: float = 1.0) -> Any:
    """log softmax(z / T) of some tokens at every row, float64, nats: (prompt, row, vocab) to (prompt, row, label)."""
    xp = array_namespace(logits)
    scaled, top, log_total = _normaliser(logits, temperature)
    chosen = xp.take(scaled, xp.asarray(token_ids, device=device(logits)), axis=-1)
    return (xp.astype(chosen, xp.float64) - top) - log_total


def _normaliser(logits: Any, temperature: float) -> tuple[Any, Any, Any]:
    """z / T, its row's maximum, and log Σ_v exp(z_v / T − maximum), the latter two float64 with a last axis of 1.

    Exponentials stay in the logits' own precision; their sum is taken in float64, so that a vocabulary of 100,000
    entries costs no digits. Taking the maximum off before the logarithm keeps the digits of large logits.
    """
    xp = array_namespace(logits)
    # Half-precision logits are widened first: their sums and quotients would round away small contrasts.
    wide = logits if logits.dtype in (xp.float32, xp.float64) else xp.astype(logits, xp.float32)
    scaled = wide if temperature == 1.0 else wide / temperature
    top = xp.max(scaled, axis=-1, keepdims=True)
    total = xp.sum(xp.exp(scaled - top), axis=-1, keepdims=True, dtype=xp.float64)
    return scaled, xp.astype(top, xp.float64), xp.log(total)
