"""Upper limits of counts, amounts of memory, and their refusal."""

from __future__ import annotations

import re
from typing import Final

from leakmeter.errors import UsageError

MOST_NEW_TOKENS: Final = 100_000
MOST_SAMPLES: Final = 100_000
"""Responses of a case, sequences of an audit."""
MOST_NULLS: Final = 100_000
MOST_BEAMS: Final = 1_000
_UNITS: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}

CountLimit = tuple[bool, str, int, str]
"""Whether a count can be taken, its name, the count, and what was expected."""


def refuse_bad(*checks: tuple[bool, str, float | None, str]) -> None:
    """Refuse the first bad number. Each check: whether it is good, its name, itself, and what is expected."""
    for good, name, number, expected in checks:
        if not good:
            raise UsageError(f"{name} is {number}; it has to be {expected}")


def bounded(name: str, number: int, least: int, most: int) -> CountLimit:
    return least <= number <= most, name, number, f"{least:,} or more" if number < least else f"{most:,} at most"


def parse_memory(text: str) -> int:
    """'512MiB', '2GiB' or '1.5 GB' to bytes; refused where it is too little to work with."""
    match = re.fullmatch(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,3}})?) ?({'|'.join(_UNITS)})", text.strip())
    if match is None:
        raise UsageError(f"memory is '{text}'; give a number with its unit, such as 512MiB or 2GiB")
    n_bytes = int(float(match[1]) * _UNITS[match[2]])
    if n_bytes < 64 * 2**20:
        raise UsageError(f"memory is '{text}'; give at least 64MiB")
    return n_bytes
