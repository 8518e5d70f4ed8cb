"""Formulas of context influence: what is measured of log-probabilities of a response under the prompts that a context
is ablated to, and its statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.measure import (
    COUNT,
    LOG_PROB,
    NATS,
    NOISE,
    RESPONSE,
    SWAPPED,
    WHOLE,
    WITHOUT_THIS,
    Measurement,
    Statistic,
    Statistics,
)
from leakmeter.errors import ScoreError
from leakmeter.stats.arrays import FloatArray

MOST_ROUNDS: Final = 8
"""Of an audit."""


class ContextStatistics(Statistics):
    """Of every measure of a context. Earlier versions kept more: results say where they did (`is_partly_read`)."""

    are_all = False

    token = RESPONSE
    log_prob = LOG_PROB
    whole = WHOLE
    noise = NOISE
    without_this = WITHOUT_THIS
    only_this = Statistic(
        "only_this",
        NATS,
        "log p̄(y_t | D_i) − log p̄(y_t | ∅): of a piece as the only context, which sees a value said elsewhere too",
        per="piece",
        first_only=True,
    )
    placebo = Statistic(
        "placebo",
        NATS,
        "log p̄(y_t | D with an irrelevant piece) − log p̄(y_t | D), by its number: what without_this is held against",
        per="text",
        optional=True,
        first_only=True,
    )
    control = Statistic(
        "control",
        NATS,
        "log p̄(y_t | D') − log p̄(y_t | ∅), D' the context of another case: what disclosures are held against",
        per="text",
        optional=True,
        first_only=True,
    )


class InfluenceStatistics(ContextStatistics):
    swapped = SWAPPED
    placebo_alone = Statistic(
        "placebo_alone",
        NATS,
        "log p̄(y_t | irrelevant piece) − log p̄(y_t | ∅): what whole is held against",
        optional=True,
        first_only=True,
    )
    # Of a search.
    screened = Statistic(
        "screened",
        NATS,
        "log p̄(y_t | D) − log p̄(y_t | D with D_i hidden), of every piece that was screened",
        per="piece",
        optional=True,
        first_only=True,
        undefined=True,
    )
    grouped = screened.named("grouped", "the same without a group of pieces, of each of the group")
    audited = Statistic(
        "audited",
        COUNT,
        "round of the audit in which a piece was drawn",
        per="piece",
        over="number",
        optional=True,
        below=MOST_ROUNDS + 1,
    )


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

    def measurements(
        self, item: ContextItem, response: Sequence[int], sample: int, names: Sequence[str]
    ) -> Iterator[Measurement]:
        """What each piece named, the whole context and all that they are held against do to the response."""
        told = InfluenceStatistics
        yield told.token.of(item.id, response, sample=sample)
        yield told.log_prob.of(item.id, self.whole, sample=sample)
        yield told.whole.of(item.id, self.whole - self.bare, sample=sample)
        for name in names:
            yield told.without_this.of(item.id, self.whole - self.cuts[name], name, sample)
        for name in names:
            if name in self.alone:
                yield told.only_this.of(item.id, self.alone[name] - self.bare, name, sample)
        for name, row in self.swaps.items():
            yield told.swapped.of(item.id, self.whole - row, name, sample)
        if self.placebo_alone is not None:
            yield told.placebo_alone.of(item.id, self.placebo_alone - self.bare, sample=sample)
        for name in self.controls:
            yield told.control.of(item.id, self.control(name), name, sample)
        for number, placebo in enumerate(self.placebos):
            yield told.placebo.of(item.id, placebo - self.whole, str(number), sample)

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
