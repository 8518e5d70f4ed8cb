"""How many items it takes: against a look at one number of items after another."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import count, product
from statistics import NormalDist

import numpy as np
import pytest

from leakmeter.stats.ranks import auc
from leakmeter.stats.stats import (
    items_for_auc,
    items_for_correlation,
    items_for_distance,
    items_for_share,
    share_told_apart,
)


def tail(hits: range, n: int, chance: float) -> float:
    return math.fsum(math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in hits)


@pytest.mark.parametrize("by_chance", [0.03, 0.05, 0.5])
@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 10), Fraction(1, 8), Fraction(1, 4), Fraction(1)])
def test_a_share_takes_as_many_as_the_first_draw_that_chance_hardly_makes(share: Fraction, by_chance: float) -> None:
    above = share > by_chance

    def rare(n: int) -> bool:
        hits = share * n
        which = range(math.floor(hits), n + 1) if above else range(math.ceil(hits) + 1)
        return tail(which, n, by_chance) <= 0.025

    needed = next(n for n in count(1) if rare(n))
    assert items_for_share(float(share), by_chance) == items_for_share(float(share), by_chance, beyond=0) == needed
    if (share * needed).denominator == 1:
        assert share_told_apart(int(share * needed), needed, by_chance) is above


def test_few_items_tell_nothing_either_way() -> None:
    # Wilson's interval of 1 of 4 begins above 3 %, which chance has in 11 % of draws.
    for hits, n, by_chance, is_above in ((0, 4, 0.03, None), (1, 4, 0.03, None), (2, 4, 0.03, True)):
        assert share_told_apart(hits, n, by_chance) is is_above
    assert share_told_apart(0, 200, 0.05) is False
    assert share_told_apart(1, 4, 0.0) is True


def test_items_that_are_hits_all_or_none_are_no_more_than_one() -> None:
    for hits, sizes, is_above in ((20, [20], None), (11, [10, 10], True), (10, [10, 10], None), (3, [1] * 20, None)):
        clusters = [number for number, size in enumerate(sizes) for _ in range(size)]
        assert share_told_apart(hits, len(clusters), 0.05, clusters=clusters) is is_above
    # Against every way in which clusters are known: three of them, and five people alone.
    sizes = [4, 3, 3, *[1] * 5]
    clusters = [number for number, size in enumerate(sizes) for _ in range(size)]
    ways = [(sum(map(math.prod, zip(sizes, way, strict=True))), sum(way)) for way in product((0, 1), repeat=len(sizes))]
    for hits in range(16):
        above = math.fsum(0.1**n * 0.9 ** (len(sizes) - n) for n_hits, n in ways if n_hits >= hits)
        assert (share_told_apart(hits, 15, 0.1, clusters=clusters) is True) == (above <= 0.025)


def test_numbers_by_hand_and_what_no_number_tells() -> None:
    assert (items_for_share(1.0, 0.01), items_for_share(1.0, 0.01, beyond=1), items_for_share(0.5, 0.0)) == (1, 2, 2)
    # An interval that is twice too wide takes four times as many.
    assert (items_for_distance(10, 1.0, 2.0), items_for_distance(10, 2.0, 1.0)) == (41, 3)
    assert items_for_auc(0.5) is items_for_share(0.05, 0.05) is items_for_distance(10, 0.0, 1.0) is None


@pytest.mark.parametrize("n_above", [0, 12, 20, 28, 36])
def test_an_auc_takes_as_many_as_the_first_interval_without_a_half_has(n_above: int) -> None:
    def holds(n: int) -> bool:
        # Positives of which this share lies above all negatives: the AUC is that share.
        low, high = auc(np.arange(n) < n_above * n // 36, np.full(n, 0.5))[1:]
        return low <= 0.5 <= high

    needed = items_for_auc(n_above / 36)
    assert needed is not None
    # Of multiples of 36 the share is exactly the same.
    after = -(-needed // 36) * 36
    assert not holds(after)
    assert needed <= 36 or holds(after - 36)


def test_a_correlation_takes_as_many_as_its_interval_does() -> None:
    for rho in (0.9, 0.5, -0.3, 0.1):
        needed = items_for_correlation(rho)
        assert needed is not None
        ends = [
            abs(math.atanh(rho)) - NormalDist().inv_cdf(0.975) * math.sqrt(1.06 / (n - 3)) for n in (needed - 1, needed)
        ]
        assert ends[0] <= 0 < ends[1]
    assert items_for_correlation(0.0) is None
    assert items_for_correlation(-1.0) == 4
