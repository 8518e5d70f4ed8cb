"""Which words of one text stand in another, alone or several in a row."""

from __future__ import annotations

import re

import numpy as np

_WORD = re.compile(r"\S+")


def words_of(text: str) -> list[tuple[int, int]]:
    """Characters [start, end) of the words of a text, which white space separates."""
    return [match.span() for match in _WORD.finditer(text)]


def copied(text: str, other: str) -> list[int]:
    """How long a run of words each word of `text` belongs to that `other` has in the same order without a gap.

    Words are compared as they stand, as in `overlap.share_found`.

    Returns:
        One number a word of `words_of(text)`: 0 for a word that `other` has not, 1 for one that it has but with neither
        neighbour, and else the number of words of the longest run that goes through it.
    """
    ours = text.split()
    places: dict[str, list[int]] = {}
    for i, word in enumerate(other.split()):
        places.setdefault(word, []).append(i)
    n_others = sum(map(len, places.values()))
    longest = np.zeros(len(ours), dtype=np.int64)
    # Entry j: for how many words, from the one looked at, our words equal those of the other text from j on.
    run = np.zeros(n_others + 1, dtype=np.int64)
    for i in reversed(range(len(ours))):
        at = np.asarray(places.get(ours[i], ()), dtype=np.int64)
        ahead = run[at + 1] + 1
        run[:] = 0
        run[at] = ahead
        n = int(ahead.max(initial=0))
        longest[i : i + n] = np.maximum(longest[i : i + n], n)
    return [int(n) for n in longest]
