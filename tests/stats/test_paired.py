"""Paired tests against cases worked out by hand, enumeration, and scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.stats.rank_tests import holm, signed_rank_p


def enumerated(differences: list[float]) -> float:
    """p by all signs that the differences might have had: the definition."""
    sizes = np.abs(differences)
    ranks = scipy.stats.rankdata(sizes)
    seen = abs(float(np.sum(ranks * np.sign(differences))))
    sums = [abs(float(np.dot(ranks, signs))) for signs in itertools.product((-1.0, 1.0), repeat=len(differences))]
    return sum(one >= seen - 1e-9 for one in sums) / len(sums)


def test_cases_by_hand() -> None:
    for values, others, p in (
        # One pair has two possible signs, and either is as far from even.
        ([1.0], [0.0], 1.0),
        # All of five differences of one sign: 2 of 2^5 sign patterns.
        ([2.0, 3.0, 4.0, 5.0, 6.0], [1.0] * 5, 2 / 32),
        # Ranks 1, 2, 3 with signs +, +, −: W⁺ = 3 = W⁻, as even as can be.
        ([1.0, 2.0, 0.0], [0.0, 0.0, 3.0], 1.0),
        # Ranks 1 … 4, the smallest negative: |W| ≥ 8 has 4 of 16 patterns.
        ([0.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 0.0], 4 / 16),
        # Pairs without a difference say nothing.
        ([1.0, 2.0], [1.0, 2.0], 1.0),
        ([math.inf, 1.0], [math.inf, 0.0], 1.0),
    ):
        assert signed_rank_p(values, others) == pytest.approx(p, abs=1e-12)
        assert signed_rank_p(others, values) == pytest.approx(p, abs=1e-12)
    assert signed_rank_p([5.0, *range(1, 7)], [5.0] + [0.0] * 6) == signed_rank_p(range(1, 7), [0.0] * 6)
    # Infinite losses are ranked.
    assert signed_rank_p([math.inf, 1.0, 2.0], [0.0, 0.5, 1.0]) == signed_rank_p([9.0, 1.0, 2.0], [0.0, 0.5, 1.0])
    assert math.isnan(signed_rank_p([], []))
    with pytest.raises(ValueError, match="2 values and 1 others are no pairs"):
        signed_rank_p([1.0, 2.0], [1.0])


def test_holm_by_hand() -> None:
    # 4 · 0.01, 3 · 0.02, 2 · 0.03 and 1 · 0.04, none below the one before it.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert (holm([0.5, 0.6]), holm([])) == ([1.0, 1.0], [])
    unknown, *adjusted = holm([math.nan, 0.01, 0.5])
    assert math.isnan(unknown)
    assert adjusted == [0.02, 0.5]


@given(st.lists(st.integers(-1000, 1000).filter(bool), min_size=1, max_size=9, unique_by=abs))
def test_few_differences_are_enumerated(differences: list[int]) -> None:
    given_ = [float(one) for one in differences]
    assert signed_rank_p(given_, [0.0] * len(given_)) == pytest.approx(enumerated(given_), abs=1e-12)


def test_many_differences_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    values, others = rng.normal(0.2, 1.0, 300), rng.normal(0.0, 1.0, 300)
    expected = scipy.stats.wilcoxon(values, others).pvalue
    assert signed_rank_p(values, others) == pytest.approx(expected, rel=1e-12)
    # By hand: W⁺ is nearly normal, with mean n(n+1)/4 and variance n(n+1)(2n+1)/24.
    differences = values - others
    n = len(differences)
    w = float(scipy.stats.rankdata(np.abs(differences))[differences > 0].sum())
    z = (w - n * (n + 1) / 4) / math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    assert signed_rank_p(values, others) == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), rel=1e-9)


@given(st.lists(st.floats(0.0, 1.0), max_size=8))
def test_holm_rejects_what_the_step_down_procedure_rejects(ps: list[float]) -> None:
    """The procedure as Holm wrote it, at several levels, against the adjusted values."""
    adjusted = holm(ps)
    for alpha in (0.01, 0.05, 0.3):
        rejected: set[int] = set()
        for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
            if (len(ps) - rank) * ps[i] > alpha:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected
