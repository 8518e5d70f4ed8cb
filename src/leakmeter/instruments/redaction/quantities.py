"""Redaction: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import HALF_WIDTH, NOISE, Quantities, at
from leakmeter.core.quantity import SHARE_OF_CASES, Quantity

REDACTION: Final[Quantities] = (
    Quantity(
        "redact_plan",
        NATS,
        "Influence on the response of what is left of the context.",
        at("left_nats"),
        floor=NOISE,
        half_width=HALF_WIDTH,
    ),
    Quantity(
        "redact_plan.whole",
        NATS,
        "Influence on the response of the context before anything is cut.",
        at("whole_nats"),
        floor=NOISE,
        half_width=HALF_WIDTH,
    ),
    Quantity(
        "redact_plan.cut",
        "share of characters",
        "How much of the context is cut, white space aside.",
        at("redacted_share"),
    ),
    Quantity(
        "redact_plan.reached",
        SHARE_OF_CASES,
        "Whether what is left is within the limit.",
        at("reached"),
        worse="less",
        usual="mean",
    ),
)
