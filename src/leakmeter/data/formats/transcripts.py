"""Presets: transcripts that have a message a line, of programs that write down a conversation as it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from leakmeter.data import foreign
from leakmeter.data.foreign import name_of
from leakmeter.data.formats.base import DataFormat, OutcomesOfRows, RowsOfFields, first
from leakmeter.data.mapping import Fields
from leakmeter.data.rows import DataRow

_CONVERSATIONS: Final = (
    *("conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id", "chatId"),
    "conversation",
)
"""What says to which conversation a line belongs."""
_BESIDE: Final = (*("ts", "time", "date", "uuid", "index", "seq", "turn", "turn_id", "message_id"), *_CONVERSATIONS)
"""Of a line, what no model reads."""
_BOOKKEEPING: Final = ("summary", "file-history-snapshot", "queue-operation", "permission-mode", "system", "progress")
"""Types of lines of Claude Code that are no messages."""


def _coding(rows: RowsOfFields) -> OutcomesOfRows:
    """Sessions of Claude Code, in which sub-agents have conversations of their own, and in which a summary takes the
    place of all that was said before it."""
    chats: dict[tuple[str, str, int], tuple[DataRow, list[Any]]] = {}
    parts: dict[tuple[str, str], int] = {}
    for row, fields in rows:
        message = fields.get("message")
        if fields.get("type") not in ("user", "assistant") or not isinstance(message, Mapping):
            continue
        session = name_of(fields.get("sessionId")) or "session"
        agent = name_of(fields.get("agentId")) or ("sub-agent" if fields.get("isSidechain") else "")
        is_summary = bool(fields.get("isCompactSummary"))
        if is_summary:
            parts[session, agent] = parts.get((session, agent), 1) + 1
        key = session, agent, parts.get((session, agent), 1)
        _, messages = chats.setdefault(key, (row, []))
        held = {name: message[name] for name in ("role", "content") if name in message}
        messages.append({**held, "name": "summary"} if is_summary else held)
    for (session, agent, part), (row, messages) in chats.items():
        name = f"{session} {agent}" if agent else session
        yield row, {"id": name if part == 1 else f"{name} (part {part})", "messages": messages}


def _fits_coding(fields: Fields) -> bool:
    kind = fields.get("type")
    if kind in ("user", "assistant") and isinstance(fields.get("message"), Mapping):
        return True
    return kind in _BOOKKEEPING and any(name in fields for name in ("sessionId", "leafUuid", "messageId"))


def _lines(rows: RowsOfFields) -> OutcomesOfRows:
    """Messages and items of one conversation a file, or of as many as they name."""
    chats: dict[tuple[str, str | None], tuple[DataRow, list[Any]]] = {}
    for row, fields in rows:
        id_ = name_of(first(fields, *_CONVERSATIONS))
        _, messages = chats.setdefault((row.source if id_ is None else "", id_), (row, []))
        messages.append({name: value for name, value in fields.items() if name not in _BESIDE})
    for (_, id_), (row, messages) in chats.items():
        yield row, {"messages": messages} | ({} if id_ is None else {"id": id_})


def _fits_lines(fields: Fields) -> bool:
    kind = fields.get("type")
    if isinstance(fields.get("role"), str):
        return any(name in fields for name in ("content", "parts", "blocks", *foreign.CALLS))
    return isinstance(kind, str) and kind in foreign.ITEMS


FORMATS: Final = (
    DataFormat("claude-code", "the messages of each session", _fits_coding, _coding),
    DataFormat("transcript", "a message a line, with role and content", _fits_lines, _lines),
)
