"""A step of a trace in one form, whatever it was logged as: a call of a model, a retrieval, a reranking, a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from leakmeter.core.json_object import JsonObject
from leakmeter.data.foreign import document_of, parsed
from leakmeter.traces.answer import LoggedMessage, Unusable
from leakmeter.traces.plainly import answers_of, messages_of, named

Kind = Literal["llm", "retriever", "reranker", "tool", "other"]


@dataclass(slots=True)
class Span:
    """A step of a trace. All its values are plain, so that it can be kept on disk until the trace is complete."""

    trace_id: str
    span_id: str
    where: str
    kind: Kind = "other"
    parent_id: str | None = None
    start: float | None = None
    """Seconds since 1970."""
    end: float | None = None
    user: str | None = None
    session: str | None = None
    messages: list[list[str]] = field(default_factory=list)
    """Of a call: role and content of each."""
    answers: list[list[str | None]] = field(default_factory=list)
    """Of a call: text of each choice, and why it ended."""
    problem: str | None = None
    """The reason why the call cannot be measured."""
    failed: bool = False
    model: str | None = None
    parameters: JsonObject = field(default_factory=dict)
    n_tools: int = 0
    response_id: str | None = None
    documents: list[list[str | None]] = field(default_factory=list)
    """Of a retrieval: id and text of each; of a call those that its record has beside it."""
    n_hidden: int = 0
    """Of a call: others that its record counts."""
    is_interrupted: bool = False
    is_rebuilt: bool = False

    def read_call(self, prompt: object, reply: object) -> None:
        """Take the messages and the answers of a call from what was logged, or the problem there is with them."""
        try:
            self.messages = [[message.role, message.content] for message in messages_of(prompt)]
            self.answers = [[text, why] for text, why in answers_of(reply)]
        except Unusable as error:
            self.problem = error.reason.value

    def prompt(self) -> list[LoggedMessage]:
        return [LoggedMessage(role, content) for role, content in self.messages]

    @property
    def texts(self) -> tuple[list[list[str]], list[list[str | None]]]:
        return self.messages, self.answers

    def packed(self) -> bytes:
        # Half a surrogate pair in a text stays one: it is for whoever tokenises the text to refuse it.
        return json.dumps([getattr(self, name) for name in _FIELDS]).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Span:
        return cls(*json.loads(packed))


_FIELDS: Final = tuple(item.name for item in fields(Span))


def documents_of(value: object, text: Callable[[Any], tuple[Any, Any]] = document_of) -> list[list[str | None]]:
    """Documents of a list in a log: what the function says are id and text, as texts; None where they are none."""
    held = parsed(value)
    documents: Iterable[Any] = held if isinstance(held, Sequence) and not isinstance(held, str) else ()
    out: list[list[str | None]] = []
    for document in documents:
        id_, content = text(parsed(document))
        out.append([named(id_), content if isinstance(content, str) else None])
    return out
