"""Holds what a back end gave against plain passes: a random sequence or two of a case, recomputed when it is done.

With 16 bits a number, a second plain pass of each is rounded otherwise (`rounding`): that shared passes and one plain
pass give the same digits says little of how far others are. So it is with a model that keeps a number of keys by scores
of its own: the last digit decides between two that are nearly alike, and moves what follows by tenths of a nat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.machine import is_out_of_memory
from leakmeter.backends.hf.plain_pass import plain_logits
from leakmeter.backends.hf.rounding import rounding_at_random
from leakmeter.backends.hf.schedule import PassLimits
from leakmeter.core.request import GradientRequest, Gradients
from leakmeter.core.self_check import Recomputed, WrongPassError, is_half, nats_apart, tolerance_nats
from leakmeter.core.tree import Branch, Chunk
from leakmeter.errors import ModelError
from leakmeter.stats.arrays import IntArray

_NO_TARGET: Final = -1
_ROUNDED_ROWS: Final = 64
"""Rows of a sequence from whose mean rounding is read, where fewer are wanted: a single row's is off by a lot."""


_NUMBERS_OF_KEYS: Final = ("keep_window_size", "index_topk")
"""What configurations call the number of keys that a model keeps."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A sequence and what was made of some of its rows."""

    ids: IntArray
    positions: IntArray
    rows: IntArray
    """Indices of tokens whose rows were wanted, (row,)."""
    targets: IntArray
    """The response token that each predicts, `_NO_TARGET` for none, (row,)."""
    made: Tensor
    """Features, (row, size), or the entropies of the rows' distributions alone, (row,)."""
    attention: str | None = None
    """The library's implementation with which it was run; None for the one that the model uses by itself."""


class SelfChecker:
    """Two sequences of all that were scored since `begin`: one of the first round, and one of those after it, which go
    on from kept states. Each is drawn at random by the number of its rows; of a chunk, those that fork from another
    come first, since they are what sharing makes."""

    def __init__(self, forward: Forward, name: str) -> None:
        self._forward = forward
        self._name = name
        self._random: np.random.Generator | None = None
        self._seed = 0
        self._n_seen = [0, 0]
        self._held: dict[int, _Remembered] = {}
        self.n_tokens = 0
        """Tokens of plain passes, in all."""

    @property
    def _config(self) -> Any:
        return self._forward.model.config.get_text_config()

    def begin(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._seed = seed
        self._n_seen = [0, 0]
        self._held = {}

    def drop(self) -> None:
        self._random = None
        self._held = {}

    def saw(self, chunk: Chunk, features: Tensor, limits: PassLimits) -> None:
        """A chunk was run: its rows' features, (slot, size). Of a long sequence some rows count."""
        if self._random is None:
            return
        # A plain pass can hide nothing.
        candidates = [branch for branch in chunk.branches if len(branch.row_slots) and not branch.hidden]
        forked = [branch for branch in candidates if branch.parent >= 0]
        candidates = forked or candidates
        sizes = [len(branch.row_slots) for branch in candidates]
        place = int(chunk.round > 0)
        if not sizes or not self._takes(place, sum(sizes)):
            return
        branch = candidates[int(self._random.choice(len(sizes), p=np.asarray(sizes) / sum(sizes)))]
        most = max(1, limits.logits_per_slice // self._forward.n_vocab)
        some = np.sort(self._random.permutation(len(branch.row_slots))[:most])
        made = features[torch.from_numpy(branch.row_slots[some]).to(features.device)]
        targets = _targets(chunk, branch)[some]
        self._held[place] = _Remembered(branch.ids, branch.positions, branch.row_tokens[some], targets, made)

    def saw_gradients(self, requests: Sequence[GradientRequest], answers: Sequence[Gradients]) -> None:
        """Requests for gradients were answered, of prompts without gaps: of these, the entropy is checked."""
        if self._random is None or not requests or not self._takes(1, len(requests)):
            return
        number = int(self._random.integers(len(requests)))
        ids = requests[number].prompt.ids
        if (ids < 0).any():
            return  # a slot has no token of its own
        entropy = torch.tensor([answers[number].entropy], dtype=torch.float64)
        row = np.asarray([len(ids) - 1])
        self._held[1] = _Remembered(ids, np.arange(len(ids)), row, np.asarray([_NO_TARGET]), entropy, "eager")

    def end(self, limits: PassLimits) -> Recomputed:
        """See `core.backend.Backend.end_self_check`; the model has to be as its library runs it."""
        held = [self._held[place] for place in sorted(self._held)]
        seed, n_before = self._seed, self.n_tokens
        self.drop()
        at_once = max(1, limits.reduced_per_slice // self._forward.n_vocab)
        most = max(1, limits.logits_per_slice // self._forward.n_vocab)
        found = [recomputed for one in held if (recomputed := self._recomputed(one, at_once, most, seed)) is not None]
        n_tokens = self.n_tokens - n_before
        if not found:
            return Recomputed(n_tokens=n_tokens)
        n_rows = sum(one.n_rows for one in found)
        mean = sum(one.nats * one.n_rows for one in found) / n_rows

        def most_of(values: Iterable[float | None]) -> float | None:
            return max((value for value in values if value is not None), default=None)

        return Recomputed(
            n_rows,
            mean,
            max(one.largest_nats for one in found),
            most_of(one.rounding_nats for one in found),
            most_of(one.rounding_entropy_nats for one in found),
            n_tokens,
        )

    def _recomputed(self, held: _Remembered, at_once: int, most: int, seed: int) -> Recomputed | None:
        """How far a sequence is from a plain pass, so many rows at a time; None where there is no memory for one. How
        far rounding moves rows is read from `most` of them at most."""
        dtype = str(self._forward.model.dtype).removeprefix("torch.")
        rounds = is_half(dtype) or any(getattr(self._config, name, None) is not None for name in _NUMBERS_OF_KEYS)
        n_before = min(most, _ROUNDED_ROWS) - len(held.rows) if rounds else 0
        n_before = max(0, min(n_before, int(held.rows[0])))
        rows = np.concatenate([held.rows[0] - n_before + np.arange(n_before), held.rows])
        plain_and_before = self._plain(held, rows)
        if plain_and_before is None:
            return None
        plain = plain_and_before[n_before:]

        def differences(one: Tensor, *, are_features: bool) -> Tensor:
            parts = []
            for first in range(0, len(plain), at_once):
                some = slice(first, first + at_once)
                logits = self._forward.logits(one[some]) if are_features else one[some]
                parts.append(_differences(logits, plain[some], held.targets[some]))
            return torch.cat(parts)

        tolerance = tolerance_nats(dtype)
        of_rows = differences(held.made, are_features=held.made.ndim > 1)
        nats = float(of_rows.max())
        if not nats <= tolerance:
            # Where no second pass can be made, nothing speaks against the first.
            again = self._plain(held, held.rows)
            apart = 0.0 if again is None else float(differences(again, are_features=False).max())
            if not apart <= tolerance:
                raise ModelError(
                    f"'{self._name}' gives other numbers each time it is run: two passes of the same tokens differ by "
                    f"{nats_apart(apart)} at one token, so nothing can be measured with it; look for dropout or random "
                    "routing in it, or give another model"
                )
            raise WrongPassError(
                f"'{self._name}' gives other numbers when a prompt is run by itself: they differ by "
                f"{nats_apart(nats)} at one token, where {dtype} explains {tolerance:g}, so nothing is reported; "
                "give another model, and report this one as a bug",
                nats,
            )
        found = Recomputed(len(held.rows), float(of_rows.mean()), nats)
        if not rounds:
            return found
        rounding, of_entropy = self._rounding(held, rows, plain_and_before, at_once, seed)
        return replace(found, rounding_nats=rounding, rounding_entropy_nats=of_entropy)

    def _rounding(
        self, held: _Remembered, rows: IntArray, plain: Tensor, at_once: int, seed: int
    ) -> tuple[float | None, float | None]:
        """How far other rounding moves rows, of which the wanted ones are the last, and their entropies, on average,
        nats; None where nothing could be rounded otherwise."""
        with rounding_at_random(self._forward.model, seed) as n_rounded:
            other = self._plain(held, rows)
        if other is None or not n_rounded[0]:
            return None, None
        n_before = len(rows) - len(held.rows)
        says_next = held.targets.max() != _NO_TARGET
        before = held.ids[rows[:n_before] + 1] if says_next else np.full(n_before, _NO_TARGET)
        targets = np.concatenate([before, held.targets])
        of_rows, of_entropies = [], []
        for first in range(0, len(plain), at_once):
            some = slice(first, first + at_once)
            of_rows.append(_differences(other[some], plain[some], targets[some], of_vocabulary=True))
            of_entropies.append(_differences(_entropies(other[some]), plain[some], targets[some]))
        return float(torch.cat(of_rows).mean()), float(torch.cat(of_entropies).mean())

    def _takes(self, place: int, n: int) -> bool:
        """Whether the next so many rows take the place of those before: each row seen has the same chance."""
        assert self._random is not None
        self._n_seen[place] += n
        return bool(self._random.random() * self._n_seen[place] < n)

    def _plain(self, held: _Remembered, rows: IntArray) -> Tensor | None:
        """Logits of some rows by a plain pass, (row, vocab); None where there is no memory for one. The whole sequence
        is run: some models' numbers depend on its length."""
        was = self._config._attn_implementation
        try:
            self._config._attn_implementation = held.attention or was
            logits = plain_logits(self._forward.model, held.ids, held.positions, rows)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return None
        finally:
            self._config._attn_implementation = was
        self.n_tokens += len(held.ids)
        return logits


def _targets(chunk: Chunk, branch: Branch) -> IntArray:
    """The response token that each of a branch's rows predicts; of rows that several requests want, one of theirs."""
    at = {int(slot): row for row, slot in enumerate(branch.row_slots)}
    targets = np.full(len(branch.row_slots), _NO_TARGET)
    for request, slots in chunk.answers():
        if request.rows.stop > len(request.response):
            continue
        for of_prompt in slots:
            for slot, target in zip(of_prompt.tolist(), request.targets.tolist(), strict=True):
                if (row := at.get(slot)) is not None:
                    targets[row] = target
    return targets


def _differences(one: Tensor, plain: Tensor, targets: IntArray, *, of_vocabulary: bool = False) -> Tensor:
    """How far rows are from plain ones, both logits (row, vocab), nats, (row,): the mean over the plain distribution,
    or at the response's token if that is more; with `of_vocabulary` in its place, where there is none, the mean over
    the vocabulary, since any token may be asked for. Of rows of which the entropies alone are known, (row,), how far
    these are."""
    log_p = plain.double().log_softmax(dim=-1)
    p = log_p.exp()
    if one.ndim == 1:
        return (_entropies(plain) - one.to(plain.device)).abs()
    others = one.double().log_softmax(dim=-1).to(log_p.device)
    # Where both give a token nothing they do not differ; where one does, they differ by infinity.
    apart = torch.where(others == log_p, torch.zeros_like(p), (others - log_p).abs())
    mean = torch.where(p > 0, p * apart, torch.zeros_like(p)).sum(dim=-1)
    wanted = torch.from_numpy(targets).to(log_p.device)
    at_target = apart.gather(1, wanted.clamp_min(0)[:, None])[:, 0]
    elsewhere = torch.maximum(mean, apart.mean(dim=-1)) if of_vocabulary else mean
    return torch.where(wanted >= 0, torch.maximum(mean, at_target), elsewhere)


def _entropies(logits: Tensor) -> Tensor:
    """Of rows of logits (row, vocab), nats, (row,)."""
    log_p = logits.double().log_softmax(dim=-1)
    p = log_p.exp()
    return -torch.where(p > 0, p * log_p, torch.zeros_like(p)).sum(dim=-1)
