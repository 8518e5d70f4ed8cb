"""Mixing two branches, drawing from the mixture, and the likeliest tokens; on NumPy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.examples import examples, few
from leakmeter.core import reductions
from leakmeter.core.reductions import FullDistribution, Labels, MixtureLogProbs, NextTokenSample, TargetLogProbs, Top
from leakmeter.stats import logspace

MAKERS: dict[str, Any] = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.fixture
def logits() -> np.ndarray:
    """Bare prompt, whole prompt, one cut: (3, 5 rows, 31 tokens)."""
    return np.random.default_rng(4).normal(size=(3, 5, 31)) * 2.5


@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_one_plus_beta_is_context_aware_decoding(logits: np.ndarray, strength: float) -> None:
    bare, full = logits[0], logits[1]
    # Shi et al. 2023: softmax[(1 + α) logit(y | c, x) − α logit(y | x)] = softmax(z + β (z − z₀)).
    expected = softmax(full + strength * (full - bare))
    got = np.exp(logspace.log_softmax(reductions.mix_with_first(logits, 1.0 + strength)))[1]
    np.testing.assert_allclose(got, expected, rtol=2e-14, atol=0)  # measured: 8.8e-15


@pytest.mark.parametrize("weight", [0.0, 1.0, 1.5])
def test_tokens_impossible_in_either_branch_stay_impossible_without_nan(weight: float) -> None:
    bare = np.array([0.0, -np.inf, 1.0, -np.inf, 2.0])
    full = np.array([0.5, 1.0, -np.inf, -np.inf, 3.0])
    stacked = np.stack([bare, full])[:, None, :]
    expected = np.where(np.isinf(bare) | np.isinf(full), -np.inf, weight * np.where(np.isinf(full), 0, full))
    expected[[0, 4]] += (1 - weight) * bare[[0, 4]]
    mixed = reductions.mix_with_first(stacked, weight)
    assert not np.isnan(mixed).any()
    np.testing.assert_allclose(mixed[1, 0], expected, rtol=1e-15)
    np.testing.assert_array_equal(mixed[0, 0], bare)
    in_torch = reductions.mix_with_first(torch.from_numpy(stacked), weight)
    np.testing.assert_array_equal(in_torch.numpy(), mixed)


@pytest.mark.parametrize(("weight", "temperature"), [(0.0, 1.0), (0.5, 0.7), (1.0, 1.0), (1.0, 2.0), (1.5, 0.7)])
def test_mixed_target_is_equation_6_written_out(logits: np.ndarray, weight: float, temperature: float) -> None:
    targets = np.array([3, 0, 30, 7, 7])
    got = MixtureLogProbs(weight, temperature).reduce(logits, targets)
    for prompt in range(3):
        full = logits[0] if prompt == 0 else logits[prompt]
        probabilities = softmax((weight * full + (1 - weight) * logits[0]) / temperature)
        expected = np.log(probabilities[np.arange(5), targets])
        np.testing.assert_allclose(got[prompt], expected, rtol=0, atol=1e-14)  # measured: 7.1e-15
    in_torch = MixtureLogProbs(weight, temperature).reduce(torch.from_numpy(logits), torch.from_numpy(targets))
    np.testing.assert_allclose(in_torch.numpy(), got, rtol=0, atol=1e-14)  # measured: 7.1e-15


@libraries
def test_draw_reports_the_log_probability_of_what_it_drew(make: Any) -> None:
    logits = np.random.default_rng(5).normal(size=(2, 3, 19))
    for uniform in np.linspace(0, 1, 41, endpoint=False):
        out = np.asarray(reductions.draw(make(logits), float(uniform), 0.8))
        assert out.shape == (2, 3, 2)
        tokens = out[..., 0].astype(int)
        cumulative = softmax(logits / 0.8).cumsum(axis=-1)
        expected = [[int(np.searchsorted(row, uniform, side="right")) for row in prompt] for prompt in cumulative]
        np.testing.assert_array_equal(tokens, expected)
        chosen = np.take_along_axis(logspace.log_softmax(logits, 0.8), tokens[..., None], axis=-1)[..., 0]
        np.testing.assert_allclose(out[..., 1], chosen, rtol=0, atol=1e-15)  # measured: 0


LARGEST = float(np.nextafter(1.0, 0.0))


@seed(2)
@settings(max_examples=examples(200))
@given(
    arrays(np.float64, st.integers(2, 40), elements=st.floats(-60, 60) | st.just(-np.inf)).filter(
        lambda z: np.isfinite(z).any()
    ),
    st.sampled_from([0.0, 5e-324, 0.5, 1 - 2**-24, 1 - 2**-40, LARGEST]) | st.floats(0, 1, exclude_max=True),
    st.sampled_from([0.3, 1.0, 2.0]),
)
def test_draw_is_in_range_and_never_impossible(logits: np.ndarray, uniform: float, temperature: float) -> None:
    for array in (logits[None, None], torch.from_numpy(logits)[None, None]):
        token, log_prob = np.asarray(reductions.draw(array, uniform, temperature))[0, 0]
        assert token == int(token)
        assert 0 <= token < len(logits)
        assert np.isfinite(logits[int(token)])
        assert np.isfinite(log_prob)


@pytest.mark.parametrize("uniform", [0.0, LARGEST])
def test_impossible_tokens_at_both_ends_of_a_wide_vocabulary_are_skipped(uniform: float) -> None:
    logits = np.full((1, 1, 50_000), -np.inf)
    logits[0, 0, 3:49_990] = np.random.default_rng(7).normal(size=49_987)
    for row in (logits.astype(np.float32), torch.from_numpy(logits)):
        assert int(reductions.draw(row, uniform, 1.0)[0, 0, 0]) == (3 if uniform == 0.0 else 49_989)


def test_wants_say_which_rows_they_need() -> None:
    for want, rows, together in (
        (TargetLogProbs(), [0, 1, 2], False),
        (MixtureLogProbs(1.0), [0, 1, 2], True),
        (FullDistribution(), [0, 1, 2, 3], False),
        (NextTokenSample(0.5), [3], False),
        (NextTokenSample(0.5, 1.5), [3], True),
    ):
        assert ([*want.rows(3)], want.rows_together) == (rows, together)


def test_a_mixed_draw_is_a_draw_from_the_mixture(logits: np.ndarray) -> None:
    labels = np.log(softmax(logits / 0.8))[..., [4, 0, 30]]
    for rows in (logits, torch.from_numpy(logits)):
        got = np.asarray(Labels((4, 0, 30), 0.8).reduce(rows, None))
        np.testing.assert_allclose(got, labels, rtol=0, atol=1e-13)
    one_row = logits[:2, :1]
    out = NextTokenSample(0.37, 1.5, 0.8).reduce(one_row, np.array([0]))
    expected = reductions.draw((1.5 * one_row[1:] - 0.5 * one_row[:1]), 0.37, 0.8)
    assert out[1, 0, 0] == expected[0, 0, 0]
    assert out[1, 0, 1] == pytest.approx(expected[0, 0, 1], abs=1e-14)


def slow(logits: np.ndarray, k: int) -> np.ndarray:
    ids = np.argsort(-logits, axis=-1, kind="stable")[..., :k]
    return np.stack([ids, np.take_along_axis(np.asarray(logspace.log_softmax(logits)), ids, axis=-1)], axis=-1)


@libraries
@pytest.mark.parametrize("n_vocab", [1, 5, 127, 128, 129, 1000])  # around the size of a block, and of one token
@pytest.mark.parametrize("k", [1, 3, 200])
def test_the_same_as_a_sort(make: Any, n_vocab: int, k: int) -> None:
    logits = np.random.default_rng(n_vocab).normal(scale=4, size=(3, 1, n_vocab)).astype(np.float32)
    got = np.asarray(Top(k).reduce(make(logits), None))
    assert got.dtype == np.float64
    assert got.shape == (3, 1, min(k, n_vocab), 2)
    # The same sums; torch's exponentials differ. Worst measured: 3e-8.
    np.testing.assert_allclose(got, slow(logits, k), rtol=0, atol=5e-7 if make is torch.from_numpy else 0)


@libraries
@seed(120)
@given(
    st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 2.0]), min_size=1, max_size=300).filter(
        lambda row: max(row) > -np.inf
    ),
    st.integers(1, 12),
)
def test_ties_go_to_the_lowest_id_and_no_token_comes_twice(make: Any, row: list[float], k: int) -> None:
    got = np.asarray(Top(k).reduce(make(np.asarray([[row]])), None))[0, 0]
    expected = slow(np.asarray([[row]]), k)[0, 0]
    assert got[:, 0].tolist() == expected[:, 0].tolist()
    np.testing.assert_allclose(got[:, 1], expected[:, 1], rtol=0, atol=1e-14)


@pytest.mark.parametrize("make", few(MAKERS.values()), ids=MAKERS)
def test_wide_vocabularies_and_large_logits(make: Any) -> None:
    rng = np.random.default_rng(1)
    for n_vocab in (50_257, 262_144):
        logits = (1e4 + rng.normal(size=(2, 1, n_vocab))).astype(np.float32)
        got = np.asarray(Top(10).reduce(make(logits), None))
        np.testing.assert_allclose(got, slow(logits, 10), rtol=0, atol=2e-6)
    # Half precision is widened.
    half = torch.from_numpy(rng.normal(size=(2, 1, 300))).to(torch.bfloat16)
    np.testing.assert_allclose(Top(5).reduce(half, None).numpy(), slow(half.float().numpy(), 5), rtol=0, atol=5e-7)


@libraries
def test_what_is_not_a_number_stays_so(make: Any) -> None:
    logits = np.zeros((1, 1, 300), dtype=np.float32)
    logits[0, 0, 7] = np.nan
    assert np.isnan(np.asarray(Top(3).reduce(make(logits), None))[..., 1]).all()
