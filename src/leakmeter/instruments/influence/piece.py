"""A piece of a context: where it stands, and what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leakmeter.core.record import Record
from leakmeter.core.request import FloatArray
from leakmeter.results.result import Texts
from leakmeter.text.entity_results import entity_fields

Series = Mapping[tuple[int, str, str], FloatArray]
"""By (sample, statistic, piece)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPiece(Record):
    """One piece of a context: where it stands, and what it is."""

    name: str
    kind: str
    """'unit', 'value' for one that is said several times, with all its mentions, or 'document' for one that was
    measured before its sentences."""
    text: str = field(repr=False)
    start: int
    """First character in the context."""
    end: int
    """Character behind the last."""
    spans: tuple[tuple[int, int], ...]
    """Characters [start, end) of the context; one range a mention."""
    document: str | None
    """Name of the document it lies in; None where it spans several."""
    n_tokens: int
    n_mentions: int
    """Places that say it; they are ablated together."""
    entity_type: str | None
    """For personal data: 'phone', 'email', 'address', 'date', 'person', or a type of the user's."""
    entity_value: str | None = field(repr=False)
    """For personal data: its normal form, such as E.164 of a telephone number."""
    repeated: str | None
    """For personal data: whether the response says it, 'verbatim', 'in part' or 'no'."""

    @classmethod
    def fields_of(cls, span: Mapping[str, Any], texts: Texts, series: Series) -> dict[str, Any]:
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
