"""People that a text tells of: with their structured data, with a relative, or with a university."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final, get_args

import regex

from leakmeter.core.files import read_text
from leakmeter.data.records import read_csv
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.pii.settings import Scope
from leakmeter.instruments.pii.subject import Relation, Subject, is_email
from leakmeter.models.question_answering import Ask
from leakmeter.text.entities.mention import Mention, Place
from leakmeter.text.entities.names import NAME, any_name, names_beside_emails, whole_name, without_opening
from leakmeter.text.units import BLANK_LINE, sentence_around

Found = Place | Mention
Find = Callable[[str], Iterable[Found]]
"""A text to the places of one kind of thing: telephone numbers, e-mail addresses, postal addresses, names of people."""
Extractor = Callable[[str], Iterable[Subject]]
"""A text to people with what it tells of them; their ids are given later."""
_START: Final = attrgetter("start")


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


def _kept(found: Iterable[Found], text: str, is_good: Callable[[str], object]) -> list[Found]:
    return [place for place in widest(found, len(text)) if is_good(text[place.start : place.end])]


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
        emails = _kept(self.emails(text), text, is_email)
        phones = apart_from(widest(self.phones(text), len(text)), emails) if emails else []
        found = map(partial(_unbroken, text), widest(self.addresses(text), len(text)) if phones else ())
        addresses = [place for place in found if _is_address(text[place.start : place.end])]
        phones = apart_from(phones, addresses)
        names = _kept(self.names(text), text, whole_name) if phones and addresses else []
        if names := apart_from(names, [*emails, *addresses]):
            name, others = nearest(names, (phones, emails, addresses))
            said, phone, email, address = (text[place.start : place.end] for place in (name, *others))
            yield Subject("", whole_name(said) or "", " ".join(phone.split()), email, one_line(address))


def nearest(names: Sequence[Found], others: Sequence[Sequence[Found]]) -> tuple[Found, list[Found]]:
    """A name and one of each of the others, all in order and none empty: the fewest that stand before the name, then
    the nearest to it, then the first."""

    def chosen(name: Found) -> list[Found]:
        return [kind[min(bisect_left(kind, name.end, key=_START), len(kind) - 1)] for kind in others]

    def cost(pair: tuple[Found, list[Found]]) -> tuple[int, int]:
        name, places = pair
        gaps = (max(place.start - name.end, name.start - place.end, 0) for place in places)
        return sum(place.start < name.end for place in places), sum(gaps)

    return min(((name, chosen(name)) for name in names), key=cost)


def _unbroken(text: str, address: Found) -> Found:
    """An address up to the first blank line, behind which something else begins."""
    blank = BLANK_LINE.search(text, address.start, address.end)
    return Place(address.start, blank.start()) if blank else address


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

_KIND = re.compile(rf"['’]s[ \t\n](?P<kind>{'|'.join(KINDS)})(?![\w-])")
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

    def __call__(self, text: str) -> Iterator[Subject]:
        """The people, without ids."""
        for candidate in self.candidates(text):
            other = self._checked(candidate)
            if other is not None and other.casefold() != candidate.name.casefold():
                yield Subject("", candidate.name, relationships=(Relation(candidate.kind, other),))

    def candidates(self, text: str) -> Iterator[Candidate]:
        """Sentences with a full name before "'s {relationship}", in order."""
        for match in _KIND.finditer(text):
            low, high = sentence_around(text, match.start(), match.end())
            start = self._start_of_name(text, low, match.start(), high)
            name = None if start is None else whole_name(text[start : match.start()])
            if start is not None and name is not None:
                other = _given(text, low, start, match.end(), high)
                yield Candidate(name, match["kind"], " ".join(text[low:high].split()), other)

    def _start_of_name(self, text: str, low: int, end: int, high: int) -> int | None:
        """Where the name begins that ends at a place in the sentence [low, high)."""
        if self.names is not None:
            # A recogniser may count the "'s" as part of the name.
            names = self.names(text[low:high])
            return min((low + name.start for name in names if low + name.end in (end, end + 2)), default=None)
        match = _BEFORE.search(text, max(low, end - _REACH), end)
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
        self._names, self._scope = names, scope
        # By their first word.
        self._listed: dict[str, list[str]] = {}
        for name in sorted({" ".join(name.split()) for name in listed}, key=len, reverse=True):
            if first := _TEXT_WORD.match(name):
                self._listed.setdefault(first.group(), []).append(name)
        if not self._listed:
            raise UsageError("there are no names of universities; give at least one that begins with a letter or digit")

    def __call__(self, text: str) -> Iterator[Subject]:
        """The people, without ids; each pair once."""
        places = self.places(text)
        people = self._people(text, 0, len(text), places) if places and self._scope == "document" else []
        seen: set[tuple[str, str]] = set()
        low = high = 0
        for place in places:
            if place.end > high:
                low, high = sentence_around(text, place.start, place.end)
                people = self._people(text, low, high, places) if self._scope == "sentence" else people
            if people:
                person = min(people, key=partial(_distance, place, low, high))
                name = whole_name(text[person.start : person.end]) or ""
                university = " ".join(text[place.start : place.end].split())
                if (name, university) not in seen:
                    seen.add((name, university))
                    yield Subject("", name, university=university)

    def places(self, text: str) -> list[Found]:
        """Where universities are named, in order; of names that share a beginning, the longest."""
        # A name may be wrapped at a line's end.
        text = text.replace("\n", " ")
        out: list[Found] = []
        for word in _TEXT_WORD.finditer(text):
            start = word.start()
            if not out or start >= out[-1].end:
                ends = (
                    start + len(name) for name in self._listed.get(word.group(), ()) if text.startswith(name, start)
                )
                if end := next((end for end in ends if not _TEXT_WORD.match(text, end)), None):
                    out.append(Place(start, end))
        return out

    def _people(self, text: str, low: int, high: int, places: Sequence[Found]) -> list[Found]:
        """Full names within [low, high) that are no part of a university's."""
        shifted = [Place(low + name.start, low + name.end) for name in self._names(text[low:high])]
        first, behind = (bisect_left(places, at, key=_START) for at in (low, high))
        return apart_from(_kept(shifted, text[:high], whole_name), places[first:behind])


def _distance(place: Found, low: int, high: int, person: Found) -> tuple[bool, int]:
    """How far a person is from a university: outside its sentence [low, high) or not, then in characters."""
    return not low <= person.start < person.end <= high, max(person.start - place.end, place.start - person.end)


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
    names = tuple(dict.fromkeys(name for entry in entries if (name := " ".join(entry.split()))))
    if not names:
        raise DataError(f"list of names '{path}' holds no name; expected one a line")
    return names
