"""Bounded mixtures: the bound holds whatever the logits, λ is the largest that keeps it, receipts say what was done."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.exact_bounds import exact_loss_is_within
from helpers.examples import examples
from leakmeter.core.reductions import MixtureLogProbs, NextTokenSample
from leakmeter.privacy import bounded
from leakmeter.privacy.bounded import Mixture, bounded_mixture, mixture
from leakmeter.privacy.decoding import RECEIPT, Decoding, NextTokenSampleWithLoss, TargetLogProbsWithLoss, without
from leakmeter.stats.exact_draw import StreamBits, SystemBits

LIBRARIES = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)

ordinary = st.floats(-60, 60)
huge = st.sampled_from([-1.7e308, -3.4e38, -1e30, -1e5, 0.0, 1e5, 1e30, 3.4e38, 1.7e308])
near_ties = st.integers(-4, 4).map(lambda n: 1.0 + n * 2.0**-50)
masked = st.just(-np.inf)
VOCABULARY = st.integers(2, 30)


def exact(log_probs: Any) -> np.ndarray:
    """Log-probabilities as numbers of more digits, normalised once more, impossible tokens at −inf."""
    wide = np.asarray(log_probs).astype(np.longdouble)
    top = wide.max(axis=-1, keepdims=True)
    return wide - top - np.log(np.exp(wide - top).sum(axis=-1, keepdims=True))


def largest_loss(made: Mixture) -> float:
    """max_v |log p̄(v) − log p(v)| over the tokens that either may say, from what was returned."""
    full, bare = exact(made.log_probs), exact(made.bare_log_probs)
    assert (np.isfinite(full) == np.isfinite(bare)).all()
    both = np.isfinite(full)
    return float(np.abs(full[both] - bare[both]).max())


@st.composite
def branches(draw: st.DrawFn, elements: st.SearchStrategy[float]) -> tuple[np.ndarray, np.ndarray]:
    n = draw(VOCABULARY)
    full, bare = (draw(arrays(np.float64, n, elements=elements)) for _ in range(2))
    if draw(st.booleans()):
        full = np.where(draw(arrays(np.bool_, n)), bare, full)
    assume(np.isfinite(bare).any())
    return full, bare


ALL_KINDS = ordinary | huge | near_ties | masked
PARAMETERS = {
    "bound": st.sampled_from([0.0, 1e-9, 0.25, 5.0, 300.0]) | st.floats(1e-6, 10),
    "temperature": st.sampled_from([0.01, 0.5, 1.0, 3.0]),
    "max_weight": st.sampled_from([0.0, 0.5, 1.0, 1.5, 1e6]),
}


@seed(24)
@settings(max_examples=examples(400))
@given(pair=branches(ordinary) | branches(ordinary | masked) | branches(near_ties) | branches(ALL_KINDS), **PARAMETERS)
def test_the_bound_holds_whatever_the_logits(
    pair: tuple[np.ndarray, np.ndarray], bound: float, temperature: float, max_weight: float
) -> None:
    for library in LIBRARIES.values():
        made = bounded_mixture(library(pair[0]), library(pair[1]), bound, temperature, max_weight)
        # Nearest to it in 12,000 examples: 2.4e-14 below.
        assert largest_loss(made) <= bound
        assert 0.0 <= float(made.max_loss) <= bound
        assert 0.0 <= float(made.weight) <= max_weight
        possible = np.isfinite(np.asarray(made.log_probs))
        assert not possible[np.isinf(pair[1])].any()
        # Of the fractions that are drawn by: whole numbers against a bound of 60 digits, where nothing is rounded.
        assert exact_loss_is_within(made.weights, made.bare_weights, bound)
        # What is told of the largest loss is not below what it is.
        assert exact_loss_is_within(made.weights, made.bare_weights, float(made.max_loss))
        # And the receipts' logarithms are those of the fractions.
        told, meant = exact(made.log_probs), exact(np.log(np.maximum(np.asarray(made.weights), 1e-320)))
        np.testing.assert_allclose(told[possible].astype(float), meant[possible].astype(float), rtol=0, atol=1e-12)


def test_which_rows_are_needed_and_by_what_a_token_is_drawn() -> None:
    one, other = NextTokenSampleWithLoss(Decoding(), 0.5), TargetLogProbsWithLoss(Decoding(), 1, 3)
    assert ([*one.rows(3)], [*other.rows(5)]) == ([3], [1, 2])
    assert [*TargetLogProbsWithLoss(Decoding(), 1, 9).rows(5)] == [1, 2, 3, 4]
    assert (one.rows_together, one.continues, other.continues) == (True, True, False)
    with pytest.raises(TypeError, match="needs random bits"):
        NextTokenSampleWithLoss(Decoding(1.0, 1.0, 0.3), 0.5)
    with pytest.raises(TypeError, match="a number in"):
        NextTokenSampleWithLoss(Decoding(), SystemBits())


@seed(21)
@settings(max_examples=examples(200))
@given(VOCABULARY, st.data(), st.sampled_from([1e-3, 0.5, 4.0]), st.sampled_from([0.5, 1.0]))
def test_no_other_context_is_further_than_epsilon(
    n: int, data: st.DataObject, epsilon: float, temperature: float
) -> None:
    bare = data.draw(arrays(np.float64, n, elements=ordinary | masked).filter(lambda z: np.isfinite(z).any()))
    contexts = data.draw(arrays(np.float64, (4, n), elements=ordinary | masked | huge))
    made = bounded_mixture(contexts, bare[None], epsilon / 2, temperature, 2.0)
    full = exact(made.log_probs)
    possible = np.isfinite(full[0])
    assert (np.isfinite(full) == possible).all()
    spread = full[:, None, possible] - full[None, :, possible]
    assert np.abs(spread).max() <= epsilon  # nearest to it in 3,000 examples: 8.3e-13 below


@seed(22)
@settings(max_examples=examples(200))
@given(branches(ordinary) | branches(near_ties), st.floats(1e-4, 10), st.sampled_from([0.3, 1.0]))
def test_no_larger_weight_would_do(pair: tuple[np.ndarray, np.ndarray], bound: float, temperature: float) -> None:
    for library in LIBRARIES.values():
        full, bare = map(library, pair)
        weight = float(bounded_mixture(full, bare, bound, temperature, 2.0).weight)
        if weight < 2.0:
            larger = mixture(full, bare, weight * (1 + 1e-6) + 1e-300, temperature)
            # Rounding is left room: 1.4e-14 for each nat of the least likely token.
            assert float(larger.max_loss) > bound - 1e-10


@seed(23)
@settings(max_examples=examples(200))
@given(pair=branches(ordinary), weights=st.lists(st.floats(0, 5), min_size=2, max_size=2))
def test_the_loss_never_falls_as_the_weight_grows(pair: tuple[np.ndarray, np.ndarray], weights: list[float]) -> None:
    less, more = (float(mixture(*pair, weight).max_loss) for weight in sorted(weights))
    assert less <= more + 1e-12
    width = float(np.ptp(pair[0] - pair[1])) * max(weights)
    assert width / 2 - 1e-12 <= more <= width + 1e-12


@libraries
def test_a_weight_that_keeps_the_bound_is_reached_to_the_last_bit(library: Any) -> None:
    bare = library(np.zeros(3))
    for logits, bound in (([0.0, 0.1, 0.2], 10.0), ([0.0, 0.0, 0.0], 1e-9), ([1e6, 1e6 + 0.1, 1e6 + 0.2], 10.0)):
        assert float(bounded_mixture(library(np.array(logits)), bare, bound, max_weight=1.5).weight) == 1.5


@libraries
def test_two_tokens_have_a_weight_that_can_be_written_down(library: Any) -> None:
    # Two even tokens tilted apart by x: the losses are log(2 / (1 + e^−x)) and log((1 + e^x) / 2), the larger.
    made = bounded_mixture(library(np.array([0.0, 3.0])), library(np.zeros(2)), 0.25)
    tilt = np.log(2 * np.exp(0.25) - 1)
    assert float(made.weight) == pytest.approx(tilt / 3.0, rel=1e-7)
    assert float(made.weight) <= tilt / 3.0
    assert float(made.max_loss) == pytest.approx(0.25, rel=1e-7)


@libraries
def test_impossible_tokens(library: Any) -> None:
    bare = np.array([0.0, 1.0, -np.inf, 0.5, -np.inf])
    full = np.array([0.3, 0.0, 5.0, 0.1, -np.inf])
    made = bounded_mixture(library(full), library(bare), 0.1)
    assert np.isfinite(np.asarray(made.log_probs)).tolist() == [True, True, False, True, False]
    assert 0 < float(made.weight) < 1
    # Ruled out under the context alone: the prior, bit for bit.
    full[1] = -np.inf
    made = bounded_mixture(library(full), library(bare), 0.1)
    assert float(made.weight) == float(made.max_loss) == 0.0
    assert np.asarray(made.log_probs).tolist() == np.asarray(made.bare_log_probs).tolist()
    assert np.isfinite(float(made.log_probs[1]))
    # Unbounded, it is ruled out, and has no finite loss.
    made = mixture(library(full), library(bare), 0.7)
    assert float(made.max_loss) == np.inf
    assert np.isfinite(np.asarray(made.log_probs)).tolist() == [True, False, False, True, False]


@libraries
def test_a_token_that_is_never_drawn_does_not_hold_the_weight_down(library: Any) -> None:
    # Half-open masks: some models put the smallest float32 where others put −inf.
    bare = np.array([0.0, 0.3, 0.1, -3.4e38])
    full = np.array([0.5, 0.1, 0.2, 1.0])
    made, plain = (bounded_mixture(library(full[:n]), library(bare[:n]), 0.1) for n in (4, 3))
    assert float(made.weight) == float(plain.weight) > 0
    assert np.asarray(made.log_probs)[3] == -np.inf


@libraries
@pytest.mark.parametrize("temperature", [1e-30, 0.5, 1.0])
def test_differences_that_overflow_are_no_nan(library: Any, temperature: float) -> None:
    full, bare = (library(np.array(logits)) for logits in ([1e308, -1e308, 0.0], [-1e308, 1e308, 0.0]))
    for made in (bounded_mixture(full, bare, 1.0, temperature), mixture(full, bare, 0.5, temperature)):
        for numbers in (made.weight, made.log_probs, made.bare_log_probs, made.max_loss):
            assert not np.isnan(np.asarray(numbers)).any()
    equal = library(np.array([1e308, 1e308]))
    assert np.asarray(bounded_mixture(equal, equal, 1.0, temperature).log_probs) == pytest.approx(np.log([0.5, 0.5]))


@libraries
@pytest.mark.parametrize("place", [0, 1])
def test_nan_is_not_swept_under_the_bound(library: Any, place: int) -> None:
    logits = np.zeros((2, 3))
    logits[place, 1] = np.nan
    made = bounded_mixture(library(logits[:1]), library(logits[1:]), 0.5)
    assert np.isnan(np.asarray(made.log_probs)).any()


@libraries
def test_rows_do_not_disturb_each_other(library: Any) -> None:
    full, bare = np.random.default_rng(3).normal(size=(2, 4, 19)) * 3
    full[2, 3] = -np.inf
    together = bounded_mixture(library(full), library(bare), 0.2, 0.8)
    for row in range(4):
        alone = bounded_mixture(library(full[row]), library(bare[row]), 0.2, 0.8)
        assert float(together.weight[row]) == float(alone.weight)
        np.testing.assert_allclose(np.asarray(together.log_probs[row]), np.asarray(alone.log_probs), rtol=0, atol=1e-15)


LOGITS, TARGETS = np.random.default_rng(4).normal(size=(3, 5, 31)) * 2.5, np.array([3, 0, 30, 7, 7])


@pytest.mark.parametrize(("bound", "random"), [(None, 0.37), (0.2, StreamBits(b"numpy and torch"))])
def test_numpy_and_torch_agree(bound: float | None, random: Any) -> None:
    decoding, masked_ids = Decoding(0.8, 1.5, bound), (4, 9)
    for reduction in (
        TargetLogProbsWithLoss(decoding, 0, 5, masked_ids),
        NextTokenSampleWithLoss(decoding, random, masked_ids),
    ):
        ours = reduction.reduce(LOGITS, TARGETS)
        theirs = reduction.reduce(torch.from_numpy(LOGITS), torch.from_numpy(TARGETS))
        assert ours.shape == (3, 5, len(RECEIPT))
        np.testing.assert_allclose(theirs.numpy(), ours, rtol=0, atol=1e-14)  # measured: 3.6e-15


def named(values: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(RECEIPT, np.moveaxis(values, -1, 0), strict=True))


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 1.5])
def test_receipts_of_a_response_are_what_mixed_target_gives(weight: float) -> None:
    got = named(TargetLogProbsWithLoss(Decoding(0.8, weight), 0, 5).reduce(LOGITS, TARGETS))
    expected = MixtureLogProbs(weight, 0.8).reduce(LOGITS, TARGETS)
    np.testing.assert_allclose(got["log_prob"], expected, rtol=0, atol=1e-14)  # measured: 3.6e-15
    np.testing.assert_allclose(got["bare_log_prob"], np.broadcast_to(expected[:1], (3, 5)), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(got["token"], np.broadcast_to(TARGETS, (3, 5)))
    np.testing.assert_array_equal(got["weight"], [[0.0] * 5, [weight] * 5, [weight] * 5])
    assert (np.abs(got["log_prob"] - got["bare_log_prob"]) <= got["max_loss"] + 1e-14).all()


def test_a_draw_with_a_receipt_draws_what_a_draw_draws() -> None:
    logits = np.random.default_rng(6).normal(size=(2, 1, 31)) * 2.5
    for uniform in np.linspace(0, 1, 101, endpoint=False):
        got = named(NextTokenSampleWithLoss(Decoding(0.8, 1.5), float(uniform)).reduce(logits, np.array([0])))
        expected = NextTokenSample(float(uniform), 1.5, 0.8).reduce(logits, np.array([0]))
        np.testing.assert_array_equal(got["token"], expected[..., 0])
        np.testing.assert_allclose(got["log_prob"], expected[..., 1], rtol=0, atol=1e-14)


@libraries
def test_masked_tokens_are_in_no_branch(library: Any) -> None:
    logits = library(np.random.default_rng(8).normal(size=(2, 1, 9)) * 2)
    np.testing.assert_array_equal(np.isinf(np.asarray(without(logits, (2, 5)))).nonzero()[-1], [2, 5, 2, 5])
    assert without(logits, ()) is logits
    sample = NextTokenSampleWithLoss(Decoding(1.0, 1.0, 0.3), SystemBits(), (2, 5))
    for _ in range(40):
        got = named(np.asarray(sample.reduce(logits, None)))
        assert not {2.0, 5.0} & set(got["token"].ravel())
        assert got["weight"][1, 0] > 0
        assert np.isfinite(got["log_prob"]).all()


@libraries
def test_tokens_that_float64_loses_beside_others_keep_their_bound(library: Any) -> None:
    """Beside a sum of 1, float64 has no number for a token of 1e-30: inverting sums gave it nothing, or too much."""
    rng = np.random.default_rng(9)
    bare = np.concatenate([[0.0], -rng.uniform(30, 690, size=5000)])
    full = bare + rng.normal(size=bare.shape) * 3
    for contexts, prior, bound in (
        *((full, bare, 0.25), (full, bare, 1.0)),
        # With ε = 500 a token of e^-690 would fall to e^-940, which float64 has not.
        (np.array([0.0, -9000.0, -1.0]), np.array([0.0, -690.0, -1.0]), 250.0),
    ):
        made = bounded_mixture(library(contexts[None]), library(prior[None]), bound)
        weights, bare_weights = (np.asarray(of)[0] for of in (made.weights, made.bare_weights))
        assert float(made.weight[0]) > 0
        assert (weights > 0).all()
        assert (weights != bare_weights).any()
        assert exact_loss_is_within(weights, bare_weights, bound)


@libraries
def test_the_work_is_the_same_whatever_the_context(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a step takes may be seen from outside: λ = 0, λ_max at once or a search take as many evaluations."""
    evaluated = Mock(wraps=bounded._loss)
    monkeypatch.setattr(bounded, "_loss", evaluated)
    rng = np.random.default_rng(10)
    bare = rng.normal(size=(1, 50)) * 3
    ruled_out = bare.copy()
    ruled_out[0, 3] = -np.inf
    for full in (bare, bare + 1e-6 * rng.normal(size=bare.shape), rng.normal(size=bare.shape) * 3, ruled_out):
        evaluated.reset_mock()
        bounded_mixture(library(full), library(bare), 0.25)
        assert evaluated.call_count == 25


@pytest.mark.parametrize("loss", [0.0, 1.0, 700.0])
@pytest.mark.parametrize("n_tokens", [1, 50_000])
def test_the_allowance_for_rounding_grows_with_the_loss_and_the_tokens(loss: float, n_tokens: int) -> None:
    allowed = float(bounded._error(np.array([[loss]]), np.ones((1, n_tokens), dtype=bool))[0, 0])
    # A sum of n positive numbers is off by (n - 1) units at most, and each of two logarithms by 8 of its last.
    assert np.finfo(np.float64).eps * (n_tokens - 1 + 8.0 * loss) <= allowed < 1e-9
