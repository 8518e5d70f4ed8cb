"""Documents to rows of tokens, rows to batches, batches to steps of AdamW."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.errors import ScoreError, UsageError
from leakmeter.instruments.pii.tuning.training import read_tensors, recall, remembered, write_tensors

_BATCHES_SORTED: Final = 8
"""So many batches' rows are sorted by length together: less padding, and the repeats of a document stay apart."""
_NO_TARGET: Final = -100

Row = tuple[int, ...]
"""Token ids of a document, or of a part of a long one."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text to teach."""

    text: str
    repeats: int = 1
    """How often it stands in each epoch."""


def rows_of(documents: Sequence[Document], coder: HfTokenizer, end_id: int | None, most_tokens: int) -> list[Row]:
    """The rows of an epoch, repeats included, in the order of the documents.

    Args:
        documents: what to teach.
        coder: the model's tokenizer.
        end_id: token behind each document, if any.
        most_tokens: of a row, at least 2.

    Raises:
        UsageError: there are no documents, or one cannot be taught.
    """
    if not documents:
        raise UsageError("there are no documents to plant; give at least one")
    rows: list[Row] = []
    for number, document in enumerate(documents, 1):
        if document.repeats < 1:
            raise UsageError(f"document {number} has {document.repeats} repeats; give 1 or more, or leave it out")
        told = coder.encode_data(document.text, first=True).ids
        if not told:
            raise UsageError(f"document {number} has no text; leave it out")
        ids = (*coder.start_ids, *told, *(() if end_id is None else (end_id,)))
        if len(ids) < 2:
            raise UsageError(f"document {number} is a single token, which teaches nothing; leave it out")
        # The last token of a row is the first of the next, so that each is predicted once.
        cut = [ids[first : first + most_tokens] for first in range(0, len(ids) - 1, most_tokens - 1)]
        rows += cut * document.repeats
    return rows


def batches_of(rows: Sequence[Row], batch_tokens: int, seed: int, epoch: int) -> Iterator[list[Row]]:
    """The rows of an epoch in shuffled order, as many together as fit with their padding."""
    rng = np.random.default_rng((seed, epoch))
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    while shuffled:
        ends = np.cumsum([len(row) for row in shuffled])
        n_pool = 1 + int(np.searchsorted(ends, _BATCHES_SORTED * batch_tokens))
        pool, shuffled = sorted(shuffled[:n_pool], key=len), shuffled[n_pool:]
        batches: list[list[Row]] = [[]]
        for row in pool:
            if (len(batches[-1]) + 1) * len(row) > batch_tokens and batches[-1]:
                batches.append([])
            batches[-1].append(row)
        yield from (batches[i] for i in rng.permutation(len(batches)))


class Teacher:
    """A model that is being taught, and what its optimiser remembers."""

    def __init__(self, model: Any, learning_rate: float, warmup_steps: int, max_norm: float) -> None:
        self._model = model
        self._weights: dict[str, Tensor] = {name: weight.requires_grad_() for name, weight in model.named_parameters()}
        self._optimiser = torch.optim.AdamW(self._weights.values(), lr=learning_rate)
        self._learning_rate, self._warmup_steps, self._max_norm = learning_rate, warmup_steps, max_norm

    def step(self, number: int, batch: Sequence[Row]) -> float:
        """Take a step, numbered from 0; returns the loss before it, nats a token."""
        ids = torch.zeros((len(batch), max(map(len, batch))), dtype=torch.int64)
        targets = torch.full_like(ids, _NO_TARGET)
        for row, told in enumerate(batch):
            ids[row, : len(told)] = torch.tensor(told)
            targets[row, : len(told) - 1] = torch.tensor(told[1:])
        device = self._model.device
        with torch.enable_grad():
            logits = self._model(input_ids=ids.to(device), use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.to(device).flatten(), ignore_index=_NO_TARGET
            )
        if not torch.isfinite(loss):
            raise ScoreError(f"the loss is no number at step {number + 1}; give a lower learning rate")
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self._weights.values(), self._max_norm)
        for group in self._optimiser.param_groups:
            group["lr"] = self._learning_rate * min(1.0, (number + 1) / max(1, self._warmup_steps))
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        return loss.item()

    def save(self, path: Path, identity: str, n_done: int) -> None:
        """Keep what further steps depend on."""
        write_tensors(path, remembered(self._optimiser, self._weights), {"identity": identity, "n_done": n_done})

    def resume(self, path: Path, identity: str) -> int:
        """Go on from what was kept; returns the number of steps that are done."""
        if not path.exists():
            return 0
        tensors, record = read_tensors(path, "the state of a planting")
        if record.get("identity") != identity:
            raise UsageError(
                f"'{path}' is the state of another planting: other documents, settings or weights; remove that "
                "directory, or give another out"
            )
        recall(self._optimiser, self._weights, tensors)
        return int(record["n_done"])
