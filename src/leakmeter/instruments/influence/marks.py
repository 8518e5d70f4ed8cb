"""Disclosures as pages mark them: in the response, in the context that they came from, and in a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from leakmeter.instruments.influence.context import Stretch
from leakmeter.instruments.influence.disclosure_report import kind_text
from leakmeter.instruments.influence.disclosures import Disclosure
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.report import blocks as b

_NAMED: Final = 3
"""Documents, or pieces, that a line names."""


def disclosures(case: InfluenceResult) -> b.Disclosures:
    """The disclosures of a response; pieces are known by their place among those of the case."""
    numbers = {piece.name: number for number, piece in enumerate(case.pieces)}
    several = len(case.documents) > 1
    disclosed = [disclosed_span(disclosure, numbers, several=several) for disclosure in case.disclosed]
    return b.Disclosures(disclosed, "What it gives away")


def disclosed_span(
    disclosure: Disclosure, numbers: Mapping[str, int], *, several: bool, origin: b.Phrase | None = None
) -> b.Disclosed:
    """A disclosure for a page.

    Args:
        disclosure: what it is.
        numbers: of pieces, by name.
        several: whether the context has several documents, whose names then tell where it came from.
        origin: where it came from, if it is not its sources that tell.
    """
    return b.Disclosed(
        b.Untrusted(disclosure.text, 80),
        b.Untrusted(kind_text(disclosure.kind), 24),
        disclosure.nats,
        _origin(disclosure, several=several) if origin is None else origin,
        (disclosure.first_token, disclosure.last_token + 1),
        [numbers[source.piece] for source in disclosure.sources if source.piece in numbers],
        disclosure.is_sensitive,
    )


def _origin(disclosure: Disclosure, *, several: bool) -> b.Phrase:
    """Documents, or, of an only one, pieces; and the words of the first that says it otherwise."""
    by_document = several and disclosure.documents
    names = disclosure.documents if by_document else [source.piece for source in disclosure.sources]
    if not names:
        return "no single piece"
    listed = [part for name in names[:_NAMED] for part in (", ", b.Untrusted(name, 40))][1:]
    n_more = len(names) - _NAMED
    more = f" and {n_more} more" if n_more > 0 else ""
    if disclosure.relation == "inferred" and len(disclosure.sources) > 1:
        return (*listed, f"{more} together")
    if disclosure.evidence == "words":
        return (*listed, f"{more}, by its words alone: the scores do not show it")
    words = () if disclosure.relation == "copied" else (": “", b.Untrusted(disclosure.sources[0].text, 80), "”")
    return (*listed, more, *words)


def parts(stretch: Stretch, disclosed: Sequence[Disclosure]) -> Sequence[b.Words]:
    """A stretch of the context, cut where the words begin and end that disclosures came from; empty where none did."""
    places = [
        (start, end, number)
        for number, disclosure in enumerate(disclosed)
        for source in disclosure.sources
        if (start := max(source.start - stretch.start, 0)) < (end := min(source.end - stretch.start, len(stretch.text)))
    ]
    if not places:
        return ()
    cuts = sorted({0, len(stretch.text), *(place for start, end, _ in places for place in (start, end))})
    words = []
    for first, last in pairwise(cuts):
        numbers = sorted({number for start, end, number in places if start <= first and last <= end})
        is_sensitive = any(disclosed[number].is_sensitive for number in numbers)
        words.append(b.Words(b.Untrusted(stretch.text[first:last]), numbers, is_sensitive))
    return words
