"""A logged answer as a case of the instruments: its documents are the whole context, and all else stays."""

from __future__ import annotations

from leakmeter.core.case import Case, Document, Message
from leakmeter.traces.answer import LoggedAnswer


def as_case(answer: LoggedAnswer) -> Case:
    """The case in which a document's influence is measured against the same prompt without it.

    Documents are named d1, d2, … in the order of `answer.documents`; a document that stands in several places is one,
    under the unit `document`. Every message is fixed: nothing but documents is left out.

    Args:
        answer: as it was logged.

    Returns:
        A chat; `id` is trace and span with a slash between them.
    """
    name_of = {
        (one.message, one.start): (f"d{n}", one.end) for n, d in enumerate(answer.documents, 1) for one in d.places
    }
    messages: list[Message] = []
    for number, message in enumerate(answer.messages):
        name = f"{message.role} {number + 1}"
        parts: list[Document] = []
        retrieved: list[int] = []
        cursor = 0
        for start in sorted(start for at, start in name_of if at == number):
            document, end = name_of[number, start]
            if start > cursor:
                parts.append(Document(name, message.content[cursor:start]))
            retrieved.append(len(parts))
            parts.append(Document(document, message.content[start:end]))
            cursor = end
        if cursor < len(message.content) or not parts:
            parts.append(Document(name, message.content[cursor:]))
        messages.append(Message(message.role, name, tuple(parts), tuple(retrieved), fixed=True))
    return Case(
        id=f"{answer.trace_id}/{answer.span_id}",
        response=answer.answer,
        messages=tuple(messages),
        decoding=answer.sampling.decoding,
    )
