"""A case from texts that a caller holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakmeter.core.case import Case, Document, Message
from leakmeter.data.chat import messages_of, without_answer
from leakmeter.errors import UsageError


def case_of(
    context: str | Sequence[str] | Mapping[str, str],
    query: str,
    response: str | None,
    messages: Sequence[Mapping[str, object]],
) -> Case:
    """One text, several, or several by name, and a query; or a chat.

    Raises:
        UsageError: both.
        DataError: messages that are none.
    """
    if messages and (context or query):
        raise UsageError("give either messages, or context and query")
    said: tuple[Message, ...] = ()
    if messages:
        said, response = without_answer(messages_of([dict(m) for m in messages], "messages"), response, "messages")
    return Case(id="case", documents=_documents(context), query=query, response=response, messages=said)


def _documents(context: str | Sequence[str] | Mapping[str, str]) -> tuple[Document, ...]:
    if isinstance(context, str):
        return (Document("context", context),)
    if isinstance(context, Mapping):
        return tuple(Document(name, text) for name, text in context.items())
    return tuple(Document(f"d{number}", text) for number, text in enumerate(context, 1))
