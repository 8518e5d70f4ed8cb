"""Which part of a chat is context, where its messages do not say so: `--context-from`, or texts that a log names."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from operator import itemgetter
from typing import Any, Final

from leakmeter.core.case import SYSTEM_ROLES, Case, Document, Message
from leakmeter.data.conversation import cut_at, entries_of, has_sources
from leakmeter.data.mapping import Names
from leakmeter.errors import DataError, UsageError
from leakmeter.overriding import override
from leakmeter.text.entities import pattern

_FREE_SECONDS: Final = 0.05
_MOST_MARKED: Final = 2000
_MOST_PLACES: Final = 10_000
"""Texts that are looked for in a message, and places where they stand."""
SYSTEM: Final = "system"
"""In the place of a pattern: the system prompt is what is meant."""


class ContextElsewhereError(DataError):
    """What a chat has as context is not in its messages, or is not known."""


class SlowPatternError(DataError):
    """A pattern took too long, so that it is not known what of a chat is context."""


class ContextMarker(ABC):
    """Marks what of a chat is context. Every method refuses a chat in which there is nothing to mark (`DataError`);
    `where` says where the chat stands, for errors."""

    @abstractmethod
    def marked(self, messages: tuple[Message, ...], where: str) -> tuple[Message, ...]:
        """A chat whose context is this and nothing else."""

    def added(self, messages: tuple[Message, ...], where: str) -> tuple[Message, ...]:
        """A conversation whose context is this, beside what was read in it; if something was, this may be missing."""
        try:
            return self.marked(messages, where)
        except SlowPatternError:
            raise
        except DataError:
            if Case("", messages=messages).context_documents:
                return messages
            raise

    def places(self, messages: tuple[Message, ...], where: str) -> list[list[tuple[int, int, str]]]:
        """Where it stands in each message, and what it is called: the first character, and the one behind the last."""
        out: list[list[tuple[int, int, str]]] = []
        for message in self.marked(messages, where):
            ends = list(accumulate(len(part.text) for part in message.parts))
            read = ((i, message.parts[i]) for i in message.retrieved)
            out.append([(ends[i] - len(part.text), ends[i], part.name) for i, part in read])
        return out


def context_marker(context_from: str | None) -> ContextMarker | None:
    """What `--context-from` says of chats: a pattern, or the system prompt."""
    if context_from is None:
        return None
    if context_from == SYSTEM:
        return SystemPrompt()
    compiled = pattern.compiled(context_from, f"--context-from {context_from[:60]!r}", dot_is_any=True)
    if not compiled.groups:
        raise UsageError(
            f"--context-from {context_from[:60]!r} has no group; put the retrieved part in brackets, as in "
            rf"'Context:(.*)Question:', or give '{SYSTEM}' for the system prompt"
        )
    named = compiled.groupindex
    groups: tuple[str | int, ...] = ("context",) if "context" in named else (*named,) or (1,)
    return PatternMatches(compiled, groups)


class Unmarked(ContextMarker):
    """Leaves a chat as it is, where what of it is context is asked later."""

    @override
    def marked(self, messages: tuple[Message, ...], where: str) -> tuple[Message, ...]:
        return messages


@dataclass(frozen=True, slots=True)
class SystemPrompt(ContextMarker):
    """The messages of the system prompt's roles."""

    @override
    def marked(self, messages: tuple[Message, ...], where: str) -> tuple[Message, ...]:
        _check_system_prompt(messages, where)
        asking = Case("", messages=messages).asking
        return tuple(
            message if i == asking or message.role in SYSTEM_ROLES else replace(message, fixed=True)
            for i, message in enumerate(messages)
        )

    @override
    def added(self, messages: tuple[Message, ...], where: str) -> tuple[Message, ...]:
        _check_system_prompt(messages, where)
        return tuple(replace(message, fixed=False) if message.role in SYSTEM_ROLES else message for message in messages)

    @override
    def places(self, messages: tuple[Message, ...], where: str) -> list[list[tuple[int, int, str]]]:
        _check_system_prompt(messages, where)
        return [[(0, len(each.text), each.name)] if each.role in SYSTEM_ROLES else [] for each in messages]


def _check_system_prompt(messages: tuple[Message, ...], where: str) -> None:
    if not any(message.role in SYSTEM_ROLES for message in messages):
        raise DataError(f"{where}: --context-from {SYSTEM} measures the message of role 'system', and there is none")


@dataclass(frozen=True, slots=True)
class RetrievedTexts(ContextMarker):
    """These documents, where they stand in the messages word for word; all else stays."""

    documents: Sequence[Document]

    @override
    def marked(self, messages: tuple[Message, ...], where: str) -> tuple[Message, ...]:
        marked = tuple(with_documents(message, self.documents, where) for message in messages)
        if not any(message.retrieved for message in marked):
            raise DataError(f"{where}: none of the retrieved texts stands in the prompt word for word")
        return marked


def retrieved_texts(documents: Sequence[Document], messages: object, where: str) -> RetrievedTexts:
    """A marker of documents that stand beside a chat. One that is in no message as it was retrieved may have been read
    in another form, which would not be measured: it is refused."""
    entries = entries_of(messages, where)
    said = [entry.text for entry in entries if entry.kind in ("system", "user")]
    # A result is context whole, however it writes a document.
    read = [" ".join(entry.text.split()) for entry in entries if entry.kind == "source"]
    for number, document in enumerate(documents, 1):
        if any(document.text in text for text in said) or _is_within(document.text, read):
            continue
        kind = DataError if has_sources(entries) else ContextElsewhereError
        raise kind(
            f"{where}: document {number} of those beside the messages stands in none of them word for word; log the "
            "messages as they were sent, and only documents that the model read"
        )
    return RetrievedTexts(documents)


def _is_within(text: str, read: Sequence[str]) -> bool:
    written = (text, *(json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True)))
    return any(" ".join(form.split()) in result for form in written for result in read)


def with_documents(message: Message, documents: Sequence[Document], where: str) -> Message:
    """A message that stays, but for what was retrieved into it and the places in which a document's text stands; of
    overlapping ones the first, and of those that begin together the longest."""
    if len(documents) > _MOST_MARKED:
        raise DataError(f"{where}: {len(documents):,} texts may stand in a message; {_MOST_MARKED:,} are looked for")
    # Parts of a message that goes with the context are written on lines of their own.
    is_one = message.fixed or message.retrieved
    text = message.text if is_one else "\n".join(part.text for part in message.parts)
    ends = list(accumulate(len(part.text) for part in message.parts))
    read = [(ends[i] - len(message.parts[i].text), ends[i], message.parts[i].name) for i in message.retrieved]
    found: list[tuple[int, int, int]] = []
    for n, document in enumerate(documents):
        found += ((at, -len(document.text), n) for at in islice(_places(document.text, text), _MOST_PLACES + 1))
        if len(found) > _MOST_PLACES:
            raise DataError(f"{where}: the retrieved texts stand at more than {_MOST_PLACES:,} places of a message")
    spans: list[tuple[int, int, str]] = []
    for start, length, n in sorted(found):
        end = start - length
        at = bisect_right(read, start, key=itemgetter(0))
        is_apart = (not at or read[at - 1][1] <= start) and (at == len(read) or end <= read[at][0])
        if is_apart and (not spans or start >= spans[-1][1]):
            spans.append((start, end, documents[n].name))
    parts, retrieved = cut_at(message.name, text, sorted((*spans, *read)))
    return replace(message, parts=parts, retrieved=retrieved, fixed=True)


def _places(part: str, text: str) -> Iterator[int]:
    at = text.find(part) if part.strip() else -1
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


@dataclass(slots=True)
class _Patience:
    """Seconds that a pattern may take over all rows, beyond what each has for nothing: where rows may be skipped, each
    could take its own limit."""

    seconds: float = 10.0

    def add(self, seconds: float) -> None:
        self.seconds -= max(seconds - _FREE_SECONDS, 0.0)
        if self.seconds < 0:
            raise UsageError(
                "--context-from takes too long over the rows; the usual cause is nested repetition, as in (a+)+: give "
                "a simpler pattern"
            )


@dataclass(frozen=True, slots=True)
class PatternMatches(ContextMarker):
    """What the groups of a pattern find in the last user message; the text of the turn stays as it was, so that the
    model reads what it read. Refused also where nothing is left as the query, or it takes too long."""

    compiled: Any
    groups: Sequence[str | int]
    patience: _Patience = field(default_factory=_Patience)

    @override
    def marked(self, messages: tuple[Message, ...], where: str) -> tuple[Message, ...]:
        at = Case("", messages=messages).asking
        if at is None:
            raise DataError(f"{where}: there is no message of role 'user' for --context-from to match")
        turn = messages[at]
        names = Names()
        for message in messages:
            names.own(message.name)
        text = "\n".join(part.text for part in turn.parts)
        began = time.monotonic()
        try:
            found = list(self._matches(text, where))
        finally:
            self.patience.add(time.monotonic() - began)
        parts, retrieved = cut_at(turn.name, text, [(start, end, names.own(group)) for start, end, group in found])
        if not retrieved:
            raise DataError(f"{where}: --context-from finds nothing in the last user message")
        if not any(part.text.strip() for i, part in enumerate(parts) if i not in retrieved):
            raise DataError(
                f"{where}: --context-from matches the whole last user message; leave the query out of the match"
            )
        marked = replace(turn, parts=parts, retrieved=retrieved)
        return (*messages[:at], marked, *messages[at + 1 :])

    def _matches(self, text: str, where: str) -> Iterator[tuple[int, int, str]]:
        """Where the groups' texts begin and end, without the white space around them, and the documents' names."""
        cursor = 0
        try:
            for match in self.compiled.finditer(text, timeout=pattern.SECONDS_AT_MOST):
                for (start, end), group in sorted((match.span(group), str(group)) for group in self.groups):
                    group_text = text[max(start, 0) : max(end, 0)]
                    first = start + len(group_text) - len(group_text.lstrip())
                    last = end - len(group_text) + len(group_text.rstrip())
                    if cursor <= first < last:
                        yield first, last, group if len(self.groups) > 1 else "retrieved"
                        cursor = last
        except TimeoutError:
            raise SlowPatternError(
                f"{where}: --context-from took longer than {pattern.SECONDS_AT_MOST:g} s; the usual cause is nested "
                "repetition, as in (a+)+"
            ) from None
