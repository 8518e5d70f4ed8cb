"""Tosses the coins, has answers written by the model's own class, and asks the adversary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import leakmeter
from benchmarks.games.outcomes import Game
from benchmarks.games.worlds import World
from leakmeter.backends.hf import HfBackend
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of

DRAWN: Final = "drawn"
GREEDY: Final = "likeliest tokens"
WRITTEN: Final = "another model"
REDACTED: Final = "from a text without it"


def played(
    backend: HfBackend, writer: HfBackend | None, world: World, *, seed: tuple[int, int], n_draws: int, n_tokens: int
) -> Iterator[Game]:
    """The games of a pair of texts. Each of the two is written from as often: a coin says which one is called one."""
    coin = np.random.default_rng([*seed, 1])
    prompts = world.prompts(backend)
    answers: list[tuple[str, bool | None, tuple[int, ...]]] = []
    for is_one, prompt in zip((True, False), prompts, strict=True):
        rng = np.random.default_rng([*seed, 2 + is_one])
        answers += [(DRAWN, is_one, ids) for ids in written(backend, prompt, n_draws, n_tokens, rng)]
        answers += [(GREEDY, is_one, ids) for ids in written(backend, prompt, 1, n_tokens, None)]
    if world.neither:
        rng = np.random.default_rng([*seed, 4])
        prompt = world.prompt_of_neither(backend)
        # Of a text that says neither, the coin alone says which it was.
        answers += [(REDACTED, bool(coin.integers(2)), ids) for ids in written(backend, prompt, n_draws, n_tokens, rng)]
    if writer is not None:
        for is_one, prompt in zip((True, False), world.prompts(writer), strict=True):
            rng = np.random.default_rng([*seed, 5 + is_one])
            for ids in written(writer, prompt, n_draws, n_tokens, rng):
                text = writer.tokenizer.decode([token for token in ids if token not in writer.tokenizer.stop_ids])
                if text.strip():
                    answers.append((WRITTEN, is_one, world.ids_of(backend, text)))
    scores = backend.score(chunk_of([Request(prompts, ids, TargetLogProbs()) for _, _, ids in answers]))
    for (way, is_one, _), scored in zip(answers, scores, strict=True):
        one, other = scored.values.sum(axis=1)
        # Which of the two is called one is the coin's: no adversary can do well by always saying the first.
        is_swapped = bool(coin.integers(2))
        yield Game(way, bool(is_one) != is_swapped, float(other - one if is_swapped else one - other))


def of_run(path: Path, seed: int) -> Iterator[Game]:
    """Each answer of a run beside its own context and that of another case, which it was not written from."""
    coin = np.random.default_rng(seed)
    for case in leakmeter.load_run(path):
        result: Any = case
        for control in result.controls:
            nats = result.whole_signed_nats - control.nats
            is_swapped = bool(coin.integers(2))
            yield Game("given", not is_swapped, -nats if is_swapped else nats)


@torch.inference_mode()
def written(
    backend: HfBackend, prompt: Prompt, n: int, n_tokens: int, rng: np.random.Generator | None
) -> list[tuple[int, ...]]:
    """n answers, token by token, by the class of the model itself; without `rng` always the likeliest token."""
    model: Any = backend.model
    device = next(model.parameters()).device
    stops = backend.tokenizer.stop_ids
    answers = [list[int]() for _ in range(n)]
    # The prompt is run once, and its states are repeated.
    out = model(input_ids=torch.tensor([list(map(int, prompt.ids))], device=device), use_cache=True, logits_to_keep=1)
    past = out.past_key_values
    past.batch_repeat_interleave(n)
    logits = out.logits[:, -1].double().cpu().numpy().repeat(n, axis=0)
    for _ in range(n_tokens):
        # The largest of the logits with Gumbel noise is a draw from their softmax.
        chosen = (logits if rng is None else logits + rng.gumbel(size=logits.shape)).argmax(axis=-1)
        for answer, token in zip(answers, chosen, strict=True):
            if not answer or answer[-1] not in stops:
                answer.append(int(token))
        if all(answer[-1] in stops for answer in answers):
            break
        out = model(input_ids=torch.tensor(chosen[:, None], device=device), past_key_values=past, use_cache=True)
        logits = out.logits[:, -1].double().cpu().numpy()
    return [tuple(answer) for answer in answers]
