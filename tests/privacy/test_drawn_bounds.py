"""Bounds hold for the whole-number weights that tokens are drawn by, of vocabularies as large as a model's."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from helpers.exact_bounds import exact_loss_is_within, exact_range_is_within, whole
from leakmeter.privacy.bounded import bounded_mixture
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.mechanism import ClippedLogitAggregation
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.exact_draw import draw, weights_of

LIBRARIES = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
# Exact fractions of 50,000 tokens take half a second each; what torch does otherwise is tested with fewer.
numpy_first = pytest.mark.parametrize(
    "library", [np.asarray, pytest.param(torch.from_numpy, marks=pytest.mark.long)], ids=LIBRARIES
)
N_VOCAB = 50_000
DENORMAL = 5e-324


def adversarial(kind: str) -> tuple[FloatArray, FloatArray]:
    """Logits with the context and without, (vocab,)."""
    rng = np.random.default_rng(11)
    bare = rng.normal(size=N_VOCAB) * 4
    full = bare + rng.normal(size=N_VOCAB) * 3
    match kind:
        case "ruled out by both":
            bare[::3] = full[::3] = -np.inf
        case "ruled out without context":
            bare[::7] = -np.inf
        case "ruled out by the context alone":
            full[5] = -np.inf
        case "denormal":
            bare = np.where(rng.random(N_VOCAB) < 0.5, DENORMAL, 0.0) * rng.choice([1.0, -1.0, 3.0], size=N_VOCAB)
            full = np.where(rng.random(N_VOCAB) < 0.5, -DENORMAL, DENORMAL)
        case "probabilities below any float64":
            bare = np.concatenate([[0.0], rng.uniform(-2000, -30, size=N_VOCAB - 1)])
            full = bare + rng.normal(size=N_VOCAB) * 5
        case "ties":
            bare = np.full(N_VOCAB, 1.0)
            full = np.repeat([0.0, 1.0, 1.0 + 2.0**-52, 5.0], N_VOCAB // 4)
        case "one token":
            full, bare = (np.where(np.arange(N_VOCAB) == token, 60.0, -60.0) for token in (40_000, 17))
    return full, bare


QUICK = ("ordinary", "ruled out by both")
LONG = ("ruled out without context", "ruled out by the context alone", "denormal", "probabilities below any float64")


@numpy_first
@pytest.mark.parametrize(
    "kind", [*QUICK, *(pytest.param(kind, marks=pytest.mark.long) for kind in (*LONG, "ties", "one token"))]
)
def test_a_bounded_mixture_of_50_000_tokens_keeps_its_ratio_exactly(library: Any, kind: str) -> None:
    full, bare = (library(of[None]) for of in adversarial(kind))
    for bound in (0.25, 1e-6):
        made = bounded_mixture(full, bare, bound)
        weights, bare_weights = (np.asarray(of)[0] for of in (made.weights, made.bare_weights))
        assert exact_loss_is_within(weights, bare_weights, bound)
    assert np.isfinite(weights).all()
    if kind != "ruled out by the context alone":
        assert float(made.weight[0]) > 0


@pytest.mark.parametrize("kind", [*QUICK, "probabilities below any float64"])
def test_tokens_of_a_large_vocabulary_have_as_many_numbers_as_their_weight_says(kind: str) -> None:
    """The first and the last number of some tokens' stretch, and the number after it, which is another token's."""
    weights = np.asarray(weights_of(bounded_mixture(*(of[None] for of in adversarial(kind)), 0.25).log_probs))[0]
    units = [number << (1126 - 1074) for number in whole(weights)]
    assert all(Fraction(units[v], 2**1126) == Fraction(float(weights[v])) for v in (0, 1, 2))

    def token_at(number: int) -> int:
        return int(draw(weights[None], Mock(take=lambda *_: number))[0, 0])

    total, at = sum(units), 0
    for _ in range(20):
        token = token_at(at)
        assert units[token] > 0
        assert token_at(at + units[token] - 1) == token
        at += units[token]
        assert token_at(at) != token
    assert total > at


def votes(rng: np.random.Generator, s: int, n_vocab: int, clip: float) -> FloatArray:
    """Rows of exemplars of which the first moves the others' mean as far as it can, in either direction."""
    rows = np.where(rng.random((s, n_vocab)) < 0.5, 0.0, -1e4) + clip * rng.normal(size=(s, n_vocab)) * 0.1
    rows[0] = -1e4
    rows[0, 0] = rows[1:, 2] = 0.0
    rows[1:, 0] = rng.choice([0.0, -1e4, -np.inf])
    return np.asarray(rows)


SETTINGS = [
    Aggregation(clip, s, temperature, normalise_by)
    for normalise_by in ("fixed", "present")
    for s in (2, 3, 50)
    for clip, temperature in ((10.0, 4.8), (0.1, 0.1), (100.0 / 3.0, 0.3), (7.5, 1e-2), (2.0, 300.0))
]


@libraries
def test_clipped_votes_with_and_without_an_exemplar_keep_their_range_exactly(library: Any) -> None:
    """log W − log W′ spans 2Δ at most, which is what bounds both the pure loss and every Rényi divergence."""
    rng = np.random.default_rng(12)
    for aggregation, n_vocab in itertools.product(SETTINGS, (3, 60)):
        rule = ClippedLogitAggregation(aggregation)
        rows = library(votes(rng, aggregation.subset_size, n_vocab, aggregation.clip))
        with_all, without = (np.asarray(weights_of(rule.log_probs(of))) for of in (rows, rows[1:]))
        assert exact_range_is_within(with_all, without, 2.0 * aggregation.sensitivity()), aggregation
        # What is drawn is what was asked for row by row.
        np.testing.assert_array_equal(rule.vote(rows).log_probs, rule.log_probs(rows))


def test_the_smaller_clip_is_next_to_the_one_that_was_given() -> None:
    for aggregation in SETTINGS:
        lost = 1.0 - aggregation.applied_clip / aggregation.clip
        assert 0.0 < lost < 1e-8
        # c′ / (sτ) + 2η ≤ c / (sτ), as fractions: η without the two roundings of c / τ that are left for c′ itself.
        s, temperature = aggregation.subset_size, Fraction(aggregation.temperature)
        needed = Fraction(aggregation.rounding) - Fraction(aggregation.clip) / temperature / 2**52
        assert needed > 0
        assert Fraction(aggregation.applied_clip) + 2 * needed * s * temperature <= Fraction(aggregation.clip)
    assert 1.0 - Aggregation(10.0, 50, 4.8).applied_clip / 10.0 < 1e-12
    # A clip that rounding could exceed says nothing at all.
    lost_in_rounding = Aggregation(1e-9, 50, 1e9)
    assert lost_in_rounding.applied_clip == 0.0
    log_probs = ClippedLogitAggregation(lost_in_rounding).log_probs(np.random.default_rng(0).normal(size=(50, 8)))
    assert len(set(log_probs.tolist())) == 1
