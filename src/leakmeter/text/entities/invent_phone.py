"""Invented telephone numbers: of the same country, and where it has such, from the numbers kept free for fiction."""

from __future__ import annotations

import random
from typing import Final

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


def other_number(value: str, texts: list[str], drawn: random.Random) -> list[str]:
    """An invented number in the place of another, in the form of each of its mentions.

    Args:
        value: E.164, with ';ext=' and an extension where it has one.
        texts: its mentions.
        drawn: the source of randomness.
    """
    import phonenumbers as library

    plain, _, extension = value.partition(";ext=")
    old = library.parse(plain)
    country = old.country_code or 0
    national = library.national_significant_number(old)
    new = _national(country, national, drawn)
    number = library.parse(f"+{country}{new}")
    out = []
    for text in texts:
        digits = [char for char in text if char.isdecimal()]
        if not extension and len(new) == len(national) and _ascii(digits).endswith(national):
            out.append(_in_place(text, new))
            continue
        # Another length, or an extension: the country's own way of writing it.
        form = library.PhoneNumberFormat.NATIONAL
        if text.lstrip("(").startswith(("+", "＋")):
            form = library.PhoneNumberFormat.INTERNATIONAL
        said = library.format_number(number, form)
        out.append(f"{said} ext. {_digits(len(extension), drawn)}" if extension else said)
    return out


def _national(country: int, national: str, drawn: random.Random) -> str:
    """A national number: from a free range of the same length, of any length, or made up."""
    import phonenumbers as library

    ranges = _FREE.get(country, ())
    if country == 1 and len(national) == 7:
        ranges = (_LOCAL,)
    alike = [(first, n) for first, n in ranges if len(first) + n == len(national)]
    alike = [(first, n) for first, n in alike if first[0] == national[0]] or alike
    if alike or ranges:
        first, n = drawn.choice(alike or list(ranges))
        return first + _digits(n, drawn)
    n_kept = max(1, len(national) // 3)
    new = national
    for _ in range(100):
        new = national[:n_kept] + _digits(len(national) - n_kept, drawn)
        if new != national and library.is_possible_number(library.parse(f"+{country}{new}")):
            break
    return new


def _in_place(text: str, national: str) -> str:
    """The text with its last digits replaced, from the right; spaces, brackets and prefix stay."""
    left = list(national)
    new = [left.pop() if char.isdecimal() and left else char for char in reversed(text)]
    return "".join(reversed(new))


def _ascii(digits: list[str]) -> str:
    return "".join(str(int(digit)) for digit in digits)


def _digits(n: int, drawn: random.Random) -> str:
    return "".join(drawn.choice("0123456789") for _ in range(n))
