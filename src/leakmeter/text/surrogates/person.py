"""Surrogates of people's names, word for word: of the same script, shape and kind of name."""

from __future__ import annotations

import functools
import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from leakmeter.text.entities.mention import PERSON
from leakmeter.text.entities.person import normal
from leakmeter.text.surrogates.draw import LOCALES, TRIES, WORD, Draw, cased, faker, locale_of, source, unlike

Gender = Literal["male", "female", "any"]

N_COMMON: Final = 100
"""As many of the most frequent names are common; all others are rare."""
MALE: Final = ("father", "grandfather", "uncle", "husband", "brother", "son")
FEMALE: Final = ("mother", "grandmother", "aunt", "wife", "sister", "daughter")
_WORD: Final = re.compile(WORD)
# A word of a name may hold a hyphen or an apostrophe.
_WORD_OF_NAME: Final = re.compile(r"[^\W\d_](?:[\w'’-]*[\w])?")
_TITLE: Final = re.compile(r"(?i:dr|mr|mrs|ms|miss|prof|sir|jr|sr|ii|iii|iv|phd|md|esq|aunt|uncle|grandma|grandpa)")
_BOTH: Final[tuple[Gender, Gender]] = ("female", "male")
_INITIALS: Final = "ABCDEFGHIJKLMNOPRSTVW"
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


@functools.cache
def given_names(gender: Gender) -> tuple[str, ...]:
    """First names of the United States, the most frequent first."""
    from faker.providers.person.en_US import Provider

    male, female = Provider.first_names_male, Provider.first_names_female
    named = {"male": (male,), "female": (female,), "any": (male, female)}[gender]
    shares: dict[str, float] = {}
    for table in named:
        for name, share in table.items():
            shares[name] = shares.get(name, 0.0) + share
    return tuple(sorted(shares, key=lambda name: (-shares[name], name)))


@functools.cache
def surnames() -> tuple[str, ...]:
    """Surnames of the United States, the most frequent first."""
    from faker.providers.person.en_US import Provider

    shares = {name: share for name, share in Provider.last_names.items() if name.isascii() and name.isalpha()}
    return tuple(sorted(shares, key=lambda name: (-shares[name], name)))


def gender_of(kind: str) -> Gender:
    """'any' where a relation's kind does not say."""
    kind = kind.casefold()
    return "male" if kind in MALE else "female" if kind in FEMALE else "any"


def alike(name: str, ranked: Sequence[str]) -> Sequence[str]:
    """Names as frequent as this one: the common ones for a common one, else the rare ones, as one not ranked is."""
    common = ranked[:N_COMMON]
    return common if name.casefold() in {common_name.casefold() for common_name in common} else ranked[N_COMMON:]


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


def drawers(value: str, name: str, kind: str, region: str) -> Sequence[Draw]:
    """Draws names of as many words: first names of the relation's gender, other surnames. By the first way to draw,
    these are as frequent as the true ones; by the second, common or rare. Words that the other person's name has, such
    as the surname, stay, and no other word becomes one of them: whoever copies the name says them too. Initials become
    initials, titles and particles stay. Where the relation does not say the gender, the first name does. Names in other
    than Latin letters are drawn by Faker, in their script."""
    own = frozenset(word.casefold() for word in _WORD.findall(name))
    if not value.isascii() and not any(char.isascii() and char.isalpha() for char in value):
        return [lambda drawn: _in_its_script(value, own, region, drawn)]
    matches = [match for match in _WORD.finditer(value) if not _TITLE.fullmatch(match.group())]
    has_capitals = value != value.lower()
    varied = [
        match
        for match in matches
        if match.group().casefold() not in own and not (has_capitals and match.group().islower())
    ]
    gender = _gender(kind, [match.group() for match in matches])
    # The last of several words is a surname.
    ranked = [surnames() if match is matches[-1] and len(matches) > 1 else given_names(gender) for match in varied]
    near = [alike(match.group(), names) for match, names in zip(varied, ranked, strict=True)]

    def drawer(pools: Sequence[Sequence[str]]) -> Draw:
        free = [
            _INITIALS if len(match.group()) == 1 else [name for name in pool if name.casefold() not in own]
            for match, pool in zip(varied, pools, strict=True)
        ]

        def draw(drawn: random.Random) -> str:
            out, cursor = "", 0
            for match, names in zip(varied, free, strict=True):
                out += value[cursor : match.start()] + cased(drawn.choice(names), match.group())
                cursor = match.end()
            return out + value[cursor:]

        return draw

    return drawer(near), drawer(ranked)


def renamed(text: str, name: str, other: str) -> str:
    """A text in which the words of a name have become those at the same place of another name."""
    pairs = zip(_WORD.findall(name), _WORD.findall(other), strict=False)
    replacements = {word.casefold(): new for word, new in pairs}
    return _WORD.sub(lambda match: replacements.get(match.group().casefold(), match.group()), text)


def _gender(kind: str, words: Sequence[str]) -> Gender:
    if gender_of(kind) != "any":
        return gender_of(kind)
    women, men = ({name.casefold() for name in given_names(gender)} for gender in _BOTH)
    for word in map(str.casefold, words):
        if word in women | men:
            return "any" if word in women & men else "female" if word in women else "male"
    return "any"


def _in_its_script(value: str, own: frozenset[str], region: str, drawn: random.Random) -> str:
    key = " ".join(value.casefold().split())
    of_value = source(drawn.getrandbits(32), "null", PERSON, key, (0, len(value)))
    texts = (value, value)
    new = unlike(texts, value, lambda inner: in_mentions(texts, key, region, inner), of_value)[-1]
    words, old = new.split(), value.split()
    if len(words) != len(old):
        return new
    return " ".join(was if was.casefold() in own else word for was, word in zip(old, words, strict=True))


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
    own = locale_of(region, LOCALES)
    return "en_US" if own in ("ja_JP", "zh_CN", "ko_KR") else own
