"""Surrogate postal addresses: another street and number of the same form, in the same town where that is to stay."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import regex

from leakmeter.core.folder import module_in
from leakmeter.text.surrogates.draw import (
    LOCALES,
    TRIES,
    WORD,
    SurrogateDraw,
    cased,
    digits_like,
    faker,
    listed,
    locale_of,
    ordinal_ending,
    other_than,
)
from leakmeter.text.surrogates.origins import LOCALES as LOCALES_OF_NAMES
from leakmeter.text.surrogates.origins import script, script_of

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
_ENGLISH_ENDS: Final = frozenset(
    listed("st way cir circle ter terrace trail pkwy parkway hwy highway sq row loop run spring springs")
)
"""What streets are called in English beside `_STREET_TYPES`, as no street elsewhere ends."""
_ABROAD: Final[Mapping[str, tuple[str, ...]]] = {
    # What streets are called: words before the name of one, '-' before what a name ends in, '+' before words behind it.
    "IT": listed("via viale vicolo piazza piazzale corso largo strada contrada borgo rotonda incrocio stretto canale"),
    "ES": listed(
        "calle c/ c. avenida avda. avda plaza paseo camino ronda glorieta cuesta vial pasaje pasadizo rambla callejón "
        "cañada carretera acceso alameda urbanización"
    ),
    "FR": listed("rue avenue av. boulevard bd place chemin allée impasse quai cours passage route square"),
    "DE": listed(
        "-straße -strasse -str. -weg -platz -allee -gasse -ring -damm -ufer +straße +strasse +weg +platz +allee"
    ),
    "NL": listed("-straat -weg -laan -plein -gracht -kade -steeg -dreef -singel -hof -pad -ring -baan -boulevard"),
    "PL": listed("ul. ulica al. aleja aleje pl. plac os. osiedle"),
    "TR": listed("+sokak +sokağı +sok. +sk. +cadde +caddesi +cad. +cd. +bulvarı +mahallesi +mah."),
    "PT": listed("rua av. avenida travessa praça largo alameda beco calçada estrada ladeira"),
    "SE": listed("-gatan -vägen -gränd -torget -stigen -gata"),
    "DK": listed("-gade -vej -alle -stræde"),
    "NO": listed("-gata -gaten -veien -vegen"),
    "IN": listed("+nagar +chowk +marg +road +street +zila +path +ganj +circle +colony +vihar"),
    "RU": listed("ул. улица пр. проспект наб. пер. бул. ш. пл."),
}
_OF_COUNTRY: Final[Mapping[str, str]] = {
    "AT": "DE",
    "CH": "DE",
    "BR": "PT",
    **dict.fromkeys(("MX", "CO", "AR", "CL", "PE", "EC", "VE", "UY", "PY", "BO", "CR", "GT", "CU", "DO"), "ES"),
}
"""Countries whose streets are called as those of another."""
_OF_SEVERAL_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {"BE": ("NL", "FR", "DE"), "CH": ("DE", "FR", "IT")}
_LABEL: Final = re.compile(
    r"(?i)\W*(?:h\.? ?no|no|nr|level|flat|plot|door|apt|int|km|д|дом|кв)?\W*\d(?:[\d/ -]|[a-z](?![a-z]))*\Z"
)
"""Numbers alone, or with what they are of."""
_NUMBER: Final = re.compile(r"\d+")
_NUMBER_SIGN: Final = re.compile(r" (?:no|nr|n)\.?\Z", re.IGNORECASE)
_WORDS: Final = regex.compile(r"\p{L}[^\d,]*[\p{L}\p{M}]\.?")
_ORDINAL: Final = re.compile(r"(\d+)(st|nd|rd|th)\b", re.IGNORECASE)
_WORD: Final = re.compile(WORD)
_KEPT: Final = re.compile(r"(?i:of|the|de|la|del|los|las|el|san|santa|st|saint|old|new|north|south|east|west|mount|mt)")
_FIRST_LETTERS: Final = "ABCDEFGH"
_POSTCODE: Final = 5  # digits that are a postal code rather than a house's number
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


def drawer(value: str, name: str, region: str) -> SurrogateDraw:
    """Draws addresses of the same town that differ in the number, the street's name, the flat or the box. `usaddress`
    says which words these are, in countries that write as the United States do; numbers keep their length, names the
    number of words, and what kind of street it is stays. Elsewhere, and in addresses that call streets as another
    country does, numbers and the street's name, as Faker makes one there, are drawn in what stands before the town, and
    the kind of street stays too. Words of `name` in a street stay, since whoever copies the name says them too."""
    region = _country_of(value, region)
    if region in _ENGLISH:
        parts = _parts(value)
        if any(label for _, label in parts):
            own = frozenset(word.casefold() for word in _WORD.findall(name))
            return lambda drawn: "".join(_other(text, label, own, drawn) for text, label in parts)
    return lambda drawn: _elsewhere(value, region, drawn)


def in_one_town(name: str, state: str, drawn: random.Random) -> SurrogateDraw:
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
    """What an address says beside the street and the house: the town and what stands beside it; empty where it says
    nothing more."""
    region = _country_of(value, region)
    if region in _ENGLISH and any(label for _, label in _parts(value)):
        town = next((start for start, _, label in _labelled(value) if label == "PlaceName"), None)
        return (value.partition(",")[2] if town is None else value[town:]).strip()
    parts = value.split(",")
    at, _ = _street_of(parts, region)
    varied = {at, *_houses_of(parts, at)}
    return ",".join(part for i, part in enumerate(parts) if i not in varied).strip()


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


def _country_of(value: str, region: str) -> str:
    """The country that calls streets as an address does, where its region does not."""
    street = _street_of(value.split(","), region)[1]
    if region in _ENGLISH:
        is_own = any(word.strip(".,") in _STREET_TYPES for word in value.split())
        is_own = is_own or street.lower().split(" ")[-1].rstrip(".") in _ENGLISH_ENDS
    else:
        is_own = region not in _OF_SEVERAL_LANGUAGES or bool(_type_of(street, region))
    if is_own:
        return region
    others = _OF_SEVERAL_LANGUAGES.get(region) or [country for country in _ABROAD if country != "IN"]
    return next((country for country in others if _type_of(street, country)), region)


def _street_of(parts: Sequence[str], region: str) -> tuple[int, str]:
    """Which of the parts of an address says the street, and its words without numbers before and behind them: the first
    that is called as streets of the region are, since some begin with the town, else the first that is no number."""
    streets = {i: _words_of(part) for i, part in enumerate(parts) if part.strip() and not _LABEL.fullmatch(part)}
    # 'ул. 50 лет Октября': a number may stand behind the word.
    named = (i for i, words in streets.items() if words.lower() in _types(region) or _type_of(words, region))
    at = next(named, next(iter(streets), 0))
    return at, streets.get(at, "")


def _words_of(part: str) -> str:
    words = _WORDS.search(part)
    return _NUMBER_SIGN.sub("", words[0]) if words else ""


def _is_of_house(part: str) -> bool:
    """Whether a part is a number, and of a house or a flat rather than a postal code."""
    return bool(_LABEL.fullmatch(part)) and max(map(len, _NUMBER.findall(part))) < _POSTCODE


def _houses_of(parts: Sequence[str], at: int) -> list[int]:
    """Which parts are numbers of a house or a flat, before the street's and, as in some places, behind it. The last is
    the town, unless that stands first."""
    is_town_first = not all(_LABEL.fullmatch(part) for part in parts[:at] if part.strip())
    end = at + 1
    while end < len(parts) - (not is_town_first) and _is_of_house(parts[end]):
        end += 1
    return [*(i for i in range(at) if _is_of_house(parts[i])), *range(at + 1, end)]


def _types(region: str) -> tuple[str, ...]:
    return _ABROAD.get(_OF_COUNTRY.get(region, region), ())


def _type_of(street: str, region: str) -> str:
    """What an address calls a street, such as 'via' or '-straße'; empty where it does not say."""
    # Not folded: 'strasse' is another form than 'straße', and longer.
    words = street.lower().split()
    for type_ in _types(region):
        if not words:
            break
        is_so = {
            "-": words[-1].replace("-", "").endswith(type_[1:]) and len(words[-1]) > len(type_),
            "+": words[-1] == type_[1:] and len(words) > 1,
        }.get(type_[0], words[0] == type_ and len(words) > 1)
        if is_so:
            return type_
    return ""


def _elsewhere(value: str, region: str, drawn: random.Random) -> str:
    from faker.config import AVAILABLE_LOCALES

    parts = value.split(",")
    at, street = _street_of(parts, region)
    if street and street.lower() not in _types(region):
        of_region = [locale for locale in LOCALES_OF_NAMES if locale.endswith(f"_{region}")]
        # By 'dk' Faker knows the cars of Denmark alone.
        others = {"dk_DK", *(locale for locale in of_region if script(locale) != script_of(street))}
        locale = locale_of(region, {*AVAILABLE_LOCALES} - others)
        fake = faker(locale, drawn)
        draw = fake.street_name if _has_streets(locale) else fake.last_name
        type_ = _type_of(street, region)
        new = str(draw())
        for _ in range(TRIES):
            if _type_of(new, region) == type_:
                break
            new = str(draw())
        else:
            # Faker calls no street so: the name alone is another.
            new = _typed(_untyped(new, _type_of(new, region)), street, type_)
        if type_[:1] not in ("", "-", "+"):
            # 'via' or 'Via', as it was.
            new = street.split()[0] + new[len(new.split()[0]) :]
        new = new.upper() if street.isupper() else new
        before, _, behind = parts[at].partition(street)
        parts[at] = _numbered(before, drawn) + new + _numbered(behind, drawn)
    else:
        parts[at] = _numbered(parts[at], drawn)
    for i in _houses_of(parts, at):
        parts[i] = _numbered(parts[i], drawn)
    return ",".join(parts)


@functools.cache
def _has_streets(locale: str) -> bool:
    """Whether Faker knows what streets are called there; it calls all others as English does."""
    from faker.providers import address

    try:
        provider = module_in(address, locale).Provider
    except ModuleNotFoundError:
        return False
    return any(name in vars(provider) for name in ("street_name", "street_name_formats", "street_suffixes"))


def _untyped(street: str, type_: str) -> str:
    words = street.split()
    if type_[:1] == "+":
        return " ".join(words[:-1])
    if type_[:1] == "-":
        # The hyphen of 'Karl-Marx-Straße' goes with what it joins.
        return street[: len(street) - len(type_) + 1].removesuffix("-")
    return " ".join(words[1:]) if type_ else street


def _typed(name: str, like: str, type_: str) -> str:
    words = like.split()
    if type_[:1] == "+":
        return f"{name} {words[-1]}"
    if type_[:1] == "-":
        return name + like[len(like) - len(type_) + 1 :]
    return f"{words[0]} {name}" if type_ else name
