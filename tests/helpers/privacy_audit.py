"""An empirical audit: from what was drawn under two neighbouring inputs, an ε that a mechanism has at least."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

from scipy.stats import beta


def least_epsilon(one: Sequence[Hashable], other: Sequence[Hashable], confidence: float) -> float:
    """Lower confidence bound, nats, on ε of pure differential privacy; 0 where nothing shows.

    The largest, over outcomes and directions, of log(lower bound of its share under one / upper bound under the other).
    The bounds are Clopper and Pearson's, which need no approximation. What may go wrong is shared out evenly among all
    of them (Bonferroni), so that the result is above ε at most once in 1 / (1 − confidence) audits.
    """
    counts = [Counter(of) for of in (one, other)]
    outcomes = set(counts[0]) | set(counts[1])
    miss = (1.0 - confidence) / (4 * len(outcomes))
    ratios = [
        math.log(lower / _upper(down[outcome], len(other), miss))
        for up, down in (counts, counts[::-1])
        for outcome in outcomes
        if (lower := _lower(up[outcome], len(one), miss)) > 0.0
    ]
    return max([0.0, *ratios])


def _lower(n_hits: int, n: int, miss: float) -> float:
    return float(beta.ppf(miss, n_hits, n - n_hits + 1)) if n_hits else 0.0


def _upper(n_hits: int, n: int, miss: float) -> float:
    return float(beta.isf(miss, n_hits + 1, n - n_hits)) if n_hits < n else 1.0
