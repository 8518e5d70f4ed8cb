"""Gradients of the back end against full Hessians and dense matrices of small models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from helpers.examples import few
from helpers.masked_prompts import masking
from helpers.naive import random_prompt
from helpers.tiny_models import ATTENTION, N_VOCAB, RECURRENT, backend_of, fresh_model, tiny_backend
from leakmeter.backends.hf import HfBackend, backend
from leakmeter.backends.hf.places import layer_of
from leakmeter.backends.toy import Toy
from leakmeter.core.backend import Backend
from leakmeter.core.prompt import CONTEXT, QUERY, Piece, Prompt
from leakmeter.core.request import NEUTRAL, FisherProbes, GradientRequest, Gradients, TopTokens, VectorPlace, tokens_of
from leakmeter.core.tree import chunk_of_contexts
from leakmeter.errors import CapabilityError, ScoreError
from leakmeter.instruments.susceptibility.command import check_gradients
from leakmeter.stats.fisher import estimated

ALL = TopTokens(N_VOCAB)
"""All tokens of the vocabulary, whose numbers add up to the trace."""


def query(seed: int = 0, n: int = 3) -> Prompt:
    return random_prompt(np.random.default_rng(seed), N_VOCAB, [], frame=2, query=n)


def with_slot(prompt: Prompt, n: int, ids: tuple[int, ...] = ()) -> Prompt:
    return prompt.with_inserted(1, Piece("slot", CONTEXT, ids or (NEUTRAL,) * n))


def differentiate(made: Backend, requests: list[GradientRequest]) -> list[Gradients]:
    return made.differentiate(requests, chunk_of_contexts(requests))


def exact(model: Any, request: GradientRequest) -> np.ndarray:
    """tr(I Σ) and μᵀ I μ of each Σ, (Σ, 2)."""
    (found,) = differentiate(backend_of(model), [request])
    return found.values.sum(axis=0)


@contextmanager
def moved(model: Any, place: VectorPlace, where: np.ndarray, delta: torch.Tensor) -> Iterator[None]:
    """Add (1, position, size) to the vectors of a place during a forward pass."""

    def add(vectors: torch.Tensor) -> torch.Tensor:
        return vectors.index_add(1, torch.from_numpy(where), delta.to(vectors.dtype))

    if place.kind == "layer":
        layer = layer_of(model, place.layer, "tiny")
        handle = layer.register_forward_pre_hook(lambda module, args: (add(args[0]), *args[1:]))
    else:
        handle = model.get_input_embeddings().register_forward_hook(lambda module, args, out: add(out))
    try:
        yield
    finally:
        handle.remove()


def filled(model: Any, ids: Any) -> torch.Tensor:
    """Ids with the model's neutral token where a slot is."""
    return torch.from_numpy(np.where(ids == NEUTRAL, backend_of(model)._differentiator.neutral, ids))


def information(model: Any, request: GradientRequest) -> torch.Tensor:
    """I by the full Hessian of KL(p(η + Δ) ‖ p(η)) at Δ = 0: (position · size, position · size)."""
    ids, place = filled(model, request.prompt.ids), request.place
    size = model.config.hidden_size if place.kind == "layer" else model.get_input_embeddings().weight.shape[-1]
    nothing = torch.zeros((1, len(request.varied), size), dtype=torch.float64)

    def log_probs(delta: torch.Tensor) -> torch.Tensor:
        """Of the next token, with the place's vectors moved."""
        with moved(model, place, request.varied, delta.view_as(nothing)):
            return model(input_ids=ids[None], use_cache=False).logits[0, -1].log_softmax(dim=-1)

    still = log_probs(nothing).detach()

    def divergence(delta: torch.Tensor) -> torch.Tensor:
        there = log_probs(delta)
        return (there.exp() * (there - still)).sum()

    return torch.autograd.functional.hessian(divergence, nothing.flatten(), vectorize=True)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        *few([(kind, "query") for kind in ATTENTION], 4),
        *few([(kind, "query") for kind in RECURRENT]),
        *(("gpt2", place) for place in ("slot", "layer:0", "layer:2")),
    ],
)
def test_the_trace_is_that_of_the_full_hessian(kind: str, place: str) -> None:
    model = fresh_model(kind, dtype=torch.float64)
    prompt = with_slot(query(), 4) if place == "slot" else query()
    request = GradientRequest(prompt, VectorPlace.parse(place), ALL, ("identity",))
    hessian = information(model, request)
    np.testing.assert_allclose(exact(model, request), [[hessian.trace().item(), 0.0]], rtol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3"])
def test_the_vocabulary_in_the_place_of_each_token(kind: str) -> None:
    model = fresh_model(kind, dtype=torch.float64)
    for place, prompt in (("query", query()), ("slot", with_slot(query(), 3))):
        request = GradientRequest(prompt, VectorPlace.parse(place), ALL, ("embedding",))
        table = model.get_input_embeddings()(torch.arange(N_VOCAB)).detach()
        ids = filled(model, prompt.ids)[request.varied]
        covariance = torch.block_diag(*[torch.cov(table.T, correction=0)] * len(ids))
        mean = (table.mean(dim=0) - table[ids]).flatten()
        hessian = information(model, request)
        expected = [(hessian * covariance).sum().item(), (mean @ hessian @ mean).item()]
        np.testing.assert_allclose(exact(model, request)[0], expected, rtol=1e-5)


def dense(hessian: torch.Tensor, deviations: torch.Tensor, weights: tuple[float, ...]) -> list[float]:
    w = torch.tensor(weights, dtype=torch.float64)
    flat = deviations.flatten(1)
    mean = w @ flat
    covariance = ((flat - mean).T * w) @ (flat - mean)
    return [(hessian * covariance).sum().item(), (mean @ hessian @ mean).item()]


WEIGHTS = (0.5, 0.3, 0.2)
CONTEXTS = ((5, 6), (7, 8, 9, 10), (11, 12))


def behind(prompt: Prompt) -> tuple[Prompt, ...]:
    return tuple(with_slot(prompt, 0, ids) for ids in CONTEXTS)


@pytest.mark.parametrize(("kind", "layer"), [("llama", 0), ("llama", 2), ("mistral", 1)])
def test_what_contexts_do_to_residual_states(kind: str, layer: int) -> None:
    model = fresh_model(kind, dtype=torch.float64)
    prompt = query()
    request = GradientRequest(prompt, VectorPlace("layer", layer), ALL, ("empirical",), behind(prompt), WEIGHTS)

    def states(one: Prompt) -> torch.Tensor:
        with torch.no_grad():
            hidden = model(torch.from_numpy(one.ids)[None], output_hidden_states=True).hidden_states
        return hidden[layer][0, tokens_of(one, QUERY)]

    deviations = torch.stack([states(one) for one in behind(prompt)]) - states(prompt)
    found = exact(model, request)[0]
    np.testing.assert_allclose(found, dense(information(model, request), deviations, WEIGHTS), rtol=1e-6, atol=1e-12)
    assert found.any() == (layer > 0)


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("kind", few(["llama", "mamba", "gemma2", "mistral"]))
def test_contexts_of_several_queries_are_run_once(kind: str, shares: bool) -> None:
    # Alike in the frame before the context, different in the query and in what comes after it.
    after = random_prompt(np.random.default_rng(9), N_VOCAB, [], frame=2, query=2).pieces[:1]
    prompts = [
        Prompt((*query().pieces[:1], *query(seed, n).pieces[1:], *after)) for seed, n in ((0, 3), (1, 5), (2, 3))
    ]
    requests = [
        GradientRequest(one, VectorPlace("layer", layer), ALL, ("empirical",), behind(one), WEIGHTS)
        for one, layer in zip(prompts, (1, 1, 0), strict=True)
    ]
    model = fresh_model(kind, dtype=torch.float64)
    made = backend_of(model, share_prefixes=shares)
    together = differentiate(made, requests)
    n_run = made.n_tokens_run - sum(one.n_tokens for one in requests)
    for request, found in zip(requests, together, strict=True):
        (alone,) = differentiate(backend_of(model, share_prefixes=False), [request])
        np.testing.assert_allclose(
            found.values, alone.values, rtol=1e-11, atol=1e-11 * np.abs(alone.values).max() + 1e-15
        )
    assert n_run % 2 == 0  # two layers were asked for
    if made.shares_prefixes:
        n_frame, n_contexts = len(prompts[0].pieces[0].ids), sum(map(len, CONTEXTS))
        assert n_run // 2 == n_frame + n_contexts + len(CONTEXTS) * (3 + 5 + 3)
    assert not made.forward.model.config._attn_implementation.startswith("leakmeter")


def test_what_contexts_do_to_a_slot() -> None:
    model = fresh_model("llama", dtype=torch.float64)
    request = GradientRequest(with_slot(query(), 4), VectorPlace("slot"), ALL, ("empirical",), behind(query()), WEIGHTS)
    table = model.get_input_embeddings().weight.detach()
    # Neutral tokens before a context that is shorter than the slot.
    slots = [(*(NEUTRAL,) * (4 - len(ids)), *ids) for ids in ((), *CONTEXTS)]
    nothing, *contexts = table[filled(model, np.asarray(slots))]
    expected = dense(information(model, request), torch.stack(contexts) - nothing, WEIGHTS)
    np.testing.assert_allclose(exact(model, request)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("n_range", [0, 5, 500])
def test_random_directions_have_the_exact_trace_for_their_mean(n_range: int) -> None:
    """Also where the subspace is larger than the place, and everything is exact."""
    model = fresh_model("llama", dtype=torch.float64)
    request = GradientRequest(
        query(), VectorPlace("layer", 1), ALL, ("identity", "empirical"), behind(query()), WEIGHTS
    )
    whole = exact(model, request)
    probes = replace(request, directions=FisherProbes(400, 1, "a", n_range=n_range))
    (found,) = differentiate(backend_of(model), [probes])
    for i, expected in enumerate(whole):
        made = estimated(found.values[:, i], 400)
        np.testing.assert_allclose(2 * made.value, expected.sum(), atol=8 * made.standard_error + 1e-9)
    if n_range == 500:
        np.testing.assert_allclose(found.values[:-400].sum(axis=0), whole, rtol=1e-6)
        np.testing.assert_allclose(found.values[-400:], 0.0, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("n_range", [0, 3])
def test_intervals_cover_the_exact_trace_as_often_as_they_say(n_range: int) -> None:
    model = fresh_model("llama", dtype=torch.float64)
    of = (query(), VectorPlace("query"))
    whole = exact(model, GradientRequest(*of, ALL, ("identity",)))[0, 0] / 2
    n_probes, n_trials = 32, 300
    probes = [FisherProbes(n_probes, seed, "a", n_range=n_range) for seed in range(n_trials)]
    requests = [GradientRequest(*of, some, ("identity",)) for some in probes]
    made = [estimated(found.values[:, 0], n_probes) for found in differentiate(backend_of(model), requests)]
    off = np.asarray([(one.value - whole) / one.standard_error for one in made])
    for level in (0.8, 0.95):
        covered = np.mean(np.abs(off) < stats.t.ppf(0.5 + level / 2, n_probes - 1))
        # Three standard deviations of the share, and a little for the skewness of squares.
        assert covered == pytest.approx(level, abs=3 * np.sqrt(level * (1 - level) / n_trials) + 0.01)
    assert abs(np.mean([one.value for one in made]) - whole) < 4 * np.std([one.value for one in made]) / n_trials**0.5


@pytest.mark.parametrize("kind", few(["llama", "mamba", "gpt2", "gemma2"]))
@pytest.mark.parametrize("directions", [TopTokens(5), FisherProbes(6, 0, "a", n_range=4)])
def test_together_and_alone_the_numbers_are_the_same(kind: str, directions: TopTokens | FisherProbes) -> None:
    requests = [
        GradientRequest(query(seed, n), VectorPlace("query"), directions, ("identity", "embedding"))
        for seed, n in ((0, 3), (1, 5), (2, 3), (3, 3), (4, 5))
    ]
    made = tiny_backend(kind)
    together = differentiate(made, requests)
    assert made.n_tokens_run == sum(request.n_tokens for request in requests)
    few = tiny_backend(kind, tokens_per_batch=16)
    for request, one in zip(requests, together, strict=True):
        for (alone,) in (differentiate(made, [request]), differentiate(few, [request])):
            ours, theirs = (np.sqrt(np.abs(found.values)) for found in (one, alone))
            np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3 * ours.max())
            assert alone.entropy == pytest.approx(one.entropy, abs=1e-5)
            assert alone.log_mass == pytest.approx(one.log_mass, abs=1e-5)


def test_probes_are_the_same_in_one_request_and_in_two() -> None:
    probes = [FisherProbes(n, 7, "a", first=first) for n, first in ((6, 0), (2, 0), (4, 2))]
    requests = [GradientRequest(query(), VectorPlace("query"), some, ("identity",)) for some in probes]
    whole, first, second = differentiate(tiny_backend(), requests)
    np.testing.assert_allclose(np.concatenate([first.values, second.values]), whole.values, rtol=1e-4)


def test_entropy_and_mass_are_those_of_the_next_token() -> None:
    model = fresh_model("llama")
    with torch.no_grad():
        p = model(torch.from_numpy(query().ids)[None]).logits[0, -1].double().softmax(-1)
    (top,) = differentiate(
        backend_of(model), [GradientRequest(query(), VectorPlace("query"), TopTokens(3), ("identity",))]
    )
    assert top.entropy == pytest.approx(float(-(p * p.log()).sum()), abs=1e-5)
    assert top.log_mass == pytest.approx(float(p.topk(3).values.sum().log()), abs=1e-5)


def test_the_model_is_left_as_it_was() -> None:
    model = fresh_model("llama", "sdpa")
    made = backend_of(model)
    model.train()
    frozen = model.base_model.layers[0].mlp.up_proj.weight.requires_grad_(False)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    places = (VectorPlace("query"), VectorPlace("layer", 1))
    requests = [GradientRequest(query(), place, FisherProbes(2, 0, "a", n_range=2), ("identity",)) for place in places]
    with torch.no_grad():
        differentiate(made, requests)
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        differentiate(made, requests)
    with pytest.raises(CapabilityError):
        differentiate(made, [GradientRequest(query(), VectorPlace("layer", 9), ALL, ("identity",))])
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    for name, weight in model.named_parameters():
        assert weight.grad is None
        assert weight.requires_grad == (weight is not frozen)
        assert torch.equal(weight, before[name])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_weights_that_were_trained_in_between_are_seen() -> None:
    model = fresh_model("llama", dtype=torch.float64)
    request = GradientRequest(query(), VectorPlace("query"), ALL, ("embedding",))
    made = backend_of(model)
    (before,) = differentiate(made, [request])
    with torch.no_grad():
        model.get_input_embeddings().weight[5] += 1.0
    (after,) = differentiate(made, [request])
    np.testing.assert_array_equal(after.values, differentiate(backend_of(model), [request])[0].values)
    assert not np.allclose(after.values, before.values)


def test_memory_that_runs_out_costs_digits_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [
        GradientRequest(query(i), VectorPlace("query"), FisherProbes(3, 0, "a"), ("identity",)) for i in range(4)
    ]
    whole = differentiate(tiny_backend(), requests)
    answers = backend.Differentiator.answers

    def small(self: Any, some: list[GradientRequest], *more: Any) -> Any:
        if len(some) > 1:
            raise MemoryError
        return answers(self, some, *more)

    monkeypatch.setattr(backend.Differentiator, "answers", small)
    made = tiny_backend()
    for one, other in zip(differentiate(made, requests), whole, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-3)
    assert made.n_halvings == 3


def test_operations_that_take_one_direction_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [GradientRequest(query(), VectorPlace("query"), FisherProbes(3, 0, "a", n_range=2), ("identity",))]
    (whole,) = differentiate(tiny_backend(), requests)
    grad = torch.autograd.grad

    def single(*args: Any, is_grads_batched: bool = False, **kwargs: Any) -> Any:
        if is_grads_batched:
            raise RuntimeError("no batching rule")
        return grad(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "grad", single)
    np.testing.assert_allclose(differentiate(tiny_backend(), requests)[0].values, whole.values, rtol=1e-3)


@pytest.mark.parametrize("kind", ATTENTION + RECURRENT)
def test_the_layers_of_a_model_are_found(kind: str) -> None:
    model = fresh_model(kind)
    n_layers = model.config.get_text_config().num_hidden_layers
    assert len({id(layer_of(model, i, "tiny")) for i in range(n_layers)}) == n_layers
    request = GradientRequest(query(), VectorPlace("layer", 1), FisherProbes(3, 0, "a", n_range=2), ("identity",))
    if kind == "gemma3n":
        with pytest.raises(CapabilityError, match=r"have several vectors for each token.*give place query"):
            differentiate(backend_of(model), [request])
        return
    (found,) = differentiate(backend_of(model), [request])
    assert np.isfinite(found.values).all()
    assert found.values[:, 0, 0].any()


def test_what_cannot_be_done_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(made: HfBackend, place: str, prompt: Prompt | None = None) -> None:
        differentiate(made, [GradientRequest(prompt or query(), VectorPlace.parse(place), TopTokens(2), ("identity",))])

    made = tiny_backend()
    with pytest.raises(CapabilityError, match="'tiny' has layers 0 to 2"):
        ask(made, "layer:3")
    with pytest.raises(CapabilityError, match="without gaps"):
        ask(made, "query", masking(with_slot(query(), 2), "slot"))
    monkeypatch.setattr(made.model.config, "num_hidden_layers", 77)
    with pytest.raises(CapabilityError, match="give place query"):
        ask(made, "layer:1")
    broken = fresh_model("llama")
    broken.get_output_embeddings().weight.data[3] = float("nan")
    with pytest.raises(ScoreError, match="--dtype float32"):
        ask(backend_of(broken), "query")
    with torch.inference_mode():
        model = fresh_model("llama")
    with pytest.raises(CapabilityError, match="inference_mode"):
        ask(backend_of(model), "query")


def test_a_back_end_without_gradients_is_known_before_anything_is_measured() -> None:
    assert tiny_backend().capabilities.differentiates
    assert not Toy().capabilities.differentiates
    for model in ("toy", Toy()):
        with pytest.raises(CapabilityError, match="'toy' gives no gradients"):
            check_gradients(model)
    with pytest.raises(CapabilityError, match="'toy' gives no gradients"):
        Toy().differentiate([], chunk_of_contexts([]))
