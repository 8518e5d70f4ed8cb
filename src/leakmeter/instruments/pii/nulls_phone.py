"""Nulls of a telephone number: of the same country and area, written as the true one is, digit for digit."""

from __future__ import annotations

import random
from collections.abc import Callable

from leakmeter.errors import UsageError
from leakmeter.samples.words import EXCHANGES_OF_NOBODY

_TRIES = 200
_NEVER_AN_EXCHANGE = (*EXCHANGES_OF_NOBODY, "700", "976")


def drawer(value: str, region: str, who: str) -> Callable[[random.Random], str]:
    """Draws numbers of the same area, evenly.

    In North America the area code stays, and the exchange where it is one that no subscriber has: numbers kept for
    fiction (555-0100 to 555-0199) are then drawn for one of these, ordinary ones for an ordinary one. Elsewhere the
    national destination code stays (the first third of the number where there is none), and so does the kind of number
    that it is, such as a mobile one.

    Args:
        value: a telephone number as written, with its extension.
        region: ISO 3166 code of the country of a number without a country code.
        who: it is of, for errors.

    Raises:
        UsageError: it is no number, or not written in digits alone.
    """
    import phonenumbers as library

    try:
        number = library.parse(value, region)
    except library.NumberParseException:
        raise UsageError(f"{who}: 'phone' is no telephone number in {region}; give one, or leave it out") from None
    national, extension = library.national_significant_number(number), number.extension or ""
    if not "".join(str(int(char)) for char in value if char.isdecimal()).endswith(national + extension):
        raise UsageError(f"{who}: 'phone' is not written in digits alone; write its letters as digits, or leave it out")
    # An area code may be left out: seven digits.
    north_american = number.country_code == 1 and len(national) in (7, 10)
    n_kept = library.length_of_national_destination_code(number) or max(1, len(national) // 3)

    def draw(drawn: random.Random) -> str:
        new = _north_american(national, drawn) if north_american else _elsewhere(number, national, n_kept, drawn)
        return _in_place(value, new + _digits_like(extension, drawn))

    return draw


def _north_american(national: str, drawn: random.Random) -> str:
    area, exchange, line = national[:-7], national[-7:-4], national[-4:]
    if exchange == "555" and line.startswith("01"):
        return f"{area}55501{drawn.randrange(100):02}"
    if exchange not in EXCHANGES_OF_NOBODY:
        exchange = _exchange(drawn)
    line = f"{drawn.randrange(10_000):04}"
    while exchange == "555" and line.startswith("01"):
        line = f"{drawn.randrange(10_000):04}"
    return area + exchange + line


def _exchange(drawn: random.Random) -> str:
    """One that subscribers have: 200 to 999, none that ends in 11, none kept for something else."""
    exchange = ""
    while not exchange or exchange.endswith("11") or exchange in _NEVER_AN_EXCHANGE:
        exchange = str(drawn.randrange(200, 1000))
    return exchange


def _elsewhere(number: object, national: str, n_kept: int, drawn: random.Random) -> str:
    """The number itself where no other of its kind was found."""
    import phonenumbers as library

    assert isinstance(number, library.PhoneNumber)
    kind = (library.is_possible_number(number), library.number_type(number))
    other = library.PhoneNumber()
    other.merge_from(number)
    for _ in range(_TRIES):
        new = national[:n_kept] + "".join(drawn.choice("0123456789") for _ in national[n_kept:])
        other.national_number = int(new)
        if (library.is_possible_number(other), library.number_type(other)) == kind:
            return new
    return national


def _digits_like(digits: str, drawn: random.Random) -> str:
    """As many digits, the first a 0 only where it is one."""
    first = digits[:1] if digits.startswith("0") else "".join(drawn.choice("123456789") for _ in digits[:1])
    return first + "".join(drawn.choice("0123456789") for _ in digits[1:])


def _in_place(text: str, digits: str) -> str:
    """The text with its last digits replaced, each by one of the same script."""
    left = list(digits)
    new = [
        chr(ord(char) - int(char) + int(left.pop())) if char.isdecimal() and left else char for char in reversed(text)
    ]
    return "".join(reversed(new))
