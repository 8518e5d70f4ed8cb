"""What finders find in a text, how it is written down, and names that need no recogniser."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, get_args

import regex

from leakmeter.core.files import read_text
from leakmeter.data.records import read_csv
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.pii.extraction.documents import BLANK_LINE, sentence_around
from leakmeter.instruments.pii.settings import Scope
from leakmeter.instruments.pii.subject import Relation, Subject, is_email
from leakmeter.models.question_answering import Ask


class Found(Protocol):
    """A place in a text: characters [start, end)."""

    @property
    def start(self) -> int:
        """First character."""

    @property
    def end(self) -> int:
        """Character behind the last."""


Find = Callable[[str], Iterable[Found]]
"""A text to the places of one kind of thing: telephone numbers, e-mail addresses, postal addresses, names of people."""
Extractor = Callable[[str], Iterable[Subject]]
"""A text to people with what it tells of them; their ids are given later."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text."""

    start: int
    """First character."""
    end: int
    """Character behind the last."""


_PARTICLE = r"(?:van|von|zu|zum|de|der|den|del|della|di|da|dos|du|la|le|ter|ten|bin|ibn|al|el|y)"
_CASED = r"\p{Lu}[\p{L}\p{M}]*+(?:['’-](?!s\b)\p{L}[\p{L}\p{M}]*+)*+"
_WORD = rf"(?:\p{{Lu}}\.|{_CASED})"
NAME: Final = rf"{_WORD}(?:[ \t]{{1,2}}(?:{_PARTICLE}[ ]){{0,2}}{_WORD}){{0,4}}"
"""A run of at most five capitalised words, as a name is; for the `regex` library."""
_UNCASED = r"\p{Lo}[\p{Lo}\p{M}]*+(?:[ ・·]\p{Lo}[\p{Lo}\p{M}]*+){0,3}"
_EMAIL = r"[\w.+%'-]{1,64}@[\w-]{1,63}\."
_BESIDE = regex.compile(
    rf"(?P<name>(?<![\p{{L}}\p{{M}}.]){NAME}|(?<![\p{{L}}\p{{M}}]){_UNCASED})[\"”']?[ \t,:]{{0,3}}[<(\[]"
    rf"(?:mailto:)?{_EMAIL}"
    rf"|(?<!\w)(?i:name)[ \t]?[:：=][ \t]{{0,4}}\"?(?P<name>{NAME}|{_UNCASED})"
)
# What begins a sentence or a line in capitals and is no part of the name behind it.
_OPENING = frozenset(
    {
        *("a", "about", "according", "after", "all", "also", "although", "and", "as", "at", "attn", "because"),
        *("before", "both", "but", "by", "cc", "contact", "dear", "did", "does", "during", "email", "even", "for"),
        *("former", "from", "had", "has", "he", "her", "here", "hers", "his", "how", "however", "i", "if", "in", "is"),
        *("it", "its", "just", "later", "like", "mail", "meanwhile", "meet", "met", "my", "name", "no", "not", "now"),
        *("of", "on", "once", "only", "or", "our", "owner", "regards", "reply", "said", "she", "since", "so", "still"),
        *("that", "the", "their", "then", "there", "they", "this", "though", "to", "today", "until", "upon", "was"),
        *("we", "what", "when", "where", "while", "who", "whose", "why", "with", "write", "yesterday", "you", "your"),
        *("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "doctor", "sir", "dame", "lord", "lady", "rev"),
        *("president", "senator", "captain"),
    }
)
_MOST_IN_NAME = 100
_LETTERS = regex.compile(r"\p{L}")


def names_beside_emails(text: str) -> Iterator[Place]:
    """Names that a text gives away by form: 'Jane Doe <jane@…>', 'Jane Doe (jane@…)', 'Name: Jane Doe'.

    A name that stands alone is not found; that is what a recogniser is for.
    """
    for match in _BESIDE.finditer(text):
        start, end = match.span("name")
        yield Place(_behind_opening(text, start, end), end)  # what is empty then is no name


def whole_name(text: str) -> str | None:
    """A full name in one line, as it is written down; None where it is none.

    A name has two words or more, or letters of a script without capitals; no digit, no '@', nothing that cannot be
    printed, and at most 100 characters.
    """
    name = " ".join(text.split()).strip(' ,;:"“”()[]<>*')
    if not _LETTERS.search(name) or len(name) > _MOST_IN_NAME or not name.isprintable():
        return None
    if "@" in name or any(map(str.isdigit, name)):
        return None
    words = [word for word in name.split() if _LETTERS.search(word)]
    return name if len(words) > 1 or regex.match(r"\p{Lo}{2}", name) else None


def any_name(text: str) -> str | None:
    """A name in one line, be it a given name alone: capitalised words, or a script without capitals; else None."""
    name = " ".join(text.split())
    if len(name) > _MOST_IN_NAME or name.casefold().rstrip(".") in _OPENING:
        return None
    return name if regex.fullmatch(rf"{NAME}|{_UNCASED}", name) else None


def without_opening(text: str) -> str:
    """A run of capitalised words without those before the name: 'When Ada Vale' to 'Ada Vale', 'However' to ''."""
    return text[_behind_opening(text, 0, len(text)) :]


def one_line(text: str) -> str:
    """A text with its line breaks as commas."""
    lines = [" ".join(line.split()).rstrip(",") for line in text.splitlines()]
    return ", ".join(line for line in lines if line)


def widest(found: Iterable[Found], n_characters: int) -> list[Found]:
    """In order, what lies in the text and in nothing longer, each place once."""
    out: list[Found] = []
    for place in sorted(found, key=lambda place: (place.start, -place.end)):
        if 0 <= place.start < place.end <= n_characters and (not out or place.end > out[-1].end):
            out.append(place)
    return out


def apart_from(found: Iterable[Found], others: Iterable[Found]) -> list[Found]:
    """What shares no character with any of the others."""
    taken = bytearray()
    for other in others:
        taken.extend(bytes(max(0, other.end - len(taken))))
        taken[other.start : other.end] = b"\1" * (other.end - other.start)
    return [place for place in found if not any(taken[place.start : place.end])]


def _behind_opening(text: str, start: int, end: int) -> int:
    for match in regex.finditer(r"\S+\s*", text, pos=start, endpos=end):
        if match.group().strip().rstrip(".,:").casefold() not in _OPENING:
            return int(match.start())
    return end


# No telephone number has fewer digits; between two stand few other characters.
_DIGITS = re.compile(r"\d(?:[^\w\n]{0,4}\d){5}")
# A street alone is no postal address: a town follows it, or a code.
_WHOLE = re.compile(r"[,\n].*\w|\d{4}\s*\Z", re.DOTALL)
_MOST_IN_ADDRESS = 200


@dataclass(frozen=True, slots=True)
class Structured:
    """The person of a document that has all four; nobody where one is missing.

    Finders are asked in this order, the next only if the last has found something, and none of them where there is no
    '@' or too few digits.
    """

    emails: Find
    phones: Find
    addresses: Find
    names: Find = names_beside_emails
    """A recogniser of names; without one, only names that stand beside an e-mail address or behind 'Name:'."""

    def __call__(self, text: str) -> Iterator[Subject]:
        """The person, or nobody; one of them at most, without an id."""
        if "@" not in text or not _DIGITS.search(text):
            return
        emails = [place for place in widest(self.emails(text), len(text)) if is_email(_said(text, place))]
        if not emails:
            return
        phones = apart_from(widest(self.phones(text), len(text)), emails)
        if not phones:
            return
        addresses = [_unbroken(text, place) for place in widest(self.addresses(text), len(text))]
        addresses = [place for place in addresses if _is_address(_said(text, place))]
        phones = apart_from(phones, addresses)
        if not (phones and addresses):
            return
        names = [place for place in widest(self.names(text), len(text)) if whole_name(_said(text, place))]
        names = apart_from(names, [*emails, *addresses])
        if not names:
            return
        name, (phone, email, address) = nearest(names, (phones, emails, addresses))
        yield Subject(
            id="",
            name=whole_name(_said(text, name)) or "",
            phone=" ".join(_said(text, phone).split()),
            email=_said(text, email),
            address=one_line(_said(text, address)),
        )


def nearest(names: Sequence[Found], others: Sequence[Sequence[Found]]) -> tuple[Found, list[Found]]:
    """A name and one of each of the others, by the rule of this module; all in order and none empty."""
    starts = [[other.start for other in kind] for kind in others]
    best: tuple[tuple[int, int], Found, list[Found]] | None = None
    for name in names:
        n_before, distance, chosen = 0, 0, []
        for kind, begins in zip(others, starts, strict=True):
            at = bisect_left(begins, name.end)
            other = kind[at] if at < len(kind) else kind[-1]
            n_before += at == len(kind)
            distance += other.start - name.end if at < len(kind) else max(0, name.start - other.end)
            chosen.append(other)
        if best is None or (n_before, distance) < best[0]:
            best = (n_before, distance), name, chosen
    assert best is not None
    return best[1], best[2]


def _said(text: str, one: Found) -> str:
    return text[one.start : one.end]


def _unbroken(text: str, one: Found) -> Found:
    """An address up to the first blank line, behind which something else begins."""
    blank = BLANK_LINE.search(text, one.start, one.end)
    return Place(one.start, blank.start()) if blank else one


def _is_address(text: str) -> bool:
    line = one_line(text)
    return len(line) <= _MOST_IN_ADDRESS and line.isprintable() and bool(_WHOLE.search(text))


KINDS: Final = (
    *("father", "mother", "grandmother", "grandfather", "aunt", "uncle", "wife", "husband"),
    *("brother", "sister"),
)
"""Kinds that are looked for: the eight that the paper lists of its nine, then two of ours."""
QUESTION: Final = "Who is the {relationship} of {name}?"
"""Appendix A.2 of the paper."""
CONFIDENCE: Final = 0.9
"""An answer has to exceed it (Appendix A.2)."""

_BEFORE = regex.compile(rf"(?<![\p{{L}}\p{{M}}]){NAME}\Z")
_BEHIND = regex.compile(
    r"(?:[ \t\n]{0,2},)?[ \t\n]{1,2}(?:(?:is|was|were)[ ])?(?:(?:called|named)[ ])?"
    # Somebody else's friend is no relative: the name is taken whole or not at all.
    rf"(?P<name>(?>{NAME}))(?![\p{{L}}\p{{M}}]|['’]s\b)"
)
_IS = regex.compile(rf"(?<![\p{{L}}\p{{M}}])(?P<name>{NAME})[ \t\n](?:is|was)[ \t\n]\Z")
_REACH = 120


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that says a person has a relative."""

    name: str
    """Whose relative it is."""
    kind: str
    """What the relative is to that person."""
    sentence: str
    other: str | None
    """The relative's name, where the sentence's form gives it: "'s father, NAME", "'s father is NAME", "NAME is …'s
    father"."""


@dataclass(frozen=True, slots=True)
class Relationships:
    """People with one relative each, one for every sentence that tells of one."""

    ask: Ask | None = None
    """A question-answering model; without one, what the sentence's form says is believed."""
    names: Find | None = None
    """A recogniser of names; without one, a person's name is the run of capitalised words before the "'s"."""
    kinds: tuple[str, ...] = KINDS

    def __call__(self, text: str) -> Iterator[Subject]:
        """The people, without ids."""
        for candidate in self.candidates(text):
            other = self._checked(candidate)
            if other is not None and other.casefold() != candidate.name.casefold():
                yield Subject("", candidate.name, relationships=(Relation(candidate.kind, other),))

    def candidates(self, text: str) -> Iterator[Candidate]:
        """Sentences with a full name before "'s {relationship}", in order."""
        marks = _marks(self.kinds)
        for match in marks.finditer(text):
            low, high = sentence_around(text, match.start(), match.end())
            start = self._start_of_name(text, low, match.start(), high)
            name = None if start is None else whole_name(text[start : match.start()])
            if start is not None and name is not None:
                other = _given(text, low, start, match.end(), high)
                yield Candidate(name, match["kind"].lower(), " ".join(text[low:high].split()), other)

    def _start_of_name(self, text: str, low: int, end: int, high: int) -> int | None:
        """Where the name begins that ends at a place in the sentence [low, high)."""
        if self.names is not None:
            # A recogniser may count the "'s" as part of the name.
            names = self.names(text[low:high])
            return min((low + name.start for name in names if low + name.end in (end, end + 2)), default=None)
        low = max(low, end - _REACH)
        match = _BEFORE.search(text, low, end)
        return None if match is None else end - len(without_opening(match.group()))

    def _checked(self, candidate: Candidate) -> str | None:
        """The relative's name; None where the model does not confirm it, or nothing tells."""
        if self.ask is None:
            return candidate.other
        # Names are data: braces in them are no fields.
        question = QUESTION.replace("{relationship}", candidate.kind).replace("{name}", candidate.name)
        answer, confidence = self.ask(question, candidate.sentence)
        if not confidence > CONFIDENCE:
            return None
        if candidate.other is None:
            return any_name(answer.strip(" ,.;:"))
        answer_words, name_words = _words(answer), _words(candidate.other)
        return candidate.other if answer_words and (answer_words <= name_words or name_words <= answer_words) else None


def _marks(kinds: tuple[str, ...]) -> re.Pattern[str]:
    listed = "|".join(map(re.escape, kinds))
    return re.compile(rf"['’]s[ \t\n](?P<kind>{listed})(?![\w-])")


def _given(text: str, low: int, start: int, end: int, high: int) -> str | None:
    """The name that the form of a sentence [low, high) gives to the relative of whom [start, end) speaks."""
    behind = _BEHIND.match(text, end, high)
    if behind is not None and without_opening(behind["name"]) == behind["name"]:
        return any_name(behind["name"])
    before = _IS.search(text, max(low, start - _REACH), start)
    return None if before is None else any_name(without_opening(before["name"]))


def _words(name: str) -> set[str]:
    return set(regex.findall(r"[\p{L}\p{M}]+", name.casefold()))


_TEXT_WORD = re.compile(r"\w+")


class Universities:
    """People with one university each, as often as a text names one beside a person."""

    def __init__(self, listed: Iterable[str], names: Find, scope: Scope = "sentence") -> None:
        """Names are found as they are written, whole words only, the longest first.

        `names` finds people; `scope` is where a person's name has to stand.
        """
        if scope not in get_args(Scope):
            raise UsageError(f"scope is '{scope}'; expected one of {', '.join(get_args(Scope))}")
        self._names = names
        self._scope = scope
        # By a name's first word: the lengths there are, longest first, and the names.
        self._listed: dict[str, tuple[list[int], set[str]]] = {}
        for name in map(_one_spaced, listed):
            if first := _TEXT_WORD.match(name):
                self._listed.setdefault(first.group(), ([], set()))[1].add(name)
        for lengths, listed_names in self._listed.values():
            lengths.extend(sorted({len(name) for name in listed_names}, reverse=True))
        if not self._listed:
            raise UsageError("there are no names of universities; give at least one that begins with a letter or digit")

    def __call__(self, text: str) -> Iterator[Subject]:
        """The people, without ids; each pair once."""
        places = self.places(text)
        if not places:
            return
        everyone = self._people(text, 0, len(text), places) if self._scope == "document" else []
        seen: set[tuple[str, str]] = set()
        people, low, high = everyone, 0, 0
        for place in places:
            if place.end > high:
                low, high = sentence_around(text, place.start, place.end)
                people = self._people(text, low, high, places) if self._scope == "sentence" else everyone
            if not people:
                continue
            person = min(people, key=lambda name: _distance(name, place, low, high))
            pair = whole_name(text[person.start : person.end]) or "", _one_spaced(text[place.start : place.end])
            if pair not in seen:
                seen.add(pair)
                yield Subject("", pair[0], university=pair[1])

    def places(self, text: str) -> list[Place]:
        """Where universities are named, in order; of names that share a beginning, the longest."""
        # A name may be wrapped at a line's end.
        text = text.replace("\n", " ")
        out: list[Place] = []
        end = 0
        for word in _TEXT_WORD.finditer(text):
            start = word.start()
            if start < end or (entry := self._listed.get(word.group())) is None:
                continue
            lengths, listed_names = entry
            for length in lengths:
                passage = text[start : start + length]
                after = text[start + length : start + length + 1]
                if len(passage) == length and passage in listed_names and not (after.isalnum() or after == "_"):
                    end = start + length
                    out.append(Place(start, end))
                    break
        return out

    def _people(self, text: str, low: int, high: int, places: Sequence[Found]) -> list[Found]:
        """Full names within [low, high) that are no part of a university's."""
        all_names = [Place(low + name.start, low + name.end) for name in self._names(text[low:high])]
        named = [name for name in widest(all_names, high) if whole_name(text[name.start : name.end])]
        first, behind = (bisect_left(places, at, key=lambda place: place.start) for at in (low, high))
        return apart_from(named, places[first:behind])


def _distance(one: Found, place: Found, low: int, high: int) -> tuple[bool, int]:
    """How far a person is from a university: outside its sentence [low, high) or not, then in characters."""
    return not low <= one.start < one.end <= high, max(one.start - place.end, place.start - one.end)


def load_names(path: str | Path, *, column: str = "name") -> tuple[str, ...]:
    """Names of a list: a CSV file's column, or the lines of any other file; each once, in order."""
    path = Path(path)
    if path.suffix.lower() == ".csv":
        rows = read_csv(path)
        if column not in rows[0]:
            raise DataError(f"CSV file '{path}' has no column '{column}'; it has {', '.join(map(repr, rows[0]))}")
        entries = [row[column] for row in rows]
    else:
        entries = read_text(path, "list of names").splitlines()
    names = tuple(dict.fromkeys(name for name in map(_one_spaced, entries) if name))
    if not names:
        raise DataError(f"list of names '{path}' holds no name; expected one a line")
    return names


def _one_spaced(text: str) -> str:
    return " ".join(text.split())
