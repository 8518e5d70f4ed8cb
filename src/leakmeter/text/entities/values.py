"""Values in an answer that are personal or secret, and how that is known: a list of the user's, a form, a shape."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from leakmeter.text.entities import address, date, email, person, phone, shapes
from leakmeter.text.entities.mention import DATE, Mention, without_overlaps

LISTED: Final = "list"
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
        (SHAPED, [mention for mention in shapes.find(text) if mention.type in (shapes.ACCOUNT, shapes.KEY)]),
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

    __slots__ = ("_places", "letters")

    def __init__(self, text: str, start: int = 0) -> None:
        letters: list[str] = []
        self._places: list[int] = []
        for i, sign in enumerate(text, start):
            for letter in unicodedata.normalize("NFKD", sign).casefold():
                if letter.isalnum():
                    letters.append(letter)
                    self._places.append(i)
        self.letters = "".join(letters)

    def where(self, value: str) -> tuple[int, int] | None:
        """First characters that say a value, however it is spaced, punctuated or cased; None where none do."""
        return next(self.places(value), None)

    def places(self, value: str) -> Iterator[tuple[int, int]]:
        wanted = Folded(value).letters
        at = self.letters.find(wanted) if wanted else -1
        while at >= 0:
            yield self._places[at], self._places[at + len(wanted) - 1] + 1
            at = self.letters.find(wanted, at + len(wanted))


def _is_day(mention: Mention) -> bool:
    """Whether a date says day, month and year, as a date of birth does."""
    return mention.type == DATE and "x" not in mention.value


def _listed(text: str, context: str, listed: Sequence[tuple[int, int, str]]) -> Iterator[Mention]:
    answer = Folded(text)
    for start, end, kind in listed:
        for place in answer.places(context[start:end]):
            yield Mention(kind, *place, text[slice(*place)])
