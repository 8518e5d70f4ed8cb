"""What finders find in a text, how it is written down, and names that need no recogniser."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import regex

from leakmeter.instruments.pii.subject import Subject


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
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if 0 <= one.start < one.end <= n_characters and (not out or one.end > out[-1].end):
            out.append(one)
    return out


def apart_from(found: Iterable[Found], others: Iterable[Found]) -> list[Found]:
    """What shares no character with any of the others."""
    taken = bytearray()
    for other in others:
        taken.extend(bytes(max(0, other.end - len(taken))))
        taken[other.start : other.end] = b"\1" * (other.end - other.start)
    return [one for one in found if not any(taken[one.start : one.end])]


def _behind_opening(text: str, start: int, end: int) -> int:
    for match in regex.finditer(r"\S+\s*", text, pos=start, endpos=end):
        if match.group().strip().rstrip(".,:").casefold() not in _OPENING:
            return int(match.start())
    return end
