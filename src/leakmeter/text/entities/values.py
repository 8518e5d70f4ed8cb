"""Values in an answer that are personal or secret, and how that is known: a list of the user's, a form, a shape."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final

import regex

from leakmeter.text.entities import address, date, email, person, phone, shapes
from leakmeter.text.entities.mention import ADDRESS, PERSON, Mention, without_overlaps
from leakmeter.text.entities.person import UNSPACED
from leakmeter.text.entities.shapes import PUBLIC
from leakmeter.text.folding import CASED, plain

LISTED: Final = "list"
_SIGNS = regex.compile(r"[^a-z0-9]+")
_DIGIT = regex.compile(r"\d|[\p{L}\p{M}]+")
_NUMBER = regex.compile(r"\d(?:[ .()/-]{0,2}\d){3,}")
"""A number of four digits or more."""
_ONE_WORD = regex.compile(rf"[{CASED}]{{2}}|[\p{{Lo}}--{UNSPACED}]{{2}}", regex.VERSION1)
"""Two letters that are of one word."""
RECOGNISED: Final = "recogniser"
SHAPED: Final = "shape"
SEARCHED: Final = (
    "telephone numbers, e-mail and postal addresses, full dates, capitalised names, account numbers, amounts of money "
    "from 100, keys, codes, and numbers of four digits or more, also in words"
)
"""What is looked for without a list."""


NOWHERE: Final = (
    "a number of four digits or more, or an e-mail address, that neither context nor query has: it may be made up, or "
    "come from a part of the prompt that is missing here or was not measured"
)
"""What `is_unexplained` means, for people."""


@dataclass(frozen=True, slots=True)
class Value:
    type: str
    found_by: str
    """`LISTED`, `RECOGNISED` or `SHAPED`."""
    start: int
    end: int


def find(
    text: str, context: str, query: str, *, region: str, listed: Sequence[tuple[int, int, str]] = ()
) -> list[Value]:
    """Values of an answer, in order, none overlapping; what the query says already is none. Names and words of the
    context tell what a word of the answer is; `listed` are (start, end, type) of what a list of the user's has in the
    context."""
    shaped = list(shapes.find(text, f"{context}\n{query}"))
    ranks = [
        (LISTED, list(_listed(text, context, listed))),
        (RECOGNISED, list(email.find(text))),
        (PUBLIC, list(shapes.find_public(text))),
        (SHAPED, [mention for mention in shaped if mention.type in (shapes.ACCOUNT, shapes.KEY, ADDRESS)]),
        (RECOGNISED, list(address.find(text, region))),
        (RECOGNISED, [m for m in date.find(text, region) if date.is_value(m.value) and "x" not in m.value]),
        (RECOGNISED, list(phone.find(text, region))),
        (RECOGNISED, list(_people(text, context, shaped))),
        (SHAPED, [mention for mention in shaped if mention.type not in (PERSON, shapes.NAME_TYPE)]),
        (SHAPED, shaped),
    ]
    by_place: dict[tuple[int, int, str], str] = {}
    for found_by, mentions in ranks:
        for mention in mentions:
            by_place.setdefault((mention.start, mention.end, mention.type), found_by)
    query_text = Folded(query)
    out = []
    for mention in without_overlaps(mentions for _, mentions in ranks):
        words = text[mention.start : mention.end]
        if mention.type != PUBLIC and any(map(str.isalnum, words)) and query_text.where(words) is None:
            found_by = by_place[mention.start, mention.end, mention.type]
            out.append(Value(mention.type, found_by, mention.start, mention.end))
    return sorted(out, key=lambda value: value.start)


def _people(answer: str, documents: str, shaped: Sequence[Mention]) -> Iterator[Mention]:
    """People whom the answer names after a title or a label, or the documents do, however the answer writes them; with
    the rest of the name that has the shape of one."""
    names, lowered = _people_named(documents)
    yield from person.find(answer)
    known = list(person.said_again(answer, names, lowered))
    yield from known
    starts = sorted(mention.start for mention in known)
    for mention in shaped:
        first = bisect_left(starts, mention.start)
        if mention.type in (PERSON, shapes.NAME_TYPE) and first < len(starts) and starts[first] < mention.end:
            yield replace(mention, type=PERSON)


@lru_cache(maxsize=4)
def _people_named(documents: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Normal forms of names, and the words in lower case."""
    names = dict.fromkeys(mention.value for mention in person.find(documents))
    return tuple(names), person.lowered_words(documents) if names else frozenset()


def is_unexplained(response: str, prompt: str) -> bool:
    """Whether the response has a number of four digits or more, or an e-mail address, that the prompt does not have."""
    text = plain(response).text
    values = [mention.value for mention in email.find(text)] + _NUMBER.findall(text)
    if not values:
        return False
    folded = Folded(prompt)
    return any(folded.where(value) is None for value in values)


class Folded:
    """Letters and digits of a text without case and accents, and where each stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        if text.isascii():
            self._places = [i for i, sign in enumerate(text) if sign.isalnum()]
            self.letters: str = _SIGNS.sub("", text.lower())
            return
        letters: list[str] = []
        self._places = []
        for i, sign in enumerate(text):
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
        times, start = 1, 0
        for match in _DIGIT.finditer(self._text):
            word = match.group().casefold()
            digit = shapes.DIGIT_OF.get(word, word)
            if digit.isdecimal():
                digits += [str(int(digit))] * times
                places += [(start if times > 1 else match.start(), match.end())] * times
            times, start = shapes.TIMES.get(word, 1), match.start()
        return "".join(digits), places

    def where(self, value: str) -> tuple[int, int] | None:
        """First characters that have a value, in words too; None where none do."""
        return next(self.places(value, in_words=True), None)

    def places(self, value: str, *, in_words: bool = False) -> Iterator[tuple[int, int]]:
        """Characters that have a value, however it is spaced, punctuated or cased, but as a part of no longer word.
        Where there are none, with `in_words`, those of the same number, of four digits or more, in figures or words."""
        wanted = Folded(value)
        if not wanted.letters:
            return
        has_any = False
        for at in _each(self.letters, wanted.letters):
            start, end = self._places[at], self._places[at + len(wanted.letters) - 1] + 1
            if self._is_whole(start, end):
                has_any = True
                yield start, end
        digits, parts = wanted._digits
        if has_any or not in_words or len(digits) < 4 or _letters_beside(value, parts):
            return
        for at in _each(self._digits[0], digits):
            run = self._digits[1][at : at + len(digits)]
            is_close = all(after - end <= 3 for (_, end), (after, _) in pairwise(run))
            if is_close and self._is_whole(run[0][0], run[-1][1]):
                yield run[0][0], run[-1][1]

    def _is_whole(self, start: int, end: int) -> bool:
        """Whether no word and no number goes on: 'rill' is not in 'drill', nor '4120' in '99941203'; 'K4410' is in
        'K4410s', and what is Chinese stands beside a word with no space between."""
        pairs = self._text[max(start - 1, 0) : start + 1], self._text[end - 1 : end + 1]
        return not any(len(pair) == 2 and (_ONE_WORD.fullmatch(pair) or pair.isdecimal()) for pair in pairs)


def _each(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _letters_beside(value: str, digits: Sequence[tuple[int, int]]) -> bool:
    """Whether a value has letters that are no digit in words, as a code has."""
    at_digits = {i for start, end in digits for i in range(start, end)}
    return any(sign.isalpha() and i not in at_digits for i, sign in enumerate(value))


def _listed(text: str, context: str, listed: Sequence[tuple[int, int, str]]) -> Iterator[Mention]:
    answer = Folded(text)
    for start, end, kind in listed:
        for place in answer.places(context[start:end]):
            yield Mention(kind, *place, text[slice(*place)])
