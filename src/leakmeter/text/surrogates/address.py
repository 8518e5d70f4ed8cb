"""Surrogate postal addresses: another street and number of the same form, in the same town where that is to stay."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.text.surrogates.draw import (
    LOCALES,
    WORD,
    Draw,
    cased,
    digits_like,
    faker,
    listed,
    locale_of,
    ordinal_ending,
    other_than,
)

_STREETS: Final = listed(
    """
    Adams Alder Aspen Beech Birch Bluff Brook Cedar Central Cherry Chestnut Church Clark Clinton College Cottonwood
    Cypress Dogwood Eagle Elm Evergreen Fairview Forest Franklin Garfield Grant Harrison Hawthorne Hickory Highland
    Holly Jackson Jefferson Juniper Lakeview Laurel Liberty Lincoln Linden Locust Madison Magnolia Main Maple Market
    Meadow Mill Monroe Mulberry Oak Orchard Pearl Pine Pleasant Poplar Prospect Railroad Redwood River Riverside
    Sherman Spring Spruce Sunset Sycamore Valley Walnut Washington Willow Wilson
    """
)
_STREET_TYPES: Final = (
    *("Street", "St.", "Avenue", "Ave", "Lane", "Ln", "Drive", "Dr", "Road", "Rd", "Court", "Boulevard", "Blvd"),
)
_FLAT_NAMES: Final = ("Apt", "Apt.", "Unit", "Suite")
_SIDES: Final = ("N ", "S ", "E ", "W ", "N. ", "North ", "West ")
_ENGLISH: Final = ("US", "CA", "GB", "IE", "AU", "NZ")
_NUMBER: Final = re.compile(r"\d+")
_ORDINAL: Final = re.compile(r"(\d+)(st|nd|rd|th)\b", re.IGNORECASE)
_WORD: Final = re.compile(WORD)
_KEPT: Final = re.compile(r"(?i:of|the|de|la|del|los|las|el|san|santa|st|saint|old|new|north|south|east|west|mount|mt)")
_FIRST_LETTERS: Final = "ABCDEFGH"
_LABELS_OF_NUMBERS: Final = ("AddressNumber", "USPSBoxID", "USPSBoxGroupID")
_FLAT: Final = "OccupancyIdentifier"
_FLATS: Final = re.compile(r"(?i:apt|apartment|unit|suite|ste|flat|room|rm|floor|fl|lot|no|#|office|trailer|trlr|bldg)")


def in_mentions(texts: Sequence[str], region: str, drawn: random.Random) -> list[str]:
    """One other address, of any town, in as many parts as each text has: a street, or a whole address."""
    fake = faker(locale_of(region, LOCALES), drawn)
    lines = [" ".join(line.split()) for line in str(fake.address()).replace("\n", ", ").split(",")]
    street, rest = lines[0], [line for line in lines[1:] if line]
    out = []
    for text in texts:
        parts = [part for part in re.split(r"[,\n]", text) if part.strip()]
        joint = "\n" if "\n" in text else ", "
        out.append(street if len(parts) == 1 or not rest else joint.join((street, ", ".join(rest))))
    return out


def drawer(value: str, name: str, region: str) -> Draw:
    """Draws addresses of the same town that differ in the number, the street's name, the flat or the box. `usaddress`
    says which words these are, in countries that write as the United States do; numbers keep their length, names the
    number of words, and what kind of street it is stays. Elsewhere numbers and the street's name, as Faker makes one,
    are drawn in what stands before the first comma. Words of `name` in a street stay, since whoever copies the name
    says them too."""
    if region in _ENGLISH:
        parts = _parts(value)
        if any(label for _, label in parts):
            own = frozenset(word.casefold() for word in _WORD.findall(name))
            return lambda drawn: "".join(_other(text, label, own, drawn) for text, label in parts)
    return lambda drawn: _elsewhere(value, region, drawn)


def in_one_town(name: str, state: str, drawn: random.Random) -> Draw:
    """Draws addresses of one form in one town of the United States: Faker's invention, with a real postal code. No
    street says a word of `name`."""
    fake = faker("en_US", drawn)
    n_digits = drawn.choice((2, 3, 3, 4, 4))
    side = drawn.choice(_SIDES) if drawn.random() < 0.2 else ""
    flat = ""
    if drawn.random() < 0.3:
        flat = f", {drawn.choice(_FLAT_NAMES)} {drawn.choice((drawn.choice(_FIRST_LETTERS), drawn.randrange(10, 100)))}"
    rest = f"{drawn.choice(_STREET_TYPES)}{flat}, {fake.city()}, {state} {fake.postcode_in_state(state)}"

    def draw(drawn: random.Random) -> str:
        number = drawn.randrange(10 ** (n_digits - 1), 10**n_digits)
        return f"{number} {side}{other_than(_STREETS, name, drawn)} {rest}"

    return draw


def place_of(value: str, region: str) -> str:
    """The end of an address from its town on; empty where none is found."""
    if region in _ENGLISH:
        for start, _, label in _labelled(value):
            if label == "PlaceName":
                return value[start:].strip()
    return value.partition(",")[2].strip()


def _labelled(value: str) -> Iterator[tuple[int, str, str]]:
    """Words of an address: where they begin, as they are, and what they are."""
    import usaddress

    cursor = 0
    for token, label in usaddress.parse(value):
        start = value.find(token, cursor)
        if start < 0:
            # The library changed the token: nothing is known of what follows.
            return
        yield start, token, label
        cursor = start + len(token)


def _parts(value: str) -> list[tuple[str, str]]:
    """The text in pieces, each with what it is where it may vary, else an empty label."""
    pieces: list[tuple[str, str]] = []
    cursor, in_street, is_flat = 0, True, False
    for start, token, label in _labelled(value):
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
        number = digits_like(ordinal[1], drawn)
        ending = ordinal_ending(int(number))
        ending = ending.upper() if ordinal[2].isupper() else ending
        return f"{text[: ordinal.start()]}{number}{ending}{text[ordinal.end() :]}"
    return _WORD.sub(lambda match: _street_like(match.group(), own, drawn), _numbered(text, drawn))


def _street_like(word: str, own: frozenset[str], drawn: random.Random) -> str:
    if _KEPT.fullmatch(word) or word.casefold() in own:
        return word
    if len(word) == 1:
        return _lettered(word, drawn)
    other = ""
    while not other or other.casefold() in own:
        other = drawn.choice(_STREETS)
    return cased(other, word)


def _numbered(text: str, drawn: random.Random) -> str:
    return _NUMBER.sub(lambda match: digits_like(match.group(), drawn), text)


def _lettered(text: str, drawn: random.Random) -> str:
    """A letter that stands alone becomes another: one of the first where it is one, as those of flats are."""

    def other(match: re.Match[str]) -> str:
        letter = match.group()
        new = drawn.choice(_FIRST_LETTERS if letter.upper() in _FIRST_LETTERS else "IJKLMNOPRSTUVW")
        return cased(new, letter)

    return re.sub(r"(?<![^\W\d_])[A-Za-z](?![^\W\d_])", other, text)


def _elsewhere(value: str, region: str, drawn: random.Random) -> str:
    from faker.config import AVAILABLE_LOCALES

    street, comma, rest = value.partition(",")
    words = list(re.finditer(r"[^\W\d_][^\d,]*[^\W\d_]", street))
    if words:
        fake = faker(locale_of(region, AVAILABLE_LOCALES), drawn)
        longest = max(words, key=lambda match: len(match.group()))
        head, tail = street[: longest.start()], street[longest.end() :]
        street = _numbered(head, drawn) + str(fake.street_name()) + _numbered(tail, drawn)
    else:
        street = _numbered(street, drawn)
    return street + comma + rest
