"""Where retrieved texts stand in a prompt: verbatim, where any run of white space matches any other.

Texts are looked for in all messages but the assistant's, which are what the recipient was told before. Every place of a
text counts: a prompt without the document has none of them. A text that begins or ends within a word is not that text.

- Documents with the same text are one document.
- Where a text stands within a longer one, that place is the longer one's.
- A document without text is ignored, and counted.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Final

from leakmeter.data.traces.answer import AbsentDocument, DocumentPlace, LoggedDocument, LoggedMessage, Reason, Unusable

MOST_PLACES: Final = 100_000
"""Of a call's documents in its prompt."""
MOST_WORK: Final = 2**34
"""Characters that may be compared for one trace: some seconds."""
_RUN = re.compile(r"\s\s+")
_WORD = re.compile(r"[A-Za-z0-9]+")
_MARK = "\n"
"""Where words begin and end; no other white space than single spaces is in a text that was normalised."""
_SHARED_WORDS = 8
_OF_STEP, _OF_NORMALISED = 2000, 8
"""Characters that are compared in the time of a step of Python, and of normalising one."""


@dataclass(slots=True)
class Retrieved:
    """A document as a log has it."""

    id: str | None
    text: str | None
    is_expected: bool = True
    """Whether it must be in the prompt; not so where a reranker may have dropped it, or an earlier call read it."""


@dataclass(slots=True)
class FoundDocuments:
    documents: tuple[LoggedDocument, ...]
    absent: tuple[AbsentDocument, ...]
    n_empty: int


@dataclass(slots=True)
class _Text:
    text: str
    plain: str
    ids: dict[str, None] = field(default_factory=dict)
    is_expected: bool = False
    spots: list[tuple[int, int, int]] = field(default_factory=list)
    """Message, and characters [start, end) of it with single spaces."""


class WorkBudget:
    """What was done for one trace, in characters that were compared. Whoever writes a log decides how many texts are
    looked for, and in how long prompts."""

    def __init__(self) -> None:
        self._left = MOST_WORK

    def add(self, n_steps: int, n_characters: int = 0) -> None:
        self._left -= _OF_STEP * n_steps + n_characters
        if self._left < 0:
            raise Unusable(Reason.TOO_MANY_DOCUMENTS)


def normalised(text: str) -> str:
    return " ".join(text.split())


def find(
    retrieved: Sequence[Retrieved],
    messages: Sequence[LoggedMessage],
    *,
    leave_out: bool = False,
    work: WorkBudget | None = None,
) -> FoundDocuments:
    """Find retrieved documents in a prompt, in order. `Unusable` of a text that is not there, or not as it was
    retrieved, or that shares characters with another; or where there is too much to be looked for. With `leave_out` a
    document of which no eight words in a row stand in the prompt is `absent` instead."""
    work = work or WorkBudget()
    work.add(len(retrieved), _OF_NORMALISED * sum(len(document.text or "") for document in retrieved))
    texts, n_empty = _by_text(retrieved)
    work.add(len(texts) * len(messages), len(texts) * sum(len(message.content) for message in messages))
    prompt = [_Message(message.content) if message.role != "assistant" else None for message in messages]
    occupied: dict[int, list[tuple[int, int]]] = {}
    absent: set[str] = set()
    n_places = 0
    # The longest first, so that what stands within a longer text is seen to do so.
    for document in sorted(texts, key=lambda text: -len(text.plain)):
        is_within = False
        for number, message in enumerate(prompt):
            for start, end in message.spots(document.plain) if message is not None else ():
                others = occupied.setdefault(number, [])
                if _is_within(start, end, others):
                    is_within = True
                    continue
                if (n_places := n_places + 1) > MOST_PLACES:
                    raise Unusable(Reason.TOO_MANY_DOCUMENTS)
                document.spots.append((number, start, end))
                insort(others, (start, end))
        if not document.spots:
            if is_within:
                raise Unusable(Reason.DOCUMENT_WITHIN_ANOTHER)
            if any(message.shares(document.plain) for message in prompt if message is not None):
                raise Unusable(Reason.DOCUMENT_CHANGED)
            if document.is_expected and not leave_out:
                raise Unusable(Reason.DOCUMENT_NOT_FOUND)
            absent.add(document.plain)
    out: list[LoggedDocument] = []
    left: list[AbsentDocument] = []
    for document in texts:
        hashed = hashlib.sha256(document.plain.encode(errors="surrogatepass")).hexdigest()
        ids = tuple(document.ids) or (f"sha256:{hashed[:32]}",)
        if document.plain in absent:
            left += [AbsentDocument(id_, hashed) for id_ in ids]
            continue
        held = (
            message.place(number, a, b) for number, a, b in document.spots if (message := prompt[number]) is not None
        )
        out.append(LoggedDocument(ids[0], hashed, document.text, tuple(held), ids[1:]))
    return FoundDocuments(tuple(out), tuple(left), n_empty)


def _by_text(retrieved: Iterable[Retrieved]) -> tuple[list[_Text], int]:
    texts: dict[str, _Text] = {}
    n_empty = 0
    for document in retrieved:
        if document.text is None:
            if document.is_expected:
                raise Unusable(Reason.DOCUMENT_WITHOUT_TEXT)
            continue
        plain = normalised(document.text)
        if not plain:
            n_empty += 1
            continue
        entry = texts.setdefault(plain, _Text(document.text, plain))
        entry.is_expected = entry.is_expected or document.is_expected
        if document.id is not None:
            entry.ids[document.id] = None
    return list(texts.values()), n_empty


def _is_within(start: int, end: int, others: Sequence[tuple[int, int]]) -> bool:
    """Whether a place lies within one of others, which are sorted and apart; `Unusable` where it shares characters with
    one, and is not within it."""
    number = bisect_right(others, start, key=itemgetter(0))
    until = others[number - 1][1] if number else start
    following = others[number][0] if number < len(others) else end
    if following < end or start < until < end:
        raise Unusable(Reason.DOCUMENTS_OVERLAP)
    return start < until


class _Message:
    """A message's text with single spaces, and the way back to its own characters."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._plain = normalised(content)

    def spots(self, text: str) -> Iterator[tuple[int, int]]:
        """Where a text stands, in characters of the text with single spaces."""
        at = self._plain.find(text)
        while at >= 0:
            end = at + len(text)
            if _joins(self._plain, at) or _joins(self._plain, end):
                yield from ((start, stop) for start, stop in self._uncut(text) if start > at)
                return
            yield at, end
            at = self._plain.find(text, end)

    def _uncut(self, text: str) -> Iterator[tuple[int, int]]:
        """The same where places within words are many: to try each of them would take the square of their number."""
        marked = _marked(text)
        n_marks, counted = 0, 0
        at = self._marked.find(marked)
        while at >= 0:
            n_marks, counted = n_marks + self._marked.count(_MARK, counted, at), at
            yield at - n_marks, at - n_marks + len(text)
            at = self._marked.find(marked, at + len(marked))

    @cached_property
    def _marked(self) -> str:
        return _marked(self._plain)

    def place(self, number: int, start: int, end: int) -> DocumentPlace:
        """In the message's own characters."""
        behind, more = self._runs_of_space
        first, last = (at + more[bisect_right(behind, at)] for at in (start, end - 1))
        return DocumentPlace(number, first, last + 1)

    @cached_property
    def _runs_of_space(self) -> tuple[list[int], list[int]]:
        """The characters, with single spaces, behind each longer run of white space; and how many more of its own the
        message has before them: at first, and behind each."""
        n_more = len(self._content) - len(self._content.lstrip())
        behind, more = [], [n_more]
        for run in _RUN.finditer(self._content, n_more):
            behind.append(run.start() + 1 - n_more)
            n_more += run.end() - run.start() - 1
            more.append(n_more)
        return behind, more

    def shares(self, text: str) -> bool:
        words = text.split()
        return any(run in self._runs for run in _runs(words))

    @cached_property
    def _runs(self) -> frozenset[int]:
        return frozenset(_runs(self._plain.split()))


def _runs(words: Sequence[str]) -> Iterator[int]:
    """Hashes of words in a row; Python's own, which do not leave the process."""
    hashes = [hash(word) for word in words]
    for i in range(len(hashes) - _SHARED_WORDS + 1):
        yield hash(tuple(hashes[i : i + _SHARED_WORDS]))


def _marked(plain: str) -> str:
    """A text with a mark before and behind each of its words: what is found in it begins and ends with words."""
    return _WORD.sub(rf"{_MARK}\g<0>{_MARK}", plain)


def _joins(text: str, at: int) -> bool:
    """Whether the characters on both sides of a place are of one word; only of ASCII, since words of other scripts
    stand without spaces."""
    return 0 < at < len(text) and all(c.isascii() and c.isalnum() for c in text[at - 1 : at + 1])
