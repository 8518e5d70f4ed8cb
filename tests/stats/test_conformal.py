"""Intervals of screened values: their coverage over invented populations, and values that have no logarithm."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakmeter.stats.conformal import interval, interval_factor

INF = math.inf


def population(kind: str, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact and screened values, most of them near 0 and a few large."""
    exact = rng.lognormal(-2.0, 2.0, size)
    if kind == "noisy":
        return exact, exact * rng.lognormal(0.5, 0.7, size)
    if kind == "hidden":  # the screen says nothing of one in ten
        return exact, np.where(rng.random(size) < 0.1, 0.0, exact)
    if kind == "tied":
        return 2.0 * np.round(exact, 1), np.round(exact, 1)
    if kind == "impossible":
        return np.where(rng.random(size) < 0.2, INF, exact), np.where(rng.random(size) < 0.2, INF, exact)
    return exact, rng.lognormal(-2.0, 2.0, size)  # unrelated


@pytest.mark.parametrize("floor", [0.0, 0.05])
@pytest.mark.parametrize("kind", ["noisy", "hidden", "tied", "impossible", "unrelated"])
def test_intervals_hold_as_often_as_they_say(kind: str, floor: float) -> None:
    level, n_audited, n_seeds = 0.9, 19, 300
    held = []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        exact, screened = population(kind, rng, 60)
        order = rng.permutation(60)
        audited, rest = order[:n_audited], order[n_audited:]
        factor = interval_factor(exact[audited], screened[audited], level, floor)
        assert factor is not None
        ends = [interval(float(screened[i]), factor, floor) for i in rest]
        held.append(np.mean([low <= exact[i] <= high for i, (low, high) in zip(rest, ends, strict=True)]))
    # Seeds are independent, pieces of one seed are not: they share the factor.
    assert np.mean(held) >= level - 3 * np.std(held, ddof=1) / math.sqrt(n_seeds)


@pytest.mark.parametrize("floor", [0.0, 1e-6, 0.3, 50.0])
def test_rounding_leaves_no_audited_piece_out_of_its_own_interval(floor: float) -> None:
    screened = np.random.default_rng(3).lognormal(0.0, 8.0, 400)
    for multiple in (2.0, 0.1, 1.0, 7.3):
        exact = (screened + floor) * multiple - floor
        exact, guesses = exact[exact >= 0.0], screened[exact >= 0.0]
        factor = interval_factor(exact, guesses, 0.5, floor)
        if factor is None:
            continue
        ends = [interval(float(guess), factor, floor) for guess in guesses]
        inside = [low <= value <= high for value, (low, high) in zip(exact, ends, strict=True)]
        assert np.mean(inside) >= (1.0 if floor == 0.0 else 0.5)


def test_too_few_pieces_have_no_interval() -> None:
    for level, fewest in ((0.5, 1), (0.9, 9), (0.95, 19), (0.99, 99)):
        values = np.arange(1.0, fewest + 1.0)
        assert interval_factor(values[1:], values[1:], level, 0.1) is None
        assert interval_factor(values, values, level, 0.1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("exact", "screened", "level", "floor", "factor"),
    [
        # Factors of the five, on either side: 1, 2, 3, 5, 1.5.
        *(
            ([1.0, 2.0, 9.0, 1.0, 1.0], [1.0, 1.0, 3.0, 5.0, 1.5], level, 0.0, factor)
            for level, factor in ((0.15, 1.0), (0.3, 1.5), (0.5, 2.0), (0.6, 3.0), (0.8, 5.0))
        ),
        # What is impossible in both is no difference, and in one an infinite one.
        ([INF, 0.0, 1.0], [INF, 0.0, 1.0], 0.75, 0.0, 1.0),
        ([INF, 0.0, 1.0], [INF, 0.0, 1.0], 0.75, 0.1, 1.0),
        ([INF, 1.0, 2.0], [4.0, 1.0, 1.0], 0.75, 0.1, INF),
        ([4.0, 1.0, 2.0], [INF, 1.0, 1.0], 0.75, 0.1, INF),
        ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], 0.75, 0.0, INF),
        # A lower rank has a finite factor all the same, and a floor makes zero a finite difference.
        ([INF, 1.0, 2.0], [4.0, 1.0, 1.0], 0.5, 0.0, 2.0),
        ([0.0], [0.3], 0.5, 0.1, 4.0),
    ],
)
def test_the_factor_by_hand(
    exact: list[float], screened: list[float], level: float, floor: float, factor: float
) -> None:
    assert interval_factor(exact, screened, level, floor) == pytest.approx(factor)


def test_ends_of_intervals() -> None:
    for screened, factor, floor, ends in (
        *((3.0, 2.0, 1.0, (1.0, 7.0)), (0.5, 2.0, 1.0, (0.0, 2.0)), (0.0, 2.0, 0.0, (0.0, 0.0))),
        (INF, 2.0, 1.0, (INF, INF)),
        *((any_, INF, floor, (0.0, INF)) for any_ in (0.0, 3.0, INF) for floor in (0.0, 1.0)),
    ):
        assert interval(screened, factor, floor) == ends
    for factor in (0.9, math.nan):
        with pytest.raises(ValueError, match="factor"):
            interval(1.0, factor, 0.0)


def test_what_is_no_value_is_refused() -> None:
    one, nan = [1.0], math.nan
    for exact, screened, level, floor in (
        *((*pair, 0.5, 0.1) for pair in ((one, [1.0, 2.0]), ([-1.0], one), ([nan], one), (one, [nan]), ([one], [one]))),
        *((one, one, level, 0.1) for level in (0.0, 1.0, nan)),
        *((one, one, 0.5, floor) for floor in (-0.1, INF, nan)),
    ):
        with pytest.raises(ValueError):
            interval_factor(exact, screened, level, floor)
