"""Names of a run's files. Parts lie in files of their own, or in groups: parts that follow each other in one file of
texts and one of numbers.

    cases-00007.json            measurements-00007.parquet            part 7
    cases-00000-00511.json      measurements-00000-00511.parquet      parts 0 to 511
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

TEXTS: Final = "cases-"
NUMBERS: Final = "measurements-"
GROUP_BYTES: Final = 8 * 2**20
"""Numbers, in bytes of the files of single parts, from which on a group is full."""
GROUP_PARTS: Final = 2_048
"""Parts with which a group is full, however small they are."""
_FILE: Final = re.compile(rf"(?:{TEXTS}|{NUMBERS})(\d{{5,18}})(?:-(\d{{5,18}}))?\.(json|parquet)")


def texts_name(parts: range) -> str:
    return f"{TEXTS}{_numbers(parts)}.json"


def numbers_name(parts: range) -> str:
    return f"{NUMBERS}{_numbers(parts)}.parquet"


def names_of(parts: range) -> tuple[str, str]:
    """Names of the file of texts and of the file of numbers, in the order in which they are written."""
    return texts_name(parts), numbers_name(parts)


def parts_in(name: str) -> range | None:
    """The parts in a file of this name; None for other files."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    parts = range(int(match[1]), int(match[2] or match[1]) + 1)
    return parts if name in names_of(parts) and len(parts) <= GROUP_PARTS else None


def groups_in(names: Iterable[str]) -> list[range]:
    """Groups whose numbers are among files, in order."""
    held = (parts_in(name) for name in names if name.startswith(NUMBERS))
    return sorted((parts for parts in held if parts is not None and len(parts) > 1), key=lambda parts: parts.start)


def held_with(number: int, groups: Sequence[range]) -> range:
    """The parts in the file of a part: its group, or the part alone."""
    place = bisect_right(groups, number, key=lambda parts: parts.start) - 1
    return groups[place] if place >= 0 and number in groups[place] else range(number, number + 1)


def _numbers(parts: range) -> str:
    return f"{parts.start:05}" + (f"-{parts.stop - 1:05}" if len(parts) > 1 else "")
