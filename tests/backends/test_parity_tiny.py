"""HfBackend against one full pass a token and prompt, on small random models of many architectures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from helpers.examples import few
from helpers.masked_prompts import masking
from helpers.naive import naive_log_probs, random_prompt
from helpers.tiny_models import ATTENTION, N_VOCAB, RECURRENT, SLIDING, WINDOW, backend_of, fresh_model, tiny_model
from leakmeter.backends.hf import HfBackend
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution, MixtureLogProbs, NextTokenSample, TargetLogProbs
from leakmeter.core.request import Reduction, Request
from leakmeter.core.tree import chunk_of
from leakmeter.errors import CapabilityError, ScoreError

PROMPT: Prompt = random_prompt(np.random.default_rng(0), N_VOCAB, (6, 5, 9, 4), frame=4, query=5)
RESPONSE = (5, 90, 90, 41)
CUTS = {
    "whole": PROMPT,
    "without c0": PROMPT.without("c0"),
    "without c2": PROMPT.without("c2"),
    "without c1 c3": PROMPT.without("c1", "c3"),
    "only c1": PROMPT.only("c1"),
}
MASKED = {
    "masking c1": masking(PROMPT, "c1"),
    "masking c0 c2": masking(PROMPT, "c0", "c2"),
    "masking the query": masking(PROMPT, "query"),  # a gap right before the response
}
BLANK = PROMPT.blank()
assert len(PROMPT.ids) > 3 * WINDOW


def attention_of(kind: str, attention: str) -> str:
    """Gemma 2 caps its attention, which scaled_dot_product_attention cannot."""
    return "eager" if kind == "gemma2" else attention


def scores(
    backend: HfBackend, prompts: dict[str, Prompt], weight: float = 1.0, reduction: Reduction | None = None
) -> np.ndarray:
    """(prompt, response), the blank prompt first."""
    reduction = reduction or (TargetLogProbs() if weight == 1.0 else MixtureLogProbs(weight))
    return backend.score(chunk_of([Request((BLANK, *prompts.values()), RESPONSE, reduction)]))[0].values


def naive(model: Any, prompts: dict[str, Prompt], weight: float) -> np.ndarray:
    bare = naive_log_probs(model, BLANK, BLANK, RESPONSE, 1.0, 1.0)
    return np.stack([bare, *(naive_log_probs(model, p, BLANK, RESPONSE, weight, 1.0) for p in prompts.values())])


@pytest.mark.parametrize("attention", few(["sdpa", "eager"]))
@pytest.mark.parametrize("kind", few(ATTENTION, 6))
def test_scores_equal_one_full_pass_a_token(kind: str, attention: str) -> None:
    model = tiny_model(kind, attention_of(kind, attention))
    backend = backend_of(model)
    assert backend.shares_prefixes
    assert backend.forward.joins_segments == (model.config._attn_implementation == "sdpa")
    assert backend.forward.has_head  # its rule is known, so that no logits are computed but the wanted ones
    prompts = CUTS | MASKED
    for weight in (1.0, 1.5):
        expected = naive(tiny_model(kind), prompts, weight)
        # Worst measured: 6.5e-6 (gpt2, opt, qwen2), of log-probabilities around −8 and down to −30.
        np.testing.assert_allclose(scores(backend, prompts, weight), expected, rtol=0, atol=2e-5)
    # The contrasts are thousands of times larger than that bound.
    assert np.abs(expected - expected[1]).max() > 0.3


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", SLIDING)
def test_tokens_outside_a_sliding_window_are_not_seen_and_inside_are(kind: str, attention: str) -> None:
    # What is out of reach of all layers together cannot matter, unless one of them sees everything.
    model = tiny_model(kind, attention_of(kind, attention))
    backend = backend_of(model)
    _, whole, masked = scores(backend, {"whole": PROMPT, "masking c0": masking(PROMPT, "c0")})
    if kind == "mistral":
        n_layers, last_of_c0 = 3, 4 + 6 - 1
        assert len(PROMPT.ids) - 1 - last_of_c0 > n_layers * (WINDOW - 1)
        # Sums over fewer keys: equal but for rounding. Worst measured: 1.1e-6.
        np.testing.assert_allclose(whole, masked, rtol=0, atol=3e-6)
    else:
        assert np.abs(whole - masked).max() > 0.1


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", few(ATTENTION, 3))
def test_ways_to_cut_the_work_agree(kind: str, attention: str) -> None:
    prompts = CUTS | MASKED
    ways = [
        {"share_prefixes": False},
        *({"tokens_per_batch": n} for n in (1, 32, 4096)),
        {"memory_bytes": 2**12},
        {"memory_bytes": 2**16},
    ]
    model = tiny_model(kind, attention_of(kind, attention))
    results = [scores(backend_of(model, **way), prompts, 1.5) for way in ways]
    for way, result in zip(ways[1:], results[1:], strict=True):
        # Worst measured: 5.5e-6.
        np.testing.assert_allclose(result, results[0], rtol=0, atol=2e-5, err_msg=str(way))


def test_several_requests_in_one_chunk_are_answered_in_order() -> None:
    model = tiny_model("llama")
    backend = backend_of(model)
    requests = [
        Request((PROMPT,), (7,), TargetLogProbs(2.0)),
        Request((BLANK, PROMPT), RESPONSE, MixtureLogProbs(0.5, 0.7)),
        Request((CUTS["only c1"], PROMPT, BLANK), (5, 90), FullDistribution()),
        Request((PROMPT,), (7,), TargetLogProbs(2.0)),
    ]
    together = backend.score(chunk_of(requests))
    for request, got in zip(requests, together, strict=True):
        (alone,) = backend.score(chunk_of([request]))
        np.testing.assert_allclose(got.values, alone.values, rtol=0, atol=1.2e-5)  # measured: 5.8e-6
    np.testing.assert_array_equal(together[0].values, together[3].values)
    assert together[2].values.shape == (3, 3, N_VOCAB)


@pytest.mark.parametrize("kind", RECURRENT)
def test_models_without_states_to_fork_get_full_passes(kind: str) -> None:
    model = tiny_model(kind)
    backend = backend_of(model)
    assert not backend.shares_prefixes
    for weight in (1.0, 1.5):
        expected = naive(model, CUTS, weight)
        # Worst measured: 2.9e-6.
        np.testing.assert_allclose(scores(backend, CUTS, weight), expected, rtol=0, atol=1e-5)
    assert np.abs(expected - expected[1]).max() > 0.3
    with pytest.raises(CapabilityError, match=r"'tiny' .* give --removal drop"):
        scores(backend, MASKED)


def test_bfloat16_works() -> None:
    model = tiny_model("llama", dtype=torch.bfloat16)
    backend = backend_of(model)
    assert backend.dtype == "bfloat16"
    assert backend.shares_prefixes
    got = scores(backend, CUTS | MASKED)
    expected = naive(model, CUTS | MASKED, 1.0)
    # Measured: 1.1e-8. The bound is one flip of bfloat16's last digit in a logit of 8 or more, which another order of
    # sums, on another processor, may bring.
    np.testing.assert_allclose(got, expected, rtol=0, atol=0.07)


@pytest.mark.parametrize(("training", "raises"), [("all", False), ("none", True), ("some", False), ("some", True)])
def test_the_model_is_borrowed(training: str, raises: bool) -> None:
    model = fresh_model("gpt2")  # with dropout: a forgotten eval() would show in the numbers
    expected = naive(model, CUTS, 1.0)
    model.train(training == "all")
    if training == "some":
        model.transformer.h[1].train()
        model.transformer.h[2].attn.train()
    model.transformer.wpe.weight.requires_grad_(False)

    def state() -> tuple[Any, ...]:
        modes = {name: module.training for name, module in model.named_modules()}
        return modes, model.config._attn_implementation, [weight.requires_grad for weight in model.parameters()]

    before = state()
    backend = backend_of(model)
    assert state() == before
    if raises:
        hook = model.lm_head.register_forward_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scores(backend, CUTS)
        hook.remove()
    else:
        np.testing.assert_allclose(scores(backend, CUTS), expected, rtol=0, atol=2e-5)
    assert state() == before
    assert all(weight.grad is None for weight in model.parameters())
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    # It can be trained afterwards.
    ids = torch.tensor([[1, 2, 3]])
    model(input_ids=ids, labels=ids).loss.backward()
    assert [weight.grad is not None for weight in model.parameters()] == before[-1]


@pytest.mark.parametrize("reduction", [TargetLogProbs(), MixtureLogProbs(1.5), FullDistribution()])
def test_nan_names_the_request_and_prompt(reduction: Reduction) -> None:
    model = fresh_model("llama")
    backend = backend_of(model)
    model.model.embed_tokens.weight.data[PROMPT.pieces[1].ids[1]] = torch.nan  # a token of c0 alone
    # With another first token: attention multiplies what it does not see by 0, and 0 · NaN spoils a shared prefix.
    clean = Prompt((Piece("open", "frame", (1,)), *BLANK.pieces))
    first = Request((clean,), (5,), TargetLogProbs())
    assert np.isfinite(backend.score(chunk_of([first]))[0].values).all()
    with pytest.raises(ScoreError, match=r"NaN for prompt 2 of 2 in request 2; its precision is float32"):
        backend.score(chunk_of([first, Request((clean, PROMPT), (5,), reduction)]))


def test_a_slow_tokenizer_is_refused() -> None:
    slow = SimpleNamespace(is_fast=False)
    with pytest.raises(CapabilityError, match="SimpleNamespace gives no character offsets"):
        HfBackend(tiny_model("llama"), slow, name="tiny")


def test_a_window_that_the_architecture_ignores_is_ignored() -> None:
    # Configurations carry such leftovers; obeying one moved log-probabilities by more than a nat.
    model = fresh_model("llama")
    model.config.sliding_window = WINDOW
    expected = naive(model, CUTS, 1.0)
    assert np.abs(scores(backend_of(model), CUTS) - expected).max() <= 2e-5


def test_states_kept_for_the_next_round_are_dropped_when_the_weights_change() -> None:
    model = fresh_model("llama")
    backend = backend_of(model)
    backend.score(chunk_of([Request((PROMPT,), (), NextTokenSample(0.5))]))
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.1)
    expected = naive(model, CUTS, 1.0)
    assert np.abs(scores(backend, CUTS) - expected).max() <= 2e-5
