"""Responses drawn token by token, several advancing together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence

import numpy as np

from leakmeter.kernels.wants import Draw
from leakmeter.types.item import Item
from leakmeter.types.prompt import Prompt
from leakmeter.types.request import FloatArray, Request, Scores, Want


def sample(
    item: Item, *, n: int, temperature: float, context_weight: float, max_new_tokens: int, seed: int
) -> Generator[list[Request], list[Scores], list[tuple[int, ...]]]:
    """Draw `n` responses from p̄_{λ,T}(· | D); see `draw_with`.

    Every token is drawn from the whole distribution (no top-k, top-p or greedy choice, under which a response would
    have no finite loss).
    """
    # The bare branch is run only where it enters the mixture.
    prompts = (item.prompt,) if context_weight == 1.0 else (item.blank, item.prompt)
    drawn = yield from draw_with(
        item,
        prompts,
        lambda step, uniform: Draw(uniform, context_weight, temperature),
        n=n,
        max_new_tokens=max_new_tokens,
        seed=seed,
    )
    return [tuple(int(token) for token in kept[:, 0]) for kept in drawn]


def draw_with(
    item: Item,
    prompts: Sequence[Prompt],
    want: Callable[[int, float], Want],
    *,
    n: int,
    max_new_tokens: int,
    seed: int,
) -> Generator[list[Request], list[Scores], list[FloatArray]]:
    """Draw `n` responses; each ends with a stop token, which belongs to it, or after `max_new_tokens`.

    The randomness of a token depends on (seed, item, response, step) alone.

    Args:
        item: the case.
        prompts: whose rows are needed; the last one's tokens are taken.
        want: step from 0 and a number in [0, 1) to a want that draws, the token id first in what it gives.
        n: number of responses.
        max_new_tokens: most tokens of each, 1 or more.
        seed: of the draws.

    Returns:
        For each response what the want gave at each step, (response, kept).
    """
    uniforms = [uniforms_of(seed, item.id, i, max_new_tokens) for i in range(n)]
    drawn: list[list[int]] = [[] for _ in range(n)]
    kept: list[list[FloatArray]] = [[] for _ in range(n)]
    live = list(range(n))
    for step in range(max_new_tokens):
        answers = yield [Request(tuple(prompts), tuple(drawn[i]), want(step, float(uniforms[i][step]))) for i in live]
        for i, scores in zip(live, answers, strict=True):
            kept[i].append(scores.values[-1, 0])
            drawn[i].append(int(scores.values[-1, 0, 0]))
        live = [i for i in live if drawn[i][-1] not in item.stop_ids]
        if not live:
            break
    return [np.stack(rows) for rows in kept]


def uniforms_of(seed: int, item_id: str, response: int, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Numbers in [0, 1) of a response's tokens, which depend on the seed, the case and the response alone."""
    entropy = int.from_bytes(hashlib.sha256(item_id.encode()).digest()[:8])
    return np.random.default_rng([seed, entropy, response]).random(n)
