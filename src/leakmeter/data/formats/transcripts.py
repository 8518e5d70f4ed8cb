"""Presets: transcripts that have a message a line, of programs that write down a conversation as it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from leakmeter.core.plain import counted
from leakmeter.core.record import JsonObject
from leakmeter.data import foreign
from leakmeter.data.foreign import CALL_IDS, CALL_PARTS, RESULT_PARTS, as_text, getter, name_of, parts_of, turn_of
from leakmeter.data.formats.base import DataFormat, OutcomesOfRows, RowsOfFields, first
from leakmeter.data.mapping import Fields
from leakmeter.data.rows import DataRow
from leakmeter.errors import DataError

_CONVERSATIONS: Final = (
    *("conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id", "chatId"),
    "conversation",
)
"""What says to which conversation a line belongs."""
_BESIDE: Final = (*("ts", "time", "date", "uuid", "index", "seq", "turn", "turn_id", "message_id"), *_CONVERSATIONS)
"""Of a line, what no model reads."""
_BOOKKEEPING: Final = ("summary", "file-history-snapshot", "queue-operation", "permission-mode", "system", "progress")
"""Types of lines of Claude Code that are no messages."""


_MOST_BRANCHES: Final = 100
"""Of what was said after one line, that are measured."""


@dataclass(slots=True)
class _Line:
    """A line of a session of Claude Code."""

    row: DataRow
    number: int
    """Of the line among those that are read, in their order."""
    chat: tuple[str, str]
    """Session and sub-agent."""
    id: str | None
    parent: str | None
    """Id of the line that it goes on from."""
    message: JsonObject | None
    """None of a line that is no message, from which others may go on."""
    of: str | None = None
    """Id of the model's message, of which each part has a line of its own."""
    is_summary: bool = False
    missing: str = ""
    """What of the conversation is missing before it."""
    before: _Line | None = None

    @property
    def is_emitted(self) -> bool:
        return self.message is not None and self.message.get("role") == "assistant"

    def ids(self, kinds: Sequence[str], names: Sequence[str]) -> list[str]:
        """Ids of calls, or of the calls whose results it has."""
        parts = parts_of((self.message or {}).get("content"))
        held = (getter(part.logged) for part in parts if part.kind in kinds)
        return [id_ for get in held for name in names if (id_ := name_of(get(name))) is not None]


def _coding(rows: RowsOfFields) -> OutcomesOfRows:
    """Sessions of Claude Code, in which sub-agents have conversations of their own, and in which a summary takes the
    place of all that was said before it. A line says from which it goes on: who goes back and asks something else
    begins a branch. The branch of the last line is the conversation; what the model emitted in another is measured
    with what was said before it there."""
    lines = _linked(rows)
    trees: dict[int, list[_Line]] = {}
    roots: dict[int, _Line] = {}
    for line in lines:
        way = _way(line, roots)
        root = roots.get(way[-1].number, way[-1])
        roots |= dict.fromkeys((each.number for each in way), root)
        if line.message is not None:
            trees.setdefault(root.number, []).append(line)
    parts: Counter[tuple[str, str]] = Counter()
    last = {roots[number].chat: number for number in trees}
    cut = {roots[number].chat for number in trees if roots[number].missing}
    for number, of_tree in trees.items():
        root = roots[number]
        if root.chat in cut and not root.missing:
            # What was answered to the last message is not known.
            of_tree = of_tree[: max((n for n, line in enumerate(of_tree, 1) if line.is_emitted), default=0)]
        if not any(line.is_emitted for line in of_tree) and (root.chat in cut or last[root.chat] != number):
            continue
        if root.missing:
            yield of_tree[0].row, DataError(f"{of_tree[0].row.where}: {root.missing}")
            continue
        parts[root.chat] += 1
        name = " ".join(filter(None, root.chat))
        name = name if parts[root.chat] == 1 else f"{name} (part {parts[root.chat]})"
        yield from _conversations(name, of_tree)


def _linked(rows: RowsOfFields) -> list[_Line]:
    """Lines, each with the one that it goes on from; those that were logged twice are one."""
    lines: list[_Line] = []
    known: set[tuple[object, ...]] = set()
    gaps = _Gaps()
    cut: set[int] = set()
    for row, fields in rows:
        gaps.pass_over(row)
        held, kind = fields.get("message"), fields.get("type")
        message = held if kind in ("user", "assistant") and isinstance(held, Mapping) else None
        id_ = name_of(fields.get("uuid"))
        if message is None and id_ is None:
            continue
        agent = name_of(fields.get("agentId")) or ("sub-agent" if fields.get("isSidechain") else "")
        chat = name_of(fields.get("sessionId")) or "session", agent
        said = {name: message[name] for name in ("role", "content") if name in message} if message is not None else None
        key = (chat, id_, as_text(said))
        if id_ is not None and key in known:
            continue
        known.add(key)
        is_summary = bool(fields.get("isCompactSummary"))
        if said is not None and is_summary:
            said["name"] = "summary"
        of = name_of((message or {}).get("id"))
        parent = name_of(fields.get("parentUuid"))
        line = _Line(row, len(lines), chat, id_, parent, said, of, is_summary)
        if message is not None and gaps.is_behind(row, chat):
            cut.add(line.number)
        lines.append(line)
    by_id = {(line.chat[0], line.id): line for line in reversed(lines)}
    anywhere = {line.id: line for line in reversed(lines)}
    with_parents = {line.chat for line in lines if line.parent is not None}
    last: dict[tuple[str, str], _Line] = {}
    for line in lines:
        if line.chat not in with_parents:
            # The order is all that the log says.
            line.before = last.get(line.chat)
            line.missing = _UNREAD if line.number in cut else ""
            last[line.chat] = line
        elif line.parent is not None:
            line.before = by_id.get((line.chat[0], line.parent)) or anywhere.get(line.parent)
            if line.before is None:
                line.missing = (
                    f"the message goes on from '{line.parent[:40]}', which is not in the data, so that a part of the "
                    "prompt is missing; give all lines of the session"
                )
        # What asks a sub-agent is no part of its conversation.
        is_asked = bool(line.chat[1]) and line.before is not None and line.before.chat[1] != line.chat[1]
        if line.is_summary or line.missing or is_asked:
            line.before = None
    return lines


def _way(line: _Line, ends: Container[int] = ()) -> list[_Line]:
    """A line and those that it goes on from, the last first; up to one that is known, or that is there already."""
    way: dict[int, _Line] = {}
    at: _Line | None = line
    while at is not None and at.number not in way:
        way[at.number] = at
        at = at.before if at.number not in ends else None
    return list(way.values())


def _conversations(name: str, lines: Sequence[_Line]) -> OutcomesOfRows:
    """What the last line of those that begin with one ends; and what the model emitted beside that."""
    of_message: dict[str, list[_Line]] = {}
    results: dict[str, list[_Line]] = {}
    for line in lines:
        if line.is_emitted and line.of is not None:
            of_message.setdefault(line.of, []).append(line)
        for id_ in line.ids(RESULT_PARTS, CALL_IDS):
            results.setdefault(id_, []).append(line)
    left = {line.number: line for line in lines if line.is_emitted}
    end: _Line | None = lines[-1]
    if left and not any(line.is_emitted for line in _way(lines[-1])):
        end = left[max(left)]
    for branch in range(1, _MOST_BRANCHES + 1):
        if end is None:
            return
        read = _read_before(end, of_message, results)
        own = next((line for line in read if line.number in left), read[0])
        for line in read:
            left.pop(line.number, None)
        where = {"id": name if branch == 1 else f"{name} (branch {branch})"}
        yield (read[0] if branch == 1 else own).row, where | {"messages": [line.message for line in read]}
        end = left[max(left)] if left else None
    if end is not None:
        yield (
            end.row,
            DataError(
                f"{end.row.where}: the conversation has more than {_MOST_BRANCHES:,} branches, the most that are read"
            ),
        )


def _read_before(
    end: _Line, of_message: Mapping[str, Sequence[_Line]], results: Mapping[str, Sequence[_Line]]
) -> list[_Line]:
    """The messages up to a line. Calls of one turn have a line each, and the result of each goes on from its call: what
    stands beside the way is of the conversation too."""
    taken = {line.number: line for line in _way(end)}
    of = {line.of for line in taken.values() if line.is_emitted and line.of is not None}
    taken |= {line.number: line for id_ in of for line in of_message.get(id_, ()) if line.number < end.number}
    called = {id_ for line in taken.values() for id_ in line.ids(CALL_PARTS, CALL_IDS)}
    called -= {id_ for line in taken.values() for id_ in line.ids(RESULT_PARTS, CALL_IDS)}
    taken |= {line.number: line for id_ in called for line in results.get(id_, ()) if line.number < end.number}
    return [taken[number] for number in sorted(taken) if taken[number].message is not None]


def _fits_coding(fields: Fields) -> bool:
    kind = fields.get("type")
    if kind in ("user", "assistant") and isinstance(fields.get("message"), Mapping):
        return True
    return kind in _BOOKKEEPING and any(name in fields for name in ("sessionId", "leafUuid", "messageId"))


def _lines(rows: RowsOfFields) -> OutcomesOfRows:
    """Messages and items of one conversation a file, or of as many as they name."""
    chats: dict[tuple[str, str | None], tuple[DataRow, list[Any]]] = {}
    left_out: dict[tuple[str, str | None], list[DataRow]] = {}
    gaps = _Gaps()
    for row, fields in rows:
        gaps.pass_over(row)
        id_ = name_of(first(fields, *_CONVERSATIONS))
        key = row.source if id_ is None else "", id_
        _, messages = chats.setdefault(key, (row, []))
        if gaps.is_behind(row, key) or key in left_out:
            left_out.setdefault(key, []).append(row)
            continue
        messages.append({name: value for name, value in fields.items() if name not in _BESIDE})
    for key, (row, messages) in chats.items():
        behind = left_out.get(key, [])
        while behind and messages and not _is_emitted(messages[-1]):
            # What was answered is not known.
            messages.pop()
        if messages:
            yield row, {"messages": messages} | ({} if key[1] is None else {"id": key[1]})
        if behind:
            yield behind[0], DataError(f"{behind[0].where}: {_UNREAD} ({counted(len(behind), 'message')})")


def _is_emitted(message: JsonObject) -> bool:
    role = turn_of(message).role
    return role == "assistant" or (role in foreign.ITEMS and role not in RESULT_PARTS)


_UNREAD: Final = (
    "a line before it could not be read, which may be of its conversation; what follows is left out: mend the line"
)


@dataclass(slots=True)
class _Gaps:
    """Where between the lines of conversations one could not be read, which may be of any of them."""

    n: int = 0
    at: dict[object, int] = field(default_factory=dict)
    """How many there were up to the last line of each conversation."""

    def pass_over(self, row: DataRow) -> None:
        self.n += row.follows_bad

    def is_behind(self, row: DataRow, conversation: object) -> bool:
        """Whether one stands between a line and the one before it, or before the first line of all."""
        is_behind = self.at.get(conversation, self.n - row.follows_bad) < self.n
        self.at[conversation] = self.n
        return is_behind


def _fits_lines(fields: Fields) -> bool:
    kind = fields.get("type")
    if isinstance(fields.get("role"), str):
        return any(name in fields for name in ("content", "parts", "blocks", *foreign.CALLS))
    return isinstance(kind, str) and kind in foreign.ITEMS


FORMATS: Final = (
    DataFormat("claude-code", "the messages of each session", _fits_coding, _coding),
    DataFormat("transcript", "a message a line, with role and content", _fits_lines, _lines),
)
