"""Which of the decoys are scored, and what the scores of some say of all.

The sequential test is that of Besag and Clifford ("Sequential Monte Carlo p-values", 1991). Decoys come in a random
order; once h of them score as high as the true value, after l decoys, p is h / l, and no further one is scored. Where
fewer than h do so of all n, p is (1 + their number) / (1 + n), as of the full test. Either way p is at most α with
probability α at most if the model knows nothing, whatever h is.

h is the least number with h / n above `AT_RISK`. A test that stops then has a p above it, and so has the full test of
the same value, which is (1 + h) / (1 + n) or more; a test that does not stop has the p of the full test. So Holm's rule
at `AT_RISK` rejects the same values with either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from leakmeter.errors import ScoreError
from leakmeter.stats.hypergeometric import upper_limit
from leakmeter.stats.ranks import rank_p

DecoyTest = Literal["sequential", "full"]
AT_RISK: Final = 0.05
"""p-value, by Holm's rule among all values of a subject, from which down the model is said to know one."""

_TAIL: Final = 0.025
"""Of an interval of 95 %, beyond either end."""
UNLIKE: Final = 0.05
"""`p_unlike` from which down a value is unlike its decoys; `p_below` from which down a name is unlike the others."""


def stops_at(n_decoys: int) -> int:
    """How many decoys as high as the true value end a sequential test."""
    # A hair more, since 0.05 · 60 has to be 3.
    return math.floor(AT_RISK * n_decoys + 1e-9) + 1


def batch_ends(n_decoys: int) -> Iterator[int]:
    """How many decoys are scored after each round: twice as many as end the test, then twice as many as before."""
    end = min(n_decoys, 2 * stops_at(n_decoys))
    yield end
    while end < n_decoys:
        end = min(n_decoys, 2 * end)
        yield end


def stopped_at(values: npt.ArrayLike, n_decoys: int) -> int | None:
    """After which decoy a sequential test ends; None where it goes on. Scores are the true value's, then the decoys' in
    order."""
    scores = np.asarray(values, dtype=np.float64)
    _check(scores)
    ends = np.flatnonzero(scores[1:] >= scores[0])
    h = stops_at(n_decoys)
    return int(ends[h - 1]) + 1 if len(ends) >= h else None


def _check(scores: npt.NDArray[np.float64]) -> None:
    if np.isnan(scores).any():
        # As of −inf less −inf: a value that the model rules out behind the name and behind control names.
        raise ScoreError(
            "the model gave scores of a value that cannot be compared (NaN); measure in float32, or leave the value out"
        )


def p_of(values: npt.ArrayLike, n_decoys: int, test: DecoyTest) -> float:
    """p of the true value, whose score is the first; the others are those of the decoys that were scored, in order.

    Where a sequential test of something else ended before this one does, all decoys that were not scored count as high
    as the true value, and p is an upper bound.

    Raises:
        ScoreError: a score is no number, and cannot be compared.
    """
    scores = np.asarray(values, dtype=np.float64)
    _check(scores)
    if test == "full":
        return rank_p(scores)
    h, end = stops_at(n_decoys), stopped_at(scores, n_decoys)
    if end is not None:
        return h / end
    n_scored, n_high = len(scores) - 1, n_high_of(scores)
    end = n_scored + h - n_high
    return h / end if n_scored < end <= n_decoys else (1 + n_high + n_decoys - n_scored) / (1 + n_decoys)


def p_below(values: npt.ArrayLike) -> float:
    """p that the first value is no lower than the others: small where few are as low."""
    scores = np.asarray(values, dtype=np.float64)
    _check(scores)
    return rank_p(-scores)


def p_unlike(values: npt.ArrayLike, *, says_name: bool) -> float:
    """p that the first value is one like the others: small where few are as low.

    A value that is likelier than its decoys behind any name is not unlike them, since the model may have learnt it. But
    where a value says the name, another one stands behind other names, which says theirs: nobody has read that, so it
    is unlike its decoys too where few are as high.
    """
    low = p_below(values)
    return min(low, rank_p(np.asarray(values, dtype=np.float64))) if says_name else low


def is_bound(values: npt.ArrayLike, n_decoys: int) -> bool:
    """Whether p is an upper bound only."""
    return np.size(values) <= n_decoys and stopped_at(values, n_decoys) is None


def n_high_of(values: npt.ArrayLike) -> int:
    """Decoys that score as high as the true value."""
    scores = np.asarray(values, dtype=np.float64)
    return int((scores[1:] >= scores[0]).sum())


def rank_of(p: float, n_decoys: int) -> int:
    """p · (n + 1), rounded up: the rank among n + 1 values."""
    return math.ceil(p * (n_decoys + 1) - 1e-9)


def exposure_of(p: float, n_decoys: int) -> float:
    """log2 of the number of values over the rank, bits."""
    return math.log2(n_decoys + 1) - math.log2(rank_of(p, n_decoys))


def rank_interval(values: npt.ArrayLike, n_decoys: int) -> tuple[int, int] | None:
    """95 % interval of the rank among all decoys, by the hypergeometric limits of how many of them score as high, and
    of how many do not; None where all were scored.

    Limits are those of a number of draws that was fixed. A test ends with a decoy as high, so that its number of draws
    was not: the upper limit of one draw less, without that decoy, would hold too, and is lower.
    """
    n_scored, n_high = np.size(values) - 1, n_high_of(values)
    if n_scored == n_decoys:
        return None
    n_lower = upper_limit(n_decoys, n_scored, n_scored - n_high, _TAIL)
    return 1 + n_decoys - n_lower, 1 + upper_limit(n_decoys, n_scored, n_high, _TAIL)


def unselected(values: npt.NDArray[np.float64], n_decoys: int, test: DecoyTest) -> npt.NDArray[np.float64]:
    """The decoys whose number does not depend on their scores: those that end a sequential test are chosen by it, and
    would be too high on average."""
    return values[1:] if test == "full" else values[1 : 1 + stops_at(n_decoys)]
