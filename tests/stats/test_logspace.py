"""Log-probabilities against 50-digit arithmetic, in both array libraries and every precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from leakmeter.stats import logspace

mpmath.mp.dps = 50
libraries = pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


def exact_log_softmax(logits: Sequence[float], temperature: float = 1.0) -> np.ndarray:
    """log softmax(z / T) by 50-digit arithmetic, rounded once at the end, (vocab,)."""
    scaled = [mpmath.mpf(float(z)) / mpmath.mpf(temperature) for z in logits]
    normaliser = mpmath.log(mpmath.fsum(mpmath.exp(z) for z in scaled))
    return np.asarray([float(z - normaliser) for z in scaled])


LOGITS = {
    "ordinary": np.random.default_rng(0).normal(size=(3, 4, 23)) * 3,
    "huge": np.random.default_rng(1).normal(size=(3, 4, 23)) * 1e6,
    "shifted": np.random.default_rng(2).normal(size=(3, 4, 23)) + 1e8,
    "tiny": np.random.default_rng(3).normal(size=(3, 4, 23)) * 1e-12,
}


@libraries
@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("kind", LOGITS)
def test_log_softmax_in_float64_is_exact(kind: str, temperature: float, library: Any) -> None:
    logits, targets = LOGITS[kind], np.array([0, 5, 22, 5])
    expected = np.apply_along_axis(exact_log_softmax, -1, logits, temperature)
    got, of_targets = (
        np.asarray(made)
        for made in (
            logspace.log_softmax(library(logits), temperature),
            logspace.target_log_probs(library(logits), library(targets), temperature),
        )
    )
    assert got.dtype == of_targets.dtype == np.float64
    # The rounding of z/T and of the normaliser: an ulp of the largest logit each. Measured: 2 ulps; 9e-16 for tiny.
    room = 2 * np.spacing(np.abs(logits / temperature).max()) + 2e-15
    assert np.abs(got - expected).max() <= room
    assert np.abs(of_targets - expected[:, np.arange(4), targets]).max() <= room


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_log_softmax_of_lower_precisions_is_that_of_float32(dtype: torch.dtype, temperature: float) -> None:
    logits = torch.from_numpy(LOGITS["ordinary"]).to(dtype)
    expected = np.apply_along_axis(exact_log_softmax, -1, logits.double().numpy(), temperature)
    got = logspace.log_softmax(logits, temperature)
    assert got.dtype == torch.float64
    # Half precision is widened first: what is left is float32's rounding of exp (measured: 1.9e-8) and, where T is no
    # power of two, of z/T (measured: 9.4e-7).
    assert np.abs(got.numpy() - expected).max() <= (1.5e-6 if temperature == 0.7 else 4e-8)


@libraries
def test_impossible_tokens_have_no_probability_and_take_none(library: Any) -> None:
    logits = library(np.array([[[1.0, -np.inf, 2.0, -np.inf], [-np.inf, -np.inf, -3.0, -np.inf]]]))
    got = np.asarray(logspace.log_softmax(logits))
    np.testing.assert_allclose(got[0, 0, [0, 2]], exact_log_softmax([1.0, 2.0]), rtol=0, atol=1e-15)
    assert got[0, 1, 2] == 0.0
    assert np.isneginf(got).tolist() == [[[False, True, False, True], [True, True, False, True]]]
    assert (np.asarray(logspace.target_log_probs(logits, library(np.array([1, 1])), 0.5)) == -np.inf).all()


@libraries
def test_a_large_vocabulary_costs_no_digits(library: Any) -> None:
    # A float32 running sum over 200,000 equal terms loses digits; measured here: no difference at all.
    n = 200_000
    got = logspace.log_softmax(library(np.zeros((1, 1, n), dtype=np.float32)))[0, 0, 0]
    assert float(got) == pytest.approx(-np.log(n), rel=0, abs=1.8e-15)


@libraries
def test_float32_logits_near_its_limit_neither_overflow_nor_warn(library: Any) -> None:
    for top in (3e38, -3e38):
        logits = np.array([[[top, top, 0.0]]], dtype=np.float32)
        got = np.asarray(logspace.log_softmax(library(logits)))[0, 0]
        # What a float64 as large as the logits can say: log 2 is far below its last digit here.
        assert np.abs(got - [0.0 if top > 0 else top, 0.0 if top > 0 else top, min(-top, 0.0)]).max() <= 1e31


def test_labels_are_scored_without_a_temperature_where_none_is_given() -> None:
    logits = np.asarray([[[0.0, 1.0, 3.0]]])
    expected = logits[0, 0] - np.log(np.exp(logits[0, 0]).sum())
    np.testing.assert_allclose(logspace.label_log_probs(logits, (0, 2))[0, 0], expected[[0, 2]])


def test_weights_from_none_to_the_strongest_can_be_computed_with() -> None:
    strongest = logspace.STRONGEST
    good = {weight: logspace.checked_weight(weight)[0] for weight in (-0.1, 0.0, strongest, 1.01 * strongest)}
    assert good == {-0.1: False, 0.0: True, strongest: True, 1.01 * strongest: False}
