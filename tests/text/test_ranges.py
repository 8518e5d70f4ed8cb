"""What holds a range of characters, against looking at every range."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.operations import n_operations
from leakmeter.text.ranges import Holders

RANGES = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda at: (at[0], at[0] + at[1]))


@given(ranges=st.lists(st.tuples(RANGES, st.integers(0, 5)), max_size=30), asked=RANGES)
def test_it_finds_what_looking_at_every_range_finds(
    ranges: list[tuple[tuple[int, int], int]], asked: tuple[int, int]
) -> None:
    start, end = asked
    expected = Counter(owner for (a, b), owner in ranges if a <= start and end <= b)
    assert Counter(Holders(ranges).holding(start, end)) == expected


@pytest.mark.parametrize("overlap", [0, 3])
def test_ranges_side_by_side_are_found_without_looking_at_all_of_them(overlap: int) -> None:
    def asking(n: int) -> int:
        holders = Holders(((at, at + 4 + overlap), at) for at in range(0, 4 * n, 4))
        return n_operations(lambda: [list(holders.holding(at, at + 2)) for at in range(0, 4 * n, 4)])

    assert asking(800) < 2.2 * asking(400)
