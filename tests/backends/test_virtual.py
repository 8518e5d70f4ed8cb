"""Vectors of a soft prompt read in the place of virtual tokens, against a pass over embeddings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers.tiny_models import N_VOCAB, backend_of, fresh_model
from leakmeter.backends.hf.places import virtual_tokens
from leakmeter.core.drive import drive
from leakmeter.core.prompt import FRAME, VIRTUAL, Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.errors import CapabilityError

LENGTH = 4


def prompts(n: int) -> list[tuple[Prompt, tuple[int, ...]]]:
    rng = np.random.default_rng(0)
    soft = Piece("soft", FRAME, tuple(range(VIRTUAL, VIRTUAL + LENGTH)))
    made = []
    for _ in range(n):
        text, value = (tuple(rng.integers(0, N_VOCAB, size=size).tolist()) for size in rng.integers(2, 7, size=2))
        made.append((Prompt((Piece("start", FRAME, (1,)), soft, Piece("text", FRAME, text))), value))
    return made


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "mistral", "mamba"])
def test_likelihoods_are_those_of_a_pass_over_embeddings(kind: str) -> None:
    model = fresh_model(kind, dtype=torch.float64)
    embed = model.get_input_embeddings()
    shape = (LENGTH, embed(torch.tensor([0])).shape[-1])
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()
    asked = prompts(6)

    def trial() -> Trial[list[Scores]]:
        return (yield [Request((prompt,), value, TargetLogProbs()) for prompt, value in asked])

    with virtual_tokens(model, vectors):
        (scores,), _ = drive(backend_of(model), [trial()])
    for (prompt, value), score in zip(asked, scores, strict=True):
        ids = prompt.ids.tolist()
        with torch.no_grad():
            ends = [embed(torch.tensor(some)) for some in (ids[:1], [*ids[1 + LENGTH :], *value])]
            logits = model(inputs_embeds=torch.cat([ends[0], vectors, ends[1]])[None]).logits[0]
        expected = logits.double().log_softmax(-1)[len(ids) - 1 : -1].gather(1, torch.tensor(value)[:, None])[:, 0]
        # Norms of these architectures are of float32 in a model of float64 too: 1.4e-6 was the largest difference.
        np.testing.assert_allclose(score.values[0], expected, rtol=1e-6)


def test_afterwards_the_model_is_as_it_was_and_other_widths_are_refused() -> None:
    model = fresh_model("llama")
    embed = model.get_input_embeddings()
    width = embed.weight.shape[1]
    said = f"vectors of {width + 1} numbers, and the model {width}"
    with pytest.raises(CapabilityError, match=said), virtual_tokens(model, torch.zeros((2, width + 1))):
        pass
    with virtual_tokens(model, torch.ones((2, width))):
        found = embed(torch.tensor([[3, VIRTUAL + 1]]))
    assert torch.equal(found[0, 0], embed.weight[3])
    assert torch.equal(found[0, 1], torch.ones(width))
    assert not embed._forward_hooks
    assert not embed._forward_pre_hooks
