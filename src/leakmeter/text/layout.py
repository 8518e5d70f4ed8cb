"""One tokenisation of a case: segments to ids, and where each context token stands in the text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from leakmeter.core.case import Document
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY, Piece, Prompt
from leakmeter.core.tokenizer import Tokenizer
from leakmeter.text import units
from leakmeter.text.templates import Segment

SEPARATOR = "\n\n"

TokenRange = tuple[int, int]
CharRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ContextToken:
    """Where a token of the context stands."""

    document: int
    anchor: int
    """The character of the context that decides which unit the token belongs to."""
    end: int
    """The character of the context behind the token's last."""


class Layout:
    """A tokenised prompt whose context can be split at any token.

    Context tokens are counted from 0 over all documents; characters count in `context`, the documents joined by
    blank lines.
    """

    def __init__(self, segments: Sequence[Segment], documents: Sequence[Document], tokenizer: Tokenizer) -> None:
        self.segments = tuple(segments)
        self.documents = tuple(documents)
        self._tokenizer = tokenizer
        self.context = SEPARATOR.join(document.text for document in documents)
        self.document_starts: list[int] = []
        cursor = 0
        for document in documents:
            self.document_starts.append(cursor)
            cursor += len(document.text) + len(SEPARATOR)
        self.tokens: list[ContextToken] = []
        self._ids: list[tuple[int, ...]] = []
        for i, segment in enumerate(self.segments):
            if segment.document is not None:
                self._ids.append(self._encode_document(segment, segment.document, first=i == 0))
            elif segment.role == QUERY:
                self._ids.append(tokenizer.encode_data(segment.text, first=i == 0).ids)
            else:
                self._ids.append(tokenizer.encode_frame(segment.text, first=i == 0))
        start = tokenizer.start_ids
        # Only a template can have written them itself: a text that happens to begin alike has not.
        opens = self.segments[0].document is None and self.segments[0].role != QUERY
        self._start_ids = () if opens and self._ids[0][: len(start)] == start else start
        self.n_tokens = len(self._start_ids) + sum(map(len, self._ids))

    def _encode_document(self, segment: Segment, document: int, *, first: bool) -> tuple[int, ...]:
        coded = self._tokenizer.encode_data(segment.text, first=first)
        start = self.document_starts[document]
        shift = start - (len(segment.text) - len(self.documents[document].text))
        for anchor, (_, end) in zip(units.anchors(segment.text, coded.offsets), coded.offsets, strict=True):
            self.tokens.append(ContextToken(document, max(anchor + shift, start), max(end + shift, start)))
        return coded.ids

    def token_range(self, chars: CharRange) -> TokenRange | None:
        """The context tokens that belong to a range of characters, or None if no token begins in it."""
        inside = [i for i, token in enumerate(self.tokens) if chars[0] <= token.anchor < chars[1]]
        return (inside[0], inside[-1] + 1) if inside else None

    def tokens_touching(self, chars: CharRange) -> TokenRange | None:
        """The context tokens that hold any of a range of characters, or None; spaces before it go with it.

        Tokens at its ends may hold characters of its neighbours too: what is taken away must be gone.
        """
        start, end = chars
        first = bisect_left(self.tokens, start, key=lambda token: token.anchor)
        while first and self.tokens[first - 1].end > start:
            first -= 1
        last = bisect_left(self.tokens, end, key=lambda token: token.anchor)
        return (first, last) if first < last else None

    def char_range(self, tokens: TokenRange) -> CharRange:
        """The characters of a range of context tokens, without the space around them."""
        first, last = self.tokens[tokens[0]], self.tokens[tokens[1] - 1]
        return trimmed(self.context, (first.anchor, max(last.end, first.anchor + 1)))

    def prompt(self, boundaries: Collection[int] = ()) -> Prompt:
        """The prompt, its context split before each of the given tokens.

        A piece of context is named 't' and its first token's number, a frame that belongs to a message '#' and the
        number of its segment.
        """
        edges = frozenset(boundaries)
        pieces = [Piece("start", FRAME, self._start_ids)] if self._start_ids else []
        token = 0
        for i, (segment, ids) in enumerate(zip(self.segments, self._ids, strict=True)):
            if segment.document is None:
                role = CONTEXT if segment.owner is not None else segment.role
                pieces.append(Piece(f"#{i}", role, ids))
                continue
            cuts = [j for j in range(len(ids)) if j == 0 or token + j in edges]
            for a, b in pairwise([*cuts, len(ids)]):
                pieces.append(Piece(f"t{token + a}", CONTEXT, ids[a:b]))
            token += len(ids)
        return Prompt(tuple(pieces))

    def frames_of(self, owners: Collection[str]) -> tuple[str, ...]:
        """Names of the frame pieces that come and go with these messages."""
        return tuple(f"#{i}" for i, s in enumerate(self.segments) if s.document is None and s.owner in owners)

    def document_of(self, ranges: Iterable[TokenRange]) -> str | None:
        """Name of the document that all of these context tokens stand in; None where they stand in several.

        Args:
            ranges: one or more, none of them empty, each within one document.
        """
        names = {self.documents[self.tokens[first].document].name for first, _ in ranges}
        return names.pop() if len(names) == 1 else None

    def owner_of(self, document: int) -> str | None:
        """The message a document is part of."""
        return next(s.owner for s in self.segments if s.document == document)

    def rewritten(self, ranges: Iterable[CharRange], owners: Collection[str] = ()) -> Prompt:
        """The prompt of the text with some characters and messages taken out, tokenised anew."""
        parts = tuple(ranges)
        texts = [
            without_characters(document.text, [(a - start, b - start) for a, b in parts])
            for document, start in zip(self.documents, self.document_starts, strict=True)
        ]
        return self._with_texts(texts, owners)

    def replaced(self, new: Mapping[CharRange, str]) -> Prompt:
        """The prompt of the text with other characters in the place of some ranges, tokenised anew.

        Args:
            new: the text for each range of characters; no range lies in two documents, none overlap.
        """
        texts: list[str] = []
        for document, start in zip(self.documents, self.document_starts, strict=True):
            text = document.text
            for (a, b), other in sorted(new.items(), reverse=True):
                if start <= a and b <= start + len(document.text):
                    text = text[: a - start] + other + text[b - start :]
            texts.append(text)
        return self._with_texts(texts, ())

    def _with_texts(self, texts: Sequence[str], owners: Collection[str]) -> Prompt:
        """The prompt with other texts of the documents and without some messages, tokenised anew."""
        documents = [replace(document, text=text) for document, text in zip(self.documents, texts, strict=True)]
        segments: list[Segment] = []
        for segment in self.segments:
            if segment.owner is not None and segment.owner in owners:
                continue
            if segment.document is not None:
                old = self.documents[segment.document].text
                prefix = segment.text[: len(segment.text) - len(old)]
                new = documents[segment.document].text
                if not new.strip():
                    continue
                segment = replace(segment, text=prefix + new)
            segments.append(segment)
        return Layout(segments, documents, self._tokenizer).prompt()

    def shortened(self, n_tokens: int) -> Layout:
        """The layout without the context's last tokens, its text cut where they began."""
        limit = self.tokens[-n_tokens].anchor
        documents = [
            replace(document, text=document.text[: max(limit - start, 0)].rstrip())
            for document, start in zip(self.documents, self.document_starts, strict=True)
        ]
        kept = [document for document in documents if document.text]
        number = {id(document): i for i, document in enumerate(kept)}
        segments = []
        for segment in self.segments:
            if segment.document is None:
                segments.append(segment)
                continue
            new = documents[segment.document]
            if new.text:
                old = self.documents[segment.document].text
                prefix = segment.text[: len(segment.text) - len(old)]
                segments.append(replace(segment, text=prefix + new.text, document=number[id(new)]))
        return Layout(segments, kept, self._tokenizer)


def without_characters(text: str, ranges: Iterable[CharRange]) -> str:
    """The text without some ranges of characters, which may overlap or reach beyond it, and no doubled spaces there."""
    apart: list[CharRange] = []
    for a, b in sorted(ranges):
        low, high = max(a, 0), min(b, len(text))
        if apart and low < apart[-1][1]:
            low, high = apart[-1][0], max(apart.pop()[1], high)
        if low < high:
            apart.append((low, high))
    for i, (low, high) in reversed(list(enumerate(apart))):
        before = apart[i - 1][1] if i else 0
        # The space before goes with what is cut, so that none is left doubled or at an end.
        while low > before and text[low - 1] == " " and (high == len(text) or text[high].isspace()):
            low -= 1
        while low == 0 and high < len(text) and text[high] == " ":
            high += 1
        text = text[:low] + text[high:]
    return text


def trimmed(text: str, chars: CharRange) -> CharRange:
    """The range without white space at its ends; unchanged if it is nothing else."""
    inner = text[chars[0] : chars[1]]
    if not inner.strip():
        return chars
    return (chars[0] + len(inner) - len(inner.lstrip()), chars[1] - (len(inner) - len(inner.rstrip())))
