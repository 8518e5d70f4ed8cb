"""How much of one text stands in another: shared words, alone or several in a row, and ROUGE-L by the longest common
subsequence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_NOT_IN_WORDS = re.compile(r"[^a-z0-9]+")
_WORD = re.compile(r"\S+")


class RougeL(NamedTuple):
    """ROUGE-L of a text against another, each in [0, 1]; 0 where either has no words."""

    precision: float
    """Longest common subsequence over the words of the text."""
    recall: float
    """The same over the words of the other."""
    f1: float
    """Their harmonic mean."""


def rouge_l(text: str, other: str) -> RougeL:
    """ROUGE-L (Lin 2004, Section 3, one sentence a text, β = 1). Words are runs of a to z and 0 to 9 after
    lower-casing, without stemming: the rule of Google's scorer and of torchmetrics, with which the values agree."""
    ours, theirs = (_NOT_IN_WORDS.sub(" ", part.lower()).split() for part in (text, other))
    if not ours or not theirs:
        return RougeL(0.0, 0.0, 0.0)
    common = longest_common_subsequence(ours, theirs)
    if not common:
        return RougeL(0.0, 0.0, 0.0)
    precision, recall = common / len(ours), common / len(theirs)
    return RougeL(precision, recall, 2.0 * precision * recall / (precision + recall))


def longest_common_subsequence(first: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence, a row of the usual table at a time as bits (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for i, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << i
    every = (1 << len(first)) - 1
    row = every  # a 0 bit where the length grows
    for word in other:
        matches = row & places.get(word, 0)
        row = ((row + matches) | (row - matches)) & every
    return len(first) - row.bit_count()


def n_shared_distinct(text: str, other: str) -> int:
    """Number of distinct words, separated by white space and otherwise as they stand, that both texts have."""
    return len(set(text.split()) & set(other.split()))


def share_found(text: str, other: str) -> float:
    """Share, in [0, 1], of the text's words that the other has, each counted as often as it stands; NaN for no words.
    Words are separated by white space and otherwise as they stand."""
    words, other_words = text.split(), set(other.split())
    return sum(word in other_words for word in words) / len(words) if words else float("nan")


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
