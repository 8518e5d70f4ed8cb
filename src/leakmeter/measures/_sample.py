"""Responses drawn from p̄_{λ,T}(· | D), several advancing together."""

from __future__ import annotations

import hashlib
from collections.abc import Generator

import numpy as np

from leakmeter.kernels.wants import Draw
from leakmeter.types.item import Item
from leakmeter.types.request import Request, Scores


def sample(
    item: Item, *, n: int, temperature: float, context_weight: float, max_new_tokens: int, seed: int
) -> Generator[list[Request], list[Scores], list[tuple[int, ...]]]:
    """Draw `n` responses; each ends with a stop token, which belongs to it, or after `max_new_tokens`.

    Every token is drawn from the whole distribution (no top-k, top-p or greedy choice, under which a response would
    have no finite loss). The randomness of a token depends on (seed, item, response, step) alone.
    """
    uniforms = [_uniforms(seed, item.id, i, max_new_tokens) for i in range(n)]
    # The bare branch is run only where it enters the mixture.
    prompts = (item.prompt,) if context_weight == 1.0 else (item.blank, item.prompt)
    drawn: list[list[int]] = [[] for _ in range(n)]
    live = list(range(n))
    for step in range(max_new_tokens):
        requests = [
            Request(prompts, tuple(drawn[i]), Draw(float(uniforms[i][step]), context_weight, temperature)) for i in live
        ]
        answers = yield requests
        for i, scores in zip(live, answers, strict=True):
            drawn[i].append(int(scores.values[-1, 0, 0]))
        live = [i for i in live if drawn[i][-1] not in item.stop_ids]
        if not live:
            break
    return [tuple(ids) for ids in drawn]


def _uniforms(seed: int, item_id: str, response: int, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    entropy = int.from_bytes(hashlib.sha256(item_id.encode()).digest()[:8])
    return np.random.default_rng([seed, entropy, response]).random(n)
