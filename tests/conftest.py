"""What tests share: models, small cases, and the slow, obvious way to every number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from leakmeter.core.prompt import Piece, Prompt

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tests of the score cache give it a directory of their own; all others see what the model does, and the user's stays
# as it was.
os.environ["LEAKMETER_SCORES"] = "off"
if "PYTEST_XDIST_WORKER" in os.environ:
    # One thread a worker: two workers of two threads each take twice as long on two cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Properties are tested without a stopwatch: two cores are shared with other tests.
settings.register_profile("leakmeter", deadline=None)
settings.load_profile("leakmeter")
SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def real_backend() -> Any:
    """The default model; skipped, visibly, where it is neither cached nor to be fetched."""
    from leakmeter.errors import ModelError
    from leakmeter.runs.loading import load_backend

    try:
        return load_backend("smollm2-135m", device="cpu")
    except ModelError as error:
        pytest.skip(f"the default model is not at hand: {error}")


def random_prompt(
    rng: np.random.Generator, n_vocab: int, pieces: Sequence[int], frame: int = 3, query: int = 4
) -> Prompt:
    """A prompt of random ids: a frame, context pieces c0, c1 … of the given lengths, a query."""

    def ids(n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(0, n_vocab, size=n))

    context = [Piece(f"c{i}", "context", ids(n)) for i, n in enumerate(pieces)]
    return Prompt((Piece("open", "frame", ids(frame)), *context, Piece("query", "query", ids(query))))


def naive_logits(model: Any, prompt: Prompt, response: Sequence[int]) -> np.ndarray:
    """What follows prompt and response, by one full forward pass without a cache, float64, (vocab,).

    Gaps in the positions are filled with padding that is masked out, as a person who masks a piece would do.
    """
    import torch

    positions = np.concatenate([prompt.positions, prompt.next_position + np.arange(len(response))])
    length = int(positions[-1]) + 1
    ids = torch.zeros((1, length), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    ids[0, positions] = torch.tensor([*prompt.ids.tolist(), *response])
    mask[0, positions] = 1
    with torch.inference_mode():
        out = model(input_ids=ids, attention_mask=mask, position_ids=torch.arange(length)[None], use_cache=False)
    return out.logits[0, -1].double().numpy()


def naive_log_probs(
    model: Any, prompt: Prompt, bare: Prompt, response: Sequence[int], context_weight: float, temperature: float
) -> np.ndarray:
    """log p̄ of each response token by one full pass a token and prompt, Eq. 6 written out, (response,)."""
    out = []
    for t, token in enumerate(response):
        z = naive_logits(model, prompt, response[:t])
        z0 = naive_logits(model, bare, response[:t])
        mixed = (context_weight * z + (1 - context_weight) * z0) / temperature
        out.append(mixed[token] - mixed.max() - np.log(np.exp(mixed - mixed.max()).sum()))
    return np.asarray(out)
