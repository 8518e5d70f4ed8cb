"""A case as the user gave it: texts, not yet tokenised."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from leakmeter.core.json_object import JsonObject

DECODINGS: Final = ("sampling", "greedy", "beam", "top-k", "top-p")
"""How a response may have been chosen; all but sampling leave tokens of the distribution out."""
_UNKNOWN: Final = ("decoding", None)


@dataclass(frozen=True, slots=True)
class Document:
    """A named text of the context."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message: a role, and the named parts of its content."""

    role: str
    name: str
    parts: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A context, a query, and the response if there is one already."""

    id: str
    documents: tuple[Document, ...] = ()
    query: str = ""
    response: str | None = None
    messages: tuple[Message, ...] = ()
    """A whole chat instead of documents, without the answer: the last user message asks; the others are context."""
    decoding: str | None = None
    """How the response was chosen, one of `DECODINGS`, where that is known."""

    def record(self) -> JsonObject:
        """See `record_of`."""
        return record_of(self)


def record_of(case: Any) -> JsonObject:
    """A case of any kind, or what holds one, as that which names a run: without what is not known of its response."""
    return asdict(case, dict_factory=lambda pairs: {key: value for key, value in pairs if (key, value) != _UNKNOWN})
