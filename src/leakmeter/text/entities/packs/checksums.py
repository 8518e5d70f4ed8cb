"""Checks of identifiers that tell a number of the right form from an identifier: check digits, ranges, dates.

Each takes the letters and digits of a value, in capitals and without anything between them, and says whether they are
such an identifier. Packs name them.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_VERHOEFF_PRODUCT: Final = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_VERHOEFF_TURN: Final = "1576283094"
_CODICE_ODD: Final = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (
            *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21),
            *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        ),
        strict=True,
    )
)
_CODICE_MONTHS: Final = "ABCDEHLMPRST"
_CODICE_DIGITS: Final = str.maketrans("LMNPQRSTUV", "0123456789")
"""Letters that stand for digits where two people would have the same code."""
_DNI_LETTERS: Final = "TRWAGMYFPDXBNJZSQVHLCKE"
_HETU_SIGNS: Final = "0123456789ABCDEFHJKLMNPRSTUVWXY"
_VIN: Final = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", (*range(1, 9), *range(1, 6), 7, 9, *range(2, 10)), strict=True))


def _weighted(digits: str, weights: Sequence[int]) -> int:
    return sum(weight * int(digit) for weight, digit in zip(weights, digits, strict=True))


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        datetime.date(year, month, day)
    except ValueError:
        return False
    return True


def luhn(value: str) -> bool:
    """Luhn's sum, of cards and others; a row of one digit is none."""
    doubled = (
        digit if i % 2 == 0 else (2 * digit) // 10 + (2 * digit) % 10 for i, digit in enumerate(_reversed(value))
    )
    return value.isdecimal() and len(set(value)) > 1 and sum(doubled) % 10 == 0


def _reversed(value: str) -> list[int]:
    return [int(digit) for digit in reversed(value) if digit.isdecimal()]


def iban(value: str) -> bool:
    """ISO 13616: the number, its country and check digits behind it, is 1 modulo 97."""
    return int("".join(str(int(sign, 36)) for sign in value[4:] + value[:4])) % 97 == 1


def us_ssn(value: str) -> bool:
    """Areas, groups and serial numbers that are given out; not those of advertisements."""
    area, group, serial = value[:3], value[3:5], value[5:]
    is_public = value in ("078051120", "219099999")
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000" and not is_public


def us_itin(value: str) -> bool:
    """9xx, and the groups of the tax office."""
    group = int(value[3:5])
    return value[0] == "9" and (50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99)


def uk_nino(value: str) -> bool:
    """Prefixes that are given out."""
    return (
        value[0] not in "DFIQUV"
        and value[1] not in "DFIQUVO"
        and value[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")
    )


def uk_nhs(value: str) -> bool:
    """Check digit modulo 11."""
    return len(set(value)) > 1 and (11 - _weighted(value[:9], range(10, 1, -1)) % 11) % 11 == int(value[9])


def steuer_id(value: str) -> bool:
    """ISO 7064 modulo 11, 10; of the first ten digits one stands twice or three times, the others once."""
    counts = sorted(value[:10].count(digit) for digit in set(value[:10]))
    if value[0] == "0" or counts[-1] not in (2, 3) or counts[-2:-1] != [1]:
        return False
    product = 10
    for digit in value[:10]:
        total = (int(digit) + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == int(value[10])


def nir(value: str) -> bool:
    """Sex, year, month, place, and a key modulo 97; Corsica has letters."""
    number = value[:13].replace("2A", "19", 1).replace("2B", "18", 1)
    month = int(value[3:5])
    return (1 <= month <= 12 or 20 <= month <= 42 or month >= 50) and 97 - int(number) % 97 == int(value[13:])


def dni(value: str) -> bool:
    """Spanish: the letter is that of the number modulo 23; of foreigners the first letter stands for a digit."""
    number = str("XYZ".index(value[0])) + value[1:-1] if value[0] in "XYZ" else value[:-1]
    return _DNI_LETTERS[int(number) % 23] == value[-1]


def codice_fiscale(value: str) -> bool:
    """A month, a day, and the check letter of Italy's tax code."""
    day = value[9:11].translate(_CODICE_DIGITS)
    if value[8] not in _CODICE_MONTHS or not day.isdecimal() or not 1 <= int(day) % 40 <= 31:
        return False
    odd = sum(_CODICE_ODD[sign] for sign in value[0:15:2])
    even = sum(int(sign, 36) if sign.isdecimal() else ord(sign) - ord("A") for sign in value[1:15:2])
    return chr(ord("A") + (odd + even) % 26) == value[15]


def bsn(value: str) -> bool:
    """The Dutch test of eleven."""
    return len(set(value)) > 1 and _weighted(value, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def pesel(value: str) -> bool:
    """A day of birth and a check digit."""
    century = {0: 1900, 1: 2000, 2: 2100, 3: 2200, 4: 1800}[int(value[2:4]) // 20]
    is_day = _is_day(century + int(value[:2]), int(value[2:4]) % 20, int(value[4:6]))
    return is_day and _weighted(value, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def _mrz_digit(field: str) -> str:
    values = (0 if sign == "<" else int(sign, 36) for sign in field)
    return str(sum(weight * value for weight, value in zip((7, 3, 1) * 30, values, strict=False)) % 10)


def mrz(value: str) -> bool:
    """The second line of a passport's machine-readable zone: number, day of birth and day of expiry have their check
    digits."""
    fields = ((value[:9], value[9]), (value[13:19], value[19]), (value[21:27], value[27]))
    return all(_mrz_digit(field) == digit for field, digit in fields)


def belgian_number(value: str) -> bool:
    """97 less the number modulo 97; a 2 before it for who was born from 2000 on."""
    return int(value[9:]) in (97 - int(value[:9]) % 97, 97 - int(f"2{value[:9]}") % 97)


def swiss_ahv(value: str) -> bool:
    """The check digit of EAN-13, in the country 756."""
    return value.startswith("756") and _weighted(value, (1, 3) * 6 + (1,)) % 10 == 0


def cpf(value: str) -> bool:
    """Two check digits modulo 11, of Brazilian people."""
    first = 10 * _weighted(value[:9], range(10, 1, -1)) % 11 % 10
    second = 10 * _weighted(value[:10], range(11, 1, -1)) % 11 % 10
    return len(set(value)) > 1 and value[9:] == f"{first}{second}"


def portuguese_nif(value: str) -> bool:
    """Check digit modulo 11."""
    digit = 11 - _weighted(value[:8], range(9, 1, -1)) % 11
    return value[0] != "0" and len(set(value)) > 1 and value[8] == str(digit if digit < 10 else 0)


def hetu(value: str) -> bool:
    """Finnish: a day of birth, and a sign of the number modulo 31."""
    digits = value[:6] + value[-4:-1]
    return _is_day(2000 + int(value[4:6]), int(value[2:4]), int(value[:2])) and (
        _HETU_SIGNS[int(digits) % 31] == value[-1]
    )


def norwegian_number(value: str) -> bool:
    """Two check digits modulo 11."""
    return (
        _weighted(value[:10], (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11 == 0
        and _weighted(value, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0
    )


def swedish_number(value: str) -> bool:
    """A day of birth, and Luhn's sum of the last ten digits."""
    last = value[-10:]
    return _is_day(2000 + int(last[:2]), int(last[2:4]), int(last[4:6])) and luhn(last)


def turkish_number(value: str) -> bool:
    """Two check digits."""
    digits = [int(digit) for digit in value]
    tenth = (7 * sum(digits[0:9:2]) - sum(digits[1:8:2])) % 10
    return digits[0] != 0 and digits[9] == tenth and digits[10] == sum(digits[:10]) % 10


def aadhaar(value: str) -> bool:
    """Verhoeff's check digit; it begins with 2 or more."""
    check = 0
    for i, digit in enumerate(_reversed(value)):
        for _ in range(i % 8):
            digit = int(_VERHOEFF_TURN[digit])
        check = int(_VERHOEFF_PRODUCT[check][digit])
    return value[0] > "1" and check == 0


def chinese_id(value: str) -> bool:
    """A day of birth, and ISO 7064 modulo 11, 2."""
    total = sum((1 << (17 - i)) % 11 * int(digit) for i, digit in enumerate(value[:17]))
    is_day = _is_day(int(value[6:10]), int(value[10:12]), int(value[12:14]))
    return is_day and "10X98765432"[total % 11] == value[17]


def vin(value: str) -> bool:
    """The check digit of vehicles in North America."""
    weights = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
    total = sum(
        weight * (int(sign) if sign.isdecimal() else _VIN[sign]) for weight, sign in zip(weights, value, strict=True)
    )
    return "0123456789X"[total % 11] == value[8]


def ip(value: str) -> bool:
    """An address of version 4 or 6 that is of one machine: neither unspecified nor a loopback."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_loopback)


CHECKSUMS: Final[Mapping[str, Callable[[str], bool]]] = {
    check.__name__: check
    for check in (
        *(luhn, iban, us_ssn, us_itin, uk_nino, uk_nhs, steuer_id, nir, dni, codice_fiscale, bsn, pesel, mrz),
        *(belgian_number, swiss_ahv, cpf, portuguese_nif, hetu, norwegian_number, swedish_number, turkish_number),
        *(aadhaar, chinese_id, vin, ip),
    )
}
"""By the name that packs call them by."""
AS_WRITTEN: Final = frozenset(("ip", "mrz"))
"""Of these, those that are given the value with its punctuation."""
