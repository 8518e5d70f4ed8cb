"""Documents first: which documents of a context matter to a response, and which of their sentences are scored.

A ladder of three rounds. Each document is left out, and is the only context. Sentences are left out of the documents
that matter. Of a document whose effect no sentence accounts for, since a value is said twice, sentences are scored as
the only context too, as many as cost no more prompts than scoring every sentence. Values of a record that a response
shares no word with are one piece at first, and scored one by one where that piece matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from leakmeter.core.item import ContextItem, measured_together
from leakmeter.instruments.influence.math import PieceScores
from leakmeter.instruments.influence.sources import finite
from leakmeter.stats.arrays import FloatArray

LEAST_EFFECT_NATS: Final = 1.0
"""What a document that matters does to some stretch of the response at least."""
ACCOUNTS: Final = 0.5
"""Share of what a document does to a stretch from where a sentence accounts for it."""


def sentences_by_document(item: ContextItem, n_responses: int, n_bare: int) -> dict[str, tuple[str, ...]]:
    """Documents that are scored as a whole, each with its sentences; none where that may cost more than it saves.

    A document costs a prompt for each response, and one as the only context. What it may save is one a sentence: each
    as the only context. `n_bare` prompts are scored once more for every further request.
    """
    of_document: dict[str | None, list[str]] = {}
    within = {part for parts in measured_together(item.spans).values() for part in parts}
    for span in item.spans:
        if span.kind in ("unit", "fields") and span.name not in within:
            of_document.setdefault(span.document, []).append(span.name)
    sentences = {span.name: tuple(of_document[span.document]) for span in item.spans if span.kind == "document"}
    worth = {name: parts for name, parts in sentences.items() if len(parts) > n_responses}
    return worth if _n_spared(worth, n_responses) >= n_responses * n_bare else {}


def _n_spared(sentences: Mapping[str, Sequence[str]], n_responses: int) -> int:
    """Prompts that documents leave for sentences as the only context, where all sentences are left out."""
    return sum(len(parts) - n_responses - 1 for parts in sentences.values())


def _difference(row: FloatArray, less: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):  # where both rule a token out, the case is refused
        return finite(row - less)


def best_stretch(nats: FloatArray) -> slice:
    """The neighbouring tokens, one at least, whose sum is largest."""
    sums = np.concatenate([[0.0], np.cumsum(nats)])
    before = np.minimum.accumulate(sums[:-1])
    end = int(np.argmax(sums[1:] - before)) + 1
    return slice(int(np.argmin(sums[:end])), end)


def _most(nats: FloatArray) -> float:
    return float(nats[best_stretch(nats)].sum())


@dataclass(frozen=True, slots=True)
class Ladder:
    """How to go on from what documents do to responses."""

    item: ContextItem
    sentences: Mapping[str, Sequence[str]]
    """Of each document that was scored as a whole."""
    scored: Sequence[PieceScores]
    """By response."""
    noise: FloatArray
    """Of a measurement of each token of the first response, nats."""
    n_bare: int
    """Prompts that every further request scores again."""

    def documents(self) -> list[str]:
        """Those that matter: what one does to some stretch of a response is above noise and an irrelevant text."""
        return self.matter(self.sentences)

    def matter(self, names: Iterable[str]) -> list[str]:
        """Those of these pieces that matter, among those that were scored."""
        return [name for name in names if name in self.scored[0].cuts and self._matters(name)]

    def _matters(self, name: str) -> bool:
        # Noise is that of the first response; a document that moves a further response is never below it.
        later = (
            self._is_above(_difference(scored.whole, scored.cuts[name]), alone=False) for scored in self.scored[1:]
        )
        return any(self._first(name)) or any(later)

    def _first(self, name: str) -> tuple[bool, bool]:
        """Whether a piece does so to the first response, left out and alone, as far as it was scored alone."""
        first = self.scored[0]
        return (
            self._is_above(_difference(first.whole, first.cuts[name]), alone=False, noise=self.noise),
            name in first.alone
            and self._is_above(_difference(first.alone[name], first.bare), alone=True, noise=self.noise),
        )

    def _is_above(self, nats: FloatArray, *, alone: bool, noise: FloatArray | None = None) -> bool:
        least = max(LEAST_EFFECT_NATS, self._irrelevant(alone=alone))
        if noise is None:
            return _most(nats) > least
        # The stretch with most, and the one that is furthest above its noise, which may be shorter.
        stretches = (best_stretch(nats), best_stretch(nats - noise))
        return any(nats[tokens].sum() > max(least, noise[tokens].sum()) for tokens in stretches)

    def _irrelevant(self, *, alone: bool) -> float:
        """What an irrelevant text does to a stretch, as the only context or within it; 0 where none fits."""
        first = self.scored[0]
        placebos, against = first.placebos, first.whole
        if alone:
            placebos, against = ([] if first.placebo_alone is None else [first.placebo_alone]), first.bare
        return max((_most(_difference(placebo, against)) for placebo in placebos), default=0.0)

    def alone(self, documents: Sequence[str]) -> list[str]:
        """Sentences to score as the only context, most promising first, as many as there are prompts left for."""
        n_responses = len(self.scored)
        n_sentences = sum(len(parts) for parts in self.sentences.values())
        n_left_out = sum(len(self.sentences[name]) for name in documents)
        # For sentences that are left in, no prompt was spent on any response.
        n_left = _n_spared(self.sentences, n_responses) + n_responses * (n_sentences - n_left_out)
        n_left -= self.n_bare * (n_responses + 1)
        candidates = [part for name in documents if self._is_open(name) for part in self.sentences[name]]
        repeating = {span.name for span in self.item.spans if span.repeats}
        candidates.sort(key=lambda name: (name not in repeating, -_most(self._without(name))))
        return candidates[: max(n_left, 0)]

    def _without(self, name: str) -> FloatArray:
        """What a piece does to the first response, left out: (response,), nats."""
        return _difference(self.scored[0].whole, self.scored[0].cuts[name])

    def _is_open(self, name: str) -> bool:
        """Whether no sentence, left out, accounts for half of what the document does on its best stretch."""
        first, (by_without, by_alone) = self.scored[0], self._first(name)
        effects = [self._without(name)] if by_without else []
        effects += [_difference(first.alone[name], first.bare)] if by_alone else []
        stretches = [(effect, best_stretch(effect)) for effect in effects]
        parts = [self._without(part) for part in self.sentences[name]]
        return any(
            all(part[tokens].sum() < ACCOUNTS * effect[tokens].sum() for part in parts) for effect, tokens in stretches
        )
