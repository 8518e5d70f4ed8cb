"""Nulls of a postal address: another street and number of the same form in the same town."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import Any

from leakmeter.samples.words import STREETS

Draw = Callable[[random.Random], str]

_ENGLISH = ("US", "CA", "GB", "IE", "AU", "NZ")
_NUMBER = re.compile(r"\d+")
_ORDINAL = re.compile(r"(\d+)(st|nd|rd|th)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_KEPT = re.compile(r"(?i:of|the|de|la|del|los|las|el|san|santa|st|saint|old|new|north|south|east|west|mount|mt)")
_FIRST_LETTERS = "ABCDEFGH"
_LABELS_OF_NUMBERS = ("AddressNumber", "USPSBoxID", "USPSBoxGroupID")
_FLAT = "OccupancyIdentifier"
_FLATS = re.compile(r"(?i:apt|apartment|unit|suite|ste|flat|room|rm|floor|fl|lot|no|#|office|trailer|trlr|bldg)")


def drawer(value: str, name: str, region: str) -> Draw:
    """Draws addresses that differ in the number, the street's name, the flat or the box.

    `usaddress` says which words these are, in countries that write as the United States do; numbers keep their length,
    names the number of words, and what kind of street it is stays. Elsewhere numbers and the street's name, as Faker
    invents one, are drawn in what stands before the first comma.

    Args:
        value: an address in one line.
        name: of whom it is; words of it in a street stay, since whoever copies the name says them too.
        region: ISO 3166 code of the country.
    """
    if region in _ENGLISH:
        parts = _parts(value)
        if any(label for _, label in parts):
            own = frozenset(word.casefold() for word in _WORD.findall(name))
            return lambda drawn: "".join(_other(text, label, own, drawn) for text, label in parts)
    return lambda drawn: _elsewhere(value, region, drawn)


def place_of(value: str, region: str) -> str:
    """The end of an address from its town on; empty where none is found.

    Args:
        value: an address in one line.
        region: ISO 3166 code of the country.
    """
    if region in _ENGLISH:
        import usaddress

        cursor = 0
        for token, label in usaddress.parse(value):
            start = value.find(token, cursor)
            if start < 0:
                break
            if label == "PlaceName":
                return value[start:].strip()
            cursor = start + len(token)
    return value.partition(",")[2].strip()


def _parts(value: str) -> list[tuple[str, str]]:
    """The text in pieces, each with what it is where it may vary, else an empty label."""
    import usaddress

    pieces: list[tuple[str, str]] = []
    cursor, in_street, is_flat = 0, True, False
    for token, label in usaddress.parse(value):
        start = value.find(token, cursor)
        if start < 0:
            # The library changed the token: nothing is known of what follows.
            break
        # Without 'Apt' or '#' before it, what is read as a flat may be a postal code.
        is_flat = (is_flat or token.startswith("#")) if label == _FLAT else bool(_FLATS.fullmatch(token.strip(".,")))
        varies = label in _LABELS_OF_NUMBERS or (label == "StreetName" and in_street) or (label == _FLAT and is_flat)
        pieces += [(value[cursor:start], ""), (token, label if varies else "")]
        cursor = start + len(token)
        # 'Suite 4, 12 Oak Street': a flat may come first.
        in_street = in_street and not (token.endswith(",") and label != _FLAT)
    return [*pieces, (value[cursor:], "")]


def _other(text: str, label: str, own: frozenset[str], drawn: random.Random) -> str:
    if not label:
        return text
    if label != "StreetName":
        return _lettered(_numbered(text, drawn), drawn) if label == _FLAT else _numbered(text, drawn)
    ordinal = _ORDINAL.search(text)
    if ordinal:
        number = _number_like(ordinal[1], drawn)
        ending = _ending(int(number)).upper() if ordinal[2].isupper() else _ending(int(number))
        return f"{text[: ordinal.start()]}{number}{ending}{text[ordinal.end() :]}"
    return _WORD.sub(lambda match: _street_like(match.group(), own, drawn), _numbered(text, drawn))


def _street_like(word: str, own: frozenset[str], drawn: random.Random) -> str:
    if _KEPT.fullmatch(word) or word.casefold() in own:
        return word
    if len(word) == 1:
        return _lettered(word, drawn)
    other = ""
    while not other or other.casefold() in own:
        other = drawn.choice(STREETS)
    return other.upper() if word.isupper() else other.lower() if word.islower() else other


def _numbered(text: str, drawn: random.Random) -> str:
    return _NUMBER.sub(lambda match: _number_like(match.group(), drawn), text)


def _number_like(digits: str, drawn: random.Random) -> str:
    """As many digits, the first a 0 only where it is one."""
    first = digits[0] if int(digits[0]) == 0 else drawn.choice("123456789")
    return first + "".join(drawn.choice("0123456789") for _ in digits[1:])


def _lettered(text: str, drawn: random.Random) -> str:
    """A letter that stands alone becomes another: one of the first where it is one, as those of flats are."""

    def other(match: re.Match[str]) -> str:
        letter = match.group()
        among = _FIRST_LETTERS if letter.upper() in _FIRST_LETTERS else "IJKLMNOPRSTUVW"
        new = drawn.choice(among)
        return new.lower() if letter.islower() else new

    return re.sub(r"(?<![^\W\d_])[A-Za-z](?![^\W\d_])", other, text)


def _ending(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _elsewhere(value: str, region: str, drawn: random.Random) -> str:
    street, comma, rest = value.partition(",")
    words = list(re.finditer(r"[^\W\d_][^\d,]*[^\W\d_]", street))
    if words:
        fake = _faker(region)
        fake.seed_instance(drawn.getrandbits(64))
        longest = max(words, key=lambda match: len(match.group()))
        head, tail = street[: longest.start()], street[longest.end() :]
        street = _numbered(head, drawn) + str(fake.street_name()) + _numbered(tail, drawn)
    else:
        street = _numbered(street, drawn)
    return street + comma + rest


@functools.cache
def _faker(region: str) -> Any:
    """Of the country, or of the United States where there is none."""
    from faker import Faker
    from faker.config import AVAILABLE_LOCALES

    of_region = sorted(locale for locale in AVAILABLE_LOCALES if locale.endswith(f"_{region}"))
    # A country's own language goes first: de_DE, fr_FR.
    of_region.sort(key=lambda locale: locale.split("_")[0].upper() != region)
    return Faker(of_region[0] if of_region else "en_US")
