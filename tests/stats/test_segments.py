"""Maximal scoring stretches against their definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from leakmeter.stats.stats import maximal_segments


def by_definition(scores: list[float], start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The best stretch, shortest of equals, and what is left on either side of it searched likewise."""
    end = len(scores) if end is None else end
    stretches = [(sum(scores[i:j]), i - j, i, j) for i in range(start, end) for j in range(i + 1, end + 1)]
    total, _, i, j = max(stretches, key=lambda stretch: (stretch[0], stretch[1], -stretch[2]), default=(0, 0, 0, 0))
    if total <= 0:
        return []
    return [*by_definition(scores, start, i), (i, j), *by_definition(scores, j, end)]


@given(st.lists(st.integers(-6, 6), max_size=14))
@example([5, -3, 2, -3, 5])
def test_segments_are_those_of_the_definition(whole: list[int]) -> None:
    """Exact numbers of which no two stretches have the same sum: of equal ones there are several best."""
    scores: list[Any] = [n + Fraction(2**i, 10**6) for i, n in enumerate(whole)]
    assert maximal_segments(scores) == by_definition(scores)


def test_what_is_ruled_out_ends_every_segment() -> None:
    assert maximal_segments([2.0, -float("inf"), 3.0]) == [(0, 1), (2, 3)]
    assert maximal_segments([2.0, -float("inf"), 1.5, 1.5, 1.5]) == [(0, 1), (2, 5)]
