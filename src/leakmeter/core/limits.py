"""The largest counts that are taken, far above any use and below what would never end; and refusing others."""

from __future__ import annotations

from typing import Final

from leakmeter.errors import UsageError

MOST_NEW_TOKENS: Final = 100_000
MOST_SAMPLES: Final = 100_000
"""Responses of a case, sequences of an audit."""
MOST_NULLS: Final = 100_000
MOST_BEAMS: Final = 1_000
MOST_WORKERS: Final = 1_000

Bounded = tuple[bool, str, int, str]
"""Whether a count can be taken, its name, the count, and what was expected."""


def refuse_bad(*found: tuple[bool, str, float, str]) -> None:
    """Refuse the first number that cannot be taken.

    Args:
        found: of each whether it can be, its name, itself, and what was expected.

    Raises:
        UsageError: says all of these.
    """
    for good, name, given, expected in found:
        if not good:
            raise UsageError(f"{name} is {given}; it has to be {expected}")


def bounded(name: str, given: int, least: int, most: int) -> Bounded:
    """What to say of a count that has a smallest and a largest value."""
    return least <= given <= most, name, given, f"{least:,} or more" if given < least else f"{most:,} at most"
