"""Ranges of characters, found by what they hold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import itemgetter
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Holders(Generic[_T]):
    """What has ranges of characters [start, end), which may overlap.

    Args:
        ranges: each with what has it.
    """

    def __init__(self, ranges: Iterable[tuple[tuple[int, int], _T]]) -> None:
        self._ranges = sorted(ranges, key=itemgetter(0))
        self._starts = [start for (start, _), _ in self._ranges]
        self._reach = list(accumulate((end for (_, end), _ in self._ranges), max))

    def holding(self, start: int, end: int) -> Iterator[_T]:
        """Everything with a range that holds all of this one; once for each such range."""
        at = bisect_right(self._starts, start) - 1
        # No range before reaches as far as this one's end.
        while at >= 0 and self._reach[at] >= end:
            (_, last), owner = self._ranges[at]
            if last >= end:
                yield owner
            at -= 1
