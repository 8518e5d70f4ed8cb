"""Random prompts, and the slow, obvious way to every number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from leakmeter.core.prompt import Piece, Prompt


def log_softmax(logits: Iterable[float]) -> list[float]:
    """In plain floats, sum by sum."""
    known = [float(z) for z in logits]
    top = max(known)
    total = math.log(math.fsum(math.exp(z - top) for z in known))
    return [z - top - total for z in known]


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
