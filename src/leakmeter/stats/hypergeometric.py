"""Draws without replacement: how many items of a population exceed a threshold, from a random part of it.

Of N items M exceed a threshold, and M is not known. s items are drawn at random, without replacement and with
randomness that is independent of the items. The number X among them that exceed is hypergeometric,
P(X = k) = C(M, k) · C(N − M, s − k) / C(N, s). Everything here follows from that distribution. It holds for every N and
s, and nothing is assumed about the items' values. The set that exceeds has to be fixed before the draw: a threshold
that is chosen after it makes another distribution.

Decisions are exact. Logarithms of factorials decide where they are clear, whole numbers where they are not.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice
from typing import Final

_RELATIVE_ERROR: Final = 1e-13
"""Most that a log-probability is off in float64, as a share of log N!. Measured below 1e-15; the rest is margin."""


def decimal_fraction(value: float | Fraction) -> Fraction:
    """A number as a fraction; a float as the decimal that it prints as.

    0.05 is then 1/20. In binary it is a little more, and ⌈0.95 N⌉ would be off by one for some N. What is computed in
    floats (1 - 0.95) does not print as the decimal that was meant; compute it with fractions.

    >>> decimal_fraction(0.05)
    Fraction(1, 20)
    """
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))


def upper_limit(n_population: int, n_drawn: int, n_found: int, alpha: float | Fraction) -> int:
    """One-sided upper confidence limit U of how many items of a population exceed, with confidence 1 − α.

    U is the largest M with P(X ≤ a | N, M, s) > α. That probability does not increase with M, so U < M only if
    P(X ≤ a | N, M, s) ≤ α, and for every M this happens with probability α at most. Of all limits that do not fall as a
    rises and have that property, U is the smallest for every a (W. Wang, "Exact optimal confidence intervals for
    hypergeometric parameters", JASA 110, 2015; J. Buonaccorsi, "A note on confidence intervals for proportions in
    finite populations", The American Statistician 41, 1987).

    N is `n_population`, s `n_drawn`, and a `n_found`, drawn items that exceed, which U includes. A float α is read by
    `decimal_fraction`.

    >>> upper_limit(100, 60, 0, 0.05)
    3
    >>> upper_limit(100, 60, 3, 0.05)
    9
    """
    exact = _checked(n_population, n_drawn, alpha)
    if not 0 <= n_found <= n_drawn:
        raise ValueError(f"{n_found} of {n_drawn} drawn items exceed: expected 0 to {n_drawn}")
    candidates = range(n_found + 1, n_population - (n_drawn - n_found) + 1)
    return n_found + bisect_left(
        candidates, True, key=lambda n_marked: not _is_likelier(n_population, n_marked, n_drawn, n_found, exact)
    )


def draws_needed(n_population: int, most_missed: int, alpha: float | Fraction) -> int:
    """Fewest draws of which none exceeds, that limit the items that exceed to `most_missed` with confidence 1 − α.

    It is the smallest s with P(X = 0 | N, b + 1, s) ≤ α, 0 where b is N or more; see `upper_limit`. For b = 0 it is ⌈(1
    − α) N⌉: a single item is found with probability s / N.

    >>> [draws_needed(100, most_missed, 0.05) for most_missed in (0, 1, 5, 10)]
    [95, 78, 39, 23]
    """
    exact = _checked(n_population, 0, alpha)
    if most_missed < 0:
        raise ValueError(f"most_missed is {most_missed}: expected 0 or more items")
    if most_missed >= n_population:
        return 0
    return bisect_left(
        range(n_population - most_missed),
        True,
        key=lambda n_drawn: not _is_likelier(n_population, most_missed + 1, n_drawn, 0, exact),
    )


def coverage(n_population: int, n_exceeding: int, n_drawn: int, alpha: float | Fraction) -> float:
    """Probability that `upper_limit` is at least M, the number of items that exceed, rounded once.

    It is 1 − α or more for every N, M, s and α; see `upper_limit`. It is more where X, a whole number, has no value
    with that probability.

    >>> [round(coverage(100, n_exceeding, 60, 0.05), 4) for n_exceeding in (3, 4, 9)]
    [1.0, 0.9767, 0.9801]
    """
    exact = _checked(n_population, n_drawn, alpha)
    if not 0 <= n_exceeding <= n_population:
        raise ValueError(f"{n_exceeding} of {n_population} items exceed: expected 0 to {n_population}")
    total, weights = _weights(n_population, n_exceeding, n_drawn)
    most = exact.numerator * total // exact.denominator
    missed = 0
    for weight in weights:
        # U is too small after the draws whose lower tail, their own probability included, is α at most.
        if missed + weight > most:
            break
        missed += weight
    return (total - missed) / total


def round_alpha(alpha: float | Fraction, number: int, n_rounds: int) -> Fraction:
    """Probability of a false statement that a round of draws may have, so that all rounds together have α at most.

    α itself if one round is planned; else α / 2^r in round r. Σ α / 2^r < α over any number of rounds, so it does not
    matter when the rounds end, nor that what a round finds decides whether there is another. One round has to be
    planned as one: a further round after it is not covered by α.

    >>> round_alpha(0.05, 1, 1), round_alpha(0.05, 2, 3)
    (Fraction(1, 20), Fraction(1, 80))
    """
    exact = _checked(0, 0, alpha)
    if not 1 <= number <= n_rounds:
        raise ValueError(f"round {number} of {n_rounds}: expected 1 to {n_rounds}")
    return exact if n_rounds == 1 else exact / 2**number


def expected_false(alphas: Iterable[float | Fraction]) -> float:
    """Upper bound of the expected number of false statements, each of which is false with probability α at most.

    Expectations add up, however the statements depend on each other.

    >>> expected_false([0.05] * 40)
    2.0
    """
    return float(sum((decimal_fraction(alpha) for alpha in alphas), start=Fraction(0)))


def _checked(n_population: int, n_drawn: int, alpha: float | Fraction) -> Fraction:
    if not 0 <= n_drawn <= n_population:
        raise ValueError(f"{n_drawn} of {n_population} items are drawn: expected 0 to as many as there are")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}: expected a number above 0 and below 1")
    return decimal_fraction(alpha)


def _weights(n_population: int, n_marked: int, n_drawn: int) -> tuple[int, Iterator[int]]:
    """Weights of X from its least value on, whole numbers, and their sum.

    The distribution is the same with s and M exchanged; the one that is closer to 0 or N makes smaller numbers.
    """
    drawn, marked = sorted((n_drawn, n_marked), key=lambda n: min(n, n_population - n))

    def each() -> Iterator[int]:
        unmarked = n_population - marked
        least, most = max(0, drawn - unmarked), min(drawn, marked)
        weight = math.comb(marked, least) * math.comb(unmarked, drawn - least)
        for n_found in range(least, most + 1):
            yield weight
            weight = (
                weight * ((marked - n_found) * (drawn - n_found)) // ((n_found + 1) * (unmarked - drawn + n_found + 1))
            )

    return math.comb(n_population, drawn), each()


def _is_likelier(n_population: int, n_marked: int, n_drawn: int, n_found: int, alpha: Fraction) -> bool:
    """Whether P(X ≤ n_found) > α, exactly."""
    least = max(0, n_drawn + n_marked - n_population)
    if n_found < least:
        return False
    if n_found >= min(n_drawn, n_marked):
        return True
    above = _log_tail(n_population, n_marked, n_drawn, least, n_found) - (
        math.log(alpha.numerator) - math.log(alpha.denominator)
    )
    doubt = _RELATIVE_ERROR * (math.lgamma(n_population + 2) + abs(above) + 1.0)
    if abs(above) > doubt:
        return above > 0
    total, weights = _weights(n_population, n_marked, n_drawn)
    return sum(islice(weights, n_found - least + 1)) * alpha.denominator > alpha.numerator * total


def _log_tail(n_population: int, n_marked: int, n_drawn: int, least: int, most: int) -> float:
    """log P(least ≤ X ≤ most), nats, in float64."""

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    n_unmarked = n_population - n_marked
    ways = [log_choose(n_marked, k) + log_choose(n_unmarked, n_drawn - k) for k in range(least, most + 1)]
    largest = max(ways)
    return largest + math.log(math.fsum(math.exp(way - largest) for way in ways)) - log_choose(n_population, n_drawn)
