"""Where the parts of cases are in records of any shape, as `--map` says it.

Beside a path for each field of a case, it may say in which list the cases are (`cases=calls`), several paths whose
texts are all context (`context=notes,context=profile`), what the documents of a list have as text and name
(`context.text=body`), what the messages of a chat have as role and content (`messages.role=who`), how its roles are
called (`messages.user=customer`), and where the system prompt of a chat is (`system=prompt`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leakmeter.core.case import SYSTEM_ROLES
from leakmeter.data.chat import answer_text
from leakmeter.data.foreign import WHOSE, is_of_blocks, joined_answer, parts_of, turn_of
from leakmeter.data.formats import documents_by_name
from leakmeter.data.mapping import (
    Fields,
    checked_pairs,
    checked_text,
    is_name,
    listed,
    mapped,
    pairs_of,
    parsed_cell,
    steps_of,
    value_at,
)
from leakmeter.data.recipients import PARTS as PARTS_OF_RECIPIENT
from leakmeter.data.recipients import RECIPIENT
from leakmeter.data.rows import DataRow
from leakmeter.errors import DataError, UsageError

_CASES: Final = "cases"
_SYSTEM: Final = "system"
_NUMBERED: Final = re.compile(r"\[\d+\]")
_BLOCK: Final = re.compile(r"(?P<blocks>.+)\[(?P<number>-?\d*)\]\.text")
"""A path to one text, or to the texts, of an answer that may be logged in blocks."""
_CHOSEN_BLOCKS: Final = re.compile(r".+\[type=[^\[\]=]+\]\.text")
"""A path to the texts of the blocks of one type."""
_TEXTS: Final = ("query", "response")
_PAIR: Final = ("role", "content")
_TURNS: Final = ("user", "assistant", *SYSTEM_ROLES, "tool")
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "context": ("text", "name", *WHOSE),
    "messages": (*_PAIR, *_TURNS),
    RECIPIENT: PARTS_OF_RECIPIENT,
}
"""What may be said of each document or message of a list, and of the recipient."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Where records have the parts of a case."""

    cases: str = ""
    """Path of the list of records that are cases; empty where each record is a case."""
    fields: Mapping[str, str] = field(default_factory=dict)
    contexts: Sequence[str] = ()
    """Paths of the context, where there are several."""
    text: str = ""
    names: Sequence[str] = ()
    """Paths of the names of documents, within each, or, of a context that is a text, beside it: one for all, or one for
    each path of the context."""
    whose: Mapping[str, str] = field(default_factory=dict)
    """Paths of owner and tenant within each document, or, of a context that is a text, beside it."""
    recipient: Mapping[str, str] = field(default_factory=dict)
    """Paths of what is known of the recipient."""
    messages: Mapping[str, str] = field(default_factory=dict)
    """Paths of `role` and `content` within a message."""
    roles: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    """Path of the system prompt, the first message of the chat."""
    _used: set[str] = field(default_factory=set, repr=False)
    """Values of `text`, `names` and `roles` that some document or message has had."""

    @property
    def unused(self) -> list[str]:
        """What it says of documents or messages that none of those read so far has had."""
        named = [("context.text", self.text), *(("context.name", name) for name in self.names)]
        named += [(f"context.{part}", path) for part, path in self.whose.items()]
        named += [(f"messages.{role}", name) for name, role in self.roles.items()]
        return [f"{part}={value}" for part, value in named if value and value not in self._used]

    @property
    def names_fields(self) -> bool:
        """Whether it names the fields of a case, so that others are left out."""
        return bool(self.fields or self.contexts)

    @property
    def beside(self) -> tuple[str, ...]:
        """Fields that are left out since others are named: a chat has query and context within."""
        has_texts = bool(self.contexts or self.fields.get("context") or self.fields.get("query"))
        if self.fields.get("messages"):
            return tuple(name for name in ("query", "context") if name not in self.fields)
        return ("messages",) if has_texts and "messages" not in self.fields else ()

    @property
    def numbered(self) -> dict[str, str]:
        """Paths that take one element of a list by its number, by the path of the list."""
        paths = (*self.fields.values(), *self.contexts, self.system)
        return {path[: match.start()]: path for path in paths if (match := _NUMBERED.search(path)) is not None}

    @property
    def root(self) -> str:
        return re.split(r"[.\[]", self.cases, maxsplit=1)[0]

    def records(self, row: DataRow) -> Iterator[DataRow]:
        if not self.cases:
            yield row
            return
        path = self.fields.get("id", "")
        for number, (beside, own) in enumerate(_within(row.fields, self.cases, row.where), 1):
            named = path if path in beside else "id"
            outer_id = beside.pop(named, row.number if row.place else None)
            id_ = str(number) if outer_id is None else f"{outer_id}.{number}"
            place = f"{row.place}, case {number}" if row.place else f"case {number}"
            yield replace(row, number=number, place=place, content={**beside, named: id_, **own})

    def fields_of(self, record: Fields, where: str) -> Fields:
        mapping = dict(self.fields)
        for role in _TEXTS:
            mapping[role] = self._of_blocks(record, role, where) if mapping.get(role) else mapping.get(role, "")
        fields = mapped(record, {role: path for role, path in mapping.items() if role in self.fields}, where)
        if is_of_blocks(query := fields.get("query")) and "query" in self.fields:
            fields["query"] = answer_text(query, f"{where}: 'query'")
        for role in _TEXTS:
            texts = fields.get(role)
            if isinstance(texts, list) and _CHOSEN_BLOCKS.fullmatch(self.fields.get(role, "")):
                fields[role] = joined_answer(checked_text(text, role, where) for text in texts)
        if self.contexts:
            paths = enumerate(self.contexts)
            fields["context"] = [entry for n, path in paths for entry in self._texts_at(record, path, n, where)]
        elif (self.text or self.names or self.whose) and "context" in fields:
            entries = [self._document(entry, self._name_of(0), where) for entry in _listed(fields["context"])]
            if self.names and all(isinstance(entry, str) for entry in entries):
                beside = self._name_beside(record, 0, where)
                entries = [{"name": beside, "text": entry} for entry in entries]
            fields["context"] = [self._owned(entry, record, where) for entry in entries]
        if "messages" in fields and (self.messages or self.roles or self.system):
            fields["messages"] = self._chat(fields["messages"], record, where)
        return fields

    def _of_blocks(self, record: Fields, role: str, where: str) -> str:
        """The path of a text; of one that is logged in blocks, that of the list of all of them."""
        path = self.fields[role]
        block = _BLOCK.fullmatch(path)
        if block is None or path in record:
            return path
        blocks = value_at(record, block["blocks"], where)
        if not block["number"]:
            # Of blocks of other kinds, some have no text.
            return block["blocks"] if role == "response" or is_of_blocks(blocks) else path
        n_texts = sum(part.kind == "text" for part in parts_of(blocks)) if isinstance(blocks, list) else 0
        if n_texts > 1 and role == "response":
            raise DataError(
                f"{where}: --map response={block[0]}: the list has {n_texts} texts; if they are blocks of one "
                f"answer, response={block['blocks']} reads them all"
            )
        return path

    @property
    def names_recipient(self) -> bool:
        return bool(self.recipient) or RECIPIENT in self.fields

    def recipient_in(self, record: Fields, where: str) -> object:
        """What a record says of who received its answer, under the names of its parts."""
        path = self.fields.get(RECIPIENT, RECIPIENT)
        held = value_at(record, path, where) if path and (path in record or RECIPIENT in self.fields) else None
        if not self.recipient:
            return held
        held = parsed_cell(held)
        own = held if isinstance(held, Mapping) else {} if held in (None, "") else {"id": held}
        return {**own, **{part: value_at(record, path, where) for part, path in self.recipient.items()}}

    def _owned(self, entry: Any, record: Fields, where: str) -> Any:
        """A document with its owner and tenant: those of a text stand beside it."""
        entry = parsed_cell(entry)
        found: dict[str, Any] = {}
        for part, path in self.whose.items():
            try:
                found[part] = value_at(entry if isinstance(entry, Mapping) else record, path, where)
            except DataError:
                continue  # the document says nothing of it
            self._used.add(path)
        if not found:
            return entry
        return {**entry, **found} if isinstance(entry, Mapping) else {"text": entry, **found}

    def _name_of(self, number: int) -> str:
        return self.names[number if len(self.names) > 1 else 0] if self.names else ""

    def _name_beside(self, record: Fields, number: int, where: str) -> str:
        path = self._name_of(number)
        name = value_at(record, path, where)
        self._used.add(path)
        return str(name)

    def _texts_at(self, record: Fields, path: str, number: int, where: str) -> Iterator[Any]:
        value = parsed_cell(value_at(record, path, where))
        if value in (None, "", [], {}):
            return
        name = path.replace("[]", "").rpartition(".")[2]
        entries = _listed(value)
        # One name for several contexts is that of documents, and there may be texts beside them.
        if len(self.names) > 1 and all(isinstance(entry, str) for entry in entries):
            name = self._name_beside(record, number, where)
        for n, entry in enumerate(entries, 1):
            if isinstance(entry, str) and is_name(name):
                yield {"name": name if len(entries) == 1 else f"{name} {n}", "text": entry}
            else:
                yield self._owned(self._document(entry, self._name_of(number), where), record, where)

    def _document(self, entry: Any, name_at: str, where: str) -> Any:
        entry = parsed_cell(entry)
        if not isinstance(entry, Mapping):
            return entry
        try:
            parts = {"text": value_at(entry, self.text, where)} if self.text else {**entry}
            name = value_at(entry, name_at, where) if name_at else entry.get("name")
        except DataError:
            if self.contexts:
                return entry  # the parts may be those of another path's documents
            raise
        self._used.update((self.text, name_at))
        return parts | ({"name": str(name)} if isinstance(name, str | int) and name != "" else {})

    def _chat(self, messages: object, record: Fields, where: str) -> list[Any]:
        held = parsed_cell(messages)
        if not isinstance(held, list):
            raise DataError(f"{where}: --map messages={self.fields.get('messages', '')}: expected a list of messages")
        turns = [self._message(turn, where) for turn in held]
        roles = dict.fromkeys(str(turn_of(turn).role) for turn in turns)
        if "user" not in roles:
            raise DataError(
                f"{where}: no message has the role 'user'; the roles are {listed(roles)}: name them in --map, as in "
                "messages.user=customer,messages.assistant=agent"
            )
        if self.system and (text := value_at(record, self.system, where)):
            turns.insert(0, {"role": "system", "content": text})
        return turns

    def _message(self, turn: Any, where: str) -> Any:
        if isinstance(turn, list | tuple) and len(turn) == len(_PAIR):
            turn = dict(zip(_PAIR, turn, strict=True))
        elif not isinstance(turn, Mapping):
            return turn
        elif self.messages:
            # Other fields of the message are left out, since it is said which ones are read.
            turn = {part: value_at(turn, self.messages.get(part, part), where) for part in _PAIR}
        role = turn.get("role")
        if not isinstance(role, str):
            return turn
        self._used.add(role)
        return {**turn, "role": self.roles.get(role, role)}


def shape_of(mapping: str | Iterable[str] | Mapping[str, str] | None, known: Sequence[str]) -> Shape:
    """What `--map` says, as text, several texts or a dict; `known` are the fields of a case.

    Raises:
        UsageError: there is no such field, or what is said does not go together.
    """
    parts: dict[str, dict[str, str]] = {name: {} for name in PARTS}
    roles: dict[str, str] = {}
    plain: list[tuple[str, str]] = []
    contexts: list[str] = []
    names: list[str] = []
    for name, path in pairs_of(mapping):
        field_name, _, part = name.partition(".")
        if part in PARTS.get(field_name, ()):
            if not path:
                raise UsageError(f"--map: '{name}' needs a value, as in {name}=NAME")
            if name == "context.name":
                names.append(path)
            elif part in _TURNS:
                roles[path] = part
            else:
                parts[field_name][part] = path
        elif name == "context":
            contexts.append(path)
        else:
            plain.append((name, path))
    fields = [*known, _CASES, _SYSTEM, *(f"{name}.{part}" for name, its_parts in PARTS.items() for part in its_parts)]
    paths = checked_pairs(plain, fields)
    for path in filter(None, (*contexts, *names, *(path for held in parts.values() for path in held.values()))):
        steps_of(path)
    cases, system = paths.pop(_CASES, ""), paths.pop(_SYSTEM, "")
    if len(names) > 1 and len(names) != len(contexts):
        raise UsageError(f"--map: {len(names)} context.name for {len(contexts)} context; give one, or one for each")
    if len(contexts) == 1:
        paths["context"] = contexts.pop()
    if system and "messages" not in paths:
        raise UsageError(f"--map: '{_SYSTEM}' is the system prompt of a chat; give messages=PATH too")
    text = parts["context"].get("text", "")
    whose = {part: path for part, path in parts["context"].items() if part in WHOSE}
    return Shape(
        cases,
        paths,
        contexts,
        text,
        names,
        whose,
        parts[RECIPIENT],
        messages=parts["messages"],
        roles=roles,
        system=system,
    )


def _listed(value: Any) -> list[Any]:
    """The documents of a context, one by one; an object of texts has their names as keys."""
    value = parsed_cell(value)
    if isinstance(value, list):
        return value
    return [value] if (documents := documents_by_name(value)) is None else documents


def _within(record: Fields, path: str, where: str) -> Iterator[tuple[dict[str, object], Fields]]:
    """The records of a list, each with what is beside the list and beside what the list is in."""
    above, _, below = path.partition("[].")
    held = parsed_cell(value_at(record, above, where))
    if isinstance(held, Mapping) and all(isinstance(inner, Mapping) for inner in held.values()):
        held = [{"id": str(key), **inner} for key, inner in held.items()]
    if not isinstance(held, list) or not all(isinstance(inner, Mapping) for inner in held):
        raise DataError(f"{where}: --map {_CASES}: expected a list of records at '{above}'")
    beside = _beside(record, above)
    for inner in held:
        if below:
            yield from _within({**beside, **inner}, below, where)
        else:
            yield {**beside}, inner


def _beside(record: Fields, path: str) -> dict[str, object]:
    """What is beside a list, and beside each record that it is in."""
    name, _, rest = path.partition(".")
    if not rest:
        return {key: value for key, value in record.items() if key != name}
    inner = parsed_cell(record.get(name))
    return {**record, **(_beside(inner, rest) if isinstance(inner, Mapping) else {})}
