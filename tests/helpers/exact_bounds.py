"""Weights held against a bound in whole numbers: nothing is rounded here."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np


def at_most(bound: float) -> Fraction:
    """A fraction that e^bound is not below, and not above by more than 1e-50 of it."""
    if bound == 0.0:
        return Fraction(1)
    with localcontext() as context:
        context.prec = 60
        return Fraction(Decimal(bound).exp().next_minus())


def whole(weights: Any) -> list[int]:
    """The whole numbers that float64 numbers are multiples of 2^-1074 by."""
    ratios = [weight.as_integer_ratio() for weight in np.asarray(weights, dtype=np.float64).tolist()]
    return [numerator << (1074 - denominator.bit_length() + 1) for numerator, denominator in ratios]


def exact_loss_is_within(weights: Any, other_weights: Any, bound: float) -> bool:
    """Whether |log of W(v) / ΣW over W′(v) / ΣW′| ≤ bound for every token, and the same tokens are possible."""
    ours, others = whole(weights), whole(other_weights)
    assert [p == 0 for p in ours] == [q == 0 for q in others]
    limit = at_most(bound)
    # p / Σp ≤ e^bound · q / Σq, and the other way round, as whole numbers.
    of_ours, of_others = (sum(ours), sum(others))
    up, down = limit.numerator, limit.denominator
    left, right, back, forth = down * of_others, up * of_ours, down * of_ours, up * of_others
    return all(p * left <= q * right and q * back <= p * forth for p, q in zip(ours, others, strict=True))


def exact_range_is_within(weights: Any, other_weights: Any, bound: float) -> bool:
    """Whether log W(v) − log W′(v) spans a range of at most `bound`: what bounds a range bounds both directions."""
    pairs = [(p, q) for p, q in zip(whole(weights), whole(other_weights), strict=True) if p or q]
    assert all(p and q for p, q in pairs)
    top = max(pairs, key=lambda pair: Fraction(*pair))
    least = min(pairs, key=lambda pair: Fraction(*pair))
    limit = at_most(bound)
    return top[0] * least[1] * limit.denominator <= limit.numerator * top[1] * least[0]
