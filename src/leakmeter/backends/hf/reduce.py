"""Features of the wanted rows to scores: head and reduction a slice of logits at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.forward import Forward
from leakmeter.errors import ScoreError
from leakmeter.types.chunk import Chunk
from leakmeter.types.prompt import IntArray
from leakmeter.types.request import FloatArray, Request, Scores


def answers(chunk: Chunk, features: Tensor, forward: Forward, logits_per_slice: int, dtype: str) -> list[Scores]:
    """Every request's scores, in order.

    Args:
        chunk: the requests, and the slots of their rows.
        features: (slot, size).
        forward: has the head.
        logits_per_slice: most entries of the rows of logits at a time; a group of prompts that a want needs together
            is exempt in its number of prompts, not in its rows.
        dtype: of the model, for the message.

    Raises:
        ScoreError: the model gave NaN.
    """
    at_once = max(1, logits_per_slice // forward.n_vocab)
    scores: list[Scores] = []
    for first, last in _groups(chunk, at_once):
        requests, slots = chunk.requests[first:last], chunk.slots[first:last]
        if len(requests) == 1:
            values = [_sliced(requests[0], features[torch.from_numpy(slots[0]).to(features.device)], forward, at_once)]
        else:
            values = _joined(requests, slots, features, forward)
        for index, array in enumerate(values, first):
            _check(array, index, dtype)
            scores.append(Scores(array))
    return scores


def _groups(chunk: Chunk, at_once: int) -> Iterator[tuple[int, int]]:
    """Neighbouring requests whose rows fit into one slice: small heads waste what reading their weights costs."""
    first, used = 0, 0
    for index, slots in enumerate(chunk.slots):
        if index > first and used + slots.size > at_once:
            yield first, index
            first, used = index, 0
        used += slots.size
    if chunk.slots:
        yield first, len(chunk.slots)


def _joined(
    requests: tuple[Request, ...], slots: tuple[IntArray, ...], features: Tensor, forward: Forward
) -> list[FloatArray]:
    distinct, places = np.unique(np.concatenate([s.ravel() for s in slots]), return_inverse=True)
    logits = forward.logits(features[torch.from_numpy(distinct).to(features.device)])
    values = []
    first = 0
    for request, its_slots in zip(requests, slots, strict=True):
        where = torch.from_numpy(places[first : first + its_slots.size].reshape(its_slots.shape)).to(logits.device)
        first += its_slots.size
        values.append(_reduced(request, logits[where], _targets(request, features.device)))
    return values


def _sliced(request: Request, features: Tensor, forward: Forward, at_once: int) -> FloatArray:
    """One request, features (prompt, row, size), cut along prompts where the want allows it, else along rows."""
    targets = _targets(request, features.device)
    n_prompts, n_rows = features.shape[:2]
    prompt_step = n_prompts if request.want.rows_together else max(1, min(n_prompts, at_once // n_rows))
    row_step = max(1, at_once // prompt_step)
    blocks: list[FloatArray] = []
    for p in range(0, n_prompts, prompt_step):
        parts = [
            _reduced(
                request,
                forward.logits(features[p : p + prompt_step, r : r + row_step]),
                targets[r : r + row_step],
            )
            for r in range(0, n_rows, row_step)
        ]
        blocks.append(np.concatenate(parts, axis=1))
    return np.concatenate(blocks, axis=0)


def _targets(request: Request, device: torch.device) -> Tensor:
    wanted = request.want.rows(len(request.response))
    return torch.tensor([*request.response, 0][wanted.start : wanted.stop], device=device)


def _reduced(request: Request, logits: Tensor, targets: Tensor) -> FloatArray:
    values: FloatArray = request.want.reduce(logits, targets).cpu().numpy()
    return values


def _check(values: FloatArray, index: int, dtype: str) -> None:
    if np.isnan(values).any():
        prompt = int(np.argwhere(np.isnan(values))[0][0])
        raise ScoreError(
            f"the model gave NaN for prompt {prompt + 1} of {len(values)} in request {index + 1}; its precision is "
            f"{dtype}, try --dtype float32"
        )
