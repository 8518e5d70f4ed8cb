"""Fisher susceptibility: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import Quantities
from leakmeter.core.quantity import Quantity

FISHER: Final[Quantities] = (
    Quantity(
        "fisher",
        NATS,
        "How far changes of a query's vectors would move the answer to it, for the first covariance.",
        lambda case: float(case["values"][0]["fisher_nats"]),
    ),
)
