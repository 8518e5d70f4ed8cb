"""Pieces hidden from what follows the context: against full passes with the mask written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from helpers.naive import random_prompt
from helpers.tiny_models import N_VOCAB, RECURRENT, WINDOW, backend_of, tiny_backend, tiny_model
from leakmeter.backends.hf import backend as backend_module
from leakmeter.backends.hf.schedule import check_states
from leakmeter.core.counting import CountingBackend
from leakmeter.core.drive import drive
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request, Trial
from leakmeter.core.tree import chunk_of
from leakmeter.errors import CapabilityError

PROMPT: Prompt = random_prompt(np.random.default_rng(3), N_VOCAB, (6, 5, 9, 4), frame=4, query=5)
RESPONSE = (5, 90, 90, 41)
HIDDEN = (("c0",), ("c1", "c3"), ("c3",), ("c0", "c1", "c2", "c3"), ("c0",))
CUT = (PROMPT.without("c0"), PROMPT.without("c1").hiding("c2"))
PROMPTS = (PROMPT, *(PROMPT.hiding(*names) for names in HIDDEN), *CUT)


def slow(model: Any, prompt: Prompt, response: tuple[int, ...], windows: dict[str, int | None]) -> np.ndarray:
    """log p of each response token from one full pass with attention masks, (response,)."""
    ids = torch.tensor([[*prompt.ids.tolist(), *response]])
    n = ids.shape[1]
    sees = torch.ones((n, n), dtype=torch.bool).tril()
    for start, end in prompt.hidden_tokens:
        sees[prompt.n_before :, start:end] = False
    distance = torch.arange(n)[:, None] - torch.arange(n)
    masks = {}
    for kind, window in windows.items():
        seen = sees if window is None else sees & (distance < window)
        masks[kind] = torch.zeros((n, n)).masked_fill(~seen, torch.finfo(torch.float32).min)[None, None]
    mask = masks if len(masks) > 1 else next(iter(masks.values()))
    with torch.inference_mode():
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[0].double()
    rows = logits[len(prompt.ids) - 1 : n - 1].log_softmax(dim=-1)
    return rows[torch.arange(len(response)), list(response)].numpy()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen2", "gemma3"])
def test_scores_are_those_of_a_mask_written_out(kind: str, attention: str) -> None:
    model = tiny_model(kind, attention)
    windows = {"full_attention": None, "sliding_attention": WINDOW} if kind == "gemma3" else {"full_attention": None}
    expected = np.stack([slow(tiny_model(kind), prompt, RESPONSE, windows) for prompt in PROMPTS])
    for shares in (True, False):
        backend = backend_of(model, share_prefixes=shares)
        got = backend.score(chunk_of([Request(PROMPTS, RESPONSE, TargetLogProbs())]))[0].values
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5)
    assert np.abs(expected[1:5] - expected[0]).max(axis=1).min() > 0.3
    assert np.abs(expected[6] - expected[1]).max() > 0.05  # to hide is not to remove


def test_what_is_hidden_costs_what_stands_behind_the_context() -> None:
    backend = tiny_backend("llama", "sdpa")
    n_before = backend.n_tokens_run
    chunk = chunk_of([Request(PROMPTS[:3], RESPONSE, TargetLogProbs())])
    backend.score(chunk)
    whole, tail = len(PROMPT.ids) + len(RESPONSE) - 1, 5 + len(RESPONSE) - 1
    assert backend.n_tokens_run - n_before == chunk.n_tree_tokens == whole + 2 * tail


def test_a_round_that_hides_begins_with_the_states_of_the_round_before() -> None:
    class Kept(TargetLogProbs):
        continues = True

    def trial() -> Trial[np.ndarray]:
        yield [Request((PROMPT,), RESPONSE, Kept())]
        (scores,) = yield [Request(PROMPTS[:4], RESPONSE, TargetLogProbs())]
        return scores.values

    backend = tiny_backend("llama", "sdpa")
    n_before = backend.n_tokens_run
    ((values,), cost) = drive(backend, [trial()])
    alone = backend.score(chunk_of([Request(PROMPTS[:4], RESPONSE, TargetLogProbs())]))[0].values
    np.testing.assert_allclose(values, alone, rtol=0, atol=1e-5)
    whole, tail = len(PROMPT.ids) + len(RESPONSE) - 1, 5 + len(RESPONSE) - 1
    # The rows of the whole prompt are wanted again, and with them the tokens from the first row's on.
    assert cost.n_tokens_run == whole + len(RESPONSE) + 3 * tail
    assert backend.n_tokens_run - n_before > cost.n_tokens_run


def test_many_rows_with_much_hidden_and_a_short_budget() -> None:
    pieces = (2,) * 40
    prompt = random_prompt(np.random.default_rng(4), N_VOCAB, pieces, frame=2, query=3)
    hiding = [prompt.hiding(*(f"c{j}" for j in range(i % 3, 40, 1 + i))) for i in range(40)]
    backend = backend_of(tiny_model("llama", "sdpa"), tokens_per_batch=25)
    got = backend.score(chunk_of([Request((prompt, *hiding), RESPONSE, TargetLogProbs())]))[0].values
    expected = [slow(tiny_model("llama"), one, RESPONSE, {"full_attention": None}) for one in (prompt, *hiding)]
    np.testing.assert_allclose(got, np.stack(expected), rtol=0, atol=2e-5)


@pytest.mark.parametrize("response", [(7,), (7, 3)])
def test_a_context_at_the_end_and_short_responses(response: tuple[int, ...]) -> None:
    # The row of the context's own last token has seen what is hidden from those behind it.
    prompt = Prompt((Piece("open", "frame", (3, 4)), Piece("a", "context", (5, 6, 9)), Piece("b", "context", (8, 2))))
    prompts = (prompt, prompt.hiding("a"), prompt.hiding("b"))
    got = tiny_backend("llama", "sdpa").score(chunk_of([Request(prompts, response, TargetLogProbs())]))[0].values
    expected = [slow(tiny_model("llama"), one, response, {"full_attention": None}) for one in prompts]
    np.testing.assert_allclose(got, np.stack(expected), rtol=0, atol=2e-5)
    assert np.ptp(got[:, 0]) < 1e-5


def test_models_without_states_to_fork_refuse_and_a_trial_is_told_at_once() -> None:
    def trial() -> Trial[str]:
        with pytest.raises(CapabilityError, match="'tiny' hides no piece of a prompt"):
            yield [Request((PROMPT.hiding("c0"),), RESPONSE, TargetLogProbs())]
        return "told"

    backend = tiny_backend(RECURRENT[0])
    assert not backend.capabilities.hides_pieces
    with pytest.raises(CapabilityError, match="no piece can be hidden"):
        backend.score(chunk_of([Request(PROMPTS[:2], RESPONSE, TargetLogProbs())]))
    (told,), cost = drive(backend, [trial()])
    assert told == "told"
    assert cost.n_tokens_run == cost.n_prompts == 0


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_a_long_start_is_run_in_slices(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "LEAST_SLICE", 1)
    cuts = (PROMPT, PROMPT.without("c2"), PROMPT.hiding("c1"))
    whole, sliced = backend_of(tiny_model(kind, "sdpa")), backend_of(tiny_model(kind, "sdpa"), tokens_per_batch=7)
    sizes: list[int] = []
    passed = sliced.forward.passed

    def counted(segments: list[Any], ids: list[Any], until: Any = None) -> Any:
        sizes.append(sum(segment.n_new * len(segment.starts) for segment in segments))
        return passed(segments, ids, until)

    sliced.forward.passed = counted  # type: ignore[method-assign]
    requests = [Request(cuts, RESPONSE, TargetLogProbs())]
    expected, got = (backend.score(chunk_of(requests))[0].values for backend in (whole, sliced))
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5)
    assert whole.n_tokens_run == sliced.n_tokens_run
    # What stands behind the context of a prompt that hides pieces is one pass.
    assert [size for size in sizes if size > 7] == [5 + len(RESPONSE) - 1]
    assert len(sizes) >= 5


def test_a_context_whose_states_do_not_fit_is_refused_beforehand() -> None:
    backend = tiny_backend("llama", "sdpa")
    chunk = chunk_of([Request(PROMPTS[:2], RESPONSE, TargetLogProbs())])
    per_token = backend.forward.bytes_per_token
    n_tokens = max(len(branch.ids) for branch in chunk.branches if branch.hidden)
    check_states("tiny", chunk, per_token, 2 * n_tokens * per_token * 8 // 5 + 8)
    with pytest.raises(CapabilityError, match="give --memory 1GiB") as refused:
        check_states("tiny", chunk, per_token, 2 * n_tokens * per_token)
    assert "--max-context-tokens" in str(refused.value)
    # Other requests are run as ever, whatever they take.
    check_states("tiny", chunk_of([Request(PROMPTS[:1], RESPONSE, TargetLogProbs())]), per_token, 1)
    assert CountingBackend(backend).refusal == backend.refusal
