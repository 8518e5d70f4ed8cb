"""Surrogate telephone numbers: of the same country, and either kept free for fiction or of the same area."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.text.surrogates.draw import TRIES, SurrogateDraw, digits, digits_like

EXCHANGES_OF_NOBODY: Final = ("555", "950", "958", "959")
"""Central office codes of North America that no area gives to subscribers: information, carrier access, line tests."""
_NEVER_AN_EXCHANGE: Final = (*EXCHANGES_OF_NOBODY, "700", "976")
_FREE: Final[dict[int, tuple[tuple[str, int], ...]]] = {
    # Country code to the first digits of national numbers, and how many digits follow.
    # North America: 555-0100 to 555-0199 of every area.
    1: tuple((f"{area}55501", 2) for area in (202, 212, 303, 312, 404, 415, 503, 617, 702, 713, 808, 907)),
    # Ofcom's numbers for drama: no area, London, mobile.
    44: (("1632960", 3), ("2079460", 3), ("7700900", 3)),
    # Bundesnetzagentur's: Berlin, Frankfurt, Hamburg, Munich.
    49: (("3023125", 3), ("6990009", 3), ("4066969", 3), ("8999998", 3)),
    # Arcep's for audiovisual works: Paris, mobile.
    33: (("19900", 4), ("63998", 4)),
    # ACMA's: the four geographic areas.
    61: (("25550", 4), ("35550", 4), ("75550", 4), ("85550", 4)),
    # PTS's: Stockholm.
    46: (("8465004", 2),),
}
_LOCAL: Final = ("55501", 2)  # a North American number without its area
_FORMS: Final = (
    *("({0}) {1}-{2}", "{0}-{1}-{2}", "{0}.{1}.{2}", "{0} {1} {2}", "{0}/{1}-{2}"),
    *("+1 {0} {1} {2}", "+1-{0}-{1}-{2}", "1-{0}-{1}-{2}", "+1{0}{1}{2}"),
)


def in_mentions(texts: Sequence[str], value: str, drawn: random.Random) -> list[str]:
    """One other number of the country in the form of each text, from a range kept for fiction where there is one."""
    import phonenumbers as library

    plain, _, extension = value.partition(";ext=")
    old = library.parse(plain)
    national = library.national_significant_number(old)
    new = _of_country(old, drawn)
    number = library.parse(f"+{old.country_code or 0}{new}")
    out = []
    for text in texts:
        if not extension and len(new) == len(national) and _ascii(text).endswith(national):
            out.append(_in_place(text, new, keep_script=False))
            continue
        # Another length, or an extension: the country's own way of writing it.
        form = library.PhoneNumberFormat.NATIONAL
        if text.lstrip("(").startswith(("+", "＋")):
            form = library.PhoneNumberFormat.INTERNATIONAL
        formatted = library.format_number(number, form)
        out.append(f"{formatted} ext. {digits(len(extension), drawn)}" if extension else formatted)
    return out


def drawer(value: str, region: str, name: str) -> SurrogateDraw:
    """Draws numbers of the same area and kind evenly, written as the number is, digit for digit. In North America the
    area code stays, and the exchange where it is one that no subscriber has: numbers kept for fiction (555-0100 to
    555-0199) are then drawn for one of these, ordinary ones for an ordinary one. Elsewhere the national destination
    code stays (the first third of the number where there is none), and so does the kind of number that it is, such as a
    mobile one."""
    import phonenumbers as library

    try:
        number = library.parse(value, region)
    except library.NumberParseException:
        raise UsageError(f"{name}: 'phone' is not a telephone number in {region}; give one, or leave it out") from None
    extension = number.extension or ""
    if not _ascii(value).endswith(library.national_significant_number(number) + extension):
        raise UsageError(
            f"{name}: 'phone' is not written in digits alone; write its letters as digits, or leave it out"
        )

    def draw(drawn: random.Random) -> str:
        new = _of_area(number, drawn) + digits_like(extension, drawn)
        return _in_place(value, new, keep_script=True)

    return draw


def of_nobody(areas: Sequence[str], drawn: random.Random) -> str:
    """A North American number that rings nobody up, in any usual form."""
    exchange = drawn.choice(EXCHANGES_OF_NOBODY)
    line = _line(exchange, drawn)
    return drawn.choice(_FORMS).format(drawn.choice(areas), exchange, line)


def _of_country(number: Any, drawn: random.Random) -> str:
    """Another national number from a free range of the country, of the same length and beginning where there is one;
    where there is no range, a possible one, or the last drawn."""
    import phonenumbers as library

    national, country = library.national_significant_number(number), number.country_code or 0
    ranges = (_LOCAL,) if country == 1 and len(national) == 7 else _FREE.get(country, ())
    alike = [(first, n) for first, n in ranges if len(first) + n == len(national)]
    alike = [(first, n) for first, n in alike if first[0] == national[0]] or alike
    if ranges:
        first, n = drawn.choice(alike or ranges)
        return first + digits(n, drawn)
    new, n_kept = national, max(1, len(national) // 3)
    for _ in range(100):
        new = national[:n_kept] + digits(len(national) - n_kept, drawn)
        if new != national and library.is_possible_number(library.parse(f"+{country}{new}")):
            break
    return new


def _of_area(number: Any, drawn: random.Random) -> str:
    """Another national number of the same area and kind; where none is found, the number itself."""
    import phonenumbers as library

    national = library.national_significant_number(number)
    # An area code may be left out: seven digits.
    if number.country_code == 1 and len(national) in (7, 10):
        return _north_american(national, drawn)
    n_kept = library.length_of_national_destination_code(number) or max(1, len(national) // 3)
    kind = (library.is_possible_number(number), library.number_type(number))
    other = library.PhoneNumber()
    other.merge_from(number)
    for _ in range(TRIES):
        new = national[:n_kept] + digits(len(national) - n_kept, drawn)
        other.national_number = int(new)
        if (library.is_possible_number(other), library.number_type(other)) == kind:
            return new
    return national


def _north_american(national: str, drawn: random.Random) -> str:
    area, exchange, line = national[:-7], national[-7:-4], national[-4:]
    if exchange == "555" and line.startswith("01"):
        return f"{area}55501{drawn.randrange(100):02}"
    if exchange not in EXCHANGES_OF_NOBODY:
        exchange = _exchange(drawn)
    return area + exchange + _line(exchange, drawn)


def _exchange(drawn: random.Random) -> str:
    """One that subscribers have: 200 to 999, none that ends in 11, none kept for something else."""
    exchange = ""
    while not exchange or exchange.endswith("11") or exchange in _NEVER_AN_EXCHANGE:
        exchange = str(drawn.randrange(200, 1000))
    return exchange


def _line(exchange: str, drawn: random.Random) -> str:
    """Four digits; the numbers kept for fiction are a group of their own."""
    line = ""
    while not line or (exchange == "555" and line.startswith("01")):
        line = f"{drawn.randrange(10_000):04}"
    return line


def _ascii(text: str) -> str:
    return "".join(str(int(char)) for char in text if char.isdecimal())


def _in_place(text: str, digits: str, *, keep_script: bool) -> str:
    """The text with its last digits replaced, from the right; spaces, brackets and prefix stay."""

    def written(char: str) -> str:
        if not (char.isdecimal() and left):
            return char
        return chr(ord(char) - int(char) + int(left.pop())) if keep_script else left.pop()

    left = list(digits)
    return "".join(reversed([written(char) for char in reversed(text)]))
