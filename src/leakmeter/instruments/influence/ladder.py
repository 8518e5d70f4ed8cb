"""Documents first: which documents of a context matter to a response, and which of their sentences are scored.

A ladder of three rounds. Each document is left out, and is the only context. Sentences are left out of the documents
that matter. Of a document whose effect no sentence accounts for, since a value is said twice, sentences are scored as
the only context too, as many as cost no more prompts than scoring every sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.request import FloatArray, Scores
from leakmeter.instruments.influence.sources import finite

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
    for span in item.spans:
        if span.kind == "unit":
            of_document.setdefault(span.document, []).append(span.name)
    sentences = {span.name: tuple(of_document[span.document]) for span in item.spans if span.kind == "document"}
    worth = {name: parts for name, parts in sentences.items() if len(parts) > n_responses}
    return worth if _n_spared(worth, n_responses) >= n_responses * n_bare else {}


def _n_spared(sentences: Mapping[str, Sequence[str]], n_responses: int) -> int:
    """Prompts that documents leave for sentences as the only context, where all sentences are left out."""
    return sum(len(parts) - n_responses - 1 for parts in sentences.values())


@dataclass(frozen=True, slots=True)
class Rows:
    """Log-probabilities of a response under prompts, by name of the piece that is left out, or alone."""

    bare: FloatArray
    """(response,), nats, as all of these."""
    whole: FloatArray
    without: dict[str, FloatArray] = field(default_factory=dict)
    alone: dict[str, FloatArray] = field(default_factory=dict)
    others: list[FloatArray] = field(default_factory=list)
    """Of the irrelevant piece as the only context, then of it in the context."""

    @classmethod
    def from_array(cls, names: Sequence[str], alone: Sequence[str], rows: FloatArray) -> Rows:
        """Out of one array: bare, whole, without each piece, each alone, and others."""
        n, m = 2 + len(names), 2 + len(names) + len(alone)
        return cls(
            rows[0],
            rows[1],
            dict(zip(names, rows[2:n], strict=True)),
            dict(zip(alone, rows[n:m], strict=True)),
            list(rows[m:]),
        )

    def together(self, names: Sequence[str], alone: Sequence[str]) -> FloatArray:
        """As one array, of which `from_array` makes them."""
        parts = (self.without[name] for name in names), (self.alone[name] for name in alone)
        return np.stack([self.bare, self.whole, *parts[0], *parts[1], *self.others])


@dataclass(slots=True)
class Scored:
    """What is known of a response so far, and of intervals the half-widths."""

    values: Rows
    half_widths: Rows | None

    @classmethod
    def from_scores(cls, names: Sequence[str], alone: Sequence[str], scores: Scores) -> Scored:
        widths = scores.half_width
        return cls(
            Rows.from_array(names, alone, scores.values),
            None if widths is None else Rows.from_array(names, alone, widths),
        )

    def add(self, names: Sequence[str], scores: Scores, *, alone: bool) -> None:
        """Rows of further pieces, left out or alone; where some rows are intervals, all are."""
        if scores.half_width is not None and self.half_widths is None:
            self.half_widths = Rows(
                np.zeros_like(self.values.bare),
                np.zeros_like(self.values.whole),
                {name: np.zeros_like(row) for name, row in self.values.without.items()},
                {name: np.zeros_like(row) for name, row in self.values.alone.items()},
                [np.zeros_like(row) for row in self.values.others],
            )
        widths = scores.half_width
        for rows, added in ((self.values, scores.values), (self.half_widths, widths)):
            if rows is not None:
                new = np.zeros_like(scores.values) if added is None else added
                (rows.alone if alone else rows.without).update(zip(names, new, strict=True))

    def together(self, names: Sequence[str], alone: Sequence[str]) -> Scores:
        widths = self.half_widths
        return Scores(
            self.values.together(names, alone),
            half_width=None if widths is None else widths.together(names, alone),
        )

    def without(self, name: str) -> FloatArray:
        """What the piece does, left out: (response,), nats."""
        return _difference(self.values.whole, self.values.without[name])

    def alone(self, name: str) -> FloatArray:
        """What it does as the only context."""
        return _difference(self.values.alone[name], self.values.bare)

    def most_without(self, name: str) -> FloatArray:
        """The same at most, where log-probabilities are known by intervals."""
        widths = self.half_widths
        return self.without(name) + (0.0 if widths is None else widths.whole + widths.without[name])

    def most_alone(self, name: str) -> FloatArray:
        widths = self.half_widths
        return self.alone(name) + (0.0 if widths is None else widths.bare + widths.alone[name])


def _difference(values: FloatArray, less: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):  # where both rule a token out, the case is refused
        return finite(values - less)


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
    scored: Sequence[Scored]
    """By response."""
    noise: FloatArray
    """Of a measurement of each token of the first response, nats."""
    n_bare: int
    """Prompts that every further request scores again."""
    longest: bool = False
    """Whether as much is asked for as may be, whatever the scores."""

    def documents(self) -> list[str]:
        """Those that matter: what one does to some stretch of a response is above noise and an irrelevant text."""
        return [name for name in self.sentences if self.longest or self._matters(name)]

    def _matters(self, name: str) -> bool:
        # Noise is that of the first response; a document that moves a further response is never below it.
        later = (self._is_above(ladder.most_without(name), alone=False, noise=None) for ladder in self.scored[1:])
        return any(self._first(name)) or any(later)

    def _first(self, name: str) -> tuple[bool, bool]:
        """Whether the document does so to the first response, left out and alone."""
        first = self.scored[0]
        return (
            self._is_above(first.most_without(name), alone=False, noise=self.noise),
            self._is_above(first.most_alone(name), alone=True, noise=self.noise),
        )

    def _is_above(self, nats: FloatArray, *, alone: bool, noise: FloatArray | None) -> bool:
        least = max(LEAST_EFFECT_NATS, self._irrelevant(alone=alone))
        if noise is None:
            return _most(nats) > least
        # The stretch with most, and the one that is furthest above its noise, which may be shorter.
        stretches = (best_stretch(nats), best_stretch(nats - noise))
        return any(nats[tokens].sum() > max(least, noise[tokens].sum()) for tokens in stretches)

    def _irrelevant(self, *, alone: bool) -> float:
        """What an irrelevant text does to a stretch at least, as the only context or within it; 0 where none fits."""
        numbers = slice(0, 1) if alone else slice(1, None)

        def against(rows: Rows) -> FloatArray:
            return rows.bare if alone else rows.whole

        first = self.scored[0]
        effects = [_difference(row, against(first.values)) for row in first.values.others[numbers]]
        if first.half_widths is not None:
            wide = [row + against(first.half_widths) for row in first.half_widths.others[numbers]]
            effects = [effect - width for effect, width in zip(effects, wide, strict=True)]
        return max(map(_most, effects), default=0.0)

    def alone(self, documents: Sequence[str]) -> list[str]:
        """Sentences to score as the only context, most promising first, as many as there are prompts left for."""
        n_responses = len(self.scored)
        n_sentences = sum(len(parts) for parts in self.sentences.values())
        n_left_out = sum(len(self.sentences[name]) for name in documents)
        # For sentences that are left in, no prompt was spent on any response.
        n_left = _n_spared(self.sentences, n_responses) + n_responses * (n_sentences - n_left_out)
        n_left -= self.n_bare * (n_responses + 1)
        if self.longest:
            # Where few documents matter, more is left for their sentences: it is counted with all of them.
            return [part for name in documents for part in self.sentences[name]]
        candidates = [part for name in documents if self._is_open(name) for part in self.sentences[name]]
        order = {name: number for number, name in enumerate(candidates)}
        repeating = {span.name for span in self.item.spans if span.repeats}
        first = self.scored[0]
        candidates.sort(key=lambda name: (name not in repeating, -_most(first.without(name)), order[name]))
        return candidates[: max(n_left, 0)]

    def _is_open(self, name: str) -> bool:
        """Whether no sentence, left out, accounts for half of what the document does on its best stretch."""
        first, (by_without, by_alone) = self.scored[0], self._first(name)
        effects = [*([first.without(name)] if by_without else []), *([first.alone(name)] if by_alone else [])]
        return any(not any(self._accounting(name, effect)) for effect in effects)

    def _accounting(self, name: str, effect: FloatArray) -> Iterator[bool]:
        tokens = best_stretch(effect)
        parts: Iterable[FloatArray] = (self.scored[0].without(part) for part in self.sentences[name])
        return (part[tokens].sum() >= ACCOUNTS * effect[tokens].sum() for part in parts)
