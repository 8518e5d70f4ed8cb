"""Numbers of items that would distinguish a finding from chance, if more items show the same."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np

_Z2: Final = NormalDist().inv_cdf(0.975) ** 2
_TAIL: Final = 0.025
_HAIR: Final = 1e-9


def share_told_apart(hits: int, n: int, by_chance: float) -> bool | None:
    """Whether there are more hits than chance makes (True), fewer (False), or too few items to tell (None).

    By the binomial distribution's tails, each at 2.5 %: Wilson's interval of few items leaves out small shares too
    often (of 4 items it leaves out 3 % in 11 % of draws). Where items have chances of their own, their mean errs on the
    safe side (Hoeffding 1956).

    >>> share_told_apart(1, 4, 0.03) is None
    True
    """
    from scipy.stats import binom

    if binom.sf(hits - 1, n, by_chance) <= _TAIL:
        return True
    return False if binom.cdf(hits, n, by_chance) <= _TAIL else None


def items_for_share(share: float, by_chance: float, *, beyond: int = 0) -> int | None:
    """Fewest items that would tell a share of hits from what chance makes; see `share_told_apart`.

    None where it would be more than 100,000. `beyond` items are there already, and do not tell.

    >>> items_for_share(0.0, 0.05)
    72
    """
    from scipy.stats import binom

    n = np.arange(beyond + 1, 100_000 + 1)
    # Whole hits, rounded to where chance is; a hair for shares such as 0.1, of which 10 times are 1.
    if share > by_chance:
        tails = binom.sf(np.floor(share * n + _HAIR) - 1, n, by_chance)
    else:
        tails = binom.cdf(np.ceil(share * n - _HAIR), n, by_chance)
    enough = np.flatnonzero(tails <= _TAIL)
    return int(n[enough[0]]) if enough.size else None


def items_for_auc(auc: float) -> int | None:
    """Fewest positives, and as many negatives, of which the 95 % interval of `stats.ranks.auc` leaves out 0.5."""
    if auc == 0.5:
        return None
    # V(0.5) of n and n is (1 + 2 (n − 1) / 3) / (4 n²): the root of a square in n.
    squared, sixth = (auc - 0.5) ** 2, _Z2 / 6.0
    return math.floor((sixth + math.sqrt(sixth**2 + 2.0 * squared * sixth)) / (2.0 * squared)) + 1


def items_for_correlation(rho: float) -> int | None:
    """Fewest items of which the 95 % interval of a Spearman correlation leaves out 0.

    By Fisher's transformation with the standard error √(1.06 / (n − 3)) (Fieller, Hartley and Pearson, "Tests for rank
    correlation coefficients. I", 1957).
    """
    if rho == 0.0:
        return None
    if abs(rho) >= 1.0:
        return 4
    return math.floor(3.0 + 1.06 * _Z2 / math.atanh(rho) ** 2) + 1


def items_for_distance(n: int, distance: float, half_width: float) -> int | None:
    """Fewest items of which the interval of a mean is narrower than a distance; it narrows with their square root."""
    if distance <= 0.0:
        return None
    return math.floor(n * (half_width / distance) ** 2) + 1
