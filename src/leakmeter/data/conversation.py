"""A conversation: what was said, called and read, turn by turn, whichever API or library logged it.

A list of messages or items becomes **entries** in their order: instructions, what the user said, what the model
answered, called and reasoned, and what it read. What it read are its **sources**: results of tools, documents beside a
question, and what anybody else but user and model said. Everything that the model emitted is an **emission**: the text
of a turn, and the arguments of each of its calls.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, groupby, islice
from typing import Any, Final, Literal, cast, get_args

from leakmeter.core.case import SYSTEM_ROLES, TURN_ROLES, Channel, Document, Emission, Message, ToolCall
from leakmeter.core.plain import excerpt
from leakmeter.data import foreign
from leakmeter.data.channels import channel_of
from leakmeter.data.foreign import (
    ContentPart,
    Turn,
    described,
    getter,
    joined_answer,
    object_of,
    parts_of,
    turn_of,
)
from leakmeter.data.mapping import Names, checked_text, is_name
from leakmeter.errors import DataError, UnknownNameError, UsageError

ConversationEntryKind = Literal["system", "user", "answer", "call", "reasoning", "source"]
_ROLE = re.compile(r"[a-z][a-z_]*")
_AGENT = re.compile(r"(?i)(?:^|[^a-z])(?:agent|assistant|bot)(?![a-z])|[a-z]Agent(?![a-z])")
"""A name of an agent, and of no person."""
_EMITTED: Final = ("answer", "call", "reasoning")
_LONGEST_NAME: Final = 60
_MOST_TURNS: Final = 10_000
_MOST_OF_MESSAGE: Final = 2_000
_OWN_NAMES: Final = (
    "source",
    "title",
    "file_name",
    "filename",
    "file_path",
    "filepath",
    "path",
    "uri",
    "url",
    "name",
    "doc_id",
    "document_id",
    "id",
)
"""Of a record among those that a tool found, what it may be called by."""
_LIST_OF_RESULTS = re.compile(
    r'\s*(?:\{\s*(?:"[^"]{1,40}"\s*:\s*(?:"[^"]{0,200}"|-?[\d.]+|true|false|null)\s*,\s*){0,8}'
    r'"(?:results|hits|documents|docs|chunks|items|matches|nodes|records|rows|data|content)"\s*:\s*)?\['
)
"""How JSON begins that is a list of what was found, or an object that has one."""
_MCP: Final = frozenset(("isError", "structuredContent"))
"""What a result of the Model Context Protocol has beside its content."""
_TEXT_OF_BLOCK = re.compile(r'"text"\s*:\s*"')
_STRUCTURED = re.compile(r'"structuredContent"\s*:\s*')
_MOST_BLOCKS: Final = 1000
"""Of a result of MCP that are looked into."""
_VISIBLE: Final[tuple[Channel, ...]] = ("answer", "tool", "agent", "memory")


@dataclass(frozen=True, slots=True)
class EmissionOptions:
    """Which emissions of a conversation are measured."""

    turns: Literal["all", "last"] = "all"
    """All turns of the model's, or the last one alone."""
    channels: frozenset[Channel] = frozenset(_VISIBLE)
    """Reasoning is none of them by default: nobody received it."""

    def __post_init__(self) -> None:
        if self.turns not in ("all", "last"):
            raise UnknownNameError("choice of turns", str(self.turns), ("all", "last"))
        for channel in sorted(self.channels):
            if channel not in get_args(Channel):
                raise UnknownNameError("channel", channel, get_args(Channel))
        if not self.channels:
            raise UsageError(f"no channel is named; give one of {', '.join(get_args(Channel))}")

    def has_turn(self, turn: int, last: int) -> bool:
        """Whether a turn is measured of a conversation, of all of whose turns, in any channel, `last` is the last."""
        return self.turns == "all" or turn == last


ALL_EMISSIONS: Final = EmissionOptions()


def emission_options(turns: str = "all", channels: str | Iterable[str] | None = None) -> EmissionOptions:
    """What `--turns` and `--channels` say; channels are names, or a text with commas between them."""
    if channels is None:
        return EmissionOptions(cast(Any, turns))
    words = [
        word.strip() for text in ([channels] if isinstance(channels, str) else channels) for word in text.split(",")
    ]
    return EmissionOptions(cast(Any, turns), cast(Any, frozenset(filter(None, words))))


@dataclass(frozen=True, slots=True)
class ConversationEntry:
    """One thing that was said, called or read."""

    kind: ConversationEntryKind
    text: str
    """Of a call its arguments."""
    name: str = ""
    """Of a call its tool; of what has a name of its own, that."""
    role: str = ""
    """Of the message, as logged."""
    message: int = 0
    """Number of the message or item, from 1."""
    call_id: str | None = None
    """Of a call, and of its result."""
    is_named: bool = False
    """Of a source: whether the name is its own, and not that of the tool which returned it."""
    is_within: bool = False
    """Of a source: whether it stands in the user's message, beside the question."""
    agent: str = ""
    """Name of the agent who emitted or said it, where the log has one."""


def entries_of(value: object, where: str) -> list[ConversationEntry]:
    """Entries of a parsed list of messages, items or both; of any dialect that `foreign` knows.

    Raises:
        DataError: it is no such list, or holds what is not text.
    """
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: 'messages' has to be a list of at least one {{'role', 'content'}}")
    if len(value) > _MOST_TURNS:
        raise DataError(f"{where}: the conversation has {len(value):,} messages; {_MOST_TURNS:,} are read at most")
    entries: list[ConversationEntry] = []
    for number, held in enumerate(value, 1):
        of_message = list(islice(_of_message(held, number, where), _MOST_OF_MESSAGE + 1))
        if len(of_message) > _MOST_OF_MESSAGE:
            raise DataError(
                f"{where}, message {number} has more than {_MOST_OF_MESSAGE:,} parts, calls and results, the most that "
                "are read"
            )
        entries += of_message
    entries = _with_agents(entries)
    asking = max((entry.message for entry in entries if entry.kind == "user"), default=0)
    who = {entry.name for entry in entries if entry.kind == "user" and entry.message == asking}
    # What has a name before the question, and not that of who asks, is a document.
    return [
        replace(entry, kind="source")
        if entry.kind == "user" and entry.name and entry.name not in who and entry.message < asking
        else entry
        for entry in entries
    ]


def _with_agents(entries: Sequence[ConversationEntry]) -> list[ConversationEntry]:
    """Entries in which what another agent said in a message of the user's is a source under its name. Where nothing
    else is the user's, it is the user's."""
    called = (channel_of(entry.name, entry.text) for entry in entries if entry.kind == "call")
    agents = {name for channel, name in called if channel == "agent"} | {entry.agent for entry in entries}
    is_agents = [
        entry.kind == "user" and bool(entry.name) and (entry.name in agents or _AGENT.search(entry.name) is not None)
        for entry in entries
    ]
    if not any(entry.kind == "user" and not of for entry, of in zip(entries, is_agents, strict=True)):
        return [*entries]
    return [
        replace(entry, kind="source", is_named=True, agent=entry.name) if of else entry
        for entry, of in zip(entries, is_agents, strict=True)
    ]


def _of_message(held: object, number: int, where: str) -> Iterator[ConversationEntry]:
    at = f"{where}, message {number}"
    get = getter(held)
    kind = get("type")
    if isinstance(kind, str) and kind in foreign.ITEMS and not get("role"):
        yield from _of_part(ContentPart(kind, None, held), "assistant", number, at)
        return
    turn = checked_turn(held, at)
    role = checked_role(turn.role, at)
    if role in ("tool", "function"):
        id_ = next((id_ for name in foreign.CALL_IDS if (id_ := foreign.name_of(turn.get(name)))), None)
        name = next((name for key in ("name", "tool_name", "function") if isinstance(name := turn.get(key), str)), "")
        if isinstance(turn.content, list) and any(part.kind in foreign.RESULT_PARTS for part in parts_of(turn.content)):
            for n, part in enumerate(parts_of(turn.content), 1):
                yield from _of_part(part, role, number, f"{at}: part {n}")
            return
        yield from _results(turn.content, name, id_, role, number, at)
        return
    own = turn.get("name")
    agent = own if role == "assistant" and isinstance(own, str) else ""
    for entry in _of_turn(turn, role, number, at):
        yield replace(entry, agent=agent) if agent and entry.kind in _EMITTED else entry


def _of_turn(turn: Turn, role: str, number: int, at: str) -> Iterator[ConversationEntry]:
    """Entries of a message that is no result of a tool."""
    kinds: dict[str, ConversationEntryKind] = {
        **dict.fromkeys(SYSTEM_ROLES, "system"),
        "user": "user",
        "assistant": "answer",
    }
    own = turn.get("name")
    name = "" if own in (None, [], {}) or role == "assistant" else checked_text(own, "name", at)
    of_role = kinds.get(role, "source") if not name or role == "user" else "source"
    if turn.calls and role != "assistant":
        raise DataError(f"{at}: a message of role '{role}' calls a tool; only the assistant's do")
    beside = [(_call(call, role, number, at), getter(call)("result")) for call in turn.calls]
    by_id = {made.call_id: made for made, _ in beside if made.call_id is not None}
    known: set[str | None] = set()
    returned: set[str | None] = set()
    for n, part in enumerate(parts_of(turn.content), 1):
        if part.kind == "text":
            text = _text(part, at)
            if text:
                label = getter(part.logged)("name") if not isinstance(part.logged, str) else None
                yield ConversationEntry(of_role, text, label if isinstance(label, str) else name, role, number)
            continue
        for entry in _of_part(part, role, number, f"{at}: part {n}"):
            if entry.kind == "call" and entry.call_id in by_id:
                known.add(entry.call_id)
                yield _one_call(entry, by_id[entry.call_id], at)
                continue
            if entry.kind == "source" and entry.call_id is not None:
                returned.add(entry.call_id)
            yield entry
    for text in foreign.reasoning_beside(turn) if role == "assistant" else ():
        yield ConversationEntry("reasoning", text, role=role, message=number)
    for made, result in beside:
        if made.call_id not in known:
            yield made
        if result not in (None, "", [], {}) and made.call_id not in returned:
            yield from _results(result, made.name, made.call_id, role, number, at)


def _one_call(part: ConversationEntry, beside: ConversationEntry, at: str) -> ConversationEntry:
    """A call that a library has both among the parts of a message and beside them, maybe without arguments in one."""
    said = [made for made in (beside, part) if says_something(made.text)]
    if len(said) == 2 and foreign.parsed(said[0].text) != foreign.parsed(said[1].text):
        raise DataError(f"{at}: a call stands among the parts and beside them, with other arguments; leave one out")
    return replace(part, text=said[0].text) if said else part


def checked_turn(held: object, at: str) -> Turn:
    """A message as far as it is understood; `DataError` where it has no role, nothing that is said or called, or a
    field that may change what the model read."""
    turn = turn_of(held)
    has_content = turn.content is not None or (isinstance(held, Mapping) and "content" in held)
    if turn.role is None or not (has_content or turn.calls):
        raise DataError(
            f"{at} is not an object with 'role' and 'content'; name them in --map, as in "
            "messages.role=speaker,messages.content=text"
        )
    if turn.unknown is not None and turn.unknown not in foreign.CALLS:
        raise DataError(
            f"{at}: field '{excerpt(turn.unknown, _LONGEST_NAME)}' is not understood; if the model read it, put "
            "its text into 'content', else leave it out"
        )
    return turn


def checked_role(role: object, at: str) -> str:
    """The role of a message, a word in lower case; `DataError` where it is none."""
    text = checked_text(role, "role", at)
    if not _ROLE.fullmatch(text):
        # What has spaces may be a text that slipped into the place of a role, and private.
        is_short = text.isprintable() and " " not in text and len(text) <= _LONGEST_NAME
        shown = f"role '{text}'" if is_short else "its role"
        raise DataError(
            f"{at}: {shown} is none of 'system', 'user', 'assistant', 'tool', nor another word in lower case; name "
            "the roles in --map, as in messages.user=Customer,messages.assistant=Agent"
        )
    return text


def _text(part: ContentPart, at: str) -> str:
    text = part.text if part.text is not None else getter(part.logged)("text")
    return checked_text(part.logged if text is None else text, "content", at)


def _of_part(part: ContentPart, role: str, number: int, at: str) -> Iterator[ConversationEntry]:
    """Entries of a part of a message that is more than text, or of an item that is no message."""
    get = getter(part.logged)
    if part.kind in foreign.REASONED:
        if text := foreign.reasoning_text(part.logged):
            yield ConversationEntry("reasoning", text, role=role, message=number)
        return
    if foreign.is_silent(part.kind):
        return
    if part.kind in foreign.CALL_PARTS or foreign.is_call(part.kind):
        call = _call(part.logged, role, number, at, kind=part.kind)
        yield call
        # Servers, and chats as interfaces keep them, have the result beside the call.
        if (result := foreign.result_of(part.logged)) is not None:
            yield from _results(result, call.name, call.call_id, role, number, at)
        elif part.kind in foreign.LEFT_OUT and get("status") in (None, "completed"):
            missing = foreign.LEFT_OUT[part.kind]
            # Code that printed nothing has an empty list.
            if missing == "results" or get(missing) is None:
                raise DataError(
                    f"{at}: the log does not have what {call.name} found, which the model read; ask the API to include "
                    f"'{part.kind}.{missing}'"
                )
        return
    if part.kind in foreign.RESULT_PARTS or part.kind.endswith(("_result", "_output")):
        inner = held if isinstance(held := get(part.kind), Mapping) else part.logged
        look = getter(inner)
        id_ = next((id_ for name in foreign.CALL_IDS if (id_ := foreign.name_of(look(name)))), None)
        origin = getter(look("origin"))
        named = (look("name"), look("tool_name"), origin("tool_name"), origin("name"))
        name = next((name for name in named if isinstance(name, str)), "")
        id_ = id_ or foreign.name_of(origin("id"))
        held = next((held for key in foreign.RESULTS if (held := look(key)) is not None), None)
        yield from _results(held, name, id_, role, number, at)
        return
    if part.kind in foreign.DOCUMENT_PARTS:
        yield _document(part.logged, role, number, at)
        return
    kind = f" (it is of type '{part.kind}')" if is_name(part.kind) and part.kind != "text" else ""
    raise DataError(f"{at} is not text; only text can be measured{kind}")


def _call(call: Any, role: str, number: int, at: str, *, kind: str = "") -> ConversationEntry:
    name, arguments, id_ = foreign.called(call, kind)
    return ConversationEntry(
        "call",
        checked_text(arguments, "arguments", at),
        checked_text(name or "tool", "name", at)[:_LONGEST_NAME],
        role,
        number,
        id_,
    )


def _document(held: Any, role: str, number: int, at: str) -> ConversationEntry:
    kind = getter(held)("type") or ""
    held = inner if isinstance(inner := getter(held)(kind), Mapping) else held
    document = described(held)
    names = [getter(held)("title"), *map(getter(held), _OWN_NAMES), *map(document.described, _OWN_NAMES)]
    name = next((name for name in names if isinstance(name, str) and name.strip()), "")
    # The title of a record that a tool returned was read as its text was.
    known = "" if role == "tool" and not kind and name == getter(held)("title") else name
    text = foreign.text_of(held, known) if document.text is None else document.text
    if text is None:
        raise DataError(f"{at}: a document has no text; only text can be measured")
    if document.text is not None and not foreign.says_only(held, f"{known}\n{text}"):
        text = foreign.as_text(held)
    text = checked_text(text, "content", at)
    return ConversationEntry("source", text, name, role, number, is_named=bool(name), is_within=role == "user")


def _results(held: Any, name: str, id_: str | None, role: str, number: int, at: str) -> Iterator[ConversationEntry]:
    """What a tool returned: a text, blocks, a record, or documents each with a name of its own."""
    role = "tool" if role in TURN_ROLES else role
    if (
        isinstance(held, Mapping)
        and isinstance(held.get("content"), list)
        and {"isError", "structuredContent"} & held.keys()
    ):
        # A result of MCP: the model read its blocks; what is structured says the same again.
        held = held["content"] or held.get("structuredContent")
    blocks = held if isinstance(held, list) and held and all(isinstance(part, Mapping) for part in held) else []
    if sealed := next(filter(None, map(_sealed, blocks or [held])), None):
        raise DataError(
            f"{at}: the log does not have what a tool found, which the model read, but in '{sealed}' alone; put the "
            "text into 'content', or skip the row with --skip-bad"
        )
    if blocks and all(_is_document(block) for block in blocks):
        for block in blocks:
            yield replace(_document(block, role, number, at), call_id=id_, is_within=False)
        return
    parts = parts_of(held) if isinstance(held, list) and all(map(_is_block, held)) else []
    if parts and all(part.kind == "text" for part in parts):
        own_names = [getter(part.logged)("name") if not isinstance(part.logged, str) else None for part in parts]
        texts = [
            text if foreign.says_only(part.logged, f"{own}\n{text}") else foreign.as_text(part.logged)
            for own, part, text in zip(own_names, parts, [_text(part, at) for part in parts], strict=True)
        ]
        if any(own_names):
            for own, text in zip(own_names, texts, strict=True):
                if text:
                    own = own if isinstance(own, str) else ""
                    yield ConversationEntry("source", text, own, role, number, id_, is_named=bool(own))
        elif any(texts):
            yield ConversationEntry("source", "\n".join(filter(None, texts)), name, role, number, id_)
        return
    records = [block["json"] if set(block) == {"json"} else None for block in blocks]
    if records and all(_name_within(record) is not None for record in records):
        for record in records:
            yield ConversationEntry(
                "source", foreign.as_text(record), _name_within(record) or "", role, number, id_, is_named=True
            )
        return
    # Records that are no blocks were written as JSON.
    is_text = not blocks or all("type" in block or set(block) <= {"text", "json"} for block in blocks)
    said = foreign.text_of(held) if is_text and not isinstance(held, Mapping) else None
    if said is None and isinstance(held, Mapping) and set(held) <= {"text", "json", "type", "value"}:
        said = foreign.text_of(held)
    if said is None and any("type" in block and foreign.text_of(block) is None for block in blocks):
        raise DataError(f"{at}: a result of a tool is not text; only text can be measured")
    if said is None and held not in (None, "", [], {}):
        said = foreign.as_text(held)
    if said:
        yield ConversationEntry("source", checked_text(said, "content", at), name, role, number, id_)


def _is_block(part: object) -> bool:
    """Whether a list that it is part of is one text in blocks, and no list of records."""
    return isinstance(part, str) or (
        isinstance(part, Mapping)
        and (any(name in part for name in ("type", "block_type", "message_content")) or set(part) <= {"text", "name"})
    )


def _sealed(found: object) -> str | None:
    """The field of a result that only its API can read, where the result has no text."""
    if not isinstance(found, Mapping) or described(found).text is not None or foreign.text_of(found) is not None:
        return None
    return next((name for name, held in found.items() if held and str(name).startswith("encrypted_")), None)


def _is_document(part: Mapping[Any, Any]) -> bool:
    if part.get("type") in foreign.DOCUMENT_PARTS:
        return True
    has_name = any(isinstance(part.get(name), str) for name in ("filename", "title", "url"))
    return part.get("type") not in ("text", "json") and has_name and foreign.text_of(part) is not None


def cut_at(name: str, text: str, spans: Iterable[tuple[int, int, str]]) -> tuple[tuple[Document, ...], tuple[int, ...]]:
    """A text as parts that are one text together: each of the spans (start, end, name), in their order, as a document
    of its own, and the rest under `name`; and the numbers of the documents."""
    parts: list[Document] = []
    retrieved: list[int] = []
    cursor = 0
    for start, end, own in spans:
        if cursor < start:
            parts.append(Document(name, text[cursor:start]))
        retrieved.append(len(parts))
        parts.append(Document(own, text[start:end]))
        cursor = end
    if cursor < len(text):
        parts.append(Document(name, text[cursor:]))
    return tuple(parts), tuple(retrieved)


# --- from entries to turns and emissions ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a model emitted, and all that stood before it."""

    messages: tuple[Message, ...]
    response: str
    begun: Message | None
    turn: int
    channel: Channel
    recipient: str
    after: bytes
    """What stands for the texts of all messages before."""
    has_asked: bool
    """Whether a user said something before."""
    has_read: bool
    is_last: bool = False
    """Whether it is of the conversation's last turn, and nothing came after it."""

    def of(self, conversation: str, first_message: int) -> Emission:
        return Emission(conversation, self.turn, self.channel, self.recipient, first_message)


def is_part_of_conversation(part: ContentPart) -> bool:
    """Whether a part calls a tool, is a result, or reasons: it is more than the text of an answer."""
    return part.kind in (*foreign.CALL_PARTS, *foreign.RESULT_PARTS) or foreign.is_call(part.kind)


def has_sources(entries: Iterable[ConversationEntry]) -> bool:
    """Whether the model called or read something, or other agents spoke: it is more than a chat of texts."""
    entries = [*entries]
    return len({entry.agent for entry in entries if entry.agent}) > 1 or any(
        entry.kind == "call"
        or (entry.kind == "source" and (entry.is_within or bool(entry.agent) or entry.role not in TURN_ROLES))
        for entry in entries
    )


def messages_of_entries(entries: Sequence[ConversationEntry]) -> tuple[Message, ...]:
    """The conversation as messages in which what was read is retrieved, and all else stays."""
    return _Building(entries).messages


def emissions_of(entries: Sequence[ConversationEntry]) -> list[Emitted]:
    """All that the model emitted, in order."""
    return _Building(entries).emitted


class _Building:
    """Messages, and what was emitted after how many of them."""

    def __init__(self, entries: Sequence[ConversationEntry]) -> None:
        self._names = Names()
        self._calls: dict[str, str] = {}
        """Of each call's id its tool."""
        self._waiting: deque[str] = deque()
        """Tools of calls without an id, in their order."""
        self._n_returned: Counter[str] = Counter()
        """Of each, how many of them had their result under the tool's name."""
        self._n_results: Counter[str] = Counter()
        self._messages: list[Message] = []
        self._said_by: dict[int, tuple[str, Message]] = {}
        """Of each message that a named agent said its number, the agent, and what it is to the others: a source."""
        self._after = b""
        self._agents: set[str] = set()
        self._has_asked = self._has_read = False
        self.emitted: list[Emitted] = []
        self._turn = 0
        of_kind = {
            "instructions": self._instructions, "asked": self._asked, "read": self._read, "emitted": self._emitted,
        }  # fmt: skip
        for (kind, _), stretch in groupby(entries, key=_stretch):
            of_kind[kind](list(stretch))
        n_messages = len(self._messages)
        self.emitted = [
            replace(each, is_last=each.turn == self._turn and n_messages == len(each.messages) + 1)
            for each in self.emitted
        ]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def _read_by(self, agent: str) -> list[Message]:
        """The messages as an agent read them: what others said is a source."""
        read = [*self._messages]
        for number, (author, source) in self._said_by.items() if agent else ():
            if author != agent:
                read[number] = source
        return read

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._after = _digest(self._after, message)
        self._has_asked |= message.role == "user"
        self._has_read |= bool(message.retrieved)

    def _instructions(self, entries: Sequence[ConversationEntry]) -> None:
        first = entries[0]
        role = first.role or "system"
        name = self._names.own(f"{role} {first.message}")
        self._add(Message(role, name, tuple(Document(name, entry.text) for entry in entries), fixed=True))

    def _asked(self, entries: Sequence[ConversationEntry]) -> None:
        """What the user said, and the documents beside it, as one message."""
        name = self._names.own(f"user {entries[0].message}")
        parts: list[Document] = []
        retrieved: list[int] = []
        has_sources = any(entry.kind == "source" for entry in entries)
        for entry in entries:
            if parts:
                parts.append(Document(name, "\n\n" if has_sources else "\n"))
            if entry.kind == "source":
                retrieved.append(len(parts))
                parts.append(Document(self._names.own(entry.name or f"document {len(retrieved)}"), entry.text))
            else:
                parts.append(Document(name, entry.text))
        if not has_sources:
            parts = [Document(name, entry.text) for entry in entries]
        self._add(Message("user", name, tuple(parts), tuple(retrieved), fixed=True))

    def _read(self, entries: Sequence[ConversationEntry]) -> None:
        for (_, role, call_id, _), group in groupby(entries, key=_returned_together):
            read = list(group)
            own = next((entry.name for entry in read if entry.name and not entry.is_named), "")
            tool = self._calls.get(call_id or "") or own
            if call_id is None:
                tool = self._waited_for(tool)
            label = f"{role} {read[0].message}"
            if tool and role not in TURN_ROLES:
                self._n_results[tool] += 1
                label = f"{tool}#{self._n_results[tool]}"
            parts: list[Document] = []
            retrieved: list[int] = []
            for n, entry in enumerate(read, 1):
                name = entry.name if entry.is_named else label if len(read) == 1 else f"{label}, part {n}"
                if parts:
                    parts.append(Document(label, "\n"))
                more, marked = self._parts(self._names.own(name), entry.text)
                retrieved += (len(parts) + number for number in marked)
                parts += more
            name = parts[0].name if len(read) == 1 else self._names.own(label)
            self._add(Message(role, name, tuple(parts), tuple(retrieved), fixed=True))

    def _waited_for(self, tool: str) -> str:
        """The tool of a result without an id: by its name, or else of the first call that has none yet."""
        if tool:
            self._n_returned[tool] += 1
            return tool
        while self._waiting:
            first = self._waiting.popleft()
            if not self._n_returned[first]:
                return first
            self._n_returned[first] -= 1
        return ""

    def _parts(self, name: str, text: str) -> tuple[tuple[Document, ...], tuple[int, ...]]:
        """A result as one source; of a list of named documents in JSON, each of them."""
        cut = documents_within(text)
        if not cut:
            return (Document(name, text),), (0,)
        names = {own: self._names.own(own) for own in dict.fromkeys(own for _, _, own in cut)}
        return cut_at(name, text, [(start, end, names[own]) for start, end, own in cut])

    def _emitted(self, entries: Sequence[ConversationEntry]) -> None:
        """A turn of the model's."""
        self._turn += 1
        name = self._names.own(f"assistant {entries[0].message}")
        answer = joined_answer(entry.text for entry in entries if entry.kind == "answer")
        reasoning = joined_answer(entry.text for entry in entries if entry.kind == "reasoning")
        made = [entry for entry in entries if entry.kind == "call"]
        parts = (Document(name, answer),) if answer else ()
        agent = entries[0].agent
        messages = self._read_by(agent)
        emitted = partial(
            Emitted, tuple(messages), turn=self._turn, after=self._after, has_asked=self._has_asked,
            has_read=self._has_read or bool(agent and self._agents - {agent}),
        )  # fmt: skip
        if reasoning.strip():
            self.emitted.append(emitted(response=reasoning, begun=None, channel="reasoning", recipient="nobody"))
        if answer.strip():
            self.emitted.append(emitted(response=answer, begun=None, channel="answer", recipient="user"))
        calls = tuple(ToolCall(entry.name, entry.text) for entry in made)
        for n, entry in enumerate(made):
            if entry.call_id is not None:
                self._calls[entry.call_id] = entry.name
            else:
                self._waiting.append(entry.name)
            if says_something(entry.text):
                begun = Message("assistant", name, parts, calls=(*calls[:n], ToolCall(entry.name, "")))
                channel, recipient = channel_of(entry.name, entry.text)
                self.emitted.append(emitted(response=entry.text, begun=begun, channel=channel, recipient=recipient))
        if parts or calls:
            if agent and parts:
                self._agents.add(agent)
                said = (Document(self._names.own(agent), answer),)
                self._said_by[len(self._messages)] = agent, Message("assistant", name, said, (0,), True, calls)
            self._add(Message("assistant", name, parts, fixed=True, calls=calls))


def digests(messages: Iterable[Message]) -> list[bytes]:
    """What stands for the texts of no message, of the first, of the first two, and so on."""
    return list(accumulate(messages, _digest, initial=b""))


def _digest(before: bytes, message: Message) -> bytes:
    said = repr((message.role, message.text, [(call.name, call.arguments) for call in message.calls]))
    return hashlib.sha256(before + said.encode(errors="surrogatepass")).digest()


def _stretch(entry: ConversationEntry) -> tuple[str, int | str]:
    """What entries one after another make a message of: a turn of an agent's goes over messages, others do not."""
    if entry.kind in _EMITTED:
        return "emitted", entry.agent
    if entry.kind == "source" and not entry.is_within:
        return "read", 0
    return ("instructions" if entry.kind == "system" else "asked"), entry.message


def _returned_together(entry: ConversationEntry) -> tuple[int, str, str | None, str]:
    """What is one for all that a tool returned at once; several tools' results without ids may stand in one message."""
    return entry.message, entry.role, entry.call_id, "" if entry.is_named else entry.name


def says_something(arguments: str) -> bool:
    with suppress(ValueError, RecursionError):
        return json.loads(arguments) not in (None, {}, [], "")
    return bool(arguments.strip())


def documents_within(text: str) -> list[tuple[int, int, str]]:
    """Where the records of a list in JSON begin and end, and what each is called; nothing where one has no name or no
    text. A result of MCP that was logged whole may have the same records twice, within a text and beside it."""
    found = _records_within(text, 0)
    if found or not text.lstrip().startswith("{") or not any(f'"{name}"' in text for name in _MCP):
        return found
    for literal in islice(_TEXT_OF_BLOCK.finditer(text), _MOST_BLOCKS):
        with suppress(ValueError, RecursionError):
            inner, _ = json.JSONDecoder().raw_decode(text, literal.end() - 1)
            if cut := _records_within(inner, 0):
                places = _places_of(inner, text, literal.end())
                found += ((places[start], places[end], name) for start, end, name in cut)
    if beside := _STRUCTURED.search(text):
        found += _records_within(text, beside.end())
    return sorted(found)


def _records_within(text: str, at: int) -> list[tuple[int, int, str]]:
    opening = _LIST_OF_RESULTS.match(text, at)
    if opening is None:
        return []
    decoder = json.JSONDecoder()
    found: list[tuple[int, int, str]] = []
    at = opening.end()
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] == "]":
            return found
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        name = _name_within(value)
        if name is None:
            return []
        found.append((at, end, name))
        at = end


def _places_of(inner: str, text: str, at: int) -> list[int]:
    """Where each character of what a literal in JSON says stands in the text, and where the literal ends."""
    places: list[int] = []
    n = 0
    while n < len(inner):
        places.append(at)
        width = 1 if text[at] != "\\" else 6 if text[at + 1] == "u" else 2
        if width == 6 and ord(inner[n]) > 0xFFFF:
            width = 12  # two halves of a pair
        at += width
        n += 1
    return [*places, at]


def text_within(text: str) -> str | None:
    """What a record in JSON says as a document, without what else it has; None of any other text."""
    if text.lstrip()[:1] != "{":
        return None
    with suppress(ValueError, RecursionError):
        # Of an object that has a name twice, the whole text is the document.
        return described(json.loads(text, object_pairs_hook=object_of)).text
    return None


def _name_within(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    document = described(value)
    if document.text is None:
        return None
    names = [*map(value.get, _OWN_NAMES), *map(document.described, _OWN_NAMES)]
    return next((name for name in names if isinstance(name, str) and is_name(name)), None)
