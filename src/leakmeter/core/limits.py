"""The largest counts that are taken: far above any use, and below what would never end or not fit into memory."""

from __future__ import annotations

from typing import Final

MOST_NEW_TOKENS: Final = 100_000
MOST_SAMPLES: Final = 100_000
"""Responses of a case, sequences of an audit."""
MOST_NULLS: Final = 100_000
MOST_BEAMS: Final = 1_000
MOST_WORKERS: Final = 1_000

Bounded = tuple[bool, str, int, str]
"""Whether a count can be taken, its name, the count, and what was expected."""


def bounded(name: str, given: int, least: int, most: int) -> Bounded:
    """What to say of a count that has a smallest and a largest value."""
    return least <= given <= most, name, given, f"{least:,} or more" if given < least else f"{most:,} at most"
