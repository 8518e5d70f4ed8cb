"""Log-probabilities of a response under the prompts that a context is ablated to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.request import FloatArray, Scores
from leakmeter.errors import ScoreError


@dataclass(frozen=True, slots=True)
class Row:
    """Log-probabilities of a response under one prompt."""

    values: FloatArray
    """(response,), nats."""
    half_width: FloatArray | None = None
    """Most that each may be off, nats; None where they are what they are."""

    @property
    def width(self) -> FloatArray:
        return np.zeros_like(self.values) if self.half_width is None else self.half_width


def rows_of(scores: Scores) -> list[Row]:
    widths = [None] * len(scores.values) if scores.half_width is None else list(scores.half_width)
    return [Row(values, width) for values, width in zip(scores.values, widths, strict=True)]


@dataclass(slots=True)
class Scored:
    """What is known of a response so far; prompts of pieces by the piece's name, as in a `ContextItem`."""

    bare: Row = field(default_factory=lambda: Row(np.empty(0)))
    whole: Row = field(default_factory=lambda: Row(np.empty(0)))
    cuts: dict[str, Row] = field(default_factory=dict)
    alone: dict[str, Row] = field(default_factory=dict)
    swaps: dict[str, Row] = field(default_factory=dict)
    placebo_alone: Row | None = None
    placebos: list[Row] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        alone = [] if self.placebo_alone is None else [self.placebo_alone]
        of_pieces = (*self.cuts.values(), *self.alone.values(), *self.swaps.values())
        return [self.bare, self.whole, *of_pieces, *alone, *self.placebos]

    @property
    def values(self) -> FloatArray:
        """(prompt, response), the bare prompt and the whole one first."""
        return np.stack([row.values for row in self.rows])


def check_possible(item: ContextItem, values: FloatArray) -> None:
    """Refuse a response with a token that two prompts rule out: a difference of two infinities says nothing.

    Log-probabilities are (prompt, response).
    """
    ruled_out = np.flatnonzero(np.isneginf(values).sum(axis=0) > 1)
    if len(ruled_out):
        raise ScoreError(
            f"case '{item.id}': under two prompts the model gives token {ruled_out[0] + 1} of the response a "
            "probability of 0, so that nothing tells them apart; check the model, or give another response"
        )
