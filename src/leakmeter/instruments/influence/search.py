"""Which pieces of a long context matter: all are screened, a few scored exactly, some of the rest audited at random.

The screen runs the context once. For each piece, what stands behind the context is then run again without attention
to the piece: n · (|query| + |response|) tokens instead of n times half of the context. It ranks, and no more: the
pieces that it puts first are removed and scored as they are without a search. A model whose states are elsewhere is
screened by removal: of groups of pieces first, then of the parts of the groups that matter most.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np

from leakmeter.core.item import LEVELS, ContextItem, Span
from leakmeter.core.limits import bounded
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import MixtureLogProbs, PartialRows, TargetLogProbs
from leakmeter.core.request import Request, Trial
from leakmeter.errors import CapabilityError, UsageError
from leakmeter.instruments.influence.math import PieceScores, check_possible
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.hypergeometric import decimal_fraction, draws_needed, round_alpha

_SEARCH: Final = re.compile(r"top:([0-9]{1,9})(?::([0-9]{1,9}))?")
_AUDIT: Final = re.compile(r"([0-9]?\.[0-9]{1,12}|[0-9]):(?:([0-9]{1,9})|([0-9]{1,3}(?:\.[0-9]{1,9})?)%)")


@dataclass(frozen=True, slots=True)
class Search:
    """How many of the strongest pieces a search is for, and how many it scores at most; as text 'top:5' or 'top:5:40'.

    It scores more than K exactly: until the K-th has more than the rest is taken to reach.
    """

    k: int
    given_most: int | None = None
    """M of 'top:K:M'; None where it is not said."""

    def __post_init__(self) -> None:
        good, _, value, expected = bounded("top", self.k, 1, 1000)
        if not good:
            raise UsageError(f"search is 'top:{value}'; K has to be {expected}")
        if self.given_most is not None and self.given_most < self.k:
            raise UsageError(
                f"search is 'top:{self.k}:{self.given_most}'; M, the most pieces to score exactly, has to be "
                f"K = {self.k} or more"
            )

    @property
    def most(self) -> int:
        """Pieces that are scored exactly at most before an audit: M, or 4 K + 10."""
        return 4 * self.k + 10 if self.given_most is None else self.given_most

    @classmethod
    def parse(cls, text: str) -> Search:
        """'top:5' or 'top:5:40' to a search.

        >>> Search.parse("top:5")
        Search(k=5, given_most=None)
        """
        match = _SEARCH.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"search is {text!r}; give top:K, such as top:5 for the five strongest pieces, or top:K:M to score M "
                "exactly at most"
            )
        return cls(int(match[1]), None if match[2] is None else int(match[2]))


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit is to say: with which confidence at most how many pieces are missed; as text '0.95:3' or '0.95:5%'.

    How many pieces are drawn follows from it, before the draw.
    """

    confidence: float
    """At least 0.5 and below 1, read as the decimal that it prints as."""
    most_missed: int | float
    """B, pieces that are not listed and may exceed the threshold, if the audit finds none: an int is a count; a float
    is a percentage of the pieces left, rounded down to whole pieces."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1.0:
            raise UsageError(
                f"audit has confidence {self.confidence:.12g}; give at least 0.5 and less than 1, such as 0.95"
            )
        if isinstance(self.most_missed, int):
            if self.most_missed < 0:
                raise UsageError(f"audit may miss {self.most_missed} pieces; give a whole number of 0 or more")
        elif not 0.0 <= self.most_missed <= 100.0:
            raise UsageError(f"audit may miss {self.most_missed:.12g} % of the pieces; give 0 to 100")

    @classmethod
    def parse(cls, text: str) -> Audit:
        """'0.95:3' or '0.95:5%' to an audit.

        >>> Audit.parse("0.95:3"), Audit.parse("0.95:5%")
        (Audit(confidence=0.95, most_missed=3), Audit(confidence=0.95, most_missed=5.0))
        """
        match = _AUDIT.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"audit is {text!r}; give CONFIDENCE:B with a number of pieces or a percentage of those left, such as "
                "0.95:3 or 0.95:5%"
            )
        return cls(float(match[1]), float(match[3]) if match[2] is None else int(match[2]))

    @property
    def alpha(self) -> Fraction:
        """Probability of a false statement: 1 − confidence, as decimals.

        >>> Audit(0.95, 3).alpha
        Fraction(1, 20)
        """
        return 1 - decimal_fraction(self.confidence)

    def most_missed_of(self, n_left: int) -> int:
        """B as a number of pieces of N not scored exactly when the list was frozen; a percentage is rounded down.

        >>> Audit(0.95, 5.0).most_missed_of(59)
        2
        """
        if isinstance(self.most_missed, int):
            return self.most_missed
        return math.floor(decimal_fraction(self.most_missed) * n_left / 100)

    def draws(self, n_left: int, number: int = 1, n_rounds: int = 1) -> int:
        """Pieces to draw of N left, so that finding none above the threshold leaves B at most; in one of some rounds.

        >>> Audit(0.95, 0).draws(100), Audit(0.95, 5.0).draws(100)
        (95, 39)
        """
        return draws_needed(n_left, self.most_missed_of(n_left), round_alpha(self.alpha, number, n_rounds))


_ROWS_AT_ONCE: Final = 2048
"""Wanted rows of a round: their features are in memory together."""
_PARTS: Final = 4
"""Into which a group of pieces is cut that is screened by removal."""


@dataclass(slots=True)
class SearchScores(PieceScores):
    """What a search has scored; without `cuts`, which are exact, a piece has one of the others."""

    hidden: dict[str, FloatArray] = field(default_factory=dict)
    """With the piece hidden."""
    groups: dict[str, FloatArray] = field(default_factory=dict)
    """Without a group of pieces, for each of a group that was removed only as a whole."""
    audited: dict[str, int] = field(default_factory=dict)
    """Round of the audit, from 1, in which the piece was drawn."""

    def nats(self, row: FloatArray) -> float:
        """Σ_t |log p̄(y_t | D) − log p̄(y_t | …)| of the row of a prompt; infinite where it is not defined."""
        nats = float(np.abs(self.whole - row).sum())
        return float("inf") if np.isnan(nats) else nats

    @property
    def placebo_nats(self) -> float:
        """What an irrelevant piece does, mean over places; 0 where none fits."""
        moved = [np.abs(self.whole - row).sum() for row in self.placebos]
        return float(np.mean(moved)) if moved else 0.0


@dataclass(frozen=True, slots=True)
class Searcher:
    search: Search
    audit: Audit | None
    n_rounds: int
    """Most rounds of the audit."""
    reduction: TargetLogProbs | MixtureLogProbs
    response: tuple[int, ...]
    seed: int
    """Of the pieces that are audited."""

    def trial(self, item: ContextItem) -> Trial[SearchScores]:
        scored = SearchScores()
        units = [span.name for span in item.spans if span.kind == "unit"]
        if (yield from self._screen(item, scored)):
            yield from self._rescore(item, scored, units)
        else:
            yield from self._by_removal(item, scored, units)
        if self.audit is not None:
            yield from self._audited(item, scored, units, self.audit)
        return scored

    def _screen(self, item: ContextItem, scored: SearchScores) -> Trial[bool]:
        """Hide each piece in turn; whether the model can."""
        names = [span.name for span in item.spans]
        prompts = [item.prompt.hiding(*span.pieces) for span in item.spans]
        rows = yield from screened(item, self.response, self.reduction, prompts)
        if rows is None:
            (scores,) = yield [self._request(item, (item.prompt,))]
            check_possible(item, scores.values)
            scored.bare, scored.whole = scores.values
            return False
        check_possible(item, np.stack(rows))
        scored.bare, scored.whole, *hidden = rows
        scored.hidden.update(zip(names, hidden, strict=True))
        return True

    def _rescore(self, item: ContextItem, scored: SearchScores, units: Sequence[str]) -> Trial[None]:
        """Score the first pieces of the screen, until the rest is expected to reach less than the k-th or a placebo."""
        ranked = sorted(units, key=lambda name: -scored.nats(scored.hidden[name]))
        n, most = 0, min(self.search.most, len(units))
        beside = _leading(item.spans, scored, "value", self.search.k)
        for level in LEVELS:
            # Documents, and paragraphs, one of each, are scored exactly beside smaller pieces.
            beside += _leading(item.spans, scored, level, 1)
        while n < most:
            more = self.search.k if not n else max(1, self.search.k // 2)
            batch = ranked[n : min(n + more, most)]
            yield from self._score(item, scored, [*batch, *beside], keep=True)
            n, beside = n + len(batch), []
            exact = [scored.nats(scored.cuts[name]) for name in ranked[:n]]
            hidden, rest = ([scored.nats(scored.hidden[name]) for name in part] for part in (ranked[:n], ranked[n:]))
            if not rest or max(kth(exact, self.search.k), scored.placebo_nats) > reach(exact, hidden, rest):
                return

    def _by_removal(self, item: ContextItem, scored: SearchScores, units: Sequence[str]) -> Trial[None]:
        """Remove groups of pieces, then the parts of those with most nats, down to single pieces."""
        wholes = {span.name: _within(item.spans, span, units) for span in item.spans if span.kind == LEVELS[-1]}
        values = [span.name for span in item.spans if span.kind == "value"][: self.search.k]
        groups = [list(names) for names in wholes.values() if names] or list(_split(units, 2 * _PARTS))
        removed: dict[tuple[str, ...], FloatArray] = {}
        yield from self._score(item, scored, [*wholes, *values], keep=False)
        removed.update({tuple(names): scored.cuts[level] for level, names in wholes.items() if names})
        n_left = 2 * self.search.most
        groups = [] if wholes else groups
        while True:
            yield from self._score_groups(item, scored, groups, removed)
            n_left -= len(groups)
            threshold = self._kth(scored, units)
            waiting = [group for group, row in removed.items() if len(group) > 1 and scored.nats(row) > threshold]
            waiting.sort(key=lambda group: -scored.nats(removed[group]))
            parts: list[list[str]] = []
            group_rows: dict[str, FloatArray] = {}
            for group in waiting[: max(1, self.search.k // 2)]:
                row = removed.pop(group)
                group_rows.update(dict.fromkeys(group, row))
                parts += list(_split(group, _PARTS))
            groups = parts[: max(n_left, 0)]
            # Of parts that are too many, what is known is the group that they were last removed with.
            scored.groups.update({name: group_rows[name] for part in parts[len(groups) :] for name in part})
            if not groups:
                break
        for group, row in removed.items():
            scored.groups.update(dict.fromkeys(group, row))
        for name in scored.cuts:
            scored.groups.pop(name, None)

    def _kth(self, scored: SearchScores, units: Sequence[str]) -> float:
        return kth((scored.nats(scored.cuts[name]) for name in units if name in scored.cuts), self.search.k)

    def _score_groups(
        self,
        item: ContextItem,
        scored: SearchScores,
        groups: Sequence[Sequence[str]],
        known: dict[tuple[str, ...], FloatArray],
    ) -> Trial[None]:
        if not groups:
            return
        (scores,) = yield [self._request(item, [item.without(group) for group in groups])]
        for group, row in zip(groups, scores.values[1:], strict=True):
            if len(group) == 1:
                scored.cuts[group[0]] = row
            else:
                known[tuple(group)] = row

    def _audited(self, item: ContextItem, scored: SearchScores, units: Sequence[str], audit: Audit) -> Trial[None]:
        """Score rounds of pieces drawn at random from those without an exact score.

        List and threshold are from before the draw, which depends on the seed, the case and the round alone.
        """
        for number in range(1, self.n_rounds + 1):
            left = [name for name in units if name not in scored.cuts]
            if not left:
                return
            threshold = self._kth(scored, units)
            n_drawn = min(audit.draws(len(left), number, self.n_rounds), len(left))
            drawn = draw(left, n_drawn, self.seed, item.id, number)
            yield from self._score(item, scored, drawn, keep=bool(scored.hidden))
            scored.audited.update(dict.fromkeys(drawn, number))
            if not any(scored.nats(scored.cuts[name]) > threshold for name in drawn):
                return

    def _score(self, item: ContextItem, scored: SearchScores, names: Sequence[str], *, keep: bool) -> Trial[None]:
        """Score prompts without each piece, as without a search."""
        todo = [name for name in dict.fromkeys(names) if name not in scored.cuts]
        placebos = () if scored.placebos else item.placebos
        if not todo and not placebos:
            return
        request = self._request(item, [*(item.cuts[name] for name in todo), *placebos])
        answers = yield [states_of(item, self.response), request] if keep else [request]
        rows = answers[-1].values[1:]
        scored.cuts.update(zip(todo, rows, strict=False))
        scored.placebos.extend(rows[len(todo) :])

    def _request(self, item: ContextItem, prompts: Iterable[Prompt]) -> Request:
        return Request((item.blank, *prompts), self.response, self.reduction)


def screened(
    item: ContextItem,
    response: tuple[int, ...],
    reduction: TargetLogProbs | MixtureLogProbs,
    prompts: Sequence[Prompt],
) -> Trial[list[FloatArray] | None]:
    """Prompts with pieces hidden, a few rounds of them; the states of the whole prompt are then at hand.

    Rows of the bare prompt, of the whole one and of the others; None where the model hides nothing.
    """
    screened_rows: list[FloatArray] = []
    at_once = max(1, _ROWS_AT_ONCE // max(1, len(response)))
    for first in range(0, max(len(prompts), 1), at_once):
        batch = (item.blank, item.prompt, *prompts[first : first + at_once])
        try:
            answers = yield [states_of(item, response), Request(batch, response, reduction)]
        except CapabilityError:
            return None
        screened_rows += [*answers[-1].values[2 if first else 0 :]]
    return screened_rows


def hiding_of(item: ContextItem, scored: Request) -> Request | None:
    """The request with a piece hidden, as a screen asks; None where there is none to hide."""
    if not item.spans:
        return None
    return replace(scored, prompts=(item.blank, item.prompt, item.prompt.hiding(*item.spans[0].pieces)))


def states_of(item: ContextItem, response: tuple[int, ...]) -> Request:
    """A request for the last token of a response after the whole context: the next round begins with its states."""
    n = len(response)
    return Request((item.prompt,), response, PartialRows(TargetLogProbs(), n - 1, n))


def reach(exact: Sequence[float], screened: Sequence[float], rest: Sequence[float]) -> float:
    """What the rest of the pieces is taken to have at most, nats: a heuristic.

    Each of them is taken to have as many times its screened value as the pieces that were rescored have at most, and
    1.5 times at least. The screen itself selected those, so that this is no bound; what was missed the audit says.
    """
    floor = float(np.median([*screened, *rest]))
    ratios = [(e + floor) / (s + floor) for e, s in zip(exact, screened, strict=True) if s + floor > 0]
    return max([1.5, *ratios]) * (max(rest) + floor) - floor


def kth(exact: Iterable[float], k: int) -> float:
    """The k-th largest, nats; −1 where there are fewer."""
    ordered = sorted(exact, reverse=True)
    return ordered[k - 1] if len(ordered) >= k else -1.0


def draw(left: Sequence[str], n: int, seed: int, item_id: str, number: int) -> list[str]:
    """n of the pieces left, all sets equally likely, in the order of the context."""
    entropy = int.from_bytes(hashlib.sha256(b"audit\0" + item_id.encode()).digest()[:8])
    chosen = np.random.default_rng([seed, entropy, number]).choice(len(left), n, replace=False)
    return [left[i] for i in sorted(chosen.tolist())]


def _leading(spans: Sequence[Span], scored: SearchScores, kind: str, n: int) -> list[str]:
    names = [span.name for span in spans if span.kind == kind]
    return sorted(names, key=lambda name: -scored.nats(scored.hidden[name]))[:n]


def _within(spans: Sequence[Span], whole: Span, names: Collection[str]) -> tuple[str, ...]:
    held = set(whole.pieces)
    return tuple(span.name for span in spans if span.name in names and held.issuperset(span.pieces))


def _split(names: Sequence[str], n: int) -> Iterator[list[str]]:
    edges = np.linspace(0, len(names), min(n, len(names)) + 1).round().astype(int).tolist()
    for start, end in pairwise(edges):
        if start < end:
            yield list(names[start:end])
