"""Stretches of a sequence of scores that together score more than any other stretch which they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf


def maximal_segments(scores: Sequence[float]) -> list[tuple[int, int]]:
    """All maximal scoring subsequences [start, end), in order; Ruzzo and Tompa (1999), linear time.

    The best stretch is the one with the largest sum, the shortest of equals; what is left on either side of it is
    searched likewise. Nothing goes over a score of −∞.

    >>> maximal_segments([4, -5, 3, -3, 1, 2, -2, 2, -2, 1, 5])
    [(0, 1), (2, 3), (4, 11)]
    """
    # Each candidate is (sum before it, sum at its end, start, end).
    kept: list[tuple[float, float, int, int]] = []
    ended: list[tuple[int, int]] = []
    total: float = 0
    for i, score in enumerate(scores):
        if score == -inf:
            ended += [(start, end) for _, _, start, end in kept]
            kept, total = [], 0
            continue
        before, total = total, total + score
        if score <= 0.0:
            continue
        low, start = before, i
        while True:
            below = next((j for j in range(len(kept) - 1, -1, -1) if kept[j][0] < low), None)
            if below is None or kept[below][1] >= total:
                break
            low, start = kept[below][0], kept[below][2]
            del kept[below:]
        kept.append((low, total, start, i + 1))
    return ended + [(start, end) for _, _, start, end in kept]
