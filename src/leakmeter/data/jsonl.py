"""Cases from JSON lines: one object a line with `context` or `messages`, `query`, and if need be `response`, `id`.

A `reference`, what a good response says, stands beside the case: no measure reads it, and no number of a run depends on
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakmeter.core.case import DECODINGS, Case, Document, Message
from leakmeter.core.files import read_text
from leakmeter.data.chat import messages_of, without_answer
from leakmeter.data.records import Fields
from leakmeter.data.text import checked_text, parsed_json, unused
from leakmeter.errors import DataError, UsageError

_FIELDS = ("id", "context", "query", "response", "decoding", "reference", "messages")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Cases of a file, and what was wrong with the lines left out."""

    cases: tuple[Case, ...]
    problems: tuple[str, ...]
    references: tuple[str | None, ...] = ()
    """Of each case; None where its line has none."""


def load(path: Path, *, skip_bad: bool = False) -> Loaded:
    """Read a file of cases.

    Args:
        path: the file.
        skip_bad: leave bad lines out and name them in `problems`, rather than stop at the first.

    Raises:
        DataError: a bad line, naming it; or no case at all.
    """
    cases: list[Case] = []
    references: list[str | None] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_text(path, "data file").split("\n"), 1):
        if not line.strip():
            continue
        try:
            case, reference = _case(line, number, f"{path}, line {number}")
            if case.id in seen:
                raise DataError(f"{path}, line {number}: id '{case.id}' was already used in line {seen[case.id]}")
        except DataError as error:
            if not skip_bad:
                raise
            problems.append(str(error))
            continue
        seen[case.id] = number
        cases.append(case)
        references.append(reference)
    if not cases:
        raise DataError(
            f"data file '{path}' holds no {'good ' if problems else ''}case; expected one JSON object a line"
        )
    return Loaded(tuple(cases), tuple(problems), tuple(references))


def _case(line: str, number: int, where: str) -> tuple[Case, str | None]:
    value = parsed_json(line, where)
    if not isinstance(value, dict):
        raise DataError(f"{where} is not a JSON object with 'context' and 'query'")
    return case_of_fields(value, number, where)


def case_of_fields(value: Fields, number: int, where: str) -> tuple[Case, str | None]:
    """A case and its reference, if it has one, from the fields of a line.

    Raises:
        DataError: a field that is unknown, missing, or not what it should be.
    """
    for field in value:
        if field not in _FIELDS:
            raise DataError(f"{where}: unknown field '{field}'; known: {', '.join(_FIELDS)}")
    if ("context" in value) == ("messages" in value):
        raise DataError(f"{where}: give either 'context' or 'messages'")
    id_ = value.get("id", number)
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        raise DataError(f"{where}: 'id' has to be text or a whole number")
    response, reference = value.get("response"), value.get("reference")
    response = None if response is None else checked_text(response, "response", where)
    messages: tuple[Message, ...] = ()
    if "messages" in value:
        if value.get("query"):
            raise DataError(f"{where}: the last user message is the query; leave 'query' out")
        messages, response = without_answer(messages_of(value["messages"], where), response, where)
    case = Case(
        id=checked_text(str(id_), "id", where),
        documents=_documents(value["context"], where) if "context" in value else (),
        query=checked_text(value.get("query", ""), "query", where),
        response=response,
        messages=messages,
        decoding=_decoding(value, where, response),
    )
    return case, None if reference is None else checked_text(reference, "reference", where)


def _decoding(value: Fields, where: str, response: str | None) -> str | None:
    given = value.get("decoding")
    if given is None:
        return None
    if given not in DECODINGS:
        raise DataError(f"{where}: 'decoding' has to be one of {', '.join(DECODINGS)}")
    if response is None:
        raise DataError(f"{where}: 'decoding' says how a response was chosen, and there is no 'response'")
    return str(given)


def _documents(value: object, where: str) -> tuple[Document, ...]:
    if isinstance(value, str):
        return (Document("context", checked_text(value, "context", where)),)
    if not isinstance(value, list):
        raise DataError(f"{where}: 'context' has to be text or a list of documents")
    out: list[Document] = []
    for number, entry in enumerate(value, 1):
        name, text = f"d{number}", entry
        if isinstance(entry, dict):
            if set(entry) - {"name", "text"} or "text" not in entry:
                raise DataError(f"{where}: document {number} is an object, expected only 'text' and 'name'")
            name, text = checked_text(entry.get("name", name), "name", where), entry["text"]
        out.append(Document(name, checked_text(text, f"context[{number - 1}]", where)))
    return tuple(unique_names(out))


def unique_names(documents: list[Document]) -> list[Document]:
    """The documents, later ones of an equal name numbered."""
    out: dict[str, Document] = {}
    for document in documents:
        name = unused(document.name, out)
        out[name] = Document(name, document.text)
    return list(out.values())


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
    return Case(id="case", documents=_documents_of(context), query=query, response=response, messages=said)


def _documents_of(context: str | Sequence[str] | Mapping[str, str]) -> tuple[Document, ...]:
    if isinstance(context, str):
        return (Document("context", context),)
    if isinstance(context, Mapping):
        return tuple(Document(name, text) for name, text in context.items())
    return tuple(Document(f"d{number}", text) for number, text in enumerate(context, 1))
