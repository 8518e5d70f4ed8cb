"""Spans of a layout: its units, the values that it says more than once, personal data, and prompts without some of
them, or with surrogates in their place."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Final

from leakmeter.core.item import EntityTexts, Span
from leakmeter.core.long_work import checkpoint
from leakmeter.core.prompt import CONTEXT, Prompt
from leakmeter.text import function_words, repeats, structured, units
from leakmeter.text.entities.mention import Entity, Recogniser
from leakmeter.text.escapes import as_meant
from leakmeter.text.layout import LOOSE, CharRange, Layout, Removed, TokenRange, trimmed
from leakmeter.text.matching import folded, words
from leakmeter.text.structured import parts_of


class Holders:
    """Ranges of characters [start, end), which may overlap, and the number of what has each."""

    def __init__(self, ranges: Iterable[tuple[CharRange, int]]) -> None:
        self._ranges = sorted(ranges, key=itemgetter(0))
        self._starts = [start for (start, _), _ in self._ranges]
        self._reach = list(accumulate((end for (_, end), _ in self._ranges), max))

    def holding(self, start: int, end: int) -> Iterator[int]:
        """Everything with a range that holds all of this one; once for each such range."""
        at = bisect_right(self._starts, start) - 1
        # No range before reaches as far as this one's end.
        while at >= 0 and self._reach[at] >= end:
            (_, last), owner = self._ranges[at]
            if last >= end:
                yield owner
            at -= 1


_LETTER = {"ngram": "g", "word": "w", "sentence": "s", "line": "l", "paragraph": "p"}


@dataclass(frozen=True, slots=True)
class Cover:
    """A span before it has pieces: what it covers, in tokens and characters."""

    name: str
    kind: str
    tokens: tuple[TokenRange, ...]
    chars: tuple[CharRange, ...]
    """Without the white space around them, as they are shown."""
    document: str | None
    owners: frozenset[str] = frozenset()
    """Messages that go as a whole, turn markers included."""
    entity: EntityTexts | None = None
    """For personal data: what it is."""
    field: str | None = None
    """For a value of a record: the path that leads to it."""
    parts: tuple[CharRange, ...] = ()
    """All characters that go when it is removed, white space included; none for n-grams, which are tokens."""

    @property
    def n_tokens(self) -> int:
        return sum(b - a for a, b in self.tokens)


def of_units(layout: Layout, unit: units.Unit) -> list[Cover]:
    """The units of a context, in order; blocks and text units tile it, sliding n-grams overlap. Entities are found by
    `of_entities`."""
    by_document = layout.tokens_of
    if unit.kind == "whole":
        return [_cover(layout, "whole", _whole(layout, by_document), None, layout.owners)]
    if unit.kind == "message":
        owners = list(dict.fromkeys(s.owner for s in layout.segments if s.owner is not None))
        return [
            _cover(
                layout,
                owner,
                _whole(layout, {i: tokens for i, tokens in by_document.items() if layout.owner_of(i) == owner}),
                owner,
                frozenset({owner}),
            )
            for owner in owners
        ]
    if unit.kind == "document":
        places: dict[str, dict[int, TokenRange]] = {}
        for number, tokens in by_document.items():
            places.setdefault(layout.documents[number].name, {})[number] = tokens
        return [_cover(layout, name, _whole(layout, held), name) for name, held in places.items()]
    if unit.kind == units.AUTO:
        return of_units(layout, units.Unit("sentence"))
    out: list[Cover] = []
    for number, tokens in by_document.items():
        name = layout.documents[number].name
        records = structured.stretches(layout.documents[number].text) if unit.kind == "sentence" else ()
        if records:
            out += _of_records(layout, number, records)
        else:
            out += [_cover(layout, "", [part], name) for part in _cut(layout, unit, number, tokens)]
    return _named(out, _LETTER[unit.kind])


def _of_records(layout: Layout, number: int, records: Sequence[structured.Stretch]) -> Iterator[Cover]:
    """Values of records, each a unit with its key, and the sentences of the prose around them. What is left where a
    value goes, such as brackets, is of no unit."""
    start, text = layout.document_ranges[number][0], layout.documents[number].text
    name = layout.documents[number].name
    at = 0
    for record in records:
        yield from _prose(layout, number, (at, record.start))
        for field in record.fields:
            checkpoint()
            for part in _sentences_of(text, field):
                first, last = trimmed(text, part)
                tokens = layout.tokens_touching((start + first, start + last))
                if tokens is not None:
                    # In front of a line of a table stands the one before.
                    low = first if record.is_table else len(text[record.start : first].rstrip()) + record.start
                    chars, tile = (start + first, start + last), (start + low, start + part[1])
                    yield Cover("", "unit", (tokens,), (chars,), name, field=field.path, parts=(tile,))
        at = record.end
    yield from _prose(layout, number, (at, len(text)))


def _prose(layout: Layout, number: int, chars: CharRange) -> Iterator[Cover]:
    start, text = layout.document_ranges[number][0], layout.documents[number].text[slice(*chars)]
    first = start + chars[0]
    tokens = layout.token_range((first, start + chars[1]))
    if tokens is None or not text.strip():
        return
    anchors = [layout.tokens[i].anchor - first for i in range(*tokens)]
    for (a, b), (low, high) in units.tiles(units.starts_in_characters("sentence", text), anchors, len(text)):
        part = (tokens[0] + a, tokens[0] + b), (first + low, first + high)
        yield _cover(layout, "", [part], layout.documents[number].name)


_LEAST_TEXT: Final = 120
"""Characters of a value from where its sentences are units."""


def _sentences_of(text: str, field: structured.Field) -> list[CharRange]:
    """What of a document goes with a field: key and value, or of a value of several sentences each."""
    first, last = field.value
    if field.kind != "text" or last - first < _LEAST_TEXT:
        return [field.pair]
    starts = units.starts_in_characters("sentence", text[first:last])[1:]
    edges = [field.pair[0], *(first + start for start in starts), field.pair[1]]
    return [(a, b) for a, b in pairwise(edges) if text[a:b].strip()]


def _named(covers: Sequence[Cover], letter: str) -> list[Cover]:
    """Units by their number; values of records by the path that leads to them, and their document if others have it."""
    documents: dict[str, set[str | None]] = {}
    for cover in covers:
        if cover.field is not None:
            documents.setdefault(cover.field, set()).add(cover.document)
    taken: set[str] = set()
    counts: Counter[str] = Counter()
    named: list[Cover] = []
    for cover in covers:
        if cover.field is None:
            counts[letter] += 1
            base = f"{letter}{counts[letter]}"
        else:
            base = cover.field if len(documents[cover.field]) == 1 else f"{cover.document} → {cover.field}"
        name = base
        while name in taken:
            counts[base] += 1
            name = f"{base} ({counts[base] + 1})"
        taken.add(name)
        named.append(replace(cover, name=name))
    return named


_LEAST_TOGETHER: Final = 8
"""Values of a record that an answer shares no word with, from how many on they are measured together first."""


def of_other_fields(layout: Layout, covers: Sequence[Cover], answer: str) -> list[Cover]:
    """Of each document the values of records of which an answer has no word, nor one of their keys, as one span."""
    said = {word for word, _, _ in words(answer) if not function_words.are_all(word)}
    by_document: dict[str | None, list[Cover]] = {}
    for cover in covers:
        checkpoint()
        if cover.field is not None and said.isdisjoint(_words_of(as_meant(layout.context, *cover.chars[0]))):
            by_document.setdefault(cover.document, []).append(cover)
    return [
        replace(
            of_mentions(
                layout,
                f"{len(parts)} other fields of {document}",
                "fields",
                {cover.chars[0]: cover.tokens[0] for cover in parts},
            ),
            parts=tuple(part for cover in parts for part in cover.parts),
        )
        for document, parts in by_document.items()
        if len(parts) >= _LEAST_TOGETHER
    ]


def _words_of(pair: str) -> Iterator[str]:
    """Words of a key and its value, those of 'creditScore' too."""
    for word, start, end in words(pair):
        yield word
        for part in parts_of(pair[start:end]):
            yield folded(part)


def documents_of(layout: Layout, sentences: Sequence[Cover]) -> list[Cover]:
    """Documents of two or more sentences; none where all sentences are of one document."""
    of_each = Counter(cover.document for cover in sentences)
    if len(of_each) < 2:
        return []
    covers = of_units(layout, units.Unit("document"))
    return [replace(cover, kind="document") for cover in covers if of_each[cover.document] > 1]


def around(layout: Layout, unit: units.Unit) -> list[Cover]:
    """Paragraphs and documents that units stand in; none where there is one only, or no units smaller than it."""
    larger: list[Cover] = []
    smaller = ("ngram", "word", "sentence", "line", "entity")
    for level, below in (("paragraph", smaller), ("document", (*smaller, "paragraph"))):
        covers = of_units(layout, units.parse(level)) if unit.kind in below else []
        of_each = Counter(cover.document for cover in covers)
        # A document of one paragraph is its document.
        if level == "paragraph":
            covers = [cover for cover in covers if of_each[cover.document] > 1 or len(of_each) == 1]
        if len(covers) > 1:
            larger += [replace(cover, kind=level) for cover in covers]
    return larger


SpanRange = tuple[TokenRange, CharRange | None]


def _whole(layout: Layout, by_document: Mapping[int, TokenRange]) -> list[SpanRange]:
    return [(tokens, layout.document_ranges[i]) for i, tokens in by_document.items()]


def _cut(layout: Layout, unit: units.Unit, number: int, tokens: TokenRange) -> list[SpanRange]:
    first, end = tokens
    if unit.kind == "ngram":
        return [((first + a, first + b), None) for a, b in units.windows_in_tokens(unit, end - first)]
    start, text = layout.document_ranges[number][0], layout.documents[number].text
    starts = units.starts_in_characters(unit.kind, text)
    anchors = [layout.tokens[i].anchor - start for i in range(first, end)]
    return [
        ((first + a, first + b), (start + from_, start + to))
        for (a, b), (from_, to) in units.tiles(starts, anchors, len(text))
    ]


def of_values(layout: Layout) -> list[Cover]:
    """Each value said more than once, all its mentions one span."""
    out: list[Cover] = []
    for value in repeats.find(layout.context):
        checkpoint()
        mentions = {chars: tokens for chars in value.mentions if (tokens := layout.token_range(chars)) is not None}
        if len(mentions) > 1:
            out.append(of_mentions(layout, f"v{len(out) + 1}", "value", mentions))
    return out


def of_mentions(layout: Layout, name: str, kind: str, mentions: Mapping[CharRange, TokenRange]) -> Cover:
    """Characters and their tokens, which may overlap, as one span."""
    tokens: list[TokenRange] = []
    for start, end in sorted(mentions.values()):
        if tokens and start < tokens[-1][1]:
            tokens[-1] = (tokens[-1][0], max(tokens[-1][1], end))
        else:
            tokens.append((start, end))
    chars = tuple(mentions)
    return Cover(name, kind, tuple(tokens), chars, layout.document_of(mentions.values()), parts=chars)


def of_entities(
    layout: Layout, *, region: str, patterns: str | None, packs: Sequence[str] = (), recognise: Recogniser | None
) -> list[Cover]:
    """Each value or person that a context says, all mentions one span; what lies between belongs to none. `patterns`
    are lines 'TYPE = REGEX' of the user, or the name of a file with them; `packs` are texts of packs of the user."""
    from leakmeter.text.entities import find, pattern

    lines = pattern.resolved(patterns)
    own = [] if lines is None else pattern.parse(lines)
    out: list[Cover] = []
    numbers: dict[str, int] = {}
    for entity in find.find(
        layout.context, layout.document_ranges, region=region, patterns=own, packs=packs, recognise=recognise
    ):
        mentions = {chars: tokens for chars in entity.mentions if (tokens := layout.tokens_touching(chars)) is not None}
        if mentions:
            numbers[entity.type] = numbers.get(entity.type, 0) + 1
            # 'phone1', but 'AWS access key 1'.
            space = " " * (" " in entity.type)
            cover = of_mentions(layout, f"{entity.type}{space}{numbers[entity.type]}", "unit", mentions)
            out.append(replace(cover, entity=EntityTexts(entity.type, entity.value, entity.text)))
    return out


def not_entities(values: Iterable[Cover], entities: Sequence[Cover]) -> list[Cover]:
    """The repeated values that are not already, wherever they stand, part of one entity."""
    holders = Holders((part, number) for number, entity in enumerate(entities) for part in entity.chars)
    return [
        value for value in values if not set.intersection(*(set(holders.holding(*mention)) for mention in value.chars))
    ]


def swapped(
    layout: Layout, covers: Sequence[Cover], *, region: str, seed: int, case_id: str, spare: int | None
) -> tuple[list[Cover], Mapping[str, Prompt]]:
    """Entities, each of which knows its surrogate, and by its name the prompt that says the surrogate instead,
    tokenised anew. Seed, case and entity decide what is drawn. There is no prompt that would grow by more than `spare`
    tokens; None for any number."""
    from leakmeter.text.surrogates.entity import surrogate_of

    swapped_covers: list[Cover] = []
    prompts: dict[str, Prompt] = {}
    for cover in covers:
        assert cover.entity is not None
        entity = Entity(cover.entity.type, cover.entity.value, cover.entity.text, cover.chars)
        surrogate = surrogate_of(entity, layout.context, region=region, seed=seed, case_id=case_id)
        swapped_covers.append(replace(cover, entity=replace(cover.entity, invented=surrogate.text)))
        prompt = layout.replaced(dict(zip(cover.chars, surrogate.mentions, strict=True)))
        if spare is None or len(prompt.ids) - layout.n_tokens <= spare:
            prompts[cover.name] = prompt
    return swapped_covers, prompts


def repeated_in(layout: Layout, spans: Sequence[Cover], values: Iterable[Cover]) -> dict[str, tuple[str, ...]]:
    """For each unit, the other units that say a value which it says, or the very same words."""
    others: dict[str, dict[str, None]] = {span.name: {} for span in spans}
    holders = Holders((part, number) for number, span in enumerate(spans) for part in span.chars)
    groups = []
    for value in values:
        checkpoint()
        saying = {number for mention in value.chars for number in holders.holding(*mention)}
        groups.append([spans[number].name for number in sorted(saying)])
    by_text: dict[str, list[str]] = {}
    for span in spans:
        words = " ".join(layout.context[a:b].casefold() for a, b in span.chars).split()
        if sum(map(len, words)) > 3:
            by_text.setdefault(" ".join(words), []).append(span.name)
    for group in [*groups, *by_text.values()]:
        for name in group:
            checkpoint()
            others[name].update((other, None) for other in group if other != name)
    return {name: tuple(names) for name, names in others.items()}


def _cover(
    layout: Layout,
    name: str,
    parts: Sequence[SpanRange],
    document: str | None,
    owners: frozenset[str] = frozenset(),
) -> Cover:
    tokens = tuple(part for part, _ in parts)
    # A token at the end goes with the unit's own characters alone.
    chars = tuple(layout.char_range(part) if tile is None else trimmed(layout.context, tile) for part, tile in parts)
    tiles = tuple(tile for _, tile in parts if tile is not None)
    return Cover(name, "unit", tokens, chars, document, owners, parts=tiles)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Makes the prompt without spans: what is cut for one of them is cut for it beside others."""

    layout: Layout
    prompt: Prompt
    """Of the layout, split where a span begins or ends."""
    removal: str
    """drop, mask or retokenize."""
    spans: Mapping[str, tuple[Cover, Span]]
    """By name, what each covers."""

    def __call__(self, names: Collection[str]) -> Prompt:
        """The prompt without these spans, which may overlap."""
        if self.is_all(names):
            # What a stranger could have built: no gap, which would tell the length of the context.
            return self.layout.blank()
        removed = self.removed(names)
        if self.removal == "retokenize":
            parts = [part for name in names for part in self.spans[name][0].chars]
            return self.layout.rewritten(parts, removed.owners)
        return self.layout.without(self.prompt, removed, mask=self.removal == "mask")

    def is_all(self, names: Collection[str]) -> bool:
        pieces = {piece for name in names for piece in self.spans[name][1].pieces}
        return pieces.issuperset(name for name in self.prompt.names(CONTEXT) if not name.startswith(LOOSE))

    def removed(self, names: Collection[str]) -> Removed:
        """What goes with these spans where they are taken out of the one tokenisation."""
        covers = [self.spans[name][0] for name in names]
        return Removed(
            chars=tuple(part for cover in covers for part in cover.parts),
            # Without parts a span's tokens go as they are, rather than what they hold of its characters.
            tokens=tuple(part for cover in covers if not cover.parts for part in cover.tokens),
            owners=frozenset(owner for cover in covers for owner in cover.owners),
        )
