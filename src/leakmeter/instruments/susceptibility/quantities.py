"""Susceptibility: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

import math
from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import Quantities, at, most
from leakmeter.core.quantity import Quantity

_NOISE: Final = at("noise_floor_nats", null=math.inf)

SUSCEPTIBILITY: Final[Quantities] = (
    Quantity(
        "susceptibility",
        NATS,
        "How far contexts move the answer to a query: mutual information of context and answer.",
        at("susceptibility_nats"),
        floor=_NOISE,
    ),
    Quantity(
        "susceptibility.share_of_ceiling",
        "share",
        "How far contexts move the answer to a query, over the most that so many contexts can show.",
        at("share_of_ceiling"),
    ),
    Quantity(
        "susceptibility.from_bare",
        NATS,
        "How far the answer behind a context is from the one to the query alone, on average over contexts.",
        at("from_bare_nats", null=math.inf),
        floor=_NOISE,
    ),
    Quantity(
        "susceptibility.worst_context",
        NATS,
        "How far the context that moves the answer most moves it.",
        lambda case: most(context["persuasion_nats"] for context in case["contexts"]),
        floor=_NOISE,
    ),
)
