"""Surrogates of people's names, word for word: of the same script, shape and kind of name."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import regex

from leakmeter.text.entities.person import normal
from leakmeter.text.folding import unaccented
from leakmeter.text.surrogates.draw import LOCALES as FAKER_LOCALES
from leakmeter.text.surrogates.draw import TRIES, SurrogateDraw, cased, faker, locale_of
from leakmeter.text.surrogates.origins import (
    LOCALES,
    UNITED_STATES,
    Gender,
    all_known,
    is_given,
    is_last,
    names_of,
    near,
    origin_of,
)

N_COMMON: Final = 100
"""As many of the most frequent names are common; all others are rare."""
MALE: Final = ("father", "grandfather", "uncle", "husband", "brother", "son")
FEMALE: Final = ("mother", "grandmother", "aunt", "wife", "sister", "daughter")
_WORD: Final = regex.compile(r"\p{L}[\p{L}\p{M}]*(?:['’]\p{L}[\p{L}\p{M}]*)*")
# A word of a name may hold a hyphen or an apostrophe.
_WORD_OF_NAME: Final = re.compile(r"[^\W\d_](?:[\w'’-]*[\w])?")
_TITLE: Final = re.compile(r"(?i:dr|mr|mrs|ms|miss|prof|sir|jr|sr|ii|iii|iv|phd|md|esq|aunt|uncle|grandma|grandpa)")
# What stands before a surname, with a hyphen: 'Al-Rashid', 'Ben-David'.
_PARTICLE: Final = re.compile(r"(?i:al|el|ul|as|ash|at|bar|bat|ben|bin|bint|ibn|abu|abou)-")
_BOTH: Final[tuple[Gender, Gender]] = ("female", "male")
_FEW: Final = 30  # first names of a length
_LEAST_ALIKE: Final = 3  # letters of a surname that begin its other forms
_INITIALS: Final = "ABCDEFGHIJKLMNOPRSTVW"
_OF_SYLLABLES: Final = ("zh_Latn_CN", "ko_Latn_KR")
_END_OF_GENDER: Final = {"ru_Latn_RU": "a", "el_Latn_GR": "s"}
# By the first word of a letter's Unicode name.
_LOCALE_OF_SCRIPT: Final = {
    "CJK": "zh_CN",
    "HIRAGANA": "ja_JP",
    "KATAKANA": "ja_JP",
    "HANGUL": "ko_KR",
    "CYRILLIC": "ru_RU",
    "GREEK": "el_GR",
    "HEBREW": "he_IL",
    "ARABIC": "ar_AA",
    "DEVANAGARI": "hi_IN",
    "THAI": "th_TH",
}


def given_names(gender: Gender, locale: str = UNITED_STATES) -> tuple[str, ...]:
    """First names of a locale, the most frequent first where that is known, as it is of the United States."""
    return names_of(locale).given(gender)


def surnames(locale: str = UNITED_STATES) -> tuple[str, ...]:
    """Surnames of a locale, in the same order."""
    return names_of(locale).surnames


def gender_of(kind: str) -> Gender:
    """'any' where a relation's kind does not say."""
    kind = kind.casefold()
    return "male" if kind in MALE else "female" if kind in FEMALE else "any"


def alike(name: str, ranked: Sequence[str]) -> Sequence[str]:
    """Names as frequent as this one: the common ones for a common one, else the rare ones, as one not ranked is; all
    where no more are ranked than are common."""
    common, rare = ranked[:N_COMMON], ranked[N_COMMON:]
    return rare if rare and name.casefold() not in {common_name.casefold() for common_name in common} else common


def in_mentions(texts: Sequence[str], value: str, region: str, drawn: random.Random) -> list[str]:
    """One other name in the form of each text: a surname alone becomes the surname of the other name. The fullest text
    is last; `value` is its words in lower case, given names first."""
    text, name_words = texts[-1], value.split()
    fake = faker(_locale_of_letters(text, region), drawn)
    draw_first = getattr(fake, "first_name_nonbinary", fake.first_name)
    if not any(char.isupper() or char.islower() for char in text) and len(name_words) == 1:
        # A script without capitals, written without spaces: the name is one run.
        return ["".join(str(fake.name()).split())] * len(texts)
    words = list(dict.fromkeys((*name_words, *(word for text in texts for word in normal(text).split()))))
    new: dict[str, str] = {}
    for word in words:
        full = next((other for other in new if len(word) == 1 and other.startswith(word)), None)
        draw = fake.last_name if word == name_words[-1] else draw_first
        new[word] = (
            new[full][0] if full else _other_word(draw, {*words, *(new_word.casefold() for new_word in new.values())})
        )

    def replaced(match: re.Match[str]) -> str:
        # Particles stay in lower case.
        word = match.group()
        return word if word.islower() or word.casefold() not in new else cased(new[word.casefold()], word)

    return [_WORD_OF_NAME.sub(replaced, text) for text in texts]


def drawers(value: str, name: str, kind: str, region: str) -> Sequence[SurrogateDraw]:
    """Draws names of as many words, from where the true one is from: first names of the relation's gender, other
    surnames. By the first way to draw, these are as frequent as the true ones where tables say so; by the second, any;
    by the third, of any country of the language. Words that the other person's name has, such as the surname, stay, in
    another form too (Kowalska and Kowalski), and no other word becomes one of them: whoever copies the name says them
    too. Initials become initials, titles and particles stay. Where the relation does not say the gender, the first name
    does."""
    own = frozenset(map(unaccented, _words(name)))
    if not any(char.isupper() or char.islower() for char in value) and len(value.split()) == 1:
        return [_unspaced(value, name, kind, region)]
    parts = _parts_of(value, name, region)
    matches, varied, locale = parts.words, parts.varied, parts.locale
    gender = _gender(kind, [match.group() for match in matches], locale)

    def is_surname(match: regex.Match[str]) -> bool:
        given, last = is_given(match.group(), locale), is_last(match.group(), locale)
        return len(matches) > 1 and (match is matches[-1] if given == last else last)

    def pools(of: str) -> list[Sequence[str]]:
        return [
            surnames_like(match.group(), surnames(of), of) if is_surname(match) else given_names(gender, of)
            for match in varied
        ]

    first = pools(locale)
    alike_first = first
    if names_of(locale).is_ranked:
        alike_first = [alike(match.group(), names) for match, names in zip(varied, first, strict=True)]
    every = [
        list(dict.fromkeys(name for names in some for name in names))
        for some in zip(*(pools(other) for other in near(locale)), strict=True)
    ]

    def drawer(pools: Sequence[Sequence[str]]) -> SurrogateDraw:
        # Words with a hyphen are two here.
        free = [
            _INITIALS
            if len(match.group()) == 1 and match.group().isupper()
            else [name for name in pool if unaccented(name) not in own and "-" not in name]
            for match, pool in zip(varied, pools, strict=True)
        ]

        def draw(drawn: random.Random) -> str:
            out, cursor = "", 0
            for match, names in zip(varied, free, strict=True):
                out += value[cursor : match.start()] + cased(drawn.choice(names), match.group())
                cursor = match.end()
            return out + value[cursor:]

        return draw

    return drawer(alike_first), drawer(first), drawer(every)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The words of a name, without titles."""

    words: Sequence[regex.Match[str]]
    varied: Sequence[regex.Match[str]]
    """Those that are not the other person's too, in any form, and no particles."""
    locale: str
    """Where they are from, by them and by the other person's name."""


def _parts_of(value: str, name: str, region: str) -> _Parts:
    own = frozenset(map(unaccented, _words(name)))
    matches = [match for match in _WORD.finditer(value) if not _TITLE.fullmatch(match.group())]
    has_capitals = value != value.lower()
    surname = next(reversed(_words(name)), "")
    telling = [
        match
        for match in matches
        if unaccented(match.group()) not in own
        and not (has_capitals and match.group().islower())
        and not _PARTICLE.match(value, match.start())
    ]
    varied = [
        match
        for match in telling
        if not (len(matches) > 1 and match is matches[-1] and _is_form_of(match.group(), surname))
    ]
    locale = origin_of([match.group() for match in telling], _words(name), region)
    return _Parts(matches, varied, locale)


def has_known_origin(value: str, name: str, region: str) -> bool:
    """Whether tables of one place have all words of a value that others are drawn for, and one of the person's name or
    more. If not, what is drawn may be from anywhere else, and be unlike the value for that alone.

    A name in a script without spaces is known by its letters.
    """
    if not any(char.isupper() or char.islower() for char in value) and len(value.split()) == 1:
        return True
    parts = _parts_of(value, name, region)
    varied = [match.group() for match in parts.varied]
    if not all_known(varied, parts.locale) or any(_is_syllable(value, match, parts.locale) for match in parts.varied):
        return False
    own = [word for word in _words(name) if not _TITLE.fullmatch(word)]
    return not own or any(all_known([word], parts.locale) for word in own)


def _is_syllable(value: str, match: regex.Match[str], locale: str) -> bool:
    """Whether a word is a part of a given name with hyphens, as in 'Min-ho' and 'Chih-Ming', whose other forms no table
    has."""
    before, after = value[: match.start()], value[match.end() :]
    return locale in _OF_SYLLABLES and (before.endswith("-") or after.startswith("-"))


def renamed(text: str, name: str, other: str) -> str:
    """A text in which the words of a name have become those at the same place of another name."""
    pairs = zip(_WORD.findall(name), _WORD.findall(other), strict=False)
    replacements = {word.casefold(): new for word, new in pairs}
    return str(_WORD.sub(lambda match: replacements.get(match.group().casefold(), match.group()), text))


def _words(text: str) -> list[str]:
    return [str(match.group()) for match in _WORD.finditer(text)]


def _is_form_of(word: str, surname: str) -> bool:
    """Whether a surname is another's form, of the other gender or of a father's name: Kowalski of Kowalska. What
    stands behind the same beginning says nothing that the other does not."""
    one, other = unaccented(word), unaccented(surname)
    n = next(
        (i for i, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) > 1), min(len(one), len(other))
    )
    return n >= _LEAST_ALIKE and len(one) - n <= 2 and (len(other) - n <= 2 or n == len(one))


def surnames_like(word: str, names: Sequence[str], locale: str) -> Sequence[str]:
    """Surnames of the gender that this one has by its end, where a language gives them one."""
    end = _END_OF_GENDER.get(locale)
    if end is None:
        return names
    return [name for name in names if name.casefold().endswith(end) == word.casefold().endswith(end)]


def _gender(kind: str, words: Sequence[str], locale: str) -> Gender:
    if gender_of(kind) != "any":
        return gender_of(kind)
    women, men = ({unaccented(name) for name in given_names(gender, locale)} for gender in _BOTH)
    for word in map(unaccented, words):
        if word in women | men:
            return "any" if word in women & men else "female" if word in women else "male"
    return "any"


def _unspaced(value: str, name: str, kind: str, region: str) -> SurrogateDraw:
    """Draws names of a script that writes them as one run, the surname first; one that the other person has stays."""
    start = _surname_of(value, region)
    locale = origin_of((value[: len(start)],), (name[: len(start)],), region)
    names = given_names(_gender(kind, [value[len(start) :]], locale), locale)
    n_left = len(value) - len(start)
    given = [first for first in names if len(first) == n_left]
    letters = sorted({letter for first in names for letter in first})
    last = [start] if start and name.startswith(start) else list(surnames(locale))

    def draw(drawn: random.Random) -> str:
        # Of few names of a length, others are made of what names are made of.
        first = drawn.choice(given) if len(given) >= _FEW else "".join(drawn.choice(letters) for _ in range(n_left))
        return drawn.choice(last) + first

    return draw


def _surname_of(value: str, region: str) -> str:
    """The longest surname that a name written as one run begins with; its first character where none is known."""
    known = {surname for locale in LOCALES for surname in surnames(locale) if value.startswith(surname)}
    return max((surname for surname in known if len(surname) < len(value)), key=len, default=value[:1])


def _other_word(draw: Callable[[], Any], used: set[str]) -> str:
    """A drawn word that was not used; as a rule the first one."""
    word = ""
    for _ in range(TRIES):
        word = re.split(r"[ -]", str(draw()))[-1]
        if word.casefold() not in used:
            break
    return word


def _locale_of_letters(text: str, region: str) -> str:
    for char in text:
        if char.isalpha() and not unicodedata.name(char, "").startswith("LATIN"):
            return _LOCALE_OF_SCRIPT.get(unicodedata.name(char, "").split(" ")[0], "en_US")
    own = locale_of(region, FAKER_LOCALES)
    return "en_US" if own in ("ja_JP", "zh_CN", "ko_KR") else own
