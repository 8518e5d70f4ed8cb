"""Rows that begin with the same states: their queries go against these together, and the numbers stay what they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers.naive import naive_log_probs
from helpers.tiny_models import tiny_backend, tiny_model
from leakmeter.backends.hf import shared_start
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of

COMMON = Piece("common", "context", tuple(3 + (7 * i) % 90 for i in range(70)))


def prompts(n: int, n_query: int) -> list[Prompt]:
    rng = np.random.default_rng(5)
    return [Prompt((COMMON, Piece("query", "query", tuple(rng.integers(3, 97, n_query).tolist())))) for _ in range(n)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n_heads", "n_groups"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize(("n_rows", "n_shared", "n_new"), [(2, 1, 1), (5, 64, 3), (3, 130, 17)])
def test_two_weighed_answers_are_plain_attention(
    dtype: torch.dtype, n_heads: int, n_groups: int, n_rows: int, n_shared: int, n_new: int
) -> None:
    generator = torch.Generator().manual_seed(1)
    # Scores up to about 30: with weights near 0 and near 1.
    queries = 4 * torch.randn((n_rows, n_heads, n_new, 8), generator=generator, dtype=dtype)
    keys, values = torch.randn((2, n_rows, n_groups, n_shared + n_new, 8), generator=generator, dtype=dtype)
    keys[:, :, :n_shared], values[:, :, :n_shared] = keys[:1, :, :n_shared], values[:1, :, :n_shared]
    partial = shared_start.partial_attention("cpu", dtype)
    assert partial is not None
    got = shared_start.attend(partial, queries, keys, values, n_shared, 0.4)
    sees = torch.ones((n_new, n_shared + n_new), dtype=torch.bool).tril(n_shared)
    keys, values = (states.repeat_interleave(n_heads // n_groups, dim=1) for states in (keys, values))
    weights = (queries @ keys.transpose(-1, -2) * 0.4).masked_fill(~sees, -torch.inf).softmax(dim=-1)
    near = 5e-6 if dtype == torch.float32 else 2e-14  # measured: 1.9e-6 and 4.4e-15
    torch.testing.assert_close(got, weights @ values, rtol=0, atol=near)


@pytest.mark.parametrize("kind", ["llama", "gpt_neox", "gemma3"])
def test_a_model_gives_the_same_scores_with_a_shared_start(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    attend = shared_start.attend
    monkeypatch.setattr(shared_start, "_LEAST_QUERIES", 12)
    monkeypatch.setattr(shared_start, "attend", lambda *args: used.append(args[4]) or attend(*args))
    requests = [Request((prompt,), (9, 80, 3), TargetLogProbs()) for prompt in prompts(6, 4)]
    scores = tiny_backend(kind, "sdpa").score(chunk_of(requests))
    # Layers with a window have masks, and go row by row.
    assert set(used) == {len(COMMON.ids)}
    for request, got in zip(requests, scores, strict=True):
        expected = naive_log_probs(tiny_model(kind), request.prompts[0], request.prompts[0], request.response, 1.0, 1.0)
        np.testing.assert_allclose(got.values[0], expected, rtol=0, atol=2e-5)  # worst measured: 1.1e-5


def test_an_operator_that_is_gone_or_another_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: object) -> None:
        raise AttributeError("no such operator")

    def another(*args: object) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(2, 2, 5, 8, dtype=torch.float64), torch.zeros(2, 2, 5)

    probe = shared_start.partial_attention.__wrapped__
    for flash in (gone, another):
        monkeypatch.setattr(shared_start, "_flash", flash)
        assert probe("cpu", torch.float32) is None
    assert probe("cuda", torch.float32) is None
