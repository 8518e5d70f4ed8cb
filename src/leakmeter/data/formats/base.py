"""What a preset is, and what presets share: documents of any library, and rows made into the fields of a case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.data.chat import ChatCases
from leakmeter.data.foreign import TEXTS, WHOSE, described
from leakmeter.data.mapping import Fields, is_name, kind_of, listed, parsed_list
from leakmeter.data.rows import DataRow
from leakmeter.errors import DataError

_METADATA_NAMES: Final = ("source", "title", "file_name", "filename", "file_path", "name")
_NAMES: Final = ("title", "file_name", "filename", "file_path", "filepath", "source")
ANSWERS: Final = ("result", "answer", "output", "response")
"""What a record of a question calls its answer."""
CONTEXTS: Final = ("source_documents", "context", "documents", "retrieved_contexts", "contexts")
"""What it calls the texts that were retrieved."""
_MOST_PARTS: Final = 1000
"""Documents that are looked for in a text which may hold them all."""
_IDS: Final = ("id", "id_", "doc_id", "document_id")

RowsOfFields = Iterable[tuple[DataRow, Fields]]
OutcomesOfRows = Iterator[tuple[DataRow, Fields | ChatCases | DataError]]


@dataclass(frozen=True, slots=True)
class DataFormat:
    name: str
    about: str
    """Which of its fields become which, as shown when the format was found out."""
    fits: Callable[[Fields], bool]
    read: Callable[[RowsOfFields], OutcomesOfRows]
    """Rows with their fields to cases, or their fields; a row may hold several cases, and a case may be of two rows."""


def document_of(value: object, number: int, where: str, *, is_mapped: bool = True) -> dict[str, object]:
    """A document of a context as {'name', 'text'}, from a text or from any library's document (see `foreign`). It is
    called by its name, its metadata's source, title or id, or its own title, file or id; `number` is from 1. Whose it
    is stands there too, as 'owner', 'tenant' and 'readers', where the document or its metadata say so. `is_mapped` is
    False where no `--map` can say which field is the text."""
    if not isinstance(value, Mapping):
        return {"name": f"d{number}", "text": value}
    document = described(value)
    if document.text is None:
        other = next((name for name in TEXTS if document.get(name) is not None), None)
        keys = ", ".join(f"'{key}'" for key in value if is_name(str(key)) and key != other)
        advice = "name its text in --map, as in context=FIELD[].NAME" if is_mapped else "give its text as 'text'"
        has = f"; it has {keys}: {advice}" if keys else ""
        if other is not None:
            kind = kind_of(document.get(other))
            raise DataError(f"{where}: document {number}: '{other}' is {kind}, expected text{has}")
        raise DataError(
            f"{where}: document {number} is an object without 'text', 'page_content', 'content' or 'body'{has}"
        )
    others = (text for name in TEXTS if isinstance(text := document.get(name), str) and _is_prose(text))
    if any(other not in document.text for other in others):
        texts = [name for name in TEXTS if isinstance(document.get(name), str)]
        advice = f"name the one that the model read in --map, as in context=FIELD,context.text={texts[0]}"
        advice = advice if is_mapped else "give only the one that the model read"
        raise DataError(f"{where}: document {number} has several texts, {listed(texts)}; {advice}")
    whose: dict[str, object] = {}
    for key in WHOSE:
        for held in (document.get(key), document.described(key)):
            if isinstance(held, str | int | list) and not isinstance(held, bool) and held not in ("", []):
                whose.setdefault(key, held)
    if (name := document.get("name")) is not None:
        return {"name": name, "text": document.text, **whose}
    looks = (
        (document.described, _METADATA_NAMES),
        (document.get, _NAMES),
        (document.described, _IDS),
        (document.get, _IDS),
    )
    named = [look(name) for look, names in looks for name in names]
    names = (str(name) for name in named if isinstance(name, str | int) and not isinstance(name, bool))
    return {"name": next((name for name in names if name.strip()), f"d{number}"), "text": document.text, **whose}


def documents_by_name(value: object) -> list[JsonObject] | None:
    """Documents of an object that has them by name, each a text or a record; None of any other value, such as a single
    document."""
    if not isinstance(value, Mapping) or not value or described(value).text is not None:
        return None
    if all(isinstance(text, str) for text in value.values()):
        return [{"name": str(name), "text": text} for name, text in value.items()]
    if all(isinstance(record, Mapping) for record in value.values()):
        return [{"name": str(name), **record} for name, record in value.items()]
    return None


def of_fields(make: Callable[[Fields, str], Iterable[Fields | DataError]]) -> Callable[[RowsOfFields], OutcomesOfRows]:
    """What reads rows one by one: `make` gives the fields of the cases of a row, and where in the row each is as
    `place`; or what is wrong with one of them. Several of a row that have no ids of their own are numbered under the
    row's."""

    def read(rows: RowsOfFields) -> OutcomesOfRows:
        for row, fields in rows:
            cases: list[Fields | DataError] = []
            try:
                cases += make(fields, row.where)
            except DataError as error:
                cases.append(error)
            ids = [case.get("id") for case in cases if isinstance(case, Mapping)]
            is_numbered = len(set(map(str, ids))) < len(ids)
            for number, case in enumerate(cases, 1):
                if isinstance(case, DataError):
                    yield row, case
                    continue
                place = case.get("place")
                at = replace(row, place=f"{row.place}{place}".removeprefix(", ")) if place else row
                own = {"id": f"{first(case, 'id') or row.number}.{number}"} if is_numbered else {}
                held = {name: value for name, value in case.items() if name != "place" and value is not None}
                yield at, held | own

    return read


def first(fields: Fields, *names: str) -> Any:
    """The first of these fields that says something; an empty text, which a case refuses, where none does."""
    values = [fields[name] for name in names if fields.get(name) is not None]
    return next((value for value in values if value != ""), values[0] if values else None)


def only(fields: Fields, where: str, *names: str) -> Any:
    """What these fields say, as `first`; refused where two of them differ: only one of them was sent."""
    taken = first(fields, *names)
    other = next((name for name in names if fields.get(name) not in (None, "", taken)), None)
    if other is None:
        return taken
    raise differing(where, next(name for name in names if fields.get(name) == taken), other, "query=…,context=…,")


def differing(where: str, name: str, other: str, beside: str = "") -> DataError:
    """The refusal of two fields that may each be the answer; `beside` is what else `--map` has to name."""
    return DataError(
        f"{where}: '{name}' and '{other}' differ, and each may be the answer; name the one that was sent, as in --map "
        f"{beside}response={name}"
    )


def only_context(fields: Fields, where: str, *names: str) -> Any:
    """What these fields hold as the context, a list where it stands as text; refused where two of them differ. Where
    one is a text that the documents of another stand in, with more words between them, that text is the context."""
    filled = {name: held for name in names if (held := parsed_list(fields.get(name))) not in (None, "", [], {})}
    # Ids and names of files are no texts.
    held = {name: value for name, value in filled.items() if any(map(_is_prose, _texts_of(value)))} or filled
    taken = next(iter(held), None)
    if taken is None:
        return parsed_list(first(fields, *names))
    for name in held:
        own, other = (set(map(_letters, _texts_of(held[each]))) - {""} for each in (taken, name))
        if own == other:
            continue
        is_whole = len(own) == 1 and _is_within(other, *own)
        if not is_whole and not (len(other) == 1 and _is_within(own, *other)):
            raise DataError(
                f"{where}: '{taken}' and '{name}' differ, and each may be the context; name what the model read, as in "
                f"--map query=…,context={taken},response=…, or with context={taken},context={name} both"
            )
        whole, parts = (own, other) if is_whole else (other, own)
        has_more = any(map(str.isalpha, _without(parts, *whole)))
        taken = taken if is_whole is has_more else name
    return held[taken]


def _texts_of(context: Any) -> list[str]:
    entries = context if isinstance(context, list) else documents_by_name(context) or [context]
    return [text if isinstance(text := described(entry).text, str) else str(entry) for entry in entries]


def _is_prose(text: str) -> bool:
    return " " in text.strip() or not text.isascii()


def _letters(text: str) -> str:
    """A text without its white space, to compare it with another."""
    return "".join(text.split())


def _is_within(parts: Collection[str], whole: str) -> bool:
    return len(parts) <= _MOST_PARTS and all(part in whole for part in parts)


def _without(parts: Iterable[str], whole: str) -> str:
    for part in sorted(parts, key=len, reverse=True):
        whole = whole.replace(part, "")
    return whole


def has(*groups: tuple[str, ...]) -> Callable[[Fields], bool]:
    """Whether a record has a field of each of these groups."""
    return lambda fields: all(any(name in fields for name in group) for group in groups)


def listed_cell(value: object) -> list[Any]:
    """A list, which may stand as text in the cell of a table; an empty one where it is none."""
    held = parsed_list(value)
    return held if isinstance(held, list) else []


def with_tools(query: Any, calls: Iterable[tuple[Any, Any, Any]]) -> list[JsonObject]:
    """A question as messages, and the calls of tools after it: name, arguments, and what came back."""
    messages: list[JsonObject] = [{"role": "user", "content": query}]
    for number, (name, arguments, output) in enumerate(calls, 1):
        call = {"id": f"call {number}", "name": name, "arguments": {} if arguments is None else arguments}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        if output is not None:
            messages.append({"role": "tool", "tool_call_id": call["id"], "name": name, "content": output})
    return messages
