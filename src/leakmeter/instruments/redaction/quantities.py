"""Redaction: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import NOISE, Quantities, at
from leakmeter.core.quantity import SHARE_OF_CASES, Quantity

REDACT_PLAN: Final[Quantities] = (
    Quantity(
        "redact_plan",
        NATS,
        "What the response owes to what the plan leaves of the context.",
        at("left_nats"),
        floor=NOISE,
    ),
    Quantity(
        "redact_plan.whole",
        NATS,
        "What the response owes to the context before anything is cut.",
        at("whole_nats"),
        floor=NOISE,
    ),
    Quantity(
        "redact_plan.cut",
        "share of characters",
        "How much of the context the plan cuts, white space aside.",
        at("redacted_share"),
    ),
    Quantity(
        "redact_plan.reached",
        SHARE_OF_CASES,
        "Whether what is left is within the plan's limit.",
        at("reached"),
        worse="less",
        usual="mean",
    ),
)
