"""A case as the user gave it: texts, not yet tokenised."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from leakmeter.core.json_object import JsonObject

DECODINGS: Final = ("sampling", "greedy", "beam", "top-k", "top-p")
"""How a response may have been chosen; all but sampling leave tokens of the distribution out."""
SYSTEM_ROLES: Final = ("system", "developer")
"""Roles of messages that instruct."""
_UNSAID: Final = (("decoding", None), ("retrieved", ()), ("fixed", False))


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
    retrieved: tuple[int, ...] = ()
    """In the turn that asks, or another that is fixed, numbers of the parts that are context. Parts of such a turn are
    one text, cut where the context begins and ends; those of another are written on lines of their own. Parts of one
    name are one document in several places."""
    fixed: bool = False
    """Whether the message stays when context is left out: only what was retrieved into it is context. The turn that
    asks always stays."""


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

    @property
    def has_only_system_context(self) -> bool:
        """Whether it is a chat whose only context is a system prompt, and nothing is marked as retrieved."""
        asking = self.asking
        if asking is None or any(message.retrieved for message in self.messages):
            return False
        others = [
            (number, message)
            for number, message in enumerate(self.messages, 1)
            if number != asking + 1 and not message.fixed
        ]
        # A system message with a name of its own is marked as a document.
        return bool(others) and all(
            message.role in SYSTEM_ROLES and message.name == f"{message.role} {number}" for number, message in others
        )

    @property
    def asking(self) -> int | None:
        """Number of the message that asks, from 0: the last of the user's."""
        return max((i for i, message in enumerate(self.messages) if message.role == "user"), default=None)

    def record(self) -> JsonObject:
        """See `record_of`."""
        return record_of(self)


def record_of(case: Any) -> JsonObject:
    """A case of any kind, or what holds one, as that which names a run: without what is not said of it."""
    return asdict(case, dict_factory=lambda pairs: {key: value for key, value in pairs if (key, value) not in _UNSAID})
