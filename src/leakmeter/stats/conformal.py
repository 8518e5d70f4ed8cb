"""Intervals of screened values, from pieces that were scored exactly as well: split conformal prediction.

A screen gives every piece an approximate value, which costs little. Some pieces, a random sample, are scored exactly as
well. How far the screen is off for these says how far it is off for the others, with a probability that holds for
finite samples and for every distribution of values (Papadopoulos et al., "Inductive confidence machines for
regression", ECML 2002; Lei et al., "Distribution-free predictive inference for regression", JASA 113, 2018).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.hypergeometric import decimal_fraction

_ROUNDING: Final = 1e-12
"""By how much of itself a factor is rounded up, so that an interval holds the very value that it was made of."""


def interval_factor(
    exact: npt.ArrayLike, screened: npt.ArrayLike, level: float | Fraction, floor: float
) -> float | None:
    """Factor by which an exact value lies at most above or below the screened one, with a probability of `level`.

    Of n audited pieces with exact values e and screened values s, the residuals are |log((e + f) / (s + f))|. The
    factor is e to the power of the ⌈(n + 1) · level⌉-th smallest of them. Where the audited pieces and a piece that was
    only screened are exchangeable, the rank of its residual among all n + 1 is uniform, or lower where values tie. So
    the residual is at most that one with probability `level` or more, whatever the values are.

    The probability is an average over draws and over the pieces left. It does not hold for all pieces at once, nor for
    pieces that are picked because of their values. All pieces of a random draw have to be given, and no others: the
    pieces that a screen ranks first are picked by the screen's errors.

    Two infinite values, and two that are 0 with a floor of 0, have the residual 0; one alone of them has an infinite
    residual.

    `exact` and `screened` are of the audited pieces, (piece,), 0 or more or infinite, in the unit of the floor f, 0 or
    more. Differences that are small beside f make small residuals. It must not depend on the audited pieces; a noise
    floor that was measured on something else will do. A float level is read by `decimal_fraction`.

    The factor is 1 or more, infinite where so many audited pieces have infinite residuals, and None where there are too
    few pieces: ⌈(n + 1) · level⌉ > n.

    >>> round(interval_factor([0.5, 2.0, 3.0, 1.0], [1.0, 1.0, 3.0, 1.1], 0.8, 0.0), 6)
    2.0
    >>> interval_factor([0.5, 2.0, 3.0, 1.0], [1.0, 1.0, 3.0, 1.1], 0.95, 0.0) is None
    True
    """
    truths, guesses = (_checked(values, floor) for values in (exact, screened))
    if truths.shape != guesses.shape:
        raise ValueError(f"{truths.size} exact and {guesses.size} screened values are no pairs")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: expected a number above 0 and below 1")
    rank = math.ceil((truths.size + 1) * decimal_fraction(level))
    if rank > truths.size:
        return None
    larger, smaller = np.maximum(truths, guesses) + floor, np.minimum(truths, guesses) + floor
    ratios = np.where(larger == smaller, 1.0, np.inf)
    np.divide(larger, smaller, out=ratios, where=(larger != smaller) & (smaller > 0.0))
    return float(np.sort(ratios)[rank - 1]) * (1.0 + _ROUNDING)


def interval(screened: float, factor: float, floor: float) -> tuple[float, float]:
    """Interval of the exact value of a piece that was only screened: (s + f) / c − f to (s + f) · c − f, from 0 on.

    c and f are those of `interval_factor`. 0 to infinity where the factor is infinite; an infinite value with a finite
    factor stays infinite.

    >>> interval(3.0, 2.0, 1.0)
    (1.0, 7.0)
    """
    _checked([screened], floor)
    if not factor >= 1.0:
        raise ValueError(f"factor is {factor}: expected 1 or more")
    if math.isinf(factor):
        return 0.0, math.inf
    return max(0.0, (screened + floor) / factor - floor), (screened + floor) * factor - floor


def _checked(values: npt.ArrayLike, floor: float) -> npt.NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not (array >= 0.0).all():
        raise ValueError("values are one number a piece, 0 or more, and none is NaN")
    if not 0.0 <= floor < math.inf:
        raise ValueError(f"floor is {floor}: expected a finite number of 0 or more")
    return array
