"""Holds what a back end gave against plain passes: a random sequence or two of a case, recomputed when it is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.machine import is_out_of_memory
from leakmeter.backends.hf.plain_pass import plain_logits
from leakmeter.core.plan import Chunk, Run
from leakmeter.core.prompt import IntArray
from leakmeter.core.request import GradientRequest, Gradients
from leakmeter.core.self_check import Recomputed, WrongPassError, tolerance_nats
from leakmeter.errors import ModelError

_NO_TARGET: Final = -1


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A sequence and what was made of its rows."""

    ids: IntArray
    positions: IntArray
    rows: IntArray
    """Indices of its tokens whose rows were wanted, (row,)."""
    targets: IntArray
    """The response token that each predicts, `_NO_TARGET` for none, (row,)."""
    log_probs: Tensor
    """Of the whole vocabulary, float64, or its entropy alone: (row, vocab) or (row, 1)."""
    attention: str
    """The implementation with which it was run, as the library calls it."""


class SelfCheck:
    """Two sequences of all that were scored since `begin`: one of the first round, and one of those after it, which go
    on from kept states. Each is drawn at random by the number of its rows; of a chunk, those that fork from another
    come first, since they are what sharing makes."""

    def __init__(self, forward: Forward, name: str) -> None:
        self._forward = forward
        self._name = name
        self._random: np.random.Generator | None = None
        self._n_seen = [0, 0]
        self._held: dict[int, tuple[Run, Tensor, IntArray] | _Remembered] = {}
        self.n_tokens = 0
        """Tokens of plain passes, in all."""

    @property
    def _config(self) -> Any:
        return self._forward.model.config.get_text_config()

    @property
    def _attention(self) -> str:
        return str(self._config._attn_implementation)

    def begin(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._n_seen = [0, 0]
        self._held = {}

    def drop(self) -> None:
        self._random = None
        self._held = {}

    def saw(self, chunk: Chunk, features: Tensor) -> None:
        """A chunk was run: its rows' features, (slot, size)."""
        if self._random is None:
            return
        # A plain pass can hide nothing.
        candidates = [run for run in chunk.runs if len(run.row_slots) and not run.hidden]
        forked = [run for run in candidates if run.parent >= 0]
        candidates = forked or candidates
        sizes = [len(run.row_slots) for run in candidates]
        place = int(chunk.round > 0)
        if not sizes or not self._takes(place, sum(sizes)):
            return
        run = candidates[int(self._random.choice(len(sizes), p=np.asarray(sizes) / sum(sizes)))]
        held = features[torch.from_numpy(run.row_slots).to(features.device)].clone()
        self._held[place] = run, held, _targets(chunk, run)

    def saw_gradients(self, requests: Sequence[GradientRequest], answers: Sequence[Gradients]) -> None:
        """Requests for gradients were answered, of prompts without gaps: of these, the entropy is checked."""
        if self._random is None or not requests or not self._takes(1, len(requests)):
            return
        number = int(self._random.integers(len(requests)))
        ids = requests[number].prompt.ids
        if (ids < 0).any():
            return  # a slot has no token of its own
        entropy = torch.tensor([[answers[number].entropy]], dtype=torch.float64)
        row = np.asarray([len(ids) - 1])
        self._held[1] = _Remembered(ids, np.arange(len(ids)), row, np.asarray([_NO_TARGET]), entropy, "eager")

    def end(self) -> Recomputed | None:
        """See `core.self_check.SelfCheckingBackend.end_self_check`; the model has to be as its library runs it."""
        held = [self._held[place] for place in sorted(self._held)]
        self.drop()
        found = [recomputed for one in held if (recomputed := self._recomputed(one)) is not None]
        if not found:
            return None
        n_rows = sum(one.n_rows for one in found)
        mean = sum(one.nats * one.n_rows for one in found) / n_rows
        return Recomputed(n_rows, sum(one.n_tokens for one in found), mean, max(one.largest_nats for one in found))

    def _recomputed(self, held: tuple[Run, Tensor, IntArray] | _Remembered) -> Recomputed | None:
        if not isinstance(held, _Remembered):
            run, features, targets = held
            log_probs = self._forward.logits(features).double().log_softmax(dim=-1)
            held = _Remembered(run.ids, run.positions, run.row_tokens, targets, log_probs, self._attention)
        plain = self._plain(held)
        if plain is None:
            return None
        dtype = str(self._forward.model.dtype).removeprefix("torch.")
        tolerance = tolerance_nats(dtype)
        of_rows = _differences(held.log_probs, plain, held.targets)
        nats = float(of_rows.max())
        if not nats <= tolerance:
            again = self._plain(held)
            apart = math.inf if again is None else float(_differences(again, plain, held.targets).max())
            if not apart <= tolerance:
                raise ModelError(
                    f"'{self._name}' gives other numbers each time it is run: two passes of the same tokens differ by "
                    f"{apart:.3g} nats at one token, so nothing can be measured with it; look for dropout or random "
                    "routing in it, or give another model"
                )
            raise WrongPassError(
                f"'{self._name}' gives other numbers when a prompt is run by itself: they differ by {nats:.3g} nats at "
                f"one token, where {dtype} explains {tolerance:g}, so nothing is reported; give another model, and "
                "report this one as a bug",
                nats,
            )
        return Recomputed(len(held.rows), len(held.ids), float(of_rows.mean()), nats)

    def _takes(self, place: int, n: int) -> bool:
        """Whether the next so many rows take the place of those before: each row seen has the same chance."""
        assert self._random is not None
        self._n_seen[place] += n
        return bool(self._random.random() * self._n_seen[place] < n)

    def _plain(self, held: _Remembered) -> Tensor | None:
        """log p of the wanted rows by a plain pass, float64, (row, vocab); None where there is no memory for one. The
        pass is of the whole sequence: some models' numbers depend on its length."""
        was = self._attention
        try:
            self._config._attn_implementation = held.attention
            logits = plain_logits(self._forward.model, held.ids, held.positions, held.rows)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return None
        finally:
            self._config._attn_implementation = was
        self.n_tokens += len(held.ids)
        return logits.double().log_softmax(dim=-1)


def _targets(chunk: Chunk, run: Run) -> IntArray:
    """The response token that each of a run's rows predicts; of rows that several requests want, one of theirs."""
    at = {int(slot): row for row, slot in enumerate(run.row_slots)}
    targets = np.full(len(run.row_slots), _NO_TARGET)
    for request, slots in chunk.answers():
        if request.rows.stop > len(request.response):
            continue
        for of_prompt in slots:
            for slot, target in zip(of_prompt.tolist(), request.targets.tolist(), strict=True):
                if (row := at.get(slot)) is not None:
                    targets[row] = target
    return targets


def _differences(one: Tensor, plain: Tensor, targets: IntArray) -> Tensor:
    """How far rows are from plain ones (row, vocab), nats, (row,): the mean over the plain distribution, or at the
    response's token if that is more. Of a row of which the entropy alone is known, (row, 1), how far that is."""
    p, one = plain.exp(), one.to(plain.device)
    if one.shape[-1] == 1:
        entropy = -torch.where(p > 0, p * plain, torch.zeros_like(p)).sum(dim=-1)
        return (entropy - one[:, 0]).abs()
    # Where both give a token nothing they do not differ; where one does, they differ by infinity.
    apart = torch.where(one == plain, torch.zeros_like(p), (one - plain).abs())
    mean = torch.where(p > 0, p * apart, torch.zeros_like(p)).sum(dim=-1)
    wanted = torch.from_numpy(targets).to(plain.device)
    at_target = apart.gather(1, wanted.clamp_min(0)[:, None])[:, 0]
    return torch.where(wanted >= 0, torch.maximum(mean, at_target), mean)
