"""Calibration of a label distribution by what the prompt says of itself, without any content."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from array_api_compat import array_namespace

from leakmeter.stats import logspace


def calibrated(log_probs: Any, content_free: Any, epsilon: float) -> Any:
    """log of p̃ / (p_cf + ε), normalised over the labels; nats, float64.

    Li et al., App. B, after Zhao et al. 2021: W p̃ with W = diag((p_cf + ε)⁻¹). The paper takes the largest
    entry of W p̃ and does not normalise; a loss needs a distribution.

    Args:
        log_probs: log p̃, (..., label).
        content_free: log p_cf, normalised over the labels; broadcasts against `log_probs`.
        epsilon: ε > 0.
    """
    xp = array_namespace(log_probs, content_free)
    wide = xp.astype(content_free, xp.float64)
    weight = xp.logaddexp(wide, xp.full_like(wide, math.log(epsilon)))
    return logspace.log_softmax(xp.astype(log_probs, xp.float64) - weight)


def log_mean(log_probs: Any) -> Any:
    """log of the mean of distributions: (distribution, ...) to (...), nats, float64."""
    xp = array_namespace(log_probs)
    n = log_probs.shape[0]
    return reduce(xp.logaddexp, [xp.astype(log_probs[i, ...], xp.float64) for i in range(n)]) - math.log(n)
