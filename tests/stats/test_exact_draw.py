"""Draws: every token has exactly the probability that its weight says, and bits follow from all they should."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from helpers.examples import few
from leakmeter.stats.exact_draw import N_BITS, Bits, StreamBits, SystemBits, draw, weights_of

libraries = pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


def whole(weights: Any) -> list[int]:
    """What weights are in units of 2^-1126, the smallest digit of the smallest float64."""
    return [int(Fraction(float(weight)) * 2**1126) for weight in weights]


@dataclass
class Said:
    """One number after another."""

    numbers: list[int]
    asked: list[tuple[int, int, int]] = field(default_factory=list)

    def take(self, n: int, row: int, attempt: int) -> int:
        self.asked.append((n, row, attempt))
        return self.numbers.pop(0)


def drawn_at(weights: Any, *numbers: int) -> int:
    return int(draw(np.asarray(weights)[None], Said(list(numbers)))[0, 0])


def made(rng: np.random.Generator, n: int) -> np.ndarray:
    """Weights of all sizes: near each other, far below, denormal, none."""
    logs = rng.choice([0.0, -1e-9, -1.0, -36.7, -69.1, -400.0, -707.0], size=n) + rng.normal(size=n)
    weights = np.exp(np.minimum(logs, 0.0))
    weights[rng.random(n) < 0.2] = 5e-324
    weights[rng.random(n) < 0.2] = 0.0
    return weights if weights.any() else np.ones(n)


def test_every_number_below_the_total_stands_for_one_token() -> None:
    """As many of them as its weight says, in one stretch: looked at where each stretch begins and ends."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        weights = made(rng, int(rng.integers(1, 14)))
        units = whole(weights)
        assert [Fraction(one, 2**1126) for one in units] == [Fraction(float(weight)) for weight in weights]
        total, at, seen = sum(units), 0, []
        while at < total:
            token = drawn_at(weights, at)
            assert drawn_at(weights, at + units[token] - 1) == token
            seen.append(token)
            at += units[token]
        assert sorted(seen) == [token for token, one in enumerate(units) if one]
        # A number beyond the total is thrown away.
        assert drawn_at(weights, total, total + 1, 0) == drawn_at(weights, 0)


@pytest.mark.parametrize("library", few([np.asarray, torch.from_numpy]), ids=["numpy", "torch"])
@pytest.mark.parametrize("bits", [SystemBits, lambda: StreamBits(b"chi-square")], ids=["system", "stream"])
def test_draws_are_as_often_as_weights_say(library: Any, bits: Any) -> None:
    weights = np.array([0.02, 0.3, 1e-40, 0.08, 0.0, 0.4, 0.2])
    n = 1000
    rows = library(np.broadcast_to(weights, (n, 7)).copy())
    tokens = draw(rows, bits())
    assert tuple(tokens.shape) == (n, 1)
    counts = np.bincount(np.asarray(tokens)[:, 0], minlength=7)
    likely = weights > 1e-3
    expected = n * weights[likely] / weights.sum()
    # The operating system's differ each time: 4 degrees of freedom pass 30 once in 200,000.
    assert ((counts[likely] - expected) ** 2 / expected).sum() < 30
    assert counts[~likely].tolist() == [0, 0]


def test_attempts_and_rows_have_bits_of_their_own() -> None:
    said = Said([2**N_BITS - 1, 2**N_BITS - 1, 0, 5])
    draw(np.array([[0.5, 0.5], [0.25, 0.75]]), said)
    assert said.asked == [(N_BITS, 0, 0), (N_BITS, 0, 1), (N_BITS, 0, 2), (N_BITS, 1, 0)]
    # Some sum of probabilities is a little above 1, and some a little below: both take the same bits.
    for total in (1.0 - 1e-12, 1.0, 1.0 + 1e-12):
        asked = Said([0])
        draw(np.array([[total / 2, total / 2]]), asked)
        assert asked.asked == [(N_BITS, 0, 0)]


def test_streams_repeat_and_have_nothing_in_common() -> None:
    places = list(itertools.product((b"one", b"two"), ((), (0,), (0, 0), (0, 1), (1, 0)), (0, 1), (0, 1)))
    numbers, again = (
        [StreamBits(key, place).take(256, row, attempt) for key, place, row, attempt in places] for _ in range(2)
    )
    assert numbers == again
    assert len(set(numbers)) == len(places)
    assert all(number < 2**256 for number in numbers)
    together = np.array([[number >> i & 1 for i in range(256)] for number in numbers])
    # Correlations of 40 streams of 256 bits: 780 pairs, of which none is beyond 5.5 standard deviations.
    correlations = np.corrcoef(together)[np.triu_indices(len(places), 1)]
    assert np.abs(correlations).max() < 5.5 / 16
    for n in (1, 7, 8, 9, 1127):
        assert max(StreamBits(b"k").take(n, 0, i) for i in range(40)).bit_length() == n


def test_the_system_s_bits_do_not_repeat() -> None:
    bits: Bits = SystemBits()
    assert len({bits.take(128, 0, 0) for _ in range(50)}) == 50
    assert bits == SystemBits()


@libraries
def test_weights_of_log_probabilities(library: Any) -> None:
    found = np.asarray(weights_of(library(np.array([0.0, -1.0, -708.0, -1e6, -np.inf]))))
    assert found[:2].tolist() == [1.0, np.exp(-1.0)]
    assert found[2] == found[3] > 2.2250738585072014e-308
    assert found[4] == 0.0


def test_not_a_number_is_not_drawn_over() -> None:
    assert drawn_at([0.5, np.nan, 0.5], 0) == 1
    with pytest.raises(ValueError, match="all weights are 0"):
        drawn_at([0.0, 0.0], 0)
    with pytest.raises(ValueError, match="more than the sums have room for"):
        draw(np.ones((1, 2**20 + 1)), SystemBits())
