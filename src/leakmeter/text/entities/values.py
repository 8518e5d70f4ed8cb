"""Values in an answer that are personal or secret, and how that is known: a list of the user's, a form, a shape."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import regex

from leakmeter.text.entities import address, date, email, person, phone, shapes
from leakmeter.text.entities.mention import ADDRESS, DATE, Mention, without_overlaps

LISTED: Final = "list"
_DIGIT = regex.compile(r"\d|[\p{L}\p{M}]+")
_LEAST_DIGITS: Final = 4
_MOST_BETWEEN: Final = 3
"""Characters between two digits of a number."""
RECOGNISED: Final = "recogniser"
SHAPED: Final = "shape"
SEARCHED: Final = (
    "telephone numbers, e-mail and postal addresses, dates, names, account numbers, amounts of money, keys, codes and "
    "numbers, also in words"
)
"""What is looked for without a list."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value, and where a text says it."""

    type: str
    found_by: str
    """`LISTED`, `RECOGNISED` or `SHAPED`."""
    start: int
    end: int


def find(
    text: str, context: str, query: str, *, region: str, listed: Sequence[tuple[int, int, str]] = ()
) -> list[Value]:
    """Values of an answer, in order, none overlapping; what the query says already is none.

    Args:
        text: the answer.
        context: what it was given; names and words of it tell what a word of the answer is.
        query: what was asked.
        region: of telephone numbers and dates.
        listed: (start, end, type) of what a list of the user's has in the context.
    """
    ranks = [
        (LISTED, list(_listed(text, context, listed))),
        (RECOGNISED, list(email.find(text))),
        (SHAPED, [mention for mention in shapes.find(text) if mention.type in (shapes.ACCOUNT, shapes.KEY, ADDRESS)]),
        (RECOGNISED, list(address.find(text, region))),
        (
            RECOGNISED,
            [mention for mention in date.find(text, region) if date.is_value(mention.value) and _is_day(mention)],
        ),
        (RECOGNISED, list(phone.find(text, region))),
        (RECOGNISED, list(person.find(text))),
        (SHAPED, list(shapes.find(text, f"{context}\n{query}"))),
    ]
    by_place: dict[tuple[int, int, str], str] = {}
    for found_by, mentions in ranks:
        for mention in mentions:
            by_place.setdefault((mention.start, mention.end, mention.type), found_by)
    asked = Folded(query)
    out = []
    for mention in without_overlaps(mentions for _, mentions in ranks):
        words = text[mention.start : mention.end]
        if any(map(str.isalnum, words)) and asked.where(words) is None:
            found_by = by_place[mention.start, mention.end, mention.type]
            out.append(Value(mention.type, found_by, mention.start, mention.end))
    return sorted(out, key=lambda value: value.start)


class Folded:
    """Letters and digits of a text without case and accents, and where each stands.

    Args:
        text: as it is written.
        start: characters before it.
    """

    def __init__(self, text: str, start: int = 0) -> None:
        self._text, self._start = text, start
        letters: list[str] = []
        self._places: list[int] = []
        for i, sign in enumerate(text, start):
            for letter in unicodedata.normalize("NFKD", sign).casefold():
                if letter.isalnum():
                    letters.append(letter)
                    self._places.append(i)
        self.letters = "".join(letters)

    @cached_property
    def _digits(self) -> tuple[str, list[tuple[int, int]]]:
        """Digits in the order of the text, also those that are words, and the characters of each."""
        digits: list[str] = []
        places: list[tuple[int, int]] = []
        for match in _DIGIT.finditer(self._text):
            digit = shapes.DIGIT_OF.get(match.group().casefold(), match.group())
            if digit.isdecimal():
                digits.append(digit)
                places.append((self._start + match.start(), self._start + match.end()))
        return "".join(digits), places

    def _goes_on(self, at: int) -> bool:
        """Whether the characters at a place and behind it are both letters, or both digits."""
        first = at - self._start
        pair = self._text[first : first + 2] if first >= 0 else ""
        return len(pair) == 2 and (pair.isalpha() or pair.isdecimal())

    def where(self, value: str) -> tuple[int, int] | None:
        """First characters that say a value, however it is spaced, punctuated or cased; None where none do.

        Four digits or more are the same number in figures and in words.
        """
        place = next(self.places(value), None)
        wanted, parts = Folded(value)._digits
        if place is not None or len(wanted) < _LEAST_DIGITS or _letters_beside(value, parts):
            return place
        digits, places = self._digits
        at = digits.find(wanted)
        while at >= 0:
            run = places[at : at + len(wanted)]
            inside = all(after - end <= _MOST_BETWEEN for (_, end), (after, _) in pairwise(run))
            if inside and not (self._goes_on(run[0][0] - 1) or self._goes_on(run[-1][1] - 1)):
                return run[0][0], run[-1][1]
            at = digits.find(wanted, at + 1)
        return None

    def places(self, value: str) -> Iterator[tuple[int, int]]:
        wanted = Folded(value).letters
        at = self.letters.find(wanted) if wanted else -1
        while at >= 0:
            start, end = self._places[at], self._places[at + len(wanted) - 1] + 1
            # 'rill' is not in 'drill', nor '4120' in '99941203'; 'K4410' is in 'K4410s'.
            if not (self._goes_on(start - 1) or self._goes_on(end - 1)):
                yield start, end
            at = self.letters.find(wanted, at + 1)


def _letters_beside(value: str, digits: Sequence[tuple[int, int]]) -> bool:
    """Whether a value has letters that are no digit in words, as a code has."""
    taken = {i for start, end in digits for i in range(start, end)}
    return any(sign.isalpha() and i not in taken for i, sign in enumerate(value))


def _is_day(mention: Mention) -> bool:
    """Whether a date says day, month and year, as a date of birth does."""
    return mention.type == DATE and "x" not in mention.value


def _listed(text: str, context: str, listed: Sequence[tuple[int, int, str]]) -> Iterator[Mention]:
    answer = Folded(text)
    for start, end, kind in listed:
        for place in answer.places(context[start:end]):
            yield Mention(kind, *place, text[slice(*place)])
