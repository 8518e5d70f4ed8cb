"""Which pieces of a context a span of a response came from: by what each does to the span, and by what it says."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import regex

from leakmeter.core.measure import Texts
from leakmeter.core.plain import SELDOM
from leakmeter.core.record import JsonObject, Record, Unbounded
from leakmeter.instruments.influence.math import InfluenceStatistics
from leakmeter.stats.arrays import FloatArray
from leakmeter.text import function_words
from leakmeter.text.entity_results import PieceSeries, entity_fields
from leakmeter.text.escapes import meant, past_fill
from leakmeter.text.matching import HIDDEN, Folded, folded
from leakmeter.text.structured import fields_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPiece(Record):
    """One piece of a context: where it stands, and what it is."""

    name: str
    """Name of the piece in reports and measurements."""
    kind: str
    """Kind of piece: 'unit', 'value' for a value that is said several times, with all its mentions, 'document' for a
    document that was measured before its sentences, or 'fields' for values of a record that were measured together
    first."""
    text: str = dataclass_field(repr=False)
    """Text of the piece; the texts of several places are joined by ' … '."""
    start: int
    """Offset of the piece's first character in the context, from 0."""
    end: int
    """Offset just after the piece's last character in the context."""
    spans: tuple[tuple[int, int], ...]
    """Characters [start, end) of the context that the piece covers, a range for each mention."""
    document: str | None
    """Name of the document that the piece lies in; None where it spans several."""
    n_tokens: int
    """Number of tokens of the piece's text."""
    n_mentions: int
    """Number of places that say the piece; they are ablated together."""
    entity_type: str | None
    """Type of personal data: 'phone', 'email', 'address', 'date', 'person', or a type of the user's; None of other
    pieces."""
    entity_value: str | None = dataclass_field(repr=False)
    """Normal form of personal data, such as E.164 of a telephone number; None of other pieces."""
    repeated: str | None
    """Whether the response says the personal data: 'verbatim', 'in part' or 'no'; None of other pieces."""

    @classmethod
    def fields_of(cls, span: JsonObject, texts: Texts, series: PieceSeries) -> JsonObject:
        spans = tuple((int(start), int(end)) for start, end in span["ranges"])
        entity = entity_fields(span, series, texts["context"], texts["responses"][0]["text"])
        return {
            **{name: span[name] for name in ("name", "kind", "document", "n_tokens")},
            "text": " … ".join(texts["context"][start:end] for start, end in spans),
            "start": spans[0][0],
            "end": spans[-1][1],
            "spans": spans,
            "n_mentions": len(spans),
            **{name: value for name, value in entity.items() if name in cls.__dataclass_fields__},
        }


_SOLE: Final = 0.5
"""Share of what the whole context does that a piece has to do to be the only source."""
_LEAST_SHARE: Final = 0.1
"""Share of a span's nats that a piece has to do to be one of several sources."""
_REDUNDANT: Final = 0.6
"""Share of the best source's nats, alone, that another source of the same has."""
_POSSIBLE: Final = 1e10
"""Stands for +∞: what the context alone makes possible. It outweighs 99 tokens that it rules out."""
_RULED_OUT: Final = -1e8
"""Stands for −∞."""
_MOST_TOGETHER: Final = 4
"""Sources of what no piece says."""
_COPIED: Final = 0.6
"""Share of a span's telling words that stand in its source, from where it is called copied."""
_LETTERS: Final = rf"(?![{HIDDEN}])[\p{{L}}\p{{M}}\p{{N}}{HIDDEN}]+"
_TELLING = regex.compile(rf"{_LETTERS}(?:[.'’@/+=_\p{{Pd}}]{_LETTERS})*")
SourceRange = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Record):
    """A piece of the context that a disclosure came from."""

    piece: str
    """Name of the piece of the context; of the document where no piece has any of the words."""
    document: str | None
    """Name of the document that the piece lies in; None where it spans several."""
    text: str = dataclass_field(repr=False)
    """Words of the context that the span repeats; where there are none, the text of the piece."""
    start: int
    """Offset of the source's first character in the context, from 0."""
    end: int
    """Offset just after the source's last character in the context."""
    nats: Unbounded | None
    """Signed influence of the piece on the span, nats: Σ_t log p̄(y_t | D) − log p̄(y_t | D∖D_i) over its tokens. None
    where the piece was not measured; then it has the words."""
    alone_nats: Unbounded | None
    """Signed influence on the span of the piece as the only context, nats: Σ_t log p̄(y_t | D_i) − log p̄(y_t | ∅) over
    its tokens, high where another piece has the same. None where it was not measured."""
    field: str | None = dataclass_field(default=None, metadata={SELDOM: True})
    """Keys of a record that lead to the value, such as 'patient.diagnosis'. Present only where the source is a field of
    a record."""

    @property
    def place(self) -> str | None:
        """Its document, and of a record the field: 'ehr.get → diagnosis'; None where there is neither."""
        parts = [part for part in (self.document, self.field) if part is not None]
        return " → ".join(parts) or None

    @property
    def most_nats(self) -> float:
        """The larger of both; −∞ where neither was measured."""
        return max((nats for nats in (self.nats, self.alone_nats) if nats is not None), default=-np.inf)

    @property
    def as_measured(self) -> Self:
        """With infinite numbers where sums of `finite` ones stand for them."""
        return replace(self, nats=_unbounded(self.nats), alone_nats=_unbounded(self.alone_nats))


def finite(values: FloatArray) -> FloatArray:
    """Infinite nats as large ones, so that sums can be compared; `unbounded` tells what such a sum is."""
    return np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0, posinf=_POSSIBLE, neginf=_RULED_OUT)


def unbounded(nats: float) -> float:
    """A sum of `finite` nats, infinite again where it has infinite ones; of both signs +∞."""
    return float(np.copysign(np.inf, nats)) if abs(nats) > -_RULED_OUT / 2 else nats


def _unbounded(nats: float | None) -> float | None:
    return None if nats is None else unbounded(nats)


def signed_sum(values: FloatArray) -> float:
    """Σ_t with signs; NaN where it is not defined, as ∞ − ∞."""
    with np.errstate(invalid="ignore"):
        return float(np.sum(values))


def signed_size(values: FloatArray) -> float:
    """|Σ_t|; infinite where it is not defined."""
    size = abs(signed_sum(values))
    return np.inf if np.isnan(size) else size


class Pieces:
    """The pieces of a context, and what each does to every token of a response."""

    def __init__(self, texts: Texts, series: PieceSeries, n_tokens: int) -> None:
        self._context: str = texts["context"]
        self._meant = meant(self._context)
        # A measurement that goes on has no names of documents, and asks for none.
        self._documents = [(part["name"], part["start"], part["end"]) for part in texts.get("documents", ())]
        self.fields = fields_of(self._context, [(start, end) for _, start, end in self._documents])
        """Of records, in the order of the context."""
        # Without numbers a document is only what its sentences are.
        self._spans: list[JsonObject] = [
            span
            for span in texts["spans"]
            if span["kind"] == "unit"
            or (
                span["kind"] in ("document", "fields") and (0, InfluenceStatistics.without_this, span["name"]) in series
            )
        ]
        self._n_pieces = len(self._spans)
        # Pieces need not cover a document, which says what stands between them all the same.
        self._spans += [
            {"name": name, "kind": "document", "document": name, "ranges": [(start, end)]}
            for name, start, end in self._documents
        ]
        self._cut: Sequence[SourceRange] = texts.get("cut", ())
        self._are_units = np.asarray([span["kind"] == "unit" for span in self._spans], dtype=bool)
        self._without, self._alone = (
            np.pad(
                _sums(series, statistic, self._spans[: self._n_pieces], n_tokens),
                ((0, len(self._documents)), (0, 0)),
                constant_values=np.nan,
            )
            for statistic in (InfluenceStatistics.without_this, InfluenceStatistics.only_this)
        )

    def strongest(self, first: int, last: int) -> int | None:
        """The piece without which tokens [first, last) lose most; None where nothing was measured."""
        lost = self._without[:, last] - self._without[:, first]
        return None if np.isnan(lost).all() else int(np.nanargmax(lost))

    def sources(
        self,
        words: str,
        *,
        is_value: bool,
        first: int,
        last: int,
        nats: float,
        fields: Sequence[SourceRange] = (),
        is_reworded: bool = False,
    ) -> list[tuple[Source, bool]]:
        """The pieces that a span, [first, last) of the response, came from, most nats first, each with whether it has
        the span's words; a value's are found however they are written. `nats` is what the whole context does to the
        span. A piece that says the words in several documents is a source of each. `fields` are characters of the
        context where records have the value, `is_reworded` in other words.
        """
        without, alone = (sums[:, last] - sums[:, first] for sums in (self._without, self._alone))
        exactly = self._saying_value("" if is_reworded else words, fields)
        where = exactly if is_value else {**self._saying(words), **exactly}
        # Who restricts one piece that says a value has to know of the others, whether the model looked at them or not.
        chosen = self._apart(exactly) if is_value else []
        # A whole document is a source where no sentence of any is, as of what two of its sentences say together.
        for among in () if chosen else (self._are_units, np.ones_like(self._are_units)):
            chosen = _chosen(among, without, alone, where, exactly, nats)
            if chosen:
                break
        if not chosen:
            chosen = np.flatnonzero(self._are_units & (without > _LEAST_SHARE * nats)).tolist()
        sources = [
            (self._source(i, place, without[i], alone[i]), i in where and not is_reworded)
            for i in chosen
            for place in where.get(i, self._spans[i]["ranges"][:1])
        ]
        sources.sort(key=lambda source: -source[0].most_nats)
        return sources if any(is_copied for _, is_copied in sources) else sources[:_MOST_TOGETHER]

    def is_said(self, words: str, *, is_value: bool, fields: Sequence[SourceRange] = ()) -> bool:
        """Whether words alone show which pieces a span came from: one says them, a value's however they are written;
        `fields` are characters of the context where records have it."""
        return bool(self._saying_value(words, fields) or (not is_value and self._saying(words)))

    def _saying_value(self, words: str, fields: Sequence[SourceRange]) -> dict[int, list[SourceRange]]:
        """The pieces that have a part of some words, if any, however they are written, or of a field, and where."""
        saying = self._saying_exactly(words) if words else {}
        for start, end in fields:
            for number in self._holding(start, end):
                places = saying.setdefault(number, [])
                if not any(low < end and start < high for low, high in places):
                    places.append((start, end))
        return saying

    def _apart(self, numbers: Iterable[int]) -> list[int]:
        """Of some pieces the units, and the documents of which no unit is among them."""
        units = [number for number in numbers if self._are_units[number]]
        held = {self._spans[number]["document"] for number in units}
        documents = (number for number in numbers if not self._are_units[number])
        return sorted([*units, *(number for number in documents if self._spans[number]["document"] not in held)])

    def _source(self, number: int, place: SourceRange, without: float, alone: float) -> Source:
        span = self._spans[number]
        start, end = place
        return Source(
            piece=span["name"],
            document=span["document"] or self._document_at(start),
            text=self._context[start:end],
            start=start,
            end=end,
            nats=None if np.isnan(without) else float(without),
            alone_nats=None if np.isnan(alone) else float(alone),
            field=self._field_at(start),
        )

    def _field_at(self, character: int) -> str | None:
        """Path of the field whose key or value stands there."""
        at = bisect_right(self._field_starts, character) - 1
        return self.fields[at].path if at >= 0 and character < self.fields[at].pair[1] else None

    @cached_property
    def _field_starts(self) -> list[int]:
        return [one.pair[0] for one in self.fields]

    def _holding(self, start: int, end: int) -> list[int]:
        """Pieces that have some of these characters; where none has, the document, if it is left any of their
        letters."""
        numbers, starts, ends = self._ranges
        holding = sorted({*numbers[(starts < end) & (ends > start)].tolist()})
        if holding or all(self._is_cut(at) for at in range(start, end) if self._context[at].isalnum()):
            return holding
        documents = enumerate(self._documents, self._n_pieces)
        return [number for number, (_, low, high) in documents if low <= start < high]

    def _is_cut(self, character: int) -> bool:
        return any(start <= character < end for start, end in self._cut)

    def _document_at(self, character: int) -> str | None:
        return next((name for name, start, end in self._documents if start <= character < end), None)

    def _saying_exactly(self, words: str) -> dict[int, list[SourceRange]]:
        """The pieces that have some words, however they are written, or where none has all, a part of them; and where
        these first stand in each of their documents."""
        where: dict[int, dict[str | None, SourceRange]] = {}
        numbers, starts, ends = self._ranges
        for start, end in self._folded.places(words, in_words=True):
            document = self._document_at(start)
            # What begins in one document and ends in another is said by neither.
            if document == self._document_at(end - 1):
                # Of pieces that overlap, those with a part alone say no more than the one around it.
                whole = numbers[(starts <= start) & (ends >= end)].tolist()
                for number in whole or self._holding(start, end):
                    where.setdefault(number, {}).setdefault(document, (start, end))
        return {number: [*places.values()] for number, places in where.items()}

    def _saying(self, words: str) -> dict[int, list[SourceRange]]:
        """The pieces that have enough of the telling words of a span close together, and where."""
        telling = [(folded(word.group()), len(word.group())) for word in _TELLING.finditer(words)]
        # 'HIV' says as much as a long word.
        long = {
            word
            for word, length in telling
            if length > 3 or any(map(str.isdigit, word)) or not function_words.are_all(word)
        }
        long = long or {word for word, _ in telling}
        least = max(_COPIED * len(long), 1)
        having = Counter(number for word in long for number in self._having.get(word, ()))
        # Within twice as many words: what stands far apart is not copied.
        size = 2 * len(telling) + 2
        where: dict[int, list[SourceRange]] = {}
        for number in sorted(number for number, n in having.items() if n >= least):
            piece_words = self._words(number)
            at = [i for i, (word, _, _) in enumerate(piece_words) if word in long]
            windows = [[j for j in at[k : k + size] if j - i < size] for k, i in enumerate(at)]
            best = max(windows, key=lambda window: (len({piece_words[j][0] for j in window}), window[0] - window[-1]))
            if len({piece_words[j][0] for j in best}) >= least:
                where[number] = [(piece_words[best[0]][1], piece_words[best[-1]][2])]
        return where

    def _words(self, number: int) -> list[tuple[str, int, int]]:
        """Words of a piece, folded, with their characters in the context."""
        return [
            (folded(word.group()), word.start(), past_fill(self._meant, word.end()))
            for start, end in self._spans[number]["ranges"]
            for word in _TELLING.finditer(self._meant, start, end)
        ]

    @cached_property
    def _having(self) -> dict[str, set[int]]:
        having: dict[str, set[int]] = {}
        for number in range(self._n_pieces):
            for word, _, _ in self._words(number):
                having.setdefault(word, set()).add(number)
        return having

    @cached_property
    def _folded(self) -> Folded:
        return Folded(self._meant)

    @cached_property
    def _ranges(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Piece, first character, and the character behind the last, of every range."""
        rows = [(number, *part) for number, span in enumerate(self._spans[: self._n_pieces]) for part in span["ranges"]]
        numbers, starts, ends = np.asarray(rows, dtype=np.int64).reshape(-1, 3).T
        return numbers, starts, ends


def _sums(series: PieceSeries, statistic: str, spans: Sequence[JsonObject], n_tokens: int) -> FloatArray:
    """Sums over the first 0, 1, … tokens, (piece, token + 1); NaN where not measured."""
    sums = np.full((len(spans), n_tokens + 1), np.nan)
    for number, span in enumerate(spans):
        if (row := series.get((0, statistic, span["name"]))) is not None:
            sums[number, 0] = 0.0
            np.cumsum(finite(row), out=sums[number, 1:])
    return sums


def _chosen(
    among: npt.NDArray[np.bool_],
    without: FloatArray,
    alone: FloatArray,
    where: Collection[int],
    exactly: Collection[int],
    nats: float,
) -> list[int]:
    """Pieces that have a span's words, else those that it hangs on, else those that give it alone."""
    most = np.fmax(np.nan_to_num(without, nan=-np.inf), np.nan_to_num(alone, nan=-np.inf))
    saying = [number for number in where if among[number]]
    if np.isneginf(most).all():
        return saying  # nothing was measured: words alone tell
    least = _LEAST_SHARE * max(nats, most[among].max(initial=0.0))
    moving = [number for number in saying if most[number] > least]
    if moving:
        return [number for number in saying if number in moving or number in exactly]
    sole: list[int] = np.flatnonzero(among & (without >= _SOLE * nats)).tolist()
    top = np.nanmax(alone[among], initial=0.0)
    return sole or np.flatnonzero(among & (alone >= max(_SOLE * nats, _REDUNDANT * top))).tolist()
