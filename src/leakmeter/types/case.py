"""A case as the user gave it: texts, not yet tokenised."""

from __future__ import annotations

from dataclasses import dataclass


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
    """A whole chat instead of documents: the last user message, or the query, asks; the others are context."""
