"""Context influence decoding inside transformers' `generate`: agreement, bounds, refusals, receipts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList
from transformers.generation import logits_process as usual

from helpers.examples import few
from helpers.naive import naive_logits
from helpers.tiny_models import N_VOCAB, fresh_model, tiny_model
from leakmeter.backends.hf.processors import BoundedContextInfluenceProcessor, ContextInfluenceProcessor
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.errors import UsageError

RNG = np.random.default_rng(11)
PROMPT = torch.from_numpy(RNG.integers(3, N_VOCAB, size=(1, 17)))
OTHER = torch.from_numpy(RNG.integers(3, N_VOCAB, size=(1, 12)))
BARE = PROMPT[:, -6:]


def bounded(model: Any, bare: Tensor = BARE, epsilon: float = 0.5, **more: Any) -> BoundedContextInfluenceProcessor:
    return BoundedContextInfluenceProcessor(model, bare, epsilon=epsilon, **more)


def next_logits(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return model(ids).logits[:, -1]


def generate(model: Any, prompt: Tensor, processor: Any, seed: int = 0, **given: Any) -> Any:
    torch.manual_seed(seed)
    settings = processor.arguments(**{"max_new_tokens": 12, **given})
    settings |= {"return_dict_in_generate": True, "output_scores": True, "pad_token_id": 0}
    return model.generate(prompt, **{"attention_mask": torch.ones_like(prompt), **settings})


def logits_of(model: Any, ids: Tensor, response: Tensor) -> np.ndarray:
    prompt = Prompt((Piece("all", "frame", tuple(ids.tolist())),))
    return naive_logits(model, prompt, response.tolist())


def log_softmax(z: np.ndarray) -> np.ndarray:
    top = z.max(axis=-1, keepdims=True)
    return z - top - np.log(np.exp(z - top).sum(axis=-1, keepdims=True))


MIXED = [*(("llama", weight) for weight in (0.0, 0.4, 1.0)), *((kind, 1.5) for kind in ("gpt2", "gemma3", "mamba"))]


@pytest.mark.parametrize(("kind", "weight"), MIXED)
def test_every_step_is_the_mixture_of_two_full_passes(kind: str, weight: float) -> None:
    model = tiny_model(kind)
    processor = ContextInfluenceProcessor(model, BARE, cid_lambda=weight, temperature=0.7)
    out = generate(model, PROMPT, processor)
    for t, scores in enumerate(out.scores):
        response = out.sequences[0, 17 : 17 + t]
        z, z0 = (logits_of(model, ids[0], response) for ids in (PROMPT, BARE))
        # Worst measured: 2.0e-5 (mamba).
        expected = log_softmax((weight * z + (1 - weight) * z0) / 0.7)
        np.testing.assert_allclose(scores[0].numpy(), expected, rtol=0, atol=5e-5)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 4.0])
@pytest.mark.parametrize("temperature", few([0.5, 1.0]))
def test_no_token_of_the_vocabulary_ever_passes_the_bound(epsilon: float, temperature: float) -> None:
    # Float64 throughout, which a llama is not: the oracle's own passes must have no noise to speak of.
    model = tiny_model("gpt2", dtype=torch.float64)
    first, one, again = (bounded(model, BARE, epsilon, temperature=temperature, lambda_max=1.5) for _ in range(3))
    out = generate(model, PROMPT, first, eos_token_id=None)
    own = torch.cat([PROMPT, out.sequences[:, 17:]], dim=1)
    ids = torch.cat([OTHER, out.sequences[:, 17:]], dim=1)
    reached = []
    for t in range(len(out.scores)):
        scores = one(own[:, : 17 + t], next_logits(model, own[:, : 17 + t]))
        assert scores.dtype == torch.float64
        drawn_from = scores[0].numpy()
        prior = log_softmax(logits_of(model, BARE[0], out.sequences[0, 17 : 17 + t]) / temperature)
        reached.append(np.abs(drawn_from - prior).max())
        assert reached[-1] <= epsilon / 2 + 1e-12  # worst measured: 1.0e-11 below
        other = again(ids[:, : 12 + t], next_logits(model, ids[:, : 12 + t]))
        assert np.abs(drawn_from - other[0].numpy()).max() <= epsilon + 1e-12
    assert max(reached) > 0.49 * min(epsilon, 3.0)


def test_a_batch_with_left_padding_gives_what_single_rows_give() -> None:
    # In float32 the logits of two computations differ in their last digits, and rare draws make 2.5e-5 nats of that.
    model = tiny_model("llama", "sdpa", torch.float64)
    width = PROMPT.shape[1]
    ids = torch.zeros((2, width), dtype=torch.int64)
    ids[0], ids[1, -12:] = PROMPT[0], OTHER[0]
    mask = (torch.arange(width) >= torch.tensor([[0], [width - 12]])).long()
    bare, bare_mask = torch.zeros((2, 6), dtype=torch.int64), torch.tensor([[1] * 6, [0] * 2 + [1] * 4])
    bare[0], bare[1, 2:] = BARE[0], OTHER[0, -4:]
    processor = bounded(model, bare, 1.0, bare_attention_mask=bare_mask, temperature=0.8)
    out = generate(model, ids, processor, attention_mask=mask, min_new_tokens=4)
    both = processor.receipts(out)
    for row, (prompt, prior) in enumerate(((PROMPT, BARE), (OTHER, OTHER[:, -4:]))):
        alone = bounded(model, prior, 1.0, temperature=0.8)
        length = prompt.shape[1]
        around = LogitsProcessorList([usual.MinNewTokensLengthLogitsProcessor(length, 4, 2), alone])
        n = len(both[row].public.tokens)
        for t in range(n):
            now = torch.cat([prompt, out.sequences[row : row + 1, width : width + t]], dim=1)
            around(now, next_logits(model, now))
        whole = torch.cat([prompt, out.sequences[row : row + 1, width : width + n]], dim=1)
        (receipt,) = alone.receipts(whole)
        np.testing.assert_array_equal(receipt.public.tokens, both[row].public.tokens)
        for name in ("weights", "log_probs", "max_losses"):
            # Weights are found by bisection. Worst of 792 rows, each of other draws: 4.8e-8.
            np.testing.assert_allclose(getattr(receipt, name), getattr(both[row], name), rtol=0, atol=5e-7)


@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_receipts_are_read_off_the_distributions_drawn_from(epsilon: float | None) -> None:
    model = tiny_model("llama")
    free = ContextInfluenceProcessor(model, BARE, cid_lambda=1.2)
    made: Any = bounded(model, epsilon=epsilon) if epsilon is not None else free
    out = generate(model, PROMPT, made, eos_token_id=[2, 50, 51, 52, 53, 54, 55, 56, 57], min_new_tokens=3)
    (receipt,) = made.receipts(out.sequences)
    (public,) = made.public_receipts(out)
    n = len(public.tokens)
    assert public.tokens.tolist() == out.sequences[0, 17 : 17 + n].tolist()
    assert 3 < n <= 12
    for t in range(n):
        if epsilon is None:
            assert receipt.log_probs[t] == out.scores[t][0, public.tokens[t]]
        else:
            # The processor has drawn: generate had no choice.
            assert torch.isfinite(out.scores[t][0]).nonzero().tolist() == [[public.tokens[t]]]
    assert receipt.losses.tolist() == np.abs(receipt.log_probs - public.bare_log_probs).tolist()
    assert (receipt.losses <= receipt.max_losses + 1e-12).all()
    assert public.promised_epsilon == epsilon
    assert {*public.__slots__} == {"tokens", "bare_log_probs", "promised_epsilon"}
    if epsilon is not None:
        assert (receipt.max_losses <= epsilon / 2).all()
        assert (receipt.weights < 1).any()
    with pytest.raises(UsageError, match="not generated with this processor"):
        made.receipts(out.sequences + 1)


def test_a_minimum_length_masks_both_branches() -> None:
    model = tiny_model("llama")
    stops = list(range(2, 90))
    processor = bounded(model)
    out = generate(model, PROMPT, processor, eos_token_id=stops, min_new_tokens=5, suppress_tokens=[1])
    n = out.sequences.shape[1] - 17
    assert n >= 5
    masks = [usual.MinNewTokensLengthLogitsProcessor(17, 5, stops), usual.SuppressTokensLogitsProcessor([1])]
    around = LogitsProcessorList([*masks, bounded(model)])
    for t in range(n):
        ids = out.sequences[:, : 17 + t]
        scores = around(ids, next_logits(model, ids))
        allowed = torch.isfinite(scores[0])
        assert not torch.isnan(scores).any()
        assert bool(allowed[1]) is False
        assert bool(allowed[2:90].any()) is (t >= 5)
        prior = logits_of(model, BARE[0], out.sequences[0, 17 : 17 + t])
        gap = scores[0][allowed].numpy() - log_softmax(prior[allowed.numpy()])
        assert np.abs(gap).max() <= 0.25 + 2e-5
    (receipt,) = processor.receipts(out)
    assert (receipt.weights > 0).all()


def test_a_token_that_only_the_context_rules_out_is_not_ruled_out() -> None:
    model = tiny_model("llama")
    scores = next_logits(model, PROMPT)
    scores[0, 7] = -torch.inf
    out = bounded(model)(PROMPT, scores)
    np.testing.assert_allclose(out[0].numpy(), log_softmax(logits_of(model, BARE[0], PROMPT[0, :0])), atol=2e-5)


REFUSED = {
    "top_k": 50, "top_p": 0.9, "min_p": 0.1, "top_h": 0.5, "typical_p": 0.9, "epsilon_cutoff": 0.01, "eta_cutoff": 0.01,
    "temperature": 0.5, "repetition_penalty": 1.2, "no_repeat_ngram_size": 2, "bad_words_ids": [[5, 6]],
    "exponential_decay_length_penalty": (3, 1.1), "sequence_bias": [[[5], -1.0]], "guidance_scale": 1.5,
    "renormalize_logits": True, "remove_invalid_values": True, "num_beams": 2, "do_sample": False,
    "forced_eos_token_id": 2, "min_length": 5, "watermarking_config": {"bias": 2.0},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_would_follow_is_refused_by_name(name: str) -> None:
    model = tiny_model("llama")
    for processor in (bounded(model), ContextInfluenceProcessor(model, BARE, cid_lambda=1.5)):
        with pytest.raises(UsageError, match=name):
            processor.arguments(max_new_tokens=3, **{name: REFUSED[name]})
        # And in a generate of the user's own making.
        settings = {**processor.arguments(max_new_tokens=3), "logits_processor": [processor], name: REFUSED[name]}
        with pytest.raises(UsageError, match=name):
            model.generate(PROMPT, attention_mask=torch.ones_like(PROMPT), pad_token_id=0, **settings)


def test_generates_own_defaults_and_assisted_decoding_are_refused_by_name() -> None:
    model = tiny_model("llama")
    given = {"attention_mask": torch.ones_like(PROMPT), "pad_token_id": 0}
    around = LogitsProcessorList([bounded(model)])
    with pytest.raises(UsageError, match=r"top_k = 50.*no max_new_tokens"):
        model.generate(PROMPT, do_sample=True, max_length=40, logits_processor=around, **given)
    with pytest.raises(UsageError, match="no max_new_tokens"):
        bounded(model).arguments()
    settings = bounded(model).arguments(max_new_tokens=6)
    with pytest.raises(UsageError, match="assisted decoding"):
        model.generate(PROMPT, assistant_model=copy.deepcopy(model), **given, **settings)


def test_a_models_own_penalty_is_refused_and_its_own_samplers_are_turned_off() -> None:
    model = fresh_model("llama")
    own = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "eos_token_id": 2, "pad_token_id": 0}
    model.generation_config = GenerationConfig(**own)
    processor = bounded(model)
    assert generate(model, PROMPT, processor, max_new_tokens=3).sequences.shape[1] > 17
    model.generation_config.repetition_penalty = 1.1
    with pytest.raises(UsageError, match=r"repetition_penalty = 1.1"):
        bounded(model).arguments(max_new_tokens=3)
    for name in ("assistant_model", "prefix_allowed_tokens_fn", "custom_generate", "generation_config"):
        with pytest.raises(UsageError, match=name):
            processor.arguments(max_new_tokens=3, **{name: object()})
    with pytest.raises(UsageError, match="logits_processor"):
        processor.arguments(max_new_tokens=3, logits_processor=[])


def test_other_processors_beside_it_are_refused_by_name() -> None:
    processor, beside = bounded(tiny_model("llama")), usual.TopKLogitsWarper(5)
    for around in (LogitsProcessorList([beside, processor]), LogitsProcessorList([processor, beside])):
        with pytest.raises(UsageError, match="TopKLogitsWarper"):
            around(PROMPT, torch.zeros((1, N_VOCAB)))


def test_a_processor_is_good_for_one_generation_in_order() -> None:
    model = tiny_model("llama")
    processor = bounded(model)
    generate(model, PROMPT, processor, max_new_tokens=3)
    with pytest.raises(UsageError, match="new processor"):
        generate(model, PROMPT, processor, max_new_tokens=3)
    two = bounded(model, BARE.repeat(2, 1))
    with pytest.raises(UsageError, match="3 rows and 2 bare prompts"):
        generate(model, PROMPT, two, num_return_sequences=3)
    rows = PROMPT.repeat(2, 1)
    rows[1, 0] = 4
    two(rows, torch.zeros((2, N_VOCAB)))
    with pytest.raises(UsageError, match="beams"):
        two(torch.cat([rows.flip(0), rows[:, :1]], dim=1), torch.zeros((2, N_VOCAB)))


def test_what_has_no_meaning_is_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"epsilon": 0.0}, "epsilon is 0.0; it has to be above 0"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"lambda_max": -1.0}, "lambda_max is -1.0; it has to be 0 or more"),
        ({"temperature": 0.0}, "temperature is 0.0; it has to be above 0"),
        ({"bare_ids": BARE[0]}, "bare_ids has the shape"),
        ({"bare_attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]])}, "padding on the left"),
    ]
    for given, said in cases:
        with pytest.raises(UsageError, match=said):
            BoundedContextInfluenceProcessor(tiny_model("llama"), **{"bare_ids": BARE, "epsilon": 1.0, **given})


def test_the_same_seed_gives_the_same_text_unless_something_is_promised() -> None:
    model = tiny_model("llama")
    one, two, other = (
        generate(model, PROMPT, ContextInfluenceProcessor(model, BARE, cid_lambda=1.2), seed=seed).sequences
        for seed in (1, 1, 2)
    )
    assert one.tolist() == two.tolist() != other.tolist()
    # A seed of torch's, which many scripts set, would let everybody repeat the draws.
    one, two = (generate(model, PROMPT, bounded(model, epsilon=2.0), seed=1).sequences for _ in range(2))
    assert one.tolist() != two.tolist()


def test_under_a_bound_tokens_are_as_often_as_was_certified() -> None:
    """A step of many rows: torch's random numbers have no part in it."""
    model = tiny_model("llama")
    n = 400
    processor, alone = (bounded(model, epsilon=4.0, temperature=3.0) for _ in range(2))
    out = generate(model, PROMPT, processor, max_new_tokens=1, num_return_sequences=n, eos_token_id=None)
    expected = n * alone(PROMPT, next_logits(model, PROMPT))[0].exp().numpy()
    # Tokens by the last digit of their ids.
    observed, meant = (
        np.bincount(np.arange(N_VOCAB) % 10, weights=of)
        for of in (np.bincount(out.sequences[:, 17].numpy(), minlength=N_VOCAB), expected)
    )
    assert (meant > 5).all()
    # The draws differ each time: 9 degrees of freedom pass 50 once in 10 million.
    assert ((observed - meant) ** 2 / meant).sum() < 50


def test_what_is_no_number_is_not_drawn_over() -> None:
    model = fresh_model("llama")
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    with pytest.raises(RuntimeError, match="nan"):
        generate(model, PROMPT, bounded(model, epsilon=1.0))
