"""Runs that texts share against all runs there are; shares and perplexity by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from leakmeter.instruments.generation.text_quality import distinct, perplexity, shared_runs, stretches

TOKENS = st.lists(st.integers(0, 3), max_size=14)


def slow_runs(ids: Sequence[int], other: Sequence[int]) -> list[int]:
    """Every run of either text, compared."""
    theirs = {tuple(other[a:b]) for a in range(len(other)) for b in range(a + 1, len(other) + 1)}
    longest = [0] * len(ids)
    for a in range(len(ids)):
        for b in range(a + 1, len(ids) + 1):
            if tuple(ids[a:b]) in theirs:
                longest[a:b] = [max(n, b - a) for n in longest[a:b]]
    return longest


@seed(110)
@given(TOKENS, st.lists(TOKENS, min_size=1, max_size=3))
def test_runs_are_those_that_any_comparison_finds(ids: list[int], others: list[list[int]]) -> None:
    assert shared_runs(ids, others).tolist() == [slow_runs(ids, other) for other in others]


def test_a_run_does_not_go_on_in_the_next_text() -> None:
    assert shared_runs([1, 2, 3, 4], [[9, 1, 2], [3, 4, 9]]).tolist() == [[2, 2, 0, 0], [0, 0, 2, 2]]


def test_stretches_of_long_runs() -> None:
    assert stretches([0, 5, 5, 5, 5, 5, 2, 6, 6], 5) == [(1, 6), (7, 9)]
    assert stretches([5, 5], 5) == [(0, 2)]
    assert stretches([4, 4], 5) == []
    assert stretches([], 5) == []


def test_distinct_and_perplexity_by_hand() -> None:
    assert distinct([[1, 2, 1, 2], [2]], 1) == pytest.approx(2 / 5)
    assert distinct([[1, 2, 1, 2], [2]], 2) == pytest.approx(2 / 3)
    assert math.isnan(distinct([[1]], 2))
    assert perplexity(np.log([0.5, 0.125])) == pytest.approx(4.0)
    assert math.isnan(perplexity([]))
