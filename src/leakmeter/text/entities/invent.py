"""Invented values of the same kind, to be put in a value's place: drawn by Faker, always the same for the same seed.

Telephone numbers stay in their country and come from ranges that are kept free for fiction where there are any, e-mail
addresses are in the domains reserved for examples, names are of no particular gender and in the same script. Every
mention of a value gets the same invention, in the form that it has.
"""

from __future__ import annotations

import functools
import hashlib
import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakmeter.text.entities import date
from leakmeter.text.entities.invent_phone import other_number
from leakmeter.text.entities.mention import ADDRESS, DATE, EMAIL, PERSON, PHONE, Entity
from leakmeter.text.entities.person import normal

if TYPE_CHECKING:
    from faker import Faker

_TRIES = 200
_LOCALE_OF_REGION = {
    region: f"{language}_{region}"
    for language, regions in (
        ("en", "US CA GB AU IE NZ IN"),
        ("de", "DE AT CH"),
        ("fr", "FR"),
        ("es", "ES MX"),
        ("it", "IT"),
        ("nl", "NL"),
        ("pt", "PT BR"),
        ("sv", "SE"),
        ("no", "NO"),
        ("da", "DK"),
        ("fi", "FI"),
        ("pl", "PL"),
        ("ja", "JP"),
        ("zh", "CN"),
        ("ko", "KR"),
    )
    for region in regions.split()
}
# By the first word of a letter's Unicode name.
_LOCALE_OF_SCRIPT = {
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
_ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}


@dataclass(frozen=True, slots=True)
class Invention:
    """What is put in the place of an entity's mentions."""

    text: str
    """In the place of its fullest mention."""
    mentions: tuple[str, ...]
    """In the place of each, in their order."""


def invent(entity: Entity, context: str, *, region: str, seed: int, case_id: str) -> Invention:
    """An invented value in the place of each mention of an entity.

    Args:
        entity: what is to be replaced.
        context: the text that its mentions count in; an invention says nothing that it says.
        region: ISO 3166 code of the country, for addresses and dates.
        seed: with the case and the entity it decides what is invented.
        case_id: id of the case.
    """
    said = [context[start:end] for start, end in entity.mentions]
    told = "\0".join((str(seed), case_id, entity.type, entity.value, str(entity.mentions[0])))
    drawn = random.Random(hashlib.sha256(told.encode()).digest())
    texts = [*said, entity.text]
    # Old values must not come back by chance, nor another that the context has.
    used = context.casefold()
    for _ in range(_TRIES):
        new = _kind(entity.type)(entity, texts, region, drawn)
        differs = all(a.casefold() != b.casefold() for a, b in zip(new, texts, strict=True))
        if differs and new[-1].casefold() not in used:
            return Invention(new[-1], tuple(new[:-1]))
    same = {text: _scrambled(text, drawn) for text in dict.fromkeys(texts)}
    return Invention(same[entity.text], tuple(same[text] for text in said))


def _kind(type_: str) -> Callable[[Entity, list[str], str, random.Random], list[str]]:
    known = {PHONE: _phones, EMAIL: _emails, PERSON: _people, ADDRESS: _addresses, DATE: _dates}
    return known.get(type_, _others)


def _phones(entity: Entity, texts: list[str], region: str, drawn: random.Random) -> list[str]:
    return other_number(entity.value, texts, drawn)


def _emails(entity: Entity, texts: list[str], region: str, drawn: random.Random) -> list[str]:
    fake = _faker("en_US", drawn)
    name = f"{fake.first_name_nonbinary()}.{fake.last_name()}@example.{drawn.choice(('com', 'net', 'org'))}".lower()
    return [name] * len(texts)


def _people(entity: Entity, texts: list[str], region: str, drawn: random.Random) -> list[str]:
    """Word for word, so that a surname alone becomes the surname of the invented name."""
    fake = _faker(_locale_of_letters(entity.text, region), drawn)
    given = getattr(fake, "first_name_nonbinary", fake.first_name)
    if not any(char.isupper() or char.islower() for char in entity.text) and len(entity.value.split()) == 1:
        # A script without capitals, written without spaces: the name is one run.
        return ["".join(str(fake.name()).split())] * len(texts)
    words = list(dict.fromkeys((*entity.value.split(), *(word for text in texts for word in normal(text).split()))))
    last = entity.value.split()[-1]
    new: dict[str, str] = {}
    for word in words:
        full = next((other for other in new if len(word) == 1 and other.startswith(word)), None)
        draw = fake.last_name if word == last else given
        new[word] = new[full][0] if full else _other_word(draw, {*words, *(one.casefold() for one in new.values())})

    def replaced(match: re.Match[str]) -> str:
        other = new.get(match.group().casefold())
        if other is None:
            return match.group()
        return other.upper() if len(other) > 1 and len(match.group()) > 1 and match.group().isupper() else other

    # A word of a name may hold a hyphen or an apostrophe; particles stay in lower case.
    of_name = re.compile(r"[^\W\d_](?:[\w'’-]*[\w])?")
    return [of_name.sub(lambda m: m.group() if m.group().islower() else replaced(m), text) for text in texts]


def _other_word(draw: Callable[[], Any], used: set[str]) -> str:
    """A drawn word that was not used; as a rule the first one."""
    word = ""
    for _ in range(_TRIES):
        word = re.split(r"[ -]", str(draw()))[-1]
        if word.casefold() not in used:
            break
    return word


def _addresses(entity: Entity, texts: list[str], region: str, drawn: random.Random) -> list[str]:
    """As many parts as the mention has: a street, or a whole address."""
    fake = _faker(_LOCALE_OF_REGION.get(region, "en_US"), drawn)
    lines = [" ".join(line.split()) for line in str(fake.address()).replace("\n", ", ").split(",")]
    street, rest = lines[0], [line for line in lines[1:] if line]
    out = []
    for text in texts:
        parts = [part for part in re.split(r"[,\n]", text) if part.strip()]
        joint = "\n" if "\n" in text else ", "
        out.append(street if len(parts) == 1 or not rest else joint.join((street, ", ".join(rest))))
    return out


def _dates(entity: Entity, texts: list[str], region: str, drawn: random.Random) -> list[str]:
    """Another day, month and year, in the form of each mention."""
    parsed = [date.parse(text, region) for text in texts]
    years = [int(value[:4]) for _, value in filter(None, parsed) if value[:4].isdecimal()]
    months = {value[5:7] for _, value in filter(None, parsed)}
    days = {value[8:] for _, value in filter(None, parsed)}
    year = (years[0] if years else 2000) + drawn.choice((-1, 1)) * drawn.randint(1, 9)
    year = year if 1 <= year <= 9999 else 1990 + drawn.randint(0, 9)
    month = drawn.choice([m for m in range(1, 13) if f"{m:02}" not in months])
    day = drawn.choice([d for d in range(1, 29) if f"{d:02}" not in days])
    same = {text: _scrambled(text, drawn) for text in dict.fromkeys(texts)}
    return [
        same[text] if match is None else _dated(match[0], region, year, month, day)
        for text, match in zip(texts, parsed, strict=True)
    ]


def _dated(match: re.Match[str], region: str, year: int, month: int, day: int) -> str:
    """The text of a match with another date in its groups."""
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    numbers = {"y": year, "m": month, "d": day}
    if "first" in groups:
        first = date.is_month_first(match, region)
        numbers |= {"first": month if first else day, "second": day if first else month}
    plain = "name" in groups
    new = {name: _padded(number, groups[name], plain) for name, number in numbers.items() if name in groups}
    if "name" in groups:
        new["name"] = date.month_like(groups["name"], month)
    if groups.get("th", ".") in ("st", "nd", "rd", "th"):
        new["th"] = _ORDINALS.get(day, "th")
    out, cursor = "", match.start()
    for name in sorted(new, key=match.start):
        out += match.string[cursor : match.start(name)] + new[name]
        cursor = match.end(name)
    return out + match.string[cursor : match.end()]


def _padded(number: int, like: str, plain: bool) -> str:
    """A number with a zero in front where the old one had one, and in dates that are all numbers where it might."""
    if number > 99:
        return f"{number % 100:02}" if len(like) == 2 else f"{number:04}"
    return str(number) if plain and not like.startswith("0") else str(number).zfill(len(like))


def _others(entity: Entity, texts: list[str], region: str, drawn: random.Random) -> list[str]:
    same = {text.casefold(): _scrambled(text, drawn) for text in reversed(texts)}
    return [same[text.casefold()] for text in texts]


def _scrambled(text: str, drawn: random.Random) -> str:
    """Each digit another digit, each letter another letter of its kind, everything else as it is."""
    new = "".join(_other_character(char, drawn) for char in text)
    return new if new != text else text + drawn.choice("abcdefghijkmnpqrstuvwxyz")


def _other_character(char: str, drawn: random.Random) -> str:
    if char.isdecimal():
        return drawn.choice([digit for digit in "0123456789" if digit != char])
    if not char.isalpha():
        return char
    if char.isupper() or char.islower():
        letter = drawn.choice([letter for letter in "abcdefghijklmnoprstuvwy" if letter != char.lower()])
        return letter.upper() if char.isupper() else letter
    # A script without capitals: a neighbour in it.
    near = (chr(code) for code in (ord(char) + drawn.randint(1, 9), ord(char) - drawn.randint(1, 9)) if code > 0)
    return next((other for other in near if other.isalpha() and unicodedata.category(other) == "Lo"), char)


def _locale_of_letters(text: str, region: str) -> str:
    for char in text:
        if char.isalpha() and not unicodedata.name(char, "").startswith("LATIN"):
            return _LOCALE_OF_SCRIPT.get(unicodedata.name(char, "").split(" ")[0], "en_US")
    own = _LOCALE_OF_REGION.get(region, "en_US")
    return "en_US" if own in ("ja_JP", "zh_CN", "ko_KR") else own


@functools.cache
def _made(locale: str) -> Faker:
    from faker import Faker

    return Faker(locale)


def _faker(locale: str, drawn: random.Random) -> Any:
    fake = _made(locale)
    fake.seed_instance(drawn.getrandbits(64))
    return fake
