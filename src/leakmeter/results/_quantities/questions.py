"""What can be compared and bounded of the answers to queries behind many contexts."""

from __future__ import annotations

import math
from typing import Final

from leakmeter.results._quantities.places import Quantities, at, most
from leakmeter.types.quantity import Quantity
from leakmeter.types.reading import NATS

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

FISHER: Final[Quantities] = (
    Quantity(
        "fisher",
        NATS,
        "How far changes of a query's vectors would move the answer to it, for the first covariance.",
        lambda case: float(case["values"][0]["fisher_nats"]),
    ),
)
