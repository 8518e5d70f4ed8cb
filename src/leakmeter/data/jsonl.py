"""Cases from JSON lines: one object a line with `context` or `messages`, `query`, and if need be `response`, `id`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from leakmeter.data.chat import messages_of
from leakmeter.data.text import checked_text, read_text, unused
from leakmeter.errors import DataError
from leakmeter.types.case import Case, Document

_FIELDS = ("id", "context", "query", "response", "messages")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Cases of a file, and what was wrong with the lines left out."""

    cases: tuple[Case, ...]
    problems: tuple[str, ...]


def load(path: Path, *, skip_bad: bool = False) -> Loaded:
    """Read a file of cases.

    Args:
        path: the file.
        skip_bad: leave bad lines out and name them in `problems`, rather than stop at the first.

    Raises:
        DataError: a bad line, naming it; or no case at all.
    """
    cases: list[Case] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_text(path, "data file").split("\n"), 1):
        if not line.strip():
            continue
        try:
            case = _case(line, number, f"{path}, line {number}")
            if case.id in seen:
                raise DataError(f"{path}, line {number}: id '{case.id}' was already used in line {seen[case.id]}")
        except DataError as error:
            if not skip_bad:
                raise
            problems.append(str(error))
            continue
        seen[case.id] = number
        cases.append(case)
    if not cases:
        raise DataError(
            f"data file '{path}' holds no {'good ' if problems else ''}case; expected one JSON object a line"
        )
    return Loaded(tuple(cases), tuple(problems))


def _case(line: str, number: int, where: str) -> Case:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error.msg} at character {error.pos + 1}") from None
    except (RecursionError, ValueError):
        raise DataError(f"{where} is JSON nested too deep, or with a number too long, to be read") from None
    if not isinstance(value, dict):
        raise DataError(f"{where} is not a JSON object with 'context' and 'query'")
    for field in value:
        if field not in _FIELDS:
            raise DataError(f"{where}: unknown field '{field}'; known: {', '.join(_FIELDS)}")
    if ("context" in value) == ("messages" in value):
        raise DataError(f"{where}: give either 'context' or 'messages'")
    id_ = value.get("id", number)
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        raise DataError(f"{where}: 'id' has to be text or a whole number")
    response = value.get("response")
    return Case(
        id=checked_text(str(id_), "id", where),
        documents=_documents(value["context"], where) if "context" in value else (),
        query=checked_text(value.get("query", ""), "query", where),
        response=None if response is None else checked_text(response, "response", where),
        messages=messages_of(value["messages"], where) if "messages" in value else (),
    )


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
