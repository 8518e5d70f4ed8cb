"""One measured series: a statistic of one piece over the positions of one response, or over labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leakmeter.core.request import FloatArray

Texts = Mapping[str, Any]
"""What a run keeps of a case beside numbers, as JSON; see `engine.measure.texts_of`."""
Params = Mapping[str, Any]

NATS = "nats"
WEIGHT = "weight"
TOKEN_ID = "token id"
LABEL = "label number"
COUNT = "count"
NATS_PER_SQUARE = "nats per squared length"
"""Of a trace of the Fisher information about vectors: their length has no unit."""

HALF_WIDTH = "half_width"
"""Statistic of the most that the other statistics of a piece, or of all, may be off: there where they are intervals."""

RESPONSE = "token"
"""Statistic of the measurement that holds the tokens of a response."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A block of numbers with one meaning and one unit."""

    item: str
    sample: int
    """Which response of the case, from 0."""
    piece: str
    """Name of the span it is about; empty where it is about the response as a whole."""
    statistic: str
    unit: str
    values: FloatArray
    """One value a response token, (response,), or a label, (label,)."""
