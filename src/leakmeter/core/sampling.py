"""Responses drawn token by token, several advancing together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Final

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import NextTokenSample
from leakmeter.core.request import DrawRequest, Reduction, Request, Scores, Trial, ask
from leakmeter.errors import CapabilityError
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.exact_draw import Bits, StreamBits, SystemBits

_HOW_MANY: Final = ("samples", "sequences", "sequences_a_part", "max_new_tokens", "delta")
"""Parameters that say how much is drawn, or what is said of it."""


def sample(
    item: ContextItem, *, n: int, temperature: float, context_weight: float, max_new_tokens: int, seed: int
) -> Trial[list[tuple[int, ...]]]:
    """Draw `n` responses from p̄_{λ,T}(· | D); see `draw_with`. Every token is drawn from the whole distribution (no
    top-k, top-p or greedy choice, under which a response would have no finite loss). With λ = 1, a server that does not
    give whole rows draws the responses itself."""
    if context_weight == 1.0:
        # From 0 to 2^31 − 1, which all servers can read.
        seeds = tuple(int(_generator(seed, item.id, i).integers(2**31)) for i in range(n))
        request = DrawRequest(item.prompt, temperature, max_new_tokens, seeds, frozenset(item.stop_ids))
        try:
            (answer,) = yield from ask([request])
            return list(answer.drawn)
        except CapabilityError:
            pass  # drawn below, token by token
    # The bare branch is run only where it enters the mixture.
    prompts = (item.prompt,) if context_weight == 1.0 else (item.blank, item.prompt)
    uniforms = [uniforms_of(seed, item.id, i, max_new_tokens) for i in range(n)]
    drawn = yield from draw_with(
        item,
        prompts,
        lambda i, step: NextTokenSample(float(uniforms[i][step]), context_weight, temperature),
        n=n,
        max_new_tokens=max_new_tokens,
    )
    return [tuple(int(token) for token in kept[:, 0]) for kept in drawn]


def needs_of_sample(item: ContextItem, *, temperature: float, context_weight: float) -> ItemNeeds:
    """What `sample` needs: only with λ = 1 a model may draw the response itself."""
    reduction = NextTokenSample(0.5, context_weight, temperature)
    if context_weight == 1.0:
        return ItemNeeds(draws=Request((item.prompt,), (), reduction))
    return ItemNeeds(requests=(Request((item.blank, item.prompt), (), reduction),))


def draw_with(
    item: ContextItem,
    prompts: Sequence[Prompt],
    reduction: Callable[[int, int], Reduction],
    *,
    n: int,
    max_new_tokens: int,
) -> Generator[list[Request], list[Scores], list[FloatArray]]:
    """Draw `n` responses; each ends with a stop token, which belongs to it, or after `max_new_tokens`. `reduction`
    gives, for a response and a step from 0, a reduction that draws, with the token id first; the last prompt's tokens
    are taken. Returns what the reductions gave, for each response (response, kept)."""
    drawn: list[list[int]] = [[] for _ in range(n)]
    kept: list[list[FloatArray]] = [[] for _ in range(n)]
    live = list(range(n))
    for step in range(max_new_tokens):
        answers = yield [Request(tuple(prompts), tuple(drawn[i]), reduction(i, step)) for i in live]
        for i, scores in zip(live, answers, strict=True):
            kept[i].append(scores.values[-1, 0])
            drawn[i].append(int(scores.values[-1, 0, 0]))
        live = [i for i in live if drawn[i][-1] not in item.stop_ids]
        if not live:
            break
    return [np.stack(rows) for rows in kept]


def uniforms_of(seed: int, item_id: str, response: int, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Numbers in [0, 1) of a response's tokens, which depend on the seed, the case and the response alone."""
    return _generator(seed, item_id, response).random(n)


def _generator(seed: int, item_id: str, response: int) -> np.random.Generator:
    entropy = int.from_bytes(hashlib.sha256(item_id.encode()).digest()[:8])
    return np.random.default_rng([seed, entropy, response])


def bits_of(measure: Any, item: ContextItem) -> Callable[[int, int], Bits]:
    """Response and step to the random bits of a token, for a measure that promises something of what it draws.

    With a nonce they are the operating system's. With a seed they follow from it, from every parameter that has a part
    in a token's distribution, and from the case: its name, and the token ids of its prompts. So one secret seed may
    serve several settings, queries and contexts: what is drawn of one is independent of what is drawn of another. More
    responses, or longer ones, leave those that there were as they are.
    """
    if measure.nonce is not None:
        return lambda response, step: SystemBits()
    prompts = (item.blank, item.prompt, *item.alone.values())
    deciding = (
        "leakmeter draws",
        type(measure).__name__,
        {field.name: getattr(measure, field.name) for field in fields(measure) if field.name not in _HOW_MANY},
        item.id,
        [[prompt.ids.tolist(), prompt.positions.tolist()] for prompt in prompts],
    )
    key = hashlib.sha256(json.dumps(deciding, sort_keys=True, default=_described).encode()).digest()
    return lambda response, step: StreamBits(key, (response, step))


def _described(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        parameters = asdict(value)
    else:
        held = getattr(value, "__dict__", {})
        parameters = {
            name: field_value for name, field_value in held.items() if isinstance(field_value, bool | int | float | str)
        }
    return [type(value).__module__, type(value).__qualname__, parameters]
