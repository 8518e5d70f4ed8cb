"""One tokenisation of a case: the text that the model reads, to ids, and what each token is of.

The text is tokenised as one string, as a server does it. A token may then hold characters of neighbours: the
full stop of a document and the blank line that the template writes behind it. It belongs to the stretch in which its
first character stands that is no white space. Where a stretch is removed, what such a token holds of others is
tokenised on its own, and white space before the first word of a token goes with the word:

    text      Context: Anna sang.\\n\\nQuestion: Who?          document "Anna sang."
    tokens    [Context][:][ Anna][ sang][.\\n\\n][Question] …
    without   [Context][:][\\n\\n][Question] …

White space between two documents and at the end of one is loose: it belongs to no piece. What separates documents stays
while both have text, and what stands at the end of one while it has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.core.backend import Tokenizer
from leakmeter.core.long_work import checkpoint
from leakmeter.core.prompt import CONTEXT, FRAME, Piece, Prompt
from leakmeter.stats.arrays import BoolArray
from leakmeter.text import units
from leakmeter.text.joined import START, first_characters, owners
from leakmeter.text.templates import Writing
from leakmeter.text.turns import SEPARATOR

TokenRange = tuple[int, int]
CharRange = tuple[int, int]
_KEPT, _GONE, _MIXED = 0, 1, 2
LOOSE: Final = "~"
"""What names of pieces of a prompt begin with that are white space of no piece."""


@dataclass(frozen=True, slots=True)
class ContextToken:
    """Where a token of the context stands."""

    document: int
    anchor: int
    """The character of the context that decides which unit the token belongs to."""
    end: int
    """The character of the context behind the token's last."""
    is_loose: bool
    """Whether it is white space that belongs to no piece."""


@dataclass(frozen=True, slots=True)
class Removed:
    chars: tuple[CharRange, ...] = ()
    """Characters of the context; a token goes where what it holds of them goes."""
    tokens: tuple[TokenRange, ...] = ()
    """Tokens of the context, whatever characters they share with others."""
    owners: frozenset[str] = frozenset()
    """Messages, with the turns around them."""


class Layout:
    """A tokenised prompt whose context can be cut at any token. Context tokens are counted from 0 over all documents;
    characters count in `context`, the documents joined by blank lines. `texts` are other texts of the documents, of
    which an empty one is left out, as are messages named in `without`."""

    def __init__(
        self,
        writing: Writing,
        tokenizer: Tokenizer,
        *,
        texts: Sequence[str] | None = None,
        without: Collection[str] = (),
    ) -> None:
        self._writing = writing
        self._tokenizer = tokenizer
        self._texts = tuple(document.text for document in writing.documents) if texts is None else tuple(texts)
        checkpoint()
        self.segments = tuple(part for whole in writing.segments(self._texts, without) for part in whole.apart())
        # Of each document that is written, its number among those given.
        written = [i for i, text in enumerate(self._texts) if text]
        self.documents = tuple(replace(writing.documents[i], text=self._texts[i]) for i in written)
        number = {old: new for new, old in enumerate(written)}
        self.segments = tuple(
            segment if segment.document is None else replace(segment, document=number[segment.document])
            for segment in self.segments
        )
        self.context = SEPARATOR.join(document.text for document in self.documents)
        lengths = [len(document.text) for document in self.documents]
        starts = accumulate((length + len(SEPARATOR) for length in lengths), initial=0)
        self.document_ranges = [(start, start + length) for start, length in zip(starts, lengths, strict=False)]
        """Characters of the context that each document has."""
        self.text = "".join(segment.text for segment in self.segments)
        """What the model reads, without start tokens."""
        self._starts = list(accumulate((len(segment.text) for segment in self.segments), initial=0))
        coded = tokenizer.encode_joined([(segment.text, segment.is_template) for segment in self.segments])
        self._ids, self.offsets = coded.ids, coded.offsets
        """Of each token behind the start tokens its id, and the characters of the text that it came from."""
        checkpoint()
        start = tokenizer.start_ids
        # Only a template can have written them itself: a text that happens to begin alike has not.
        opens = bool(self.segments) and self.segments[0].is_template
        has_start = writing.name == "chat" or (opens and self._ids[: len(start)] == start)
        self.start_ids = () if has_start else start
        self.n_tokens = len(self.start_ids) + len(self._ids)
        self._first = first_characters(self.text, self.offsets)
        self._segment_of = owners(self._first, self._starts[:-1])
        self._spans = np.asarray(self.offsets, dtype=np.int64).reshape(-1, 2)
        is_context = np.asarray([segment.document is not None for segment in self.segments], dtype=bool)
        self._context_at: list[int] = np.flatnonzero(is_context[self._segment_of]).tolist()
        """Of each token of the context, its number among all."""

    @property
    def tokens(self) -> list[ContextToken]:
        return self._placed[0]

    @property
    def _anchors(self) -> npt.NDArray[np.int64]:
        return self._placed[1]

    @cached_property
    def _is_space(self) -> BoolArray:
        return np.asarray([not self.text[a:b].strip() for a, b in self.offsets], dtype=bool)

    @cached_property
    def _placed(self) -> tuple[list[ContextToken], npt.NDArray[np.int64]]:
        """Tokens of the context, and of all tokens the characters that decide to what they belong. Layouts that are
        written as they are, such as one without a context, need neither."""
        tokens: list[ContextToken] = []
        all_anchors = self._first.copy()
        for i, group in groupby(self._context_at, key=self._segment_of.tolist().__getitem__):
            segment, at = self.segments[i], self._starts[i]
            assert segment.document is not None
            numbers = list(group)
            checkpoint()
            within: list[CharRange] = np.clip(self._spans[numbers] - at, 0, len(segment.text)).tolist()
            start, end = self.document_ranges[segment.document]
            shift = start + segment.n_skipped - segment.n_lead
            if segment.is_loose:
                start -= segment.n_lead
            anchors = [a for a, _ in within] if segment.is_loose else units.anchors(segment.text, within)
            all_anchors[numbers] = np.add(anchors, at)
            last = max(end - 1, start)
            for anchor, (_, behind) in zip(anchors, within, strict=True):
                tokens.append(
                    ContextToken(
                        segment.document,
                        min(max(anchor + shift, start), last),
                        min(max(behind + shift, start), end),
                        segment.is_loose,
                    )
                )
        return tokens, all_anchors

    def token_range(self, chars: CharRange) -> TokenRange | None:
        """The context tokens that belong to a range of characters, or None if no token begins in it."""
        first, last = (bisect_left(self.tokens, at, key=lambda token: token.anchor) for at in chars)
        return (first, last) if first < last else None

    def tokens_touching(self, chars: CharRange) -> TokenRange | None:
        """The context tokens that hold any of a range of characters, or None; spaces before it go with it. Tokens at
        its ends may hold characters of its neighbours too."""
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
        """The prompt, its context split before each of the given tokens. A piece of context is named 't' and its first
        token's number, a frame that belongs to a message '#' and the number of its segment, white space of no piece '~'
        and that number."""
        pieces = [Piece(START, FRAME, self.start_ids)] if self.start_ids else []
        edges = {self._context_at[token] for token in boundaries if token < len(self._context_at)}
        number = {j: token for token, j in enumerate(self._context_at)}
        changes = set((np.flatnonzero(np.diff(self._segment_of)) + 1).tolist())
        cuts = sorted({0, *changes, *edges})
        for a, b in pairwise([*cuts, len(self._ids)] if self._ids else []):
            i = int(self._segment_of[a])
            segment = self.segments[i]
            name = f"t{number[a]}" if a in number and not segment.is_loose else self._name(i)
            is_context = segment.document is not None or segment.owner is not None
            pieces.append(Piece(name, CONTEXT if is_context else segment.role, self._ids[a:b]))
        return Prompt(tuple(pieces))

    def _name(self, segment: int) -> str:
        return f"{LOOSE if self.segments[segment].is_loose else '#'}{segment}"

    def frames_of(self, owners: Collection[str]) -> tuple[str, ...]:
        """Names of the pieces that come and go with these messages beside those of their documents."""
        return tuple(
            self._name(i)
            for i, s in enumerate(self.segments if owners else ())
            if (s.document is None or s.is_loose) and s.owner in owners and i in self._with_tokens
        )

    def loose_beside(self, ranges: Iterable[TokenRange]) -> tuple[str, ...]:
        """Names of the pieces of white space that go where context tokens are removed: all that a document says."""
        emptied = (self.tokens[a].document for a, b in ranges if self.tokens_of[self.tokens[a].document] == (a, b))
        return tuple(self._name(i) for document in emptied for i in self._loose_beside.get(document, ()))

    @cached_property
    def tokens_of(self) -> dict[int, TokenRange]:
        """Of each document that has any, the context tokens that belong to pieces."""
        out: dict[int, TokenRange] = {}
        for i, token in enumerate(self.tokens):
            if not token.is_loose:
                out[token.document] = (out.get(token.document, (i, i))[0], i + 1)
        return out

    @cached_property
    def _loose(self) -> list[tuple[int, int, range]]:
        out: list[tuple[int, int, range]] = []
        first, owner = None, None
        for i, segment in enumerate(self.segments):
            if segment.document is None or segment.owner != owner:
                first, owner = segment.document, segment.owner
            if segment.document is None:
                continue
            first = segment.document if first is None else first
            if segment.is_loose:
                document = segment.document
                out.append((i, document, range(first, document) if segment.n_lead else range(document, document + 1)))
        return out

    @cached_property
    def _loose_beside(self) -> dict[int, list[int]]:
        """Of each document the white space that goes where nothing of this document alone is left."""
        out: dict[int, list[int]] = {}
        for i, document, others in self._loose:
            for number in {document, *(others if len(others) == 1 else ())} if i in self._with_tokens else ():
                out.setdefault(number, []).append(i)
        return out

    @cached_property
    def _with_tokens(self) -> frozenset[int]:
        return frozenset(self._segment_of.tolist())

    def document_of(self, ranges: Iterable[TokenRange]) -> str | None:
        """Name of the document that all of these context tokens stand in; None where they stand in several."""
        names = {self.documents[self.tokens[first].document].name for first, _ in ranges}
        return names.pop() if len(names) == 1 else None

    def owner_of(self, document: int) -> str | None:
        return next((s.owner for s in self.segments if s.document == document), None)

    def without(self, prompt: Prompt, removal: Removed, *, mask: bool) -> Prompt:
        """This layout's prompt with something taken out of its one tokenisation. `mask` leaves every other token at its
        position; otherwise positions close up. What a token held of others takes its position and those that are free
        beside it."""
        state, removed_of = self._effect(removal)
        left = _Left(mask)
        token = -len(self.start_ids)
        for piece in prompt.pieces:
            end = token + len(piece.ids)
            if token < 0 or not state[token:end].any():
                left.keep(piece)
            elif (state[token:end] == _GONE).all():
                left.drop(len(piece.ids))
            else:
                for i in range(token, end):
                    if state[i] == _KEPT:
                        left.put(piece, piece.ids[i - token : i - token + 1])
                    elif state[i] == _GONE:
                        left.drop(1)
                    else:
                        ids, opens = self._left_of(i, removed_of(i))
                        if ids:
                            left.put(piece, ids, n_places=1, opens=opens)
                        else:
                            left.drop(1)
            token = end
        return left.prompt()

    def left(self, removal: Removed) -> Iterator[tuple[int, tuple[int, ...] | None]]:
        """Number of each token of which something is left, and that tokenised on its own; None where it is kept."""
        state, removed_of = self._effect(removal)
        for token in range(len(self._ids)):
            if state[token] == _KEPT:
                yield token, None
            elif state[token] == _MIXED:
                yield token, self._left_of(token, removed_of(token))[0]

    def _effect(self, removal: Removed) -> tuple[npt.NDArray[np.int64], Callable[[int], BoolArray]]:
        """Of each token whether it is kept, gone or mixed; and which characters of a token are gone, or left at a token
        before it."""
        by_token = np.zeros(len(self._ids), dtype=bool)
        for a, b in removal.tokens:
            by_token[self._context_at[a:b]] = True
        removed = np.zeros(len(self.text) + 1, dtype=bool)
        for i, segment in enumerate(self.segments):
            if segment.owner is not None and segment.owner in removal.owners:
                removed[self._starts[i] : self._starts[i + 1]] = True
        for a, b in removal.chars:
            for i, start, end in self._written(a, b):
                removed[self._starts[i] + start : self._starts[i] + end] = True
        for i in self._emptied(self._had_text & ~self._has_text(removed, by_token)):
            removed[self._starts[i] : self._starts[i + 1]] = True

        def removed_of(token: int) -> BoolArray:
            (a, b), segment = self.offsets[token], int(self._segment_of[token])
            chars_gone = removed[a:b].copy()
            own = max(min(self._starts[segment + 1], b) - a, 0)
            first = self._anchors[token] - a
            if by_token[token]:
                chars_gone[:own] = True
            elif first < len(chars_gone):
                # White space before the first word of a token goes with the word.
                chars_gone[:first] = chars_gone[first]
            elif self.segments[segment].document is not None:
                chars_gone[:own] = removed[self._anchors[token]]
            return np.where(self._is_loose[a:b], removed[a:b], chars_gone)

        behind = np.cumsum(removed) - removed
        starts, ends = self._spans[:, 0], self._spans[:, 1]
        n_gone = behind[ends] - behind[starts]
        state = np.where(n_gone == 0, _KEPT, np.where(n_gone == ends - starts, _GONE, _MIXED))
        # White space goes with the word behind it, which may fare otherwise.
        parted = self._is_space & (removed[self._anchors] != (state == _GONE))
        for token in np.flatnonzero((state == _MIXED) | parted | by_token).tolist():
            chars_gone = removed_of(token)
            if not len(chars_gone):
                chars_gone = removed[self._anchors[token] : self._anchors[token] + 1] | by_token[token]
            state[token] = _GONE if chars_gone.all() else _MIXED if chars_gone.any() else _KEPT
        # Tokens of one character stay together: what is left of it is tokenised anew, at the first of them.
        left = state != _GONE
        shares = (starts[1:] < ends[:-1]) & (starts[1:] < ends[1:]) & left[:-1] & left[1:]
        group = np.cumsum(np.append(True, ~shares))[: len(state)]
        state[left & np.isin(group, group[state == _MIXED])] = _MIXED
        reached = np.maximum.accumulate(np.where(state == _MIXED, ends, 0))

        def left_over(token: int) -> BoolArray:
            chars_gone = removed_of(token)
            before = reached[token - 1] - starts[token] if token else 0
            chars_gone[: max(before, 0)] = True
            return chars_gone

        return state, left_over

    def _written(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Segments, and characters of each, in which characters of the context stand that belong to pieces."""
        for i, segment in enumerate(self.segments):
            if segment.document is None or segment.is_loose:
                continue
            shift = -segment.n_skipped - self.document_ranges[segment.document][0]
            first, last = max(start + shift, 0), min(end + shift, len(segment.text))
            if first < last:
                yield i, first, last

    def _has_text(self, removed: BoolArray, by_token: BoolArray) -> BoolArray:
        """Of each document, whether a word of it is left in a token, or white space that is a token of a piece."""
        starts, ends = self._spans[:, 0], self._spans[:, 1]
        # A token that goes leaves what it holds of others.
        own_ends = np.asarray(self._starts[1:], dtype=np.int64)[self._segment_of]
        kept_from = np.where(by_token, np.clip(own_ends, starts, ends), starts)
        n = len(removed)
        is_held = np.cumsum(np.bincount(kept_from, minlength=n) - np.bincount(ends, minlength=n)) > 0
        words, tokens = self._documents_at
        spaces = self._is_space & ~by_token & ~removed[self._anchors]
        left = np.concatenate((words[is_held & ~removed], tokens[spaces]))
        return np.bincount(left[left >= 0], minlength=len(self.documents)) > 0

    @cached_property
    def _had_text(self) -> BoolArray:
        return self._has_text(np.zeros(len(self.text) + 1, dtype=bool), np.zeros(len(self._ids), dtype=bool))

    @cached_property
    def _documents_at(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The document that each character of a word is of, and the one that each token belongs to; -1 of others."""
        numbers = [
            -1 if segment.document is None or segment.is_loose else segment.document for segment in self.segments
        ]
        of_characters = np.repeat([*numbers, -1], [*(len(segment.text) for segment in self.segments), 1])
        of_characters[[i for i, char in enumerate(self.text) if char.isspace()]] = -1
        return of_characters, np.asarray(numbers, dtype=np.int64)[self._segment_of]

    @cached_property
    def _is_loose(self) -> BoolArray:
        return np.repeat(
            [segment.is_loose for segment in self.segments], [len(segment.text) for segment in self.segments]
        )

    def _emptied(self, lost: BoolArray) -> Iterator[int]:
        """Segments that go with documents of which nothing is left: theirs, and what separates them from others."""
        if lost.any():
            yield from (
                i for i, segment in enumerate(self.segments) if segment.document is not None and lost[segment.document]
            )
            yield from (i for i, _, others in self._loose if lost[others.start : others.stop].all())

    def _left_of(self, token: int, removed: BoolArray) -> tuple[tuple[int, ...], bool]:
        """Ids of what a token holds of others, tokenised on its own, and whether the token begins with it."""
        start = self.offsets[token][0]
        ids: list[int] = []
        for is_gone, group in groupby(range(len(removed)), key=lambda i: bool(removed[i])):
            chars = list(group)
            if not is_gone:
                text = self.text[start + chars[0] : start + chars[-1] + 1]
                ids += self._tokenizer.encode_data(text, first=start + chars[0] == 0).ids
        return tuple(ids), not removed[0]

    def blank(self) -> Prompt:
        """The prompt without any context, tokenised as if there were none: it depends on template and query alone."""
        return self._bare().prompt()

    def blank_with(self, piece: Piece) -> Prompt:
        """The blank prompt with a piece where a context would begin."""
        bare = self._bare()
        place = self._writing.place()
        at = next((i for i, (_, end) in enumerate(bare.offsets) if end > place), len(bare._ids))
        start = [Piece(START, FRAME, bare.start_ids)] if bare.start_ids else []
        parts = (Piece("before", FRAME, bare._ids[:at]), piece, Piece("behind", FRAME, bare._ids[at:]))
        return Prompt((*start, *(part for part in parts if part.ids)))

    def with_context(self, text: str) -> Layout:
        """Rendered and tokenised with another text as the only context, in the place of the longest document."""
        sizes = [len(document.text) for document in self.documents]
        at = sizes.index(max(sizes))
        owner = self.owner_of(at)
        texts = [text if i == at else "" for i in range(len(sizes))]
        return self._anew(texts, self.owners - {owner})

    def _bare(self) -> Layout:
        return self._anew([""] * len(self.documents), self.owners)

    @property
    def owners(self) -> frozenset[str]:
        return frozenset(segment.owner for segment in self.segments if segment.owner is not None)

    def alone(self, chars: Iterable[CharRange]) -> Prompt:
        """The prompt rendered anew with some characters, and white space at ends of their documents, as its context."""
        ranges = sorted(chars)
        texts: list[str] = []
        for document, (start, end) in zip(self.documents, self.document_ranges, strict=True):
            own = [(a - start, b - start) for a, b in ranges if start <= a < end]
            covered = bool(own) and [trimmed(document.text, (0, len(document.text)))] == own
            kept_text = _put_together(document.text, own)
            texts.append(
                document.text if covered else kept_text and kept_text + document.text[len(document.text.rstrip()) :]
            )
        kept = {self.owner_of(i) for i, text in enumerate(texts) if text}
        return self._anew(texts, self.owners - kept).prompt()

    def rewritten(self, ranges: Iterable[CharRange], owners: Collection[str] = ()) -> Prompt:
        """The prompt of the text with some characters and messages taken out, rendered and tokenised again."""
        parts = tuple(ranges)
        texts = [
            without_characters(document.text, [(a - start, b - start) for a, b in parts])
            for document, (start, _) in zip(self.documents, self.document_ranges, strict=True)
        ]
        return self._anew(texts, owners).prompt()

    def replaced(self, new: Mapping[CharRange, str]) -> Prompt:
        """The prompt of the text with other characters in place of some ranges, tokenised anew; no ranges overlap."""
        texts: list[str] = []
        for document, (start, end) in zip(self.documents, self.document_ranges, strict=True):
            text = document.text
            for (a, b), other in sorted(new.items(), reverse=True):
                if start <= a and b <= end:
                    text = text[: a - start] + other + text[b - start :]
            texts.append(text)
        return self._anew(texts).prompt()

    def shortened(self, n_tokens: int) -> Layout:
        """The layout without the context's last tokens, its text cut where they began."""
        limit = self.tokens[-n_tokens].anchor
        texts = [
            document.text if end <= limit else document.text[: max(limit - start, 0)].rstrip()
            for document, (start, end) in zip(self.documents, self.document_ranges, strict=True)
        ]
        return self._anew(texts)

    def _anew(self, texts: Iterable[str], without: Collection[str] = ()) -> Layout:
        """Rendered and tokenised with other texts of the documents that are written; white space alone is left out."""
        written = iter(texts)
        others = (next(written) if text else "" for text in self._texts)
        kept = [text if text.strip() else "" for text in others]
        return Layout(self._writing, self._tokenizer, texts=kept, without=without)


class _Left:
    """Gathers what is left of a prompt, and the positions that are free behind it."""

    def __init__(self, mask: bool) -> None:
        self._mask = mask
        self._pieces: list[Piece] = []
        self._free = 0

    def keep(self, piece: Piece) -> None:
        gap = self._gap()
        self._pieces.append(replace(piece, gap=gap) if gap else piece)

    def drop(self, n_tokens: int) -> None:
        self._free += n_tokens

    def put(self, piece: Piece, ids: tuple[int, ...], *, n_places: int | None = None, opens: bool = True) -> None:
        """Tokens of a piece in the place of `n_places`; in those at the end, unless what they stood for opens it."""
        owed = 0 if n_places is None else n_places - len(ids)
        if not opens:
            self._free += owed
            owed = 0
        gap = self._gap()
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.name == piece.name and not gap:
            self._pieces[-1] = replace(last, ids=last.ids + ids)
        else:
            self._pieces.append(Piece(piece.name, piece.role, ids, gap))
        self._free = owed

    def _gap(self) -> int:
        gap = max(self._free, 0) if self._mask else 0
        self._free = 0
        return gap

    def prompt(self) -> Prompt:
        if self._mask and self._free > 0:
            self._pieces.append(Piece("gap", FRAME, (), self._free))
        return Prompt(tuple(self._pieces))


def _put_together(text: str, ranges: Sequence[CharRange]) -> str:
    """Stretches of a text one after another, each but the first behind the spaces that stand before it."""
    out = ""
    for a, b in ranges:
        start = len(text[:a].rstrip(" ")) if out else a
        out += text[start:b]
    return out


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
