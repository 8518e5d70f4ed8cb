"""Values of documents that an answer says too, however it writes them: see `leakmeter.text.matching`.

A document shows better than an answer what a value is, by a label, a title or the words around it. What is a person or
a number there is one in the answer too, also in capitals, in small letters or with hidden characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import regex

from leakmeter.text import matching
from leakmeter.text.entities import date, person, shapes
from leakmeter.text.entities import find as entities
from leakmeter.text.entities.mention import ADDRESS, DATE, PERSON, Mention
from leakmeter.text.escapes import meant

_LEAST_LETTERS: Final = 3
_LEAST_DIGITS: Final = 4
"""Of a value that is a number: shorter ones stand in every text."""
_NAMES: Final = frozenset((PERSON, shapes.NAME_TYPE))
_PARTED = regex.compile(r"\d[^\d\p{L}]*[:;,][^\d\p{L}]*\d")
"""Digits that a time of day or a list keeps apart, and no number does."""
_HIDDEN = regex.compile(f"[{matching.HIDDEN}]")
_GROUP = regex.compile(r"\d+")
_THOUSANDS = regex.compile(r"(?<!\d)\d{1,3}(?:[ .,_'’\u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?(?!\d)")
_LONG: Final = 7
"""Digits of a number that several others beside each other hardly ever make."""


@dataclass(frozen=True, slots=True)
class Known:
    """A value of the documents, in one of its forms."""

    type: str
    text: str
    letters: str
    """As they are compared."""
    by_shape: bool


@lru_cache(maxsize=8)
def known(context: str, region: str) -> tuple[Known, ...]:
    """What recognisers and shapes see in documents, each form once, those of recognisers first."""
    context = meant(context)
    recognised = [
        (entity.type, context[start:end])
        for entity in entities.find(context, [(0, len(context))], region=region, by_shape=False)
        for start, end in entity.mentions
        if entity.type != DATE or (date.is_value(entity.value) and "x" not in entity.value)
    ]
    # A street with its number is an address without its town too.
    streets = [(kind, text.partition(",")[0]) for kind, text in recognised if kind == ADDRESS]
    recognised += [(kind, street) for kind, street in streets if any(map(str.isdigit, street)) and " " in street]
    shaped = [(mention.type, context[mention.start : mention.end]) for mention in shapes.find(context)]
    return _each_once([*((*form, False) for form in recognised), *((*form, True) for form in shaped)])


def _each_once(forms: Sequence[tuple[str, str, bool]]) -> tuple[Known, ...]:
    by_letters: dict[tuple[str, str], Known] = {}
    for kind, text, by_shape in forms:
        letters = matching.folded(text)
        # 'Mr May' makes no name of every May.
        is_telling = kind != PERSON or any(map(person.is_telling, person.words(text)))
        if is_telling and len(letters) >= (_LEAST_DIGITS if letters.isdecimal() else _LEAST_LETTERS):
            by_letters.setdefault((kind, letters), Known(kind, text, letters, by_shape))
    return tuple(by_letters.values())


def find(
    text: str, context: str, region: str, further: Sequence[tuple[int, int, str]] = ()
) -> Iterator[tuple[Mention, bool]]:
    """What an answer says of the documents' values, each with whether only a shape tells what it is; `further` are
    (start, end, type) of values that are known to stand in the context."""
    text, context = meant(text), meant(context)
    answer = matching.Folded(text)
    values = (*_each_once([(kind, context[start:end], False) for start, end, kind in further]), *known(context, region))
    said = [value for value in values if value.letters in answer.letters]
    if not said:
        return
    lowered = person.lowered_words(_without(context, [value.text for value in said if value.type in _NAMES]))
    for value in said:
        for start, end in answer.places(value.text):
            words = text[start:end]
            # A number is not a time of day, nor a name a word of the language or one that documents write small. What a
            # whole text in capitals says may be either, and is a name.
            if value.type in _NAMES:
                is_small = words.islower() and not lowered.isdisjoint(person.words(words))
                is_other = is_small or (not words.isupper() and person.is_ordinary(text, start, end))
            else:
                is_other = value.letters.isdecimal() and _PARTED.search(words) and not _PARTED.search(value.text)
            if not is_other:
                yield Mention(value.type, start, end, value.letters), value.by_shape


def is_one_number(words: str, value: str) -> bool:
    """Whether words that have the digits of a number are that number, and not several beside each other: in one group,
    in the groups of the value or of thousands, or in groups of more than one digit where it is long.

    >>> [is_one_number(words, "4120") for words in ("4120", "4,120", "41 20", "4/1/2/0")]
    [True, True, False, False]
    """
    words, value = _HIDDEN.sub("", words), _HIDDEN.sub("", value)
    groups, digits = _GROUP.findall(words), "".join(_GROUP.findall(value))
    if not groups:
        return True  # in words
    if any(map(str.isalpha, words)):
        return False
    if len(groups) == 1 or _THOUSANDS.fullmatch(words):
        return True
    if _PARTED.search(words) and not _PARTED.search(value):
        return False
    are_long = len(digits) >= max(_LONG, 2 * len(groups))
    return are_long or list(map(len, groups)) == list(map(len, _GROUP.findall(value)))


def _without(context: str, names: Sequence[str]) -> str:
    """The documents without some names, which may stand there in small letters."""
    return regex.sub("|".join(map(regex.escape, sorted(names, key=len, reverse=True))), " ", context) if names else ""
