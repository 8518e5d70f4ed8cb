"""A logged answer as a case of the instruments: its documents are the whole context, and all else stays; and formats of
traces as presets of `data`, so that what measures cases reads the logs that the ledger reads.

A case is a call that answered; a call that is refused is a bad row, and calls that answered nobody are none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from leakmeter.core.case import Case, Document, Message
from leakmeter.data import formats as data_formats
from leakmeter.data.mapping import Fields, unused
from leakmeter.data.rows import Row
from leakmeter.errors import DataError
from leakmeter.traces.answer import LoggedAnswer, Refused
from leakmeter.traces.formats import FORMATS
from leakmeter.traces.formats.base import Format
from leakmeter.traces.reader import TraceReader, unwrapped


def as_case(answer: LoggedAnswer, *, by_id: bool = False) -> Case:
    """The case in which a document's influence is measured against the same prompt without it: a chat whose `id` is
    trace and span with a slash between them. Documents are named d1, d2, … in the order of `answer.documents`, or by
    their ids, numbered where two have the same; a document that stands in several places is one, under the unit
    `document`. Every message is fixed: nothing but documents is left out."""
    names = [f"d{n}" for n in range(1, len(answer.documents) + 1)]
    if by_id:
        names = []
        names_of_messages = {f"{message.role} {number}" for number, message in enumerate(answer.messages, 1)}
        for retrieved_text in answer.documents:
            names.append(unused(retrieved_text.id, {*names_of_messages, *names}))
    places: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for name, retrieved_text in zip(names, answer.documents, strict=True):
        for place in retrieved_text.places:
            places[place.message].append((place.start, place.end, name))
    messages: list[Message] = []
    for number, message in enumerate(answer.messages):
        name = f"{message.role} {number + 1}"
        parts: list[Document] = []
        retrieved: list[int] = []
        cursor = 0
        for start, end, document in sorted(places[number]):
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


def _read(name: str, rows: Iterable[tuple[Row, Fields]]) -> Iterator[tuple[Row, Case | DataError]]:
    reader = TraceReader((), format=name)
    for outcome in reader.answers_of(("", Row(0, "", row.where, fields)) for row, fields in rows):
        row = Row(0, "", outcome.where)
        yield (
            row,
            DataError(f"{outcome.where}: {outcome.reason.sentence}")
            if isinstance(outcome, Refused)
            else as_case(outcome, by_id=True),
        )


def _fits(format_: Format, fields: Fields) -> bool:
    return any(map(format_.fits, unwrapped(fields)))


PRESETS: Final = tuple(
    data_formats.Format(
        name, f"{format_.about}, as `leakmeter ledger` reads them", partial(_fits, format_), partial(_read, name)
    )
    for name, format_ in FORMATS.items()
    if name not in data_formats.FORMATS
)
"""Formats that `data` does not have of its own, in the order in which they are tried."""
