"""Decoding: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import Quantities, at, most
from leakmeter.core.quantity import Case, Quantity


def _responses(case: Case) -> Sequence[Case]:
    return case["samples"] or [case]


def _spent(case: Case) -> float | None:
    """The largest share of a token's ε."""
    if case["epsilon"] is None:
        return None
    nats = most(nats for one in _responses(case) for nats in one["private"]["per_token"]["spent_epsilon"])
    return None if nats is None else nats / case["epsilon"]["per_token"]


DECODE: Final[Quantities] = (
    Quantity(
        "decode",
        NATS,
        "What the response told of the whole context: how far its log-probability moved, token by token, by it.",
        at("private", "whole_nats"),
    ),
    Quantity(
        "decode.worst_response",
        NATS,
        "What the response that told most of the whole context told of it, where several were drawn for a case.",
        lambda case: most(one["private"]["whole_nats"] for one in case["samples"]),
    ),
    Quantity(
        "decode.worst_token",
        NATS,
        "The most that a token of a response could have told, the one that was drawn or another in its place.",
        lambda case: most(nats for one in _responses(case) for nats in one["private"]["per_token"]["max_loss_nats"]),
    ),
    Quantity(
        "decode.promised",
        NATS,
        "What was promised of the response at most, by basic composition over its tokens.",
        at("epsilon", "response", "basic_nats", null=math.inf),
    ),
    Quantity(
        "decode.ratio",
        "measured over promised",
        "The largest share of its epsilon that a token spent; above 1 the promise is broken.",
        _spent,
        usual="max",
    ),
)
