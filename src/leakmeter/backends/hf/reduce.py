"""Features of the wanted rows to scores: head and reduction a slice of logits at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.machine import Surplus
from leakmeter.backends.hf.schedule import PassLimits
from leakmeter.core.request import Reduction, Request, Scores, goes_by_pairs
from leakmeter.core.tree import Chunk
from leakmeter.errors import ScoreError
from leakmeter.stats.arrays import FloatArray, IntArray


def answers(
    chunk: Chunk, features: Tensor, forward: Forward, limits: PassLimits, dtype: str, surplus: Surplus
) -> list[Scores]:
    """Every request's scores, in order, of features (slot, size). `limits` says how many entries of the rows of logits
    are made, and how many reduced, at a time; one row of all prompts that a reduction needs together is exempt.
    `ScoreError` where the model gave NaN."""
    at_once = max(1, limits.logits_per_slice // forward.n_vocab)
    reducer = _Reducer(features, forward, at_once, max(1, limits.reduced_per_slice // forward.n_vocab), surplus)
    scores: list[Scores] = []
    for first, last in _groups(chunk, at_once):
        requests, slots = chunk.requests[first:last], chunk.slots[first:last]
        values = reducer.sliced(requests[0], slots[0]) if len(requests) == 1 else reducer.joined(requests, slots)
        for index, array in enumerate(values, first):
            if np.isnan(array).any():
                prompt = int(np.argwhere(np.isnan(array))[0][0])
                raise ScoreError(
                    f"the model gave NaN for prompt {prompt + 1} of {len(array)} in request {index + 1}; its precision "
                    f"is {dtype}, try --dtype float32"
                )
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


@dataclass(frozen=True, slots=True)
class _Reducer:
    features: Tensor
    """(slot, size)."""
    forward: Forward
    at_once: int
    """Rows of logits that are made at a time."""
    reduced_at_once: int
    """Rows of them that are reduced at a time."""
    surplus: Surplus

    def joined(self, requests: Sequence[Request], slots: Sequence[IntArray]) -> list[FloatArray]:
        distinct, places = np.unique(np.concatenate([s.ravel() for s in slots]), return_inverse=True)
        logits = self._logits(distinct)
        ends = np.cumsum([s.size for s in slots])
        tables = [part.reshape(s.shape) for part, s in zip(np.split(places, ends[:-1]), slots, strict=True)]
        values: list[FloatArray] = []
        # Equal reductions that go row by row are made as one: a beam search has a request for each beam.
        for reduction, some in groupby(
            zip(requests, tables, strict=True),
            key=lambda pair: None if pair[0].reduction.rows_together else pair[0].reduction,
        ):
            group = list(some)
            if reduction is None:
                values += [
                    self._of_table(request.reduction, logits, table, request.targets) for request, table in group
                ]
                continue
            targets = np.concatenate([np.tile(request.targets, len(table)) for request, table in group])
            rows = self._of_rows(reduction, logits, np.concatenate([table.ravel() for _, table in group]), targets)
            parts = np.split(rows, np.cumsum([table.size for _, table in group])[:-1])
            values += [
                part.reshape(*table.shape, *rows.shape[1:]) for part, (_, table) in zip(parts, group, strict=True)
            ]
        return values

    def sliced(self, request: Request, slots: IntArray) -> list[FloatArray]:
        """One request, cut along prompts where the reduction allows it, else along rows, into slices of logits."""
        reduction = request.reduction

        def reduced(part: IntArray, targets: IntArray) -> FloatArray:
            table = np.arange(part.size).reshape(part.shape)
            return self._of_table(reduction, self._logits(part.ravel()), table, targets)

        prompt_step = _prompts_at_once(reduction, len(slots), self.at_once // slots.shape[1])
        return [_in_blocks(reduction, slots, request.targets, prompt_step, self.at_once, reduced)]

    def _logits(self, slots: IntArray) -> Tensor:
        return self.forward.logits(self.features[torch.from_numpy(slots).to(self.features.device)])

    def _of_table(self, reduction: Reduction, logits: Tensor, table: IntArray, targets: IntArray) -> FloatArray:
        """A reduction of logits (row, vocab), where a table says which of them are a prompt's rows: (prompt, row,
        …)."""
        n_prompts, n_rows = table.shape
        if not reduction.rows_together:
            values = self._of_rows(reduction, logits, table.ravel(), np.tile(targets, n_prompts))
            return values.reshape(n_prompts, n_rows, *values.shape[1:])
        prompt_step = _prompts_at_once(reduction, n_prompts, self.reduced_at_once)
        reduced = partial(self._reduced, reduction, logits)
        return _in_blocks(reduction, table, targets, prompt_step, self.reduced_at_once, reduced)

    def _of_rows(self, reduction: Reduction, logits: Tensor, rows: IntArray, targets: IntArray) -> FloatArray:
        """A reduction that goes row by row, of some rows of the logits: (row, …)."""
        step = self.reduced_at_once
        parts = [
            self._reduced(reduction, logits, rows[None, r : r + step], targets[r : r + step])[0]
            for r in range(0, len(rows), step)
        ]
        return np.concatenate(parts, axis=0)

    def _reduced(self, reduction: Reduction, logits: Tensor, table: IntArray, targets: IntArray) -> FloatArray:
        rows = logits[torch.from_numpy(table).to(logits.device)]
        values: FloatArray = reduction.reduce(rows, torch.from_numpy(targets).to(logits.device)).cpu().numpy()
        self.surplus.give_back()
        return values


def _prompts_at_once(reduction: Reduction, n_prompts: int, most: int) -> int:
    """Prompts of a request whose rows are made or reduced together: `most`, where the reduction allows it."""
    if not reduction.rows_together:
        return max(1, min(n_prompts, most))
    return max(2, min(n_prompts, most)) if goes_by_pairs(reduction) else n_prompts


def _in_blocks(
    reduction: Reduction,
    table: IntArray,
    targets: IntArray,
    prompt_step: int,
    at_once: int,
    reduced: Callable[[IntArray, IntArray], FloatArray],
) -> FloatArray:
    """Reduce a table (prompt, row) in blocks of `prompt_step` prompts and `at_once` entries. Where a reduction compares
    every prompt with the first, that one is repeated in front of each later block, and its values are dropped there."""
    row_step = max(1, at_once // prompt_step)
    n_repeated = int(goes_by_pairs(reduction))
    starts = [0, *range(prompt_step, len(table), prompt_step - n_repeated)]
    blocks: list[FloatArray] = []
    for start in starts:
        n = n_repeated if start else 0
        some = np.concatenate([table[:n], table[start : start + prompt_step - n]])
        parts = [
            reduced(some[:, r : r + row_step], targets[r : r + row_step]) for r in range(0, table.shape[1], row_step)
        ]
        blocks.append(np.concatenate(parts, axis=1)[n:])
    return np.concatenate(blocks, axis=0)
