"""Full names by their form, without a recogniser: what a name looks like, and where a text gives one away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import regex

from leakmeter.text.entities.mention import Place
from leakmeter.text.entities.person import PARTICLE, PREFIX, UNCASED
from leakmeter.text.folding import CASED, WORD

_SMALL = rf"[{CASED}\p{{Lm}}\p{{M}}]*+"
_CASED = rf"\p{{Lu}}{_SMALL}(?:['’-](?!s(?![{WORD}]))[{CASED}]{_SMALL})*+"
_WORD = rf"(?:\p{{Lu}}\.|{_CASED})"
NAME: Final = rf"{_WORD}(?:[ \t]{{1,2}}(?:{PARTICLE}[ ]){{0,3}}{PREFIX}?{_WORD}){{0,4}}"
"""A run of at most five capitalised words, as a name is; for the `regex` library."""
_EMAIL = r"[\w.+%'-]{1,64}@[\w-]{1,63}\."
_BESIDE = regex.compile(
    rf"(?P<name>(?<![\p{{L}}\p{{M}}.]){NAME}|(?<![\p{{L}}\p{{M}}]){UNCASED})[\"”']?[ \t,:]{{0,3}}[<(\[]"
    rf"(?:mailto:)?{_EMAIL}"
    rf"|(?<!\w)(?i:name)[ \t]?[:：=][ \t]{{0,4}}\"?(?P<name>{NAME}|{UNCASED})"
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
_SPACED = regex.compile(r"\S+\s*")


def names_beside_emails(text: str) -> Iterator[Place]:
    """Names that a text gives away by form: 'Jane Doe <jane@…>', 'Jane Doe (jane@…)', 'Name: Jane Doe'. A name that
    stands alone is not found; that is what a recogniser is for."""
    for match in _BESIDE.finditer(text):
        start, end = match.span("name")
        yield Place(_behind_opening(text, start, end), end)  # what is empty then is no name


def whole_name(text: str) -> str | None:
    """A full name in one line, as it is written down; None where it is none. A name has two words or more, or letters
    of a script without capitals; no digit, no '@', nothing that cannot be printed, and at most 100 characters."""
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
    return name if regex.fullmatch(rf"{NAME}|{UNCASED}", name) else None


def without_opening(text: str) -> str:
    """A run of capitalised words without those before the name: 'When Ada Vale' to 'Ada Vale', 'However' to ''."""
    return text[_behind_opening(text, 0, len(text)) :]


def _behind_opening(text: str, start: int, end: int) -> int:
    for match in _SPACED.finditer(text, start, end):
        if match.group().strip().rstrip(".,:").casefold() not in _OPENING:
            return int(match.start())
    return end
