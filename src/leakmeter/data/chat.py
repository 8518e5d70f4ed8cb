"""A whole chat as a case: a list of messages, as chat interfaces write them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from leakmeter.core.case import Document, Message
from leakmeter.core.files import read_text
from leakmeter.data.text import checked_text, unused
from leakmeter.errors import DataError

_FIELDS = ("role", "content", "name")
_ASSISTANT = "assistant"
_ROLE = re.compile(r"[a-z][a-z_]*")


def load_messages(path: Path) -> tuple[Message, ...]:
    """Messages from a JSON file: a list of objects, or an object with `messages`."""
    where = f"messages file '{path}'"
    try:
        value = json.loads(read_text(path, "messages file"))
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error.msg} in line {error.lineno}") from None
    except (RecursionError, ValueError):
        raise DataError(f"{where} is JSON nested too deep, or with a number too long, to be read") from None
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    return messages_of(value, where)


def messages_of(value: object, where: str) -> tuple[Message, ...]:
    """A parsed list of messages; content is text, or a list of texts and of {"text", "name"} parts.

    Raises:
        DataError: anything else, naming the message.
    """
    if not isinstance(value, list) or not value:
        raise DataError(f"{where}: 'messages' has to be a list of at least one {{'role', 'content'}}")
    out: list[Message] = []
    names: set[str] = set()
    for number, entry in enumerate(value, 1):
        at = f"{where}, message {number}"
        if not isinstance(entry, dict) or "role" not in entry or "content" not in entry:
            raise DataError(f"{at} is not an object with 'role' and 'content'")
        if unknown := [field for field in entry if field not in _FIELDS]:
            raise DataError(f"{at}: field '{unknown[0]}' is not understood; put its text into 'content'")
        role = checked_text(entry["role"], "role", at)
        if not _ROLE.fullmatch(role):
            raise DataError(f"{at}: role '{role}' is not a plain word such as 'system', 'user', 'assistant', 'tool'")
        name = checked_text(entry.get("name", f"{role} {number}"), "name", at)
        name = unused(name, names)
        names.add(name)
        parts = _parts(entry["content"], name, at)
        if not any(part.text.strip() for part in parts):
            raise DataError(f"{at} is empty")
        out.append(Message(role, name, parts))
    return tuple(out)


def without_answer(
    messages: tuple[Message, ...], response: str | None, where: str
) -> tuple[tuple[Message, ...], str | None]:
    """A chat up to its last question, and what was answered: a last message of the assistant's is the response.

    Args:
        messages: the chat, with one message or more.
        response: what was answered, where that is given apart from the chat.
        where: they stand, for errors.

    Raises:
        DataError: the response is given twice, or nothing stands before it.
    """
    last = messages[-1]
    if last.role != _ASSISTANT:
        return messages, response
    if response is not None:
        raise DataError(
            f"{where}: the last message is the assistant's, which is the response, and a response is given too; leave "
            "one of them out"
        )
    if len(messages) == 1:
        raise DataError(f"{where}: the chat is an answer without a question; give the messages before it")
    return messages[:-1], "\n".join(part.text for part in last.parts)


def _parts(value: object, name: str, where: str) -> tuple[Document, ...]:
    if isinstance(value, str):
        return (Document(name, checked_text(value, "content", where)),)
    if not isinstance(value, list):
        raise DataError(f"{where}: 'content' has to be text or a list of texts")
    out: list[Document] = []
    for number, entry in enumerate(value, 1):
        label, text = f"{name}, part {number}", entry
        if isinstance(entry, dict):
            if entry.get("type", "text") != "text" or "text" not in entry:
                raise DataError(f"{where}: part {number} is no text; only text can be measured")
            label, text = checked_text(entry.get("name", label), "name", where), entry["text"]
        if checked_text(text, "content", where):
            out.append(Document(label, text))
    return tuple(out)
