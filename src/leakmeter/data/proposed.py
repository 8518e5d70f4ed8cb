"""The `--map` that a record with names of its own probably wants: the paths of its query, context and response."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from leakmeter.core.record import JsonObject
from leakmeter.data.foreign import turn_of
from leakmeter.data.formats import document_of
from leakmeter.data.mapping import Fields, is_name, nearest, parsed_cell, value_at
from leakmeter.data.rows import DataRow
from leakmeter.data.shape import Shape
from leakmeter.errors import DataError

ROLES: Final = ("messages", "query", "context", "response", "reference")
_OF_CHAT: Final = ("query", "context")
_SPEAKERS: Final = frozenset((
    *("role", "speaker", "from", "author", "sender", "who", "by", "side", "party", "actor", "participant", "type"),
))  # fmt: skip
"""Words in the name of what says whose a message is."""
_SYSTEM: Final = frozenset((("system",), ("system", "prompt"), ("instruction",), ("preamble",), ("sy",)))
"""Words of the name of a system prompt, as `_words` has them: 'sys' is 'sy' there."""
_TITLES: Final = frozenset(("name", "title", "source", "file", "filename", "path", "url", "uri", "ref", "id"))
"""Words in the name of what a document is called."""
_IDS: Final = frozenset(("id", "uuid", "key"))
_SHARED: Final = frozenset(("user", "session", "customer", "client", "tenant", "account", "model", "thread", "parent"))
"""Words in the names of ids that several records share."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SAYING_NOTHING: Final = ("text", "content", "value", "body", "message", "page_content", "items", "list")
"""Names that do not say what a text is; the name above does."""
_NO_TEXTS: Final = frozenset((
    *("id", "name", "time", "timestamp", "date", "score", "rank", "type", "kind", "status", "version", "hash", "url"),
    *("lang", "language", "token", "length", "index", "count", "number", "system", "template", "role"),
))  # fmt: skip
"""Words in the names of what stands beside a text."""
_OF_TEXT: Final = frozenset(("text", "content", "message", "str", "string", "value"))
"""Words behind the name of a text that say no more of it."""
_NO_ANSWERS: Final = frozenset(("tool", "search", "choice", *_SHARED - {"model"}))
"""Words in the names of other things that are called a result or a choice, or of what others than the model say."""
_OF_CALLS: Final = ("arguments", "args", "inputParameters", "input_parameters", "toolUse", "tool_kwargs")
"""Names of what a tool was asked, which is no query of the user's."""
_MOST_PLACES: Final = 2_000
_DEEPEST: Final = 14
_MOST_KINDS: Final = 12
"""Elements of a list of different things that are looked into."""
_MOST_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    name: str
    """The last name of the path that says something."""
    value: Any


def proposed_mapping(fields: Fields, aliases: Mapping[str, Sequence[str]], *, chats: bool = True) -> dict[str, str]:
    """Fields of a case (`ROLES`), by their other names, to paths in a record; those that are not recognised are left
    out. Where `chats` are not wanted, the texts of a chat are texts like others."""
    places = list(islice(_places(fields, "", "", 0), _MOST_PLACES))
    has_chat = chats and isinstance(held := parsed_cell(fields.get("messages")), list) and bool(held)
    out: dict[str, str] = {"messages": "messages"} if has_chat else {}
    # What was expected is called an answer too, and is looked for before the answer.
    for role, fits in _FITTING.items():
        if fits(parsed_cell(fields.get(role))):
            out[role] = role
        else:
            free = [place for place in places if fits(place.value) and place.path not in out.values()]
            if role == "context":
                # The first of a list of documents is not the context; lists within each of a list are it together.
                free = [place for place in free if _words(place.name) not in _SYSTEM]
                free = [_of_each(place) for place in free if "[0]" not in place.path or isinstance(place.value, list)]
                # Within a list, a word alone is a label.
                free = [place for place in free if "[" not in place.path or not _is_word(place.value)]
            best_place = _named(free, (role, *aliases[role]))
            if best_place is None and role == "context":
                # The list of texts or documents, where there is a single one.
                asked = value_at(fields, out["query"], "") if "query" in out else None
                lists = [place for place in free if _is_list(place.value) and _has_prose(place.value, asked)]
                best_place = lists[0] if len(lists) == 1 else None
            if best_place is not None and role == "response" and "[" in best_place.path:
                # Of the steps of an answer, the last is what was answered.
                steps, name = best_place.path.partition("[")[0], best_place.name
                best_place = [p for p in free if p.path.startswith(f"{steps}[") and p.name == name][-1]
            out |= {} if best_place is None else {role: best_place.path}
    chat = None
    if chats and "messages" not in out and not {"query", "context"} <= out.keys():
        found = [place for place in places if "[0]" not in place.path and _parts_of_chat(place.value) is not None]
        chat = _named(found, ("messages", *aliases["messages"])) or next(
            (place for place in found if _is_of_pairs(place.value)), None
        )
        out |= {} if chat is None else {"messages": chat.path}
    elif "messages" in out:
        chat = next((place for place in places if place.path == out["messages"]), None)
    if "messages" in out:
        # A chat has query and context within; an empty path leaves a field out.
        out = {role: path for role, path in out.items() if role not in _OF_CHAT} | {
            role: "" for role in _OF_CHAT if role in fields
        }
    proposal: dict[str, str] = {role: out[role] for role in ROLES if role in out}
    if chat is not None:
        proposal |= _parts_of_chat(chat.value, is_answered="response" in proposal) or {}
        systems = (place for place in places if _words(place.name) in _SYSTEM and _is_text(place.value))
        if all(turn_of(turn).role != "system" for turn in chat.value) and (prompt := next(systems, None)) is not None:
            proposal["system"] = prompt.path
    if "context" in proposal:
        proposal |= _parts_of_documents(fields, proposal["context"])
    return _id_of(fields) | proposal


def _of_each(place: _Place) -> _Place:
    """A list within the only record of a list, as the path of those within each record."""
    if "[0]" not in place.path or place.path.endswith("[0]"):
        return place
    whole = "" if "[]" in place.path else "[]"
    return _Place(f"{place.path.replace('[0]', '[]')}{whole}", place.name, place.value)


def proposed_cases(fields: Fields, aliases: Mapping[str, Sequence[str]]) -> tuple[str, Fields] | None:
    """The path of the list within a record that probably has the cases, and the first of them."""
    cases: list[tuple[str, Fields, int]] = []
    for path in islice(_lists_of_records(fields, "", 0), _MOST_PLACES):
        own: Any = value_at(fields, f"{path}[0]", "")
        first = next(Shape(path).records(DataRow(1, "", "", fields))).fields
        # An id of the whole record is none of a case's, nor is the number that a case without one gets.
        outer = {name for name in first if name == path.partition(".")[0] or _is_id(name)} - {*own}
        case = {name: held for name, held in first.items() if name not in outer}
        proposal = proposed_mapping(case, aliases)
        if {"query", "response"} <= proposal.keys() or "messages" in proposal:
            return path, case
        cases.append((path, case, len(_texts_in(own, 1))))
    texts_beside = [path for path in text_paths(fields) if "[" not in path]
    if len(cases) == 1 and len(texts_beside) <= 1:
        return cases[0][:2]
    # A list that is no context, of records with two texts or more, may be one of questions and answers.
    context = proposed_mapping(fields, aliases).get("context", "").partition("[")[0]
    free = [(path, case) for path, case, n_texts in cases if path != context and n_texts > 1]
    return free[0] if len(free) == 1 else None


def _lists_of_records(value: Any, path: str, depth: int) -> Iterator[str]:
    value = parsed_cell(value)
    if isinstance(value, list) and path and value and all(isinstance(record, Mapping) for record in value):
        yield path
    elif isinstance(value, Mapping) and depth < 3:
        for key, held in value.items():
            if _is_plain_name(str(key)):
                yield from _lists_of_records(held, f"{path}.{key}" if path else str(key), depth + 1)


def _parts_of_chat(value: Any, *, is_answered: bool = False) -> dict[str, str] | None:
    """What `--map` has to say of a chat's messages; None where it is no chat. `is_answered` elsewhere."""
    if _is_of_pairs(value):
        value = [{"role": role, "content": text} for role, text in value]
    if not isinstance(value, list) or not value or not all(isinstance(message, Mapping) for message in value):
        return None
    keys = [str(key) for key in value[0] if _is_plain_name(str(key)) and all(key in message for message in value)]
    role_keys = [key for key in keys if _SPEAKERS & {*_words(key)} and 0 < len(_names_in(value, key)) <= 4]
    role = "role" if "role" in keys else next(iter(role_keys), None)
    if role is None:
        return None
    texts = [key for key in keys if key not in role_keys and all(_is_text(message[key]) for message in value)]
    parts: dict[str, str] = {}
    if role != "role" or "content" not in keys:
        if not texts or "parts" in keys:
            # Blocks in the place of a text are known by their names.
            return {} if role == "role" else None
        content = max(texts, key=lambda key: sum(len(message[key]) for message in value))
        parts = {"messages.role": role, "messages.content": content}
    names = _names_in(value, role)
    known = {turn_of({"role": name, "content": ""}).role: name for name in names}
    if "user" in known:
        return parts
    if len(names) > 2:
        # Of several it is not known who asks and who answers.
        return parts | {"messages.user": "|".join(names)}
    # The last to speak has answered, unless the answer is elsewhere.
    speakers = [str(message[role]) for message in reversed(value)]
    asks = next((name for name in speakers if is_answered or name != speakers[0]), None)
    if asks is None:
        return parts
    return parts | {"messages.user": asks} | ({} if is_answered else {"messages.assistant": speakers[0]})


def _is_of_pairs(value: object) -> bool:
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(turn, list) for turn in value):
        return False
    return all(len(turn) == 2 and all(map(_is_text, turn)) and is_name(turn[0]) for turn in value)


def _names_in(messages: Sequence[Any], key: str) -> list[str]:
    """Different values of a field of messages; none where they are no names."""
    names = list(dict.fromkeys(message[key] for message in messages if isinstance(message[key], str)))
    is_named = all(map(_is_plain_name, names)) and all(isinstance(message[key], str) for message in messages)
    return names if is_named else []


def _parts_of_documents(fields: Fields, path: str) -> dict[str, str]:
    """What `--map` has to say so that the documents of a list keep their names; nothing where they have none."""
    above, _, text = path.rpartition("[].") if not path.endswith("[]") else ("", "", "")
    records = parsed_cell(value_at(fields, above or path, ""))
    by_name = isinstance(records, Mapping)
    records = list(records.values()) if isinstance(records, Mapping) else records
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        return {}
    parts = {"context": above, "context.text": text} if above else {}
    if by_name:
        if not _is_list(records) and (shared := _shared_texts(records)):
            parts = {"context.text": max(shared, key=lambda key: len("".join(shared[key])))}
        return parts
    if not above and document_of(records[0], 1, "")["name"] != "d1":
        return {}
    paths = [{place.path: place.value for place in _places(record, "", "", 1)} for record in records]
    # A name says more than an id.
    for name, value in sorted(paths[0].items(), key=lambda held: "id" in _words(held[0])):
        is_short = isinstance(value, str | int) and is_name(str(value))
        if name != text and is_short and _TITLES & set(_words(name)) and all(name in others for others in paths):
            return parts | {"context.name": name}
    return {}


def _id_of(fields: Fields) -> dict[str, str]:
    if "id" in fields:
        return {}
    for name, value in fields.items():
        is_short = isinstance(value, str | int) and not isinstance(value, bool) and is_name(str(value))
        if is_short and _is_id(name) and not _SHARED & set(_words(name)):
            return {"id": name}
    return {}


def _is_id(name: str) -> bool:
    return _is_plain_name(name) and bool(_IDS & set(_words(name)))


def _places(value: Any, path: str, name: str, depth: int, *, every_text: bool = False) -> Iterator[_Place]:
    """The places of a record that may hold a role, those further up first; of records in a list the longest text, or
    every one."""
    value = parsed_cell(value)
    if path:
        yield _Place(path, name, value)
    if depth >= _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, held in value.items():
            key = str(key)
            if _is_plain_name(key) and (every_text or key not in _OF_CALLS):
                says = not name or key not in _SAYING_NOTHING
                at, called = f"{path}.{key}" if path else key, key if says else name
                yield from _places(held, at, called, depth + 1, every_text=every_text)
    elif isinstance(value, list) and value and all(isinstance(record, Mapping) for record in value):
        if len(value) == 1 and _is_of_blocks(value) and not every_text:
            # The next row's answer may be in more blocks.
            yield _Place(f"{path}[].text", name, value[0].get("text"))
        elif len(value) == 1:
            yield from _places(value[0], f"{path}[0]", name, depth + 1, every_text=every_text)
        elif not (shared := _shared_texts(value, depth + 1)):
            # Of different things, such as the steps of an answer, each is looked into.
            kinds = Counter(kind for record in value if (kind := _kind_of(record)))
            for number, record in enumerate(value[:_MOST_KINDS]):
                kind = _kind_of(record)
                # Where a kind stands in a list may change from row to row.
                chosen = f"type={kind}" if kinds[kind] == 1 else str(number)
                yield from _places(record, f"{path}[{chosen}]", name, depth + 1, every_text=every_text)
        elif every_text:
            texts = [_texts_in(record, depth + 1) for record in value]
            for key in dict.fromkeys(key for held in texts for key in held):
                yield _Place(f"{path}[].{key}", name, [held[key] for held in texts if key in held])
        elif not (_is_list(value) or _is_of_blocks(value) or "role" in value[0]):
            # An id may be a text too; the retrieved text is the longest.
            longest = max(shared, key=lambda key: len("".join(shared[key])))
            yield _Place(f"{path}[].{longest}", name, shared[longest])
    elif isinstance(value, list) and len(value) == 1 and _is_text(value[0]):
        yield _Place(f"{path}[0]", name, value[0])


def _kind_of(record: Mapping[Any, Any]) -> str:
    kind = record.get("type")
    return kind if isinstance(kind, str) and _is_plain_name(kind) else ""


def _shared_texts(records: Sequence[Mapping[Any, Any]], depth: int = 1) -> dict[str, list[str]]:
    """Texts that every record has, by their paths."""
    texts = [_texts_in(record, depth) for record in records]
    return {key: [others[key] for others in texts] for key in texts[0] if all(key in others for others in texts)}


def _texts_in(record: Mapping[Any, Any], depth: int) -> dict[str, str]:
    """Texts of a record within a list, by their paths."""
    return {
        place.path: place.value
        for place in _places(record, "", "", depth)
        if _is_text(place.value) and _is_of_text(place.path.rpartition(".")[2])
    }


def contexts_among(fields: Fields) -> list[str]:
    """Paths of the lists of texts or documents that may each be the context."""
    places = islice(_places(fields, "", "", 0), _MOST_PLACES)
    lists = (_of_each(place).path for place in places if _is_list(place.value) and _has_prose(place.value, None))
    return list(dict.fromkeys(lists))[:_MOST_SHOWN]


def other_contexts(fields: Fields, proposal: Mapping[str, str], aliases: Mapping[str, Sequence[str]]) -> list[str]:
    """Paths of the lists that may be the context as well as the proposed one, and are nothing else that it reads."""
    taken = {path.partition("[")[0] for path in proposal.values()}
    named = {_words(name) for role in _FITTING if role != "context" for name in (role, *aliases[role])}
    free = [path for path in contexts_among(fields) if path.partition("[")[0] not in taken]
    return [path for path in free if _words(path.removesuffix("[]").rpartition(".")[2]) not in named]


def answers_beside(fields: Fields, aliases: Mapping[str, Sequence[str]]) -> list[str]:
    """Paths of the texts beside a chat without an answer that may be it, by the last word of their field's name."""
    named = {role: {_words(name) for name in (role, *aliases[role])} for role in ("response", "reference", "context")}
    answers = {words[-1] for words in named["response"]} | {"assistant"}
    others = {*_NO_ANSWERS, *(word for words in named["reference"] for word in words)}
    found: JsonObject = {}
    for name, value in fields.items():
        words = _words(name)
        while len(words) > 1 and words[-1] in _OF_TEXT:
            words = words[:-1]
        is_misspelled = len(words) == 1 and nearest(words[0], answers, at_least=80.0) is not None
        is_named = words[-1] in answers or is_misspelled
        is_plain = words in (("text",), ("content",))
        if (is_named or is_plain) and not others & set(words) and _words(name) not in named["context"]:
            found[name] = value
    return text_paths(found)


def text_paths(fields: Fields) -> list[str]:
    """Paths of the texts of a record, and of the lists of texts: the first few, and where they are many of those with
    more than a word."""
    places = islice(_places(fields, "", "", 0, every_text=True), _MOST_PLACES)
    paths: dict[str, list[str]] = {}
    for place in places:
        values = place.value if isinstance(place.value, list) else [place.value]
        if values and all(map(_is_text, values)) and place.path.removesuffix("[0]") not in paths:
            paths[place.path] = values
    if len(paths) > _MOST_SHOWN:
        paths = {path: texts for path, texts in paths.items() if any(" " in text.strip() for text in texts)}
    return list(paths)[:_MOST_SHOWN]


def _is_plain_name(name: str) -> bool:
    """Whether a path can have it without being misread."""
    return is_name(name) and not set(name) & set(".[],=") and name == name.strip()


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
        if nearest(place.name, names, at_least=80.0) is not None:
            return place
    return None


def _words(name: str) -> tuple[str, ...]:
    """A name's words in lower case, the plural as the singular."""
    return tuple(word.lower().rstrip("s") for word in _WORD.findall(name)) or (name.lower(),)


def _is_of_text(name: object) -> bool:
    return not _NO_TEXTS & set(_words(str(name)))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and " " not in value.strip()


def _is_of_blocks(value: object) -> bool:
    """Whether it is a message in blocks, as chat models give them: each says of which type it is."""
    types = [part.get("type") for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []
    return bool(types) and all(isinstance(type_, str) and "text" in type_ for type_ in types)


def _is_answer(value: object) -> bool:
    return _is_text(value) or _is_of_blocks(value)


def _is_context(value: object) -> bool:
    if isinstance(value, Mapping):
        records = [record for record in value.values() if isinstance(record, Mapping)]
        has_records = len(records) > 1 and len(records) == len(value) and bool(_shared_texts(records))
        return has_records or (bool(value) and all(map(_is_text, value.values())))
    return _is_text(value) or _is_list(value)


def _has_prose(value: Any, query: object) -> bool:
    """Whether a list of texts or documents has more than names, values and the query."""
    texts = [str(document_of(entry, 1, "")["text"]) for entry in value]
    return any(len(text) >= 16 and (" " in text or not text.isascii()) and text != query for text in texts)


_FITTING: Final = {"query": _is_text, "context": _is_context, "reference": _is_text, "response": _is_answer}


def _is_list(value: object) -> bool:
    if not isinstance(value, list) or not value or _is_of_blocks(value):
        return False
    if all(isinstance(message, Mapping) and "role" in message for message in value):
        return False
    try:
        return all(_is_text(document_of(entry, 1, "")["text"]) for entry in value)
    except DataError:
        return False
