"""What stands in a ledger for people, texts and prompts: keyed hashes, which tell equal from different.

Who finds a copy of a ledger cannot test whether a guessed name or text is in it: the key is in the user's configuration
(see `storage.pseudonym`), never beside the ledger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from leakmeter.engine.storage.pseudonym import pseudonym

RECIPIENT, SUBJECT, DOCUMENT = "recipient", "subject", "document"
ANSWER: Final = "answer"
"""The channel of what a person is shown."""
_TOOL: Final = re.compile(r"[A-Za-z0-9_.\-/]{1,60}")
_UNNAMED: Final = "sha256:"
"""Begins the ids of documents that had none: a hash of the text without a key."""


class Keys:
    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def check(self) -> str:
        """Tells whether two ledgers were made with one key."""
        return self._hash("key check")

    def recipient(self, name: str | None, channel: str = ANSWER) -> str | None:
        """A person's pseudonym; a tool, an agent or a memory as it is called, with its channel, as in 'tool:search'."""
        if name is None or channel == ANSWER:
            return None if name is None else self._hash(RECIPIENT, name)
        called = name.removeprefix(f"{channel}:")
        return f"{channel}:{called if _TOOL.fullmatch(called) else self._hash(RECIPIENT, name)[:16]}"

    def entity(self, kind: str, value: str) -> str:
        return self._hash(SUBJECT, kind, value)

    def words(self, value: str) -> list[str]:
        """Of each word of a name, an initial behind its letter, so that parts of names are found without the names."""
        return [f"{self._hash('word', word)}{'.' if len(word) == 1 else ''}" for word in value.split()]

    def initials(self, value: str) -> list[str]:
        return [f"{self._hash('word', word[0])}." for word in value.split()]

    def content(self, sha256: str) -> str:
        return self._hash("content", sha256)

    def document(self, id_: str) -> str:
        """A document's own id; where that is a hash of its text a keyed one."""
        return f"text-{self._hash('content', id_)[:16]}" if id_.startswith(_UNNAMED) else id_

    def event(self, trace_id: str, span_id: str) -> str:
        return self._hash("event", trace_id, span_id)

    def draw(self, response_id: str) -> str:
        return self._hash("draw", response_id)

    def answer(self, text: str) -> str:
        return self._hash("answer", text)

    def message(self, text: str) -> str:
        return self._hash("message", text)

    def prompt(self, messages: Iterable[Iterable[Any]], contents: Iterable[str]) -> str:
        """Of all that was sent, and hashes of the documents that were retrieved for it."""
        return self._hash("prompt", json.dumps([list(messages), list(contents)], ensure_ascii=True))

    def scored(
        self, setup: str, messages: Iterable[Iterable[Any]], places: Mapping[str, Any], answer: str, *begun: Any
    ) -> str:
        """Names a measurement. `setup` is of the model and all settings, `messages` have role and text, and their calls
        of tools, `places` are those of the documents in them, and `begun` is what was said before the answer."""
        text = json.dumps([list(messages), dict(places), answer, *begun], ensure_ascii=True, sort_keys=True)
        return self._hash("scored", setup, text)

    def _hash(self, *parts: str) -> str:
        # A log may hold half a surrogate pair, which UTF-8 cannot.
        return pseudonym(self._key, *(part.encode(errors="backslashreplace").decode() for part in parts))


def channel_of(recipient: str | None) -> str:
    """Where an emission went, of who received it: a pseudonym is of a person."""
    return recipient.partition(":")[0] if recipient is not None and ":" in recipient else ANSWER


def shown(name: str | None) -> str:
    if name is None:
        return "unknown"
    return name if channel_of(name) != ANSWER else name[:12]
