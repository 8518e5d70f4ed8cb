"""Log-probabilities of a response under the prompts that a context is ablated to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.errors import ScoreError
from leakmeter.stats.arrays import FloatArray


@dataclass(slots=True)
class PieceScores:
    """What is known of a response so far: its log-probabilities under each prompt, (response,), nats; prompts of pieces
    by the piece's name, as in a `ContextItem`."""

    bare: FloatArray = field(default_factory=lambda: np.empty(0))
    whole: FloatArray = field(default_factory=lambda: np.empty(0))
    cuts: dict[str, FloatArray] = field(default_factory=dict)
    alone: dict[str, FloatArray] = field(default_factory=dict)
    swaps: dict[str, FloatArray] = field(default_factory=dict)
    placebo_alone: FloatArray | None = None
    placebos: list[FloatArray] = field(default_factory=list)
    controls: dict[str, FloatArray] = field(default_factory=dict)
    """Beside contexts of other cases, by their ids."""

    def control(self, name: str) -> FloatArray:
        """What the context of another case does to each token; see `control_nats`."""
        return control_nats(self.controls[name], self.bare)

    @property
    def values(self) -> FloatArray:
        """(prompt, response), the bare prompt and the whole one first."""
        alone = [] if self.placebo_alone is None else [self.placebo_alone]
        of_pieces = (*self.cuts.values(), *self.alone.values(), *self.swaps.values())
        return np.stack([self.bare, self.whole, *of_pieces, *alone, *self.placebos])


def control_nats(beside: FloatArray, bare: FloatArray) -> FloatArray:
    """What the context of another case does to each token of a response, nats, (response,): nothing where both rule it
    out. Log-probabilities are those beside that context, and without any."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(beside - bare, nan=0.0, posinf=np.inf, neginf=-np.inf)


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
