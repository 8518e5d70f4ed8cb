"""Where retrieved texts stand in a prompt: verbatim, where any run of white space matches any other.

Texts are looked for in all messages but the assistant's, which are what the recipient was told before. Every place of a
text counts: a prompt without the document has none of them. A text that begins or ends within a word is not that text.

- Documents with the same text are one document.
- Where a text stands within a longer one, that place is the longer one's.
- A document without text is ignored, and counted.

Results of tools, and documents beside a question, are documents too, where the messages have them. A record in JSON is
the document whose text it has. What stands in a result around retrieved texts, and says more, is a document of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Final

from leakmeter.data.conversation import text_within
from leakmeter.data.traces.answer import (
    AbsentDocument,
    DocumentPlace,
    LoggedDocument,
    LoggedMessage,
    ReadText,
    Reason,
    Unusable,
    Whose,
    distinct_whose,
)

MOST_PLACES: Final = 100_000
"""Of a call's documents in its prompt."""
MOST_WORK: Final = 2**34
"""Characters that may be compared for one trace: some seconds."""
_RUN = re.compile(r"\s\s+")
_WORD = re.compile(r"[A-Za-z0-9]+")
_KEY = re.compile(r'"[^"]{1,40}"\s*:')
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
    """Whether it must be in the prompt; not so where a reranker may have dropped it, or an earlier call read it, or a
    tool found it."""
    is_later: bool = False
    """Whether its search began after the call, by clocks that may differ: it counts where it stands among what is no
    context otherwise."""
    name: str | None = None
    """By default the id."""
    whose: Whose = field(default_factory=Whose)


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
    name: str = ""
    is_expected: bool = False
    is_later: bool = True
    whose: dict[Whose, None] = field(default_factory=dict)
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
    """Find retrieved documents in a prompt, in order, and then what else was read in it. `Unusable` of a text that is
    not there, or not as it was retrieved, or that shares characters with another; or where there is too much to be
    looked for. With `leave_out` a document of which no eight words in a row stand in the prompt is `absent` instead.
    One of which they stand in the result of a tool alone is neither: the result has it."""
    work = work or WorkBudget()
    work.add(len(retrieved), _OF_NORMALISED * sum(len(document.text or "") for document in retrieved))
    texts, n_empty = _by_text(retrieved)
    n_characters = sum((3 if message.read else 1) * len(message.content) for message in messages)
    work.add(len(texts) * len(messages), len(texts) * n_characters)
    read = _Read(messages, work)
    prompt = [_Message(message.content) if message.role != "assistant" else None for message in messages]
    occupied: dict[int, list[tuple[int, int]]] = {}
    absent: set[str] = set()
    in_results: set[str] = set()
    n_places = 0
    # The longest first, so that what stands within a longer text is seen to do so.
    for document in sorted(texts, key=lambda text: (text.is_later, -len(text.plain))):
        is_within = False
        for number, start, end in _spots(document, prompt, messages):
            others = occupied.setdefault(number, [])
            if document.is_later:
                work.add(1, len(messages[number].read))
                if not _is_free(start, end, others) or _is_read(start, end, prompt[number], messages[number]):
                    continue
            if _is_within(start, end, others):
                is_within = True
                continue
            if (n_places := n_places + 1) > MOST_PLACES:
                raise Unusable(Reason.TOO_MANY_DOCUMENTS)
            document.spots.append((number, start, end))
            insort(others, (start, end))
        if not document.is_later and not document.spots and document.plain not in read.records:
            if is_within:
                raise Unusable(Reason.DOCUMENT_WITHIN_ANOTHER)
            sharing = [
                number
                for number, message in enumerate(prompt)
                if message is not None and message.shares(document.plain)
            ]
            if any(not messages[number].read for number in sharing):
                raise Unusable(Reason.DOCUMENT_CHANGED)
            if sharing:
                in_results.add(document.plain)
                continue
            if document.is_expected and not leave_out:
                raise Unusable(Reason.DOCUMENT_NOT_FOUND)
            absent.add(document.plain)
    texts = [text for text in texts if text.spots or not text.is_later]
    whole = _Ranges(read.taken(document.plain for document in texts if document.plain not in absent | in_results))
    out: list[LoggedDocument] = []
    left: list[AbsentDocument] = []
    for document in texts:
        hashed = hash_of(document.plain)
        ids = tuple(document.ids) or (f"sha256:{hashed[:32]}",)
        if document.plain in absent:
            left += [AbsentDocument(id_, hashed) for id_ in ids]
        elif document.plain not in in_results:
            held = (
                message.place(number, a, b)
                for number, a, b in document.spots
                if (message := prompt[number]) is not None
            )
            records = read.records.get(document.plain, ())
            places = [*filter(whole.leave, held), *(record.place for record in records)]
            if not places:
                raise Unusable(Reason.DOCUMENT_WITHIN_ANOTHER)
            places.sort(key=_in_order)
            name = document.name or next((record.name for record in records), "")
            whose = distinct_whose(document.whose)
            out.append(LoggedDocument(ids[0], hashed, document.text, tuple(places), ids[1:], name, whose))
    return FoundDocuments((*out, *read.rest(out)), tuple(left), n_empty)


def _spots(
    document: _Text, prompt: Sequence[_Message | None], messages: Sequence[LoggedMessage]
) -> Iterator[tuple[int, int, int]]:
    """Where a document stands: in results of tools also as JSON writes it."""
    written: set[str] | None = None
    for number, message in enumerate(prompt):
        if message is None:
            continue
        yield from ((number, *spot) for spot in message.spots(document.plain))
        if messages[number].read:
            if written is None:
                forms = (json.dumps(document.text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
                written = set(map(normalised, forms)) - {document.plain}
            for escaped in written:
                yield from ((number, *spot) for spot in message.spots(escaped))


def hash_of(plain: str) -> str:
    """SHA-256 of a text with single spaces, which tells documents apart."""
    return hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()


def _in_order(place: DocumentPlace) -> tuple[int, int]:
    return place.message, place.start


@dataclass(slots=True)
class _ReadPlace:
    part: ReadText
    place: DocumentPlace
    text: str
    """Of a record the text that it has."""
    is_taken: bool = False

    @property
    def name(self) -> str:
        return self.part.name


class _Read:
    """What the messages themselves show to be read: results of tools, and documents beside questions."""

    def __init__(self, messages: Sequence[LoggedMessage], work: WorkBudget) -> None:
        self._messages = messages
        self._all: list[_ReadPlace] = []
        parts = [(number, part) for number, message in enumerate(messages) for part in message.read]
        work.add(len(parts), 2 * _OF_NORMALISED * sum(part.end - part.start for _, part in parts))
        self.records: dict[str, list[_ReadPlace]] = {}
        """By their texts with single spaces."""
        for number, part in parts:
            written = messages[number].content[part.start : part.end]
            text = text_within(written) or written
            self._all.append(_ReadPlace(part, DocumentPlace(number, part.start, part.end), text))
            if plain := normalised(text):
                self.records.setdefault(plain, []).append(self._all[-1])

    def taken(self, plain_texts: Iterable[str]) -> Iterator[DocumentPlace]:
        """Places of what has the text of a retrieved document: all of it is that document."""
        for plain in plain_texts:
            for record in self.records.get(plain, ()):
                record.is_taken = True
                yield record.place

    def rest(self, found: Iterable[LoggedDocument]) -> list[LoggedDocument]:
        """All else that was read, without what was found of it."""
        held = _Ranges(place for document in found for place in document.places)
        groups: dict[object, list[_ReadPlace]] = {}
        for number, record in enumerate(self._all):
            if not record.is_taken:
                key = (record.place.message, record.name) if record.part.is_around else number
                groups.setdefault(key, []).append(record)
        out: dict[str, LoggedDocument] = {}
        for records in groups.values():
            pieces = [
                (DocumentPlace(record.place.message, start, end), text)
                for record in records
                for start, end in held.around(record.place)
                if (text := self._messages[record.place.message].content[start:end]).strip()
            ]
            written = "".join(text for _, text in pieces)
            # Of the form of a result nothing can be told.
            if not any(map(str.isalnum, _KEY.sub("", written))):
                continue
            is_whole = len(pieces) == 1 and pieces[0][0] == records[0].place
            text = records[0].text if is_whole else written
            plain = normalised(text)
            before, places = out.get(plain), tuple(place for place, _ in pieces)
            if before is not None:
                out[plain] = replace(before, places=(*before.places, *places))
                continue
            hashed = hash_of(plain)
            out[plain] = LoggedDocument(f"sha256:{hashed[:32]}", hashed, text, places, name=records[0].name)
        return list(out.values())


class _Ranges:
    """Places in messages, none of which overlap."""

    def __init__(self, places: Iterable[DocumentPlace]) -> None:
        self._of_message: dict[int, list[tuple[int, int]]] = {}
        for place in places:
            self._of_message.setdefault(place.message, []).append((place.start, place.end))
        for ranges in self._of_message.values():
            ranges.sort()

    def leave(self, place: DocumentPlace) -> bool:
        """Whether a place has none of them; `Unusable` where it has a part of one."""
        left = list(self.around(place))
        if left not in ([], [(place.start, place.end)]):
            raise Unusable(Reason.DOCUMENTS_OVERLAP)
        return bool(left)

    def around(self, place: DocumentPlace) -> Iterator[tuple[int, int]]:
        """What is left of a place without these."""
        ranges, cursor = self._of_message.get(place.message, ()), place.start
        number = max(0, bisect_right(ranges, place.start, key=itemgetter(0)) - 1)
        while number < len(ranges) and ranges[number][0] < place.end:
            start, end = ranges[number]
            if cursor < start:
                yield cursor, start
            cursor, number = max(cursor, end), number + 1
        if cursor < place.end:
            yield cursor, place.end


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
            n_empty += not document.is_later
            continue
        entry = texts.setdefault(plain, _Text(document.text, plain))
        entry.is_expected = entry.is_expected or document.is_expected
        entry.is_later = entry.is_later and document.is_later
        entry.name = entry.name or document.name or document.id or ""
        entry.whose[document.whose] = None
        if document.id is not None:
            entry.ids[document.id] = None
    return list(texts.values()), n_empty


def _is_free(start: int, end: int, others: Sequence[tuple[int, int]]) -> bool:
    """Whether a place shares nothing with others, which are sorted and apart."""
    number = bisect_right(others, start, key=itemgetter(0))
    return (number == 0 or others[number - 1][1] <= start) and (number == len(others) or end <= others[number][0])


def _is_read(start: int, end: int, prompt: _Message | None, message: LoggedMessage) -> bool:
    """Whether a place shares something with what the message itself shows to be read."""
    if prompt is None or not message.read:
        return False
    place = prompt.place(0, start, end)
    return any(part.start < place.end and place.start < part.end for part in message.read)


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
