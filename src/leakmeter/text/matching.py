"""One value in several spellings: texts as their letters and digits, however they are cased, accented or spaced.

Every comparison of an answer's words with values of documents, lists or names goes by these letters, and every place
that is found is one of the text as it was given. What makes no difference:

- case, accents, and strokes as in 'ø' and 'ł'; marks that are letters of their own, such as Indic vowels, do count;
- the width and the script of digits: '５', '٥' and '5';
- white space, hyphens and all other punctuation;
- characters that nobody sees: of zero width, soft hyphens, marks of direction, variation selectors;
- escapes in strings of JSON: '\\u00e9' is 'é', and '\\n' a line break.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import pairwise
from typing import Final

import regex

from leakmeter.text.entities import transliterated
from leakmeter.text.entities.shapes import digits_of
from leakmeter.text.escapes import FILL
from leakmeter.text.folding import CASED, LONG_VOWEL, unescaped

HIDDEN: Final = rf"\p{{Default_Ignorable_Code_Point}}{FILL}"
"""Characters that show nothing; for a character class of the `regex` library."""
_HIDDEN = regex.compile(f"[{HIDDEN}]")
_BESIDE = regex.compile(rf"[{HIDDEN}\p{{M}}]")
"""What stands between two letters and parts no word."""
_WORD = regex.compile(rf"[\p{{L}}\p{{M}}\p{{N}}{HIDDEN}]+")
_SIGNS = regex.compile(r"[^a-z0-9]+")
_NO_LETTER = regex.compile(r"[\u02b9-\u02ff\u0640]")
"""Apostrophes and strokes that Unicode calls letters."""
_STROKES: Final = str.maketrans(
    {
        **dict(zip("øłđħŧıðɨʉə", "oldhtidiue", strict=True)),
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ŋ": "n",
    }
)
"""Letters that Unicode does not take apart."""
_MARKS_OF_LETTERS: Final = frozenset((0, 7, 8, 9))
"""Combining classes of marks that make another letter: vowel signs, nukta, kana voicing, virama."""
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
"""Scripts whose words stand without spaces between them."""
_CASED = regex.compile(rf"[{CASED}]")
_HANGUL = regex.compile(r"\p{Hangul}")


@cache
def _letters_of(sign: str) -> str:
    if _HIDDEN.match(sign):
        return ""
    letters = unicodedata.normalize("NFKD", sign).casefold().translate(_STROKES)
    # Some letters fall apart only in lower case.
    return "".join(map(_kept, unicodedata.normalize("NFKD", letters)))


def _kept(sign: str) -> str:
    if sign.isdecimal():
        return str(unicodedata.decimal(sign))
    if unicodedata.category(sign) in ("Mn", "Mc"):
        return sign if unicodedata.combining(sign) in _MARKS_OF_LETTERS and not _HIDDEN.match(sign) else ""
    return sign if sign.isalnum() and not _NO_LETTER.match(sign) else ""


def folded(text: str) -> str:
    """The letters and digits of a text, in lower case and without accents."""
    if text.isascii():
        return str(_SIGNS.sub("", text.lower()))
    return "".join(map(_letters_of, LONG_VOWEL.sub("-", text)))


def words(text: str) -> list[tuple[str, int, int]]:
    """Words of a text, each folded, with its characters [start, end); hidden characters part no words."""
    read = unescaped(text)
    found = ((folded(match.group()), *read.place(*match.span())) for match in _WORD.finditer(read.text))
    return [word for word in found if word[0]]


class Folded:
    """A text as its letters and digits, and where each stands."""

    def __init__(self, text: str) -> None:
        self._read = unescaped(text)
        self._text = self._read.text
        self.letters: str = folded(self._text)

    # Most texts do not have most values.
    @cached_property
    def _places(self) -> list[int]:
        if self._text.isascii():
            return [i for i, sign in enumerate(self._text) if sign.isalnum()]
        signs = LONG_VOWEL.sub("-", self._text)  # one sign for one
        return [i for i, sign in enumerate(signs) for _ in _letters_of(sign)]

    @cached_property
    def _digits(self) -> tuple[str, list[tuple[int, int]]]:
        return digits_of(self._text)

    def where(self, value: str) -> tuple[int, int] | None:
        """First characters that have a value, in words too; None where none do."""
        return next(self.places(value, in_words=True), None)

    def places(self, value: str, *, in_words: bool = False) -> Iterator[tuple[int, int]]:
        """Characters that have a value, however it is spaced, punctuated, cased or accented, but as a part of no longer
        word. Where there are none, with `in_words`, those of the same name in another script, and of the same number,
        of four digits or more, in figures or words."""
        return (self._read.place(*place) for place in self._found(value, in_words=in_words))

    def place(self, first: int, last: int) -> tuple[int, int]:
        """Characters of letters [first, last)."""
        return self._read.place(self._places[first], self._places[last - 1] + 1)

    def _found(self, value: str, *, in_words: bool) -> Iterator[tuple[int, int]]:
        wanted = Folded(value)
        if not wanted.letters:
            return
        has_any = False
        for at in _each(self.letters, wanted.letters):
            place = self._place(value, at, at + len(wanted.letters))
            if place is not None:
                has_any = True
                yield place
        if has_any or not in_words:
            return
        yield from transliterated.places(self._text, wanted._text)
        digits, parts = wanted._digits
        if len(digits) < 4 or _letters_beside(wanted._text, parts):
            return
        for at in _each(self._digits[0], digits):
            run = self._digits[1][at : at + len(digits)]
            is_close = all(after - end <= 3 for (_, end), (after, _) in pairwise(run))
            if is_close and self._is_whole(run[0][0], run[-1][1]):
                yield run[0][0], run[-1][1]

    def _place(self, value: str, first: int, last: int) -> tuple[int, int] | None:
        """Characters of letters [first, last), which are a value's, with their accents; None where a word, or a
        character, goes on."""
        places = self._places
        start, end = places[first], places[last - 1] + 1
        goes_on = last < len(places) and (places[last] < end or unicodedata.category(self.letters[last])[0] == "M")
        if goes_on or (first and places[first - 1] == start):
            return None
        while end < len(self._text) and unicodedata.category(self._text[end]) in ("Mn", "Me"):
            end += 1
        return (start, end) if self._is_whole(start, end) and self._is_of(value, start, end) else None

    def _is_of(self, value: str, start: int, end: int) -> bool:
        """Whether words are taken apart only into what may be words: 'in e-mail' does not say 'Ine'."""
        parts = [word for word, _, _ in words(self._text[start:end])]
        return min(map(len, parts)) > 2 or len(parts) <= len(words(value)) or any(map(str.isdigit, "".join(parts)))

    def _is_whole(self, start: int, end: int) -> bool:
        """Whether no word and no number goes on: 'rill' is not in 'drill', nor '4120' in '99941203'; 'K4410' is in
        'K4410s'."""
        text = self._text
        before, last = start - 1, end - 1
        while before >= 0 and _BESIDE.match(text[before]):
            before -= 1
        while last > start and _BESIDE.match(text[last]):
            last -= 1
        while end < len(text) and _BESIDE.match(text[end]):
            end += 1
        return not (
            (before >= 0 and _goes_on(text[before], text[start]))
            or (end < len(text) and _goes_on(text[last], text[end]))
        )


def _goes_on(sign: str, following: str) -> bool:
    """Whether two characters side by side are of one word or number."""
    if sign.isdecimal() and following.isdecimal():
        return True
    if not (sign.isalpha() and following.isalpha()) or _UNSPACED.match(sign) or _UNSPACED.match(following):
        return False
    # Latin values stand beside Arabic and Hebrew letters too.
    if bool(_CASED.match(sign)) != bool(_CASED.match(following)):
        return False
    # Korean words take endings.
    return not (_HANGUL.match(sign) and _HANGUL.match(following))


def _each(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _letters_beside(value: str, digits: list[tuple[int, int]]) -> bool:
    """Whether a value has letters that are no digit in words, as a code has."""
    at_digits = {i for start, end in digits for i in range(start, end)}
    return any(sign.isalpha() and i not in at_digits for i, sign in enumerate(value))
