"""Features of the wanted rows to scores: head and reduction a slice of logits at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.machine import Surplus
from leakmeter.backends.hf.schedule import Limits
from leakmeter.core.plan import Chunk
from leakmeter.core.prompt import IntArray
from leakmeter.core.request import FloatArray, Reduction, Request, Scores, goes_by_pairs
from leakmeter.errors import ScoreError


def answers(
    chunk: Chunk, features: Tensor, forward: Forward, limits: Limits, dtype: str, surplus: Surplus
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
        """Requests whose logits are there together."""
        distinct, places = np.unique(np.concatenate([s.ravel() for s in slots]), return_inverse=True)
        logits = self._logits(distinct)
        ends = np.cumsum([s.size for s in slots])
        tables = [part.reshape(s.shape) for part, s in zip(np.split(places, ends[:-1]), slots, strict=True)]
        values: list[FloatArray] = []
        # Wants that are the same and go row by row are reduced as one: a beam search has a request for each beam.
        for reduction, some in groupby(zip(requests, tables, strict=True), key=_row_by_row):
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
        reduction, targets = request.reduction, request.targets
        n_prompts, n_rows = slots.shape
        prompt_step = _prompts_at_once(reduction, n_prompts, self.at_once // n_rows)
        row_step = max(1, self.at_once // prompt_step)
        blocks: list[FloatArray] = []
        for table, n_repeated in _blocks(reduction, slots, prompt_step):
            parts = []
            for r in range(0, n_rows, row_step):
                part = table[:, r : r + row_step]
                indices = np.arange(part.size).reshape(part.shape)
                parts.append(self._of_table(reduction, self._logits(part.ravel()), indices, targets[r : r + row_step]))
            blocks.append(np.concatenate(parts, axis=1)[n_repeated:])
        return [np.concatenate(blocks, axis=0)]

    def _logits(self, slots: IntArray) -> Tensor:
        """(row, vocab)."""
        return self.forward.logits(self.features[torch.from_numpy(slots).to(self.features.device)])

    def _of_table(self, reduction: Reduction, logits: Tensor, table: IntArray, targets: IntArray) -> FloatArray:
        """A reduction of logits (row, vocab), where a table says which of them are a prompt's rows: (prompt, row,
        …)."""
        n_prompts, n_rows = table.shape
        if not reduction.rows_together:
            values = self._of_rows(reduction, logits, table.ravel(), np.tile(targets, n_prompts))
            return values.reshape(n_prompts, n_rows, *values.shape[1:])
        prompt_step = _prompts_at_once(reduction, n_prompts, self.reduced_at_once)
        row_step = max(1, self.reduced_at_once // prompt_step)
        blocks: list[FloatArray] = []
        for some, n_repeated in _blocks(reduction, table, prompt_step):
            parts = [
                self._reduced(reduction, logits, some[:, r : r + row_step], targets[r : r + row_step])
                for r in range(0, n_rows, row_step)
            ]
            blocks.append(np.concatenate(parts, axis=1)[n_repeated:])
        return np.concatenate(blocks, axis=0)

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


def _blocks(reduction: Reduction, table: IntArray, step: int) -> Iterator[tuple[IntArray, int]]:
    """Prompts of a table in blocks of `step`, and how many in front of each are repeated: the first, or none."""
    if not goes_by_pairs(reduction):
        for p in range(0, len(table), step):
            yield table[p : p + step], 0
        return
    yield table[:step], 0
    for p in range(step, len(table), step - 1):
        yield np.concatenate([table[:1], table[p : p + step - 1]]), 1


def _row_by_row(request_and_table: tuple[Request, IntArray]) -> Reduction | None:
    """The reduction of a request, if it goes row by row."""
    reduction = request_and_table[0].reduction
    return None if reduction.rows_together else reduction


def _check(values: FloatArray, index: int, dtype: str) -> None:
    if np.isnan(values).any():
        prompt = int(np.argwhere(np.isnan(values))[0][0])
        raise ScoreError(
            f"the model gave NaN for prompt {prompt + 1} of {len(values)} in request {index + 1}; its precision is "
            f"{dtype}, try --dtype float32"
        )
