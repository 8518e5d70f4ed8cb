"""Models whose rotations depend on the length of a pass: every number is that of one pass of its sequence alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from helpers.tiny_models import FACTORS, N_VOCAB, TURN, backend_of, fresh_model, tiny_model
from leakmeter.backends.hf import lengths
from leakmeter.backends.hf.lengths import end_on_side
from leakmeter.backends.hf.processors import ContextInfluenceProcessor
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import MixtureLogProbs, NextTokenSample, TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of

LONGROPE = ("phi3_longrope", "llama_longrope", "phimoe_longrope", "minicpm3_longrope")
RESPONSE = (5, 90, 90, 41)


def prompt_of(n_tokens: int, seed: int = 0) -> Prompt:
    """A prompt of so many tokens; two of one seed begin alike, and end alike."""
    ids = [int(i) for i in np.random.default_rng(seed).integers(3, N_VOCAB, size=200)]
    return Prompt((Piece("open", "frame", (4, 8)), Piece("c", "context", tuple(ids[: n_tokens - 5])),
                   Piece("query", "query", (7, 30, 11))))  # fmt: skip


def alone(model: Any, prompt: Prompt, response: tuple[int, ...] = RESPONSE) -> np.ndarray:
    """Log-probability of each token of the response by one pass without anything else, (response,)."""
    ids = torch.tensor([[*prompt.ids.tolist(), *response[:-1]]])
    with torch.inference_mode():
        rows = model(input_ids=ids, use_cache=False).logits[0, len(prompt.ids) - 1 :].double().log_softmax(-1)
    return rows[range(len(response)), list(response)].numpy()


def scores(model: Any, prompts: list[Prompt], **settings: Any) -> np.ndarray:
    return (
        backend_of(model, **settings).score(chunk_of([Request(tuple(prompts), RESPONSE, TargetLogProbs())]))[0].values
    )


LENGTHS = (9, TURN - 4, TURN - 3, TURN - 2, TURN - 1, TURN, TURN + 1, TURN + 30)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", LONGROPE)
def test_prompts_on_both_sides_are_scored_as_if_alone(kind: str, attention: str) -> None:
    model = tiny_model(kind, attention)
    prompts = [prompt_of(n) for n in LENGTHS]
    expected = np.stack([alone(model, prompt) for prompt in prompts])
    np.testing.assert_allclose(scores(model, prompts), expected, rtol=0, atol=2e-5)
    assert backend_of(model).shares_prefixes
    # What the same tokens get with the factors of the other side is nats away.
    far = alone(model, prompt_of(TURN + 1))
    assert np.abs(far - scores(model, [prompt_of(TURN - 5)])).max() > 0.3


@pytest.mark.parametrize("settings", [{"share_prefixes": False}, {"tokens_per_batch": 8}, {"memory_bytes": 2**12}])
def test_ways_to_cut_the_work_do_not_move_the_side(settings: dict[str, Any]) -> None:
    # Slices of 128 tokens of a pass (`LEAST_SLICE`): the first ones end before the turn.
    model = fresh_model("phi3_longrope", "sdpa")
    prompts = [prompt_of(n) for n in (*LENGTHS, 150, 170)]
    expected = np.stack([alone(model, prompt) for prompt in prompts])
    np.testing.assert_allclose(scores(model, prompts, **settings), expected, rtol=0, atol=3e-5)


def test_a_long_sequence_in_slices_begins_on_its_side() -> None:
    model = fresh_model("phi3_longrope", "sdpa", rope_parameters=FACTORS | {"original_max_position_embeddings": 160})
    prompts = [prompt_of(n) for n in (180, 158, 150)]
    expected = np.stack([alone(model, prompt) for prompt in prompts])
    np.testing.assert_allclose(scores(model, prompts, tokens_per_batch=8), expected, rtol=0, atol=3e-5)
    assert end_on_side(lambda last: int(last >= 160), np.arange(180), 128, 1) == 161


def test_another_request_of_a_chunk_moves_nothing() -> None:
    model = tiny_model("phi3_longrope", "sdpa")
    near, far = (prompt_of(n) for n in (TURN - 8, TURN + 8))
    (of_near, of_far) = backend_of(model).score(
        chunk_of([Request((prompt,), RESPONSE, MixtureLogProbs(1.0)) for prompt in (near, far)])
    )
    np.testing.assert_allclose(of_near.values[0], alone(model, near), rtol=0, atol=2e-5)
    np.testing.assert_allclose(of_far.values[0], alone(model, far), rtol=0, atol=2e-5)


def test_a_response_drawn_across_the_turn_is_drawn_from_passes_of_its_own() -> None:
    model = tiny_model("phi3_longrope", "sdpa")
    backend = backend_of(model)
    prompts = [prompt_of(TURN - 2), prompt_of(TURN - 6, seed=1)]
    drawn: list[tuple[int, ...]] = [(), ()]
    for number in range(5):
        requests = [
            Request((prompt,), response, NextTokenSample(0.5)) for prompt, response in zip(prompts, drawn, strict=True)
        ]
        answers = backend.score(chunk_of(requests, number))
        for i, answer in enumerate(answers):
            token, log_prob = int(answer.values[0, 0, 0]), float(answer.values[0, 0, 1])
            expected = alone(model, prompts[i], (*drawn[i], token))[-1]
            assert abs(log_prob - expected) <= 2e-5
            drawn[i] = (*drawn[i], token)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3", "mamba"])
def test_other_models_share_between_all_lengths(kind: str) -> None:
    assert backend_of(tiny_model(kind)).forward.side_of is None


def test_where_no_named_length_explains_it_only_equal_lengths_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "original_lengths", lambda config: {TURN + 3})
    model = fresh_model("phi3_longrope")
    prompts = [prompt_of(n) for n in (9, TURN - 4, TURN - 3, TURN - 2, TURN + 4)]
    backend = backend_of(model)
    assert backend.forward.side_of is not None
    assert backend.forward.side_of(40) != backend.forward.side_of(41)
    expected = np.stack([alone(model, prompt) for prompt in prompts])
    np.testing.assert_allclose(scores(model, prompts), expected, rtol=0, atol=2e-5)


def test_without_positions_only_equal_lengths_share(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh_model("phi3_longrope")
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda **inputs: forward(**inputs))  # as a wrapper of the model
    backend = backend_of(model)
    assert not backend.shares_prefixes
    whole = prompt_of(TURN + 4)
    # One begins with all of the other, but not with its factors.
    prompts = [whole, Prompt((*whole.pieces[:1], Piece("c", "context", whole.pieces[1].ids[:12])))]
    expected = np.stack([alone(model, prompt) for prompt in prompts])
    np.testing.assert_allclose(scores(model, prompts), expected, rtol=0, atol=2e-5)


def test_the_bare_branch_of_generate_is_run_anew_at_the_turn() -> None:
    model = tiny_model("phi3_longrope")
    bare = torch.tensor([prompt_of(TURN - 2).ids.tolist()])
    processor = ContextInfluenceProcessor(model, bare, cid_lambda=0.0)
    ids = torch.tensor([[4, 8, 15]])
    for token in (16, 23, 42, 5):
        scores = processor(ids, torch.zeros((1, N_VOCAB)))
        with torch.inference_mode():
            expected = model(input_ids=bare, use_cache=False).logits[:, -1].double().log_softmax(-1)
        torch.testing.assert_close(scores, expected, rtol=0, atol=2e-5)
        ids, bare = (torch.cat([some, torch.tensor([[token]])], dim=1) for some in (ids, bare))
