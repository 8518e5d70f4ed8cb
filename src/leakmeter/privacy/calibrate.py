"""The setting at which private token generation has a guarantee: one search, for temperature, clip or subset size.

ε depends on them through the sensitivity Δ = c / (sτ) alone (`clipped_logits`), and never falls as it grows. So
bisection, down to neighbouring numbers, gives the largest Δ that keeps to a target. It determines the free setting,
which is then moved to the side of more privacy until it keeps to the target. The paper's Algorithm 3 returns the middle
of its last interval, which may be on either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from leakmeter.core.limits import refuse_bad
from leakmeter.errors import UsageError
from leakmeter.privacy.clipped_logits import Adjacency, Aggregation
from leakmeter.privacy.rdp import ORDERS, Guarantee, guarantee

Free = Literal["temperature", "clip", "subset-size"]


@dataclass(frozen=True, slots=True)
class Target:
    """The guarantee that is wanted."""

    epsilon: float
    """ε, nats, above 0."""
    delta: float
    """δ, above 0 and below 1."""
    n_tokens: int
    """The most tokens that one exemplar has a part in."""
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        refuse_bad((math.isfinite(self.epsilon) and self.epsilon > 0.0, "epsilon", self.epsilon, "above 0"))
        if self.n_tokens < 1:
            raise UsageError(f"{self.n_tokens} tokens cannot be generated; give 1 or more")

    def guarantee(self, sensitivity: float) -> Guarantee:
        return guarantee(sensitivity, self.n_tokens, self.delta)


def calibrate(aggregation: Aggregation, free: Free, target: Target) -> Aggregation:
    """The least private setting that keeps to a target: lowest temperature, widest clip or fewest exemplars.

    `UsageError` where none keeps to it.
    """
    # Of logits that reveal nothing; that of every setting is larger.
    least = target.guarantee(0.0).epsilon
    if target.epsilon <= least:
        raise UsageError(
            f"epsilon {target.epsilon:g} at delta {target.delta:g} cannot be guaranteed: with orders up to "
            f"{ORDERS[-1]} the epsilon of every setting is above {least:.4g}; give a larger epsilon or delta"
        )
    widest = _largest(lambda sensitivity: target.guarantee(sensitivity).epsilon <= target.epsilon)
    # Δ of the three as they are, over the largest: what the free one is to be divided by, or multiplied.
    excess = aggregation.sensitivity(target.adjacency) / widest
    value: float
    safer: Callable[[float], float]
    match free:
        case "temperature":
            value, safer = aggregation.temperature * excess, lambda value: math.nextafter(value, math.inf)
        case "clip":
            value, safer = aggregation.clip / excess, lambda value: math.nextafter(value, 0.0)
        case "subset-size":
            fewest = 2 if aggregation.normalise_by == "present" else 1
            # From one below, so that rounding does not cost an exemplar.
            value, safer = max(fewest, math.ceil(aggregation.subset_size * excess) - 1), lambda value: value + 1
    while True:
        freed: dict[str, Any] = {free.replace("-", "_"): value}
        candidate = replace(aggregation, **freed)
        if target.guarantee(candidate.sensitivity(target.adjacency)).epsilon <= target.epsilon:
            return candidate
        value = safer(value)


def _largest(keeps: Callable[[float], bool]) -> float:
    """The largest float above 0 that keeps, if all below it do."""
    low, high = 0.0, 1.0
    while keeps(high):
        low, high = high, 2.0 * high
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
