"""A chat as turns of user and assistant alone, for chat templates that know no other role, or insist that the two take
turns: what a system prompt, a tool or anybody else says is the user's, and neighbours of one role are one message.

Nothing of the chat is lost, and what was context before is context still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from leakmeter.core.case import SYSTEM_ROLES, TURN_ROLES, Document, Message

SEPARATOR: Final = "\n\n"
"""Between documents, and between messages that became one."""
PART_SEPARATOR: Final = "\n"
"""Between the parts of a message."""


@dataclass(frozen=True, slots=True)
class WrittenTurns:
    """Messages as a template is given them, and where in them the query is."""

    messages: tuple[Message, ...]
    query_at: int
    joints: frozenset[tuple[int, int]] = frozenset()
    """Numbers of messages and of their parts before which a blank line stands: in a turn that stays it goes with the
    document before it, in another with the part behind it."""
    told: tuple[str, ...] = ()
    """What stands otherwise than in the chat, for reports."""


def with_results_as_user(messages: Sequence[Message], query_at: int) -> WrittenTurns:
    """What a tool or anybody else says is a message of the user's that begins with a name; it is one with the message
    beside it where both stay."""
    return _Turned(messages, query_at, has_results=False, has_system=True).turns


def with_system_as_user(messages: Sequence[Message], query_at: int, *, has_results: bool) -> WrittenTurns:
    """The system prompt stands at the head of the user's turn behind it, or is one where there is none; all neighbours
    of one role are one message, and where the assistant speaks first an empty message of the user's stands before.
    `has_results`: whether messages of tools stay what they are."""
    return _Turned(messages, query_at, has_results=has_results, has_system=False).turns


class _Turned:
    def __init__(self, messages: Sequence[Message], query_at: int, *, has_results: bool, has_system: bool) -> None:
        self._out: list[Message] = []
        self._joints: set[tuple[int, int]] = set()
        self._merges_all = not has_system
        self._n_joined = 0
        at = 0
        kept = (*TURN_ROLES[len(SYSTEM_ROLES) :], *(SYSTEM_ROLES if has_system else ()))
        for i, message in enumerate(messages):
            # The turn that asks stays as one that is fixed does.
            held = replace(message, fixed=message.fixed or i == query_at)
            is_system = message.role in SYSTEM_ROLES
            if message.role not in kept and (is_system or not has_results):
                held = replace(held, role="user") if is_system else _named(held)
            self._add(held)
            at = len(self._out) - 1 if i == query_at else at
        told = []
        if not has_results and any(message.role not in TURN_ROLES for message in messages):
            told.append("results as the user's messages")
        if not has_system:
            if any(message.role in SYSTEM_ROLES for message in messages):
                told.append("system prompt in the user's turn")
            elif self._n_joined:
                told.append("neighbouring messages of a role as one")
            if self._out[0].role == "assistant":
                name = "no message"
                self._out.insert(0, Message("user", name, (Document(name, ""),), fixed=True))
                self._joints = {(i + 1, part) for i, part in self._joints}
                at += 1
                told.append("an empty message of the user's first")
        self.turns = WrittenTurns(tuple(self._out), at, frozenset(self._joints), tuple(told))

    def _add(self, message: Message) -> None:
        before = self._out[-1] if self._out else None
        if before is None or before.role != message.role or message.role == "tool" or not self._joins(before, message):
            self._out.append(message)
            return
        self._n_joined += 1
        number = len(self._out) - 1
        if not before.fixed and not message.fixed:
            self._joints.add((number, len(before.parts)))
            self._out[-1] = replace(
                before, name=f"{before.name}, {message.name}", parts=(*before.parts, *message.parts)
            )
            return
        parts, retrieved = _as_one_text(before)
        behind, of_behind = _as_one_text(message)
        if not before.fixed and len(parts) == 1:
            # What begins a turn goes with the blank line behind it.
            self._joints.add((number, 1))
        elif parts:
            # Parts of a turn into which something was retrieved are one text.
            parts.append(Document(message.name, SEPARATOR))
        retrieved += [n + len(parts) for n in of_behind]
        self._out[-1] = replace(
            message, name=before.name, parts=_together([*parts, *behind], retrieved), retrieved=tuple(retrieved),
            fixed=True, calls=(),
        )  # fmt: skip

    def _joins(self, before: Message, message: Message) -> bool:
        if self._merges_all:
            # Calls of a message that comes and goes are its own.
            return not any(each.calls and not each.fixed for each in (before, message))
        return before.fixed and message.fixed and not message.calls


def _named(message: Message) -> Message:
    parts = (Document(message.name, f"{message.name}:{PART_SEPARATOR}"), *message.parts)
    return replace(message, role="user", parts=parts, retrieved=tuple(n + 1 for n in message.retrieved))


def _as_one_text(message: Message) -> tuple[list[Document], list[int]]:
    """The parts of a message that make one text one behind the other, its calls among them as lines, and which of them
    are context."""
    lines = [f"{call.name}: {call.arguments}" for call in message.calls]
    if message.fixed and not message.retrieved:
        text = PART_SEPARATOR.join([*(part.text for part in message.parts if part.text), *lines])
        return ([Document(message.name, text)] if text else []), []
    parts: list[Document] = []
    retrieved: list[int] = []
    for number, part in enumerate(message.parts):
        if not message.fixed and parts and part.text:
            parts.append(Document(message.name, PART_SEPARATOR))
        if not message.fixed or number in message.retrieved:
            retrieved.append(len(parts))
        parts.append(part)
    if lines:
        begun = PART_SEPARATOR if any(part.text for part in parts) else ""
        parts.append(Document(message.name, begun + PART_SEPARATOR.join(lines)))
    return parts, retrieved


def _together(parts: Sequence[Document], retrieved: Sequence[int]) -> tuple[Document, ...]:
    """The parts; where nothing of them was retrieved, as the one text that they are."""
    if retrieved or len(parts) < 2:
        return tuple(parts)
    return (Document(parts[-1].name, "".join(part.text for part in parts)),)
