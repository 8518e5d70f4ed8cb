"""Spans of a layout: its units, the values that it says more than once, and prompts without some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from leakmeter.core.item import EntityTexts, Span
from leakmeter.core.prompt import CONTEXT, Prompt
from leakmeter.text import repeats, units
from leakmeter.text.layout import CharRange, Layout, TokenRange

_LETTER = {"ngram": "g", "word": "w", "sentence": "s", "line": "l", "paragraph": "p"}


@dataclass(frozen=True, slots=True)
class Cover:
    """A span before it has pieces: what it covers, in tokens and characters."""

    name: str
    kind: str
    tokens: tuple[TokenRange, ...]
    chars: tuple[CharRange, ...]
    document: str | None
    owners: frozenset[str] = frozenset()
    """Messages that go as a whole, turn markers included."""
    entity: EntityTexts | None = None
    """For personal data: what it is."""

    @property
    def n_tokens(self) -> int:
        """Context tokens covered."""
        return sum(b - a for a, b in self.tokens)


def of_units(layout: Layout, unit: units.Unit) -> list[Cover]:
    """The units of a context, in order; blocks and text units tile it, sliding n-grams overlap.

    Entities are found by `personal.of_entities`.
    """
    by_document = _tokens_by_document(layout)
    everyone = frozenset(s.owner for s in layout.segments if s.owner is not None)
    if unit.kind == "whole":
        return [_cover(layout, "whole", list(by_document.values()), None, everyone)]
    if unit.kind == "message":
        owners = list(dict.fromkeys(s.owner for s in layout.segments if s.owner is not None))
        return [
            _cover(
                layout,
                owner,
                [tokens for i, tokens in by_document.items() if layout.owner_of(i) == owner],
                owner,
                frozenset({owner}),
            )
            for owner in owners
        ]
    out: list[Cover] = []
    for number, (first, end) in by_document.items():
        name = layout.documents[number].name
        if unit.kind == "document":
            out.append(_cover(layout, name, [(first, end)], name))
            continue
        for tokens in _cut(layout, unit, number, (first, end)):
            out.append(_cover(layout, f"{_LETTER[unit.kind]}{len(out) + 1}", [tokens], name))
    return out


def _cut(layout: Layout, unit: units.Unit, number: int, tokens: TokenRange) -> list[TokenRange]:
    first, end = tokens
    if unit.kind == "ngram":
        return [(first + a, first + b) for a, b in units.windows_in_tokens(unit, end - first)]
    start = layout.document_starts[number]
    starts = units.starts_in_characters(unit.kind, layout.documents[number].text)
    anchors = [layout.tokens[i].anchor - start for i in range(first, end)]
    return [(first + a, first + b) for a, b in units.token_ranges(starts, anchors)]


def of_values(layout: Layout) -> list[Cover]:
    """Each value said more than once, all its mentions one span."""
    out: list[Cover] = []
    for value in repeats.find(layout.context):
        pairs = [(layout.token_range(mention), mention) for mention in value.mentions]
        said = [(tokens, mention) for tokens, mention in pairs if tokens is not None]
        if len(said) > 1:
            out.append(
                Cover(
                    f"v{len(out) + 1}",
                    "value",
                    tuple(tokens for tokens, _ in said),
                    tuple(mention for _, mention in said),
                    layout.document_of(tokens for tokens, _ in said),
                )
            )
    return out


def repeated_in(layout: Layout, spans: Sequence[Cover], values: Iterable[Cover]) -> dict[str, tuple[str, ...]]:
    """For each unit, the other units that say a value which it says, or the very same words."""
    others: dict[str, dict[str, None]] = {span.name: {} for span in spans}
    groups = [
        [s.name for s in spans if any(a <= start and end <= b for a, b in s.chars for start, end in value.chars)]
        for value in values
    ]
    by_text: dict[str, list[str]] = {}
    for span in spans:
        words = " ".join(layout.context[a:b].casefold() for a, b in span.chars).split()
        if sum(map(len, words)) > 3:
            by_text.setdefault(" ".join(words), []).append(span.name)
    for group in [*groups, *by_text.values()]:
        for name in group:
            others[name].update((other, None) for other in group if other != name)
    return {name: tuple(found) for name, found in others.items()}


def _cover(
    layout: Layout,
    name: str,
    tokens: Sequence[TokenRange],
    document: str | None,
    owners: frozenset[str] = frozenset(),
) -> Cover:
    chars = tuple(layout.char_range(part) for part in tokens)
    return Cover(name, "unit", tuple(tokens), chars, document, owners)


def _tokens_by_document(layout: Layout) -> dict[int, TokenRange]:
    out: dict[int, TokenRange] = {}
    start = 0
    for number in range(len(layout.documents)):
        end = start
        while end < len(layout.tokens) and layout.tokens[end].document == number:
            end += 1
        if end > start:
            out[number] = (start, end)
        start = end
    return out


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
        gone = [self.spans[name] for name in names]
        pieces = {piece for _, span in gone for piece in span.pieces}
        if pieces.issuperset(self.prompt.names(CONTEXT)):
            # What a stranger could have built: no gap, which would tell the length of the context.
            return self.prompt.blank()
        if self.removal == "retokenize":
            chars = [part for cover, _ in gone for part in cover.chars]
            return self.layout.rewritten(chars, {owner for cover, _ in gone for owner in cover.owners})
        if self.removal == "mask":
            return self.prompt.masking(*pieces)
        return self.prompt.without(*pieces)
