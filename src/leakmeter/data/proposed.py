"""The mapping that a record with names of its own probably wants: the paths of its query, context and response."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from leakmeter.data.formats import document_of
from leakmeter.data.mapping import Fields, is_name, nearest, parsed_cell
from leakmeter.errors import DataError

ROLES: Final = ("messages", "query", "context", "response", "reference")
"""Fields that are looked for."""
_OF_CHAT: Final = ("query", "context")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SAYING_NOTHING: Final = ("text", "content", "value", "body", "message", "page_content", "items", "list")
"""Names that do not say what a text is; the name above does."""
_NO_TEXTS: Final = frozenset((
    *("id", "name", "time", "timestamp", "date", "score", "rank", "type", "kind", "status", "version", "hash", "url"),
    *("lang", "language", "token", "length", "index", "count", "number", "system", "template"),
))  # fmt: skip
"""Words in the names of what stands beside a text."""
_SAME_NAME = 75.0
_DEEPEST: Final = 6
_MOST_PLACES: Final = 2_000
_MOST_NAMED: Final = 12


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    name: str
    """The last name of the path that says something."""
    value: Any


def proposed_mapping(fields: Fields, aliases: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Fields of a case (`ROLES`), by their other names, to paths in a record; those that are not recognised are left
    out."""
    places = list(islice(_places(fields, "", "", 0), _MOST_PLACES))
    out = {name: name for name in ROLES if fields.get(name) not in (None, "", [], {})}
    # What was expected is called an answer too, and is looked for before the answer.
    for role, fits in (("query", _is_text), ("context", _is_context), ("reference", _is_text), ("response", _is_text)):
        if role not in out:
            free = [place for place in places if fits(place.value) and place.path not in out.values()]
            # The first of a list of documents is not the context.
            free = [place for place in free if role != "context" or "[0]" not in place.path]
            best_place = _named(free, (role, *aliases[role]))
            if best_place is None and role == "context":
                # The list of texts or documents, where there is a single one.
                lists = [place for place in free if _is_list(place.value)]
                best_place = lists[0] if len(lists) == 1 else None
            out |= {} if best_place is None else {role: best_place.path}
    if "messages" not in out and not {"query", "context"} <= out.keys():
        chat = _named([place for place in places if _is_chat(place.value)], aliases["messages"])
        out |= {} if chat is None else {"messages": chat.path}
    if "messages" in out:
        # A chat has query and context within; an empty path leaves a field out.
        out = {role: path for role, path in out.items() if role not in _OF_CHAT} | {
            role: "" for role in _OF_CHAT if role in fields
        }
    return {role: out[role] for role in ROLES if role in out}


def _places(value: Any, path: str, name: str, depth: int) -> Iterator[_Place]:
    """The places of a record that may hold a role, those further up first."""
    value = parsed_cell(value)
    if path:
        yield _Place(path, name, value)
    if depth >= _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, held in value.items():
            key = str(key)
            if is_name(key) and not set(key) & set(".[],=") and key == key.strip():
                says = not name or key not in _SAYING_NOTHING
                yield from _places(held, f"{path}.{key}" if path else key, key if says else name, depth + 1)
    elif isinstance(value, list) and value and all(isinstance(record, Mapping) for record in value):
        if len(value) == 1:
            yield from _places(value[0], f"{path}[0]", name, depth + 1)
        elif not _is_list(value):
            texts = [_texts_in(record, depth + 1) for record in value]
            shared = [key for key in texts[0] if all(key in others for others in texts)]
            if shared:
                # An id may be a text too; the retrieved text is the longest.
                longest = max(shared, key=lambda key: sum(len(others[key]) for others in texts))
                yield _Place(f"{path}[].{longest}", name, [others[longest] for others in texts])


def _texts_in(record: Mapping[Any, Any], depth: int) -> dict[str, str]:
    """Texts of a record within a list, by their paths."""
    return {
        place.path: place.value
        for place in _places(record, "", "", depth)
        if _is_text(place.value) and _is_of_text(place.path.rpartition(".")[2])
    }


def text_paths(fields: Fields) -> list[str]:
    """Paths of the texts of a record, and of the lists of texts, the first few."""
    places = islice(_places(fields, "", "", 0), _MOST_PLACES)
    found = [place.path for place in places if (_is_text(place.value) or _is_texts(place.value))]
    return list(dict.fromkeys(found))[:_MOST_NAMED]


def records_in(fields: Fields) -> str | None:
    """The one field that holds a list of records, where nothing but single values stands beside it."""
    lists = [
        name
        for name, value in fields.items()
        if isinstance(value, list) and value and all(isinstance(record, Mapping) for record in value)
    ]
    others = [value for name, value in fields.items() if name not in lists]
    is_alone = len(lists) == 1 and is_name(lists[0]) and not any(isinstance(value, list | Mapping) for value in others)
    return lists[0] if is_alone else None


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _named(places: Sequence[_Place], names: Sequence[str]) -> _Place | None:
    """The place of one of these names: as it is written, as words of a longer name, or misspelled."""
    word_lists = [_words(name) for name in names]
    for words in word_lists:
        if exact := [place for place in places if _words(place.name) == words]:
            return exact[0]
    telling = [place for place in places if _is_of_text(place.name)]
    for words in word_lists:
        if within := [place for place in telling if set(words) <= set(_words(place.name))]:
            return min(within, key=lambda place: len(_words(place.name)))
    for place in telling:
        if nearest(place.name, names, at_least=_SAME_NAME) is not None:
            return place
    return None


def _words(name: str) -> tuple[str, ...]:
    """A name's words in lower case, the plural as the singular."""
    return tuple(word.lower().rstrip("s") for word in _WORD.findall(name)) or (name.lower(),)


def _is_of_text(name: object) -> bool:
    return not _NO_TEXTS & set(_words(str(name)))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_context(value: object) -> bool:
    by_name = isinstance(value, Mapping) and bool(value) and all(map(_is_text, value.values()))
    return _is_text(value) or _is_list(value) or by_name


def _is_list(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    try:
        return not _is_chat(value) and all(_is_text(document_of(entry, 1, "")["text"]) for entry in value)
    except DataError:
        return False


def _is_chat(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, Mapping) and "role" in message for message in value)
    )
