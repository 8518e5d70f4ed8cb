"""How a layer keeps its past: what it remembers of the sequences of a batch, from which later ones go on.

Attention keeps keys and values of every token, so that a sequence can be forked after any of its tokens. A recurrence
keeps one state, of all tokens so far: a sequence can be forked only after the token at which a pass ended.

    attention    k k k k k k k      fork after 4: k k k k | …
    recurrence   . . . s . . s      fork after 4: s | …, since a pass ended there; after 5: nowhere
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import torch
from torch import Tensor
from transformers.cache_utils import LinearAttentionLayer

from leakmeter.overriding import override
from leakmeter.stats.arrays import IntArray

RECURRENT: Final = frozenset({"conv", "linear_attention"})
"""Kinds of layers, as configurations name them, that keep a state and no keys and values."""

Fork = Mapping[str, Tensor]
"""What a layer keeps of one sequence's leading tokens, by name; empty where that is nothing."""


class LayerPast(ABC):
    """What one layer keeps of a batch of sequences: begun with forks of earlier ones (`gather`), and extended by the
    new tokens of a pass, by `KeysValues.extend`, or as the library updates its recurrent states."""

    forks_anywhere: ClassVar[bool]
    """Whether a sequence can be forked after each of its tokens, not only after the last one of a pass."""

    @abstractmethod
    def fork(self, row: int, columns: IntArray) -> Fork:
        """What is kept of a sequence up to the last of these columns, where it is; do not change it."""

    @abstractmethod
    def gather(self, forks: Sequence[Fork], n_rows: int, n_start: int) -> None:
        """Begin each row with a copy of its fork of at most `n_start` tokens; a single fork is that of all rows, and
        as long."""

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """Memory that all rows take."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Columns that there is memory for."""

    @property
    @abstractmethod
    def numbers_per_token(self) -> int:
        """How many numbers each further token of a row adds."""


class KeysValues(LayerPast):
    """Keys and values in buffers, (row, head, column, size), each with a column for every token."""

    forks_anywhere = True

    def __init__(self, keys: Tensor, values: Tensor, n_columns: int) -> None:
        """Buffers for such keys and values, (row, head, any number of tokens, size)."""
        self.keys, self.values = (
            like.new_empty((like.shape[0], like.shape[1], n_columns, like.shape[3])) for like in (keys, values)
        )

    @override
    def fork(self, row: int, columns: IntArray) -> Fork:
        """Keys and values, (head, token, size)."""
        if not len(columns) or columns[-1] == len(columns) - 1:
            return {"keys": self.keys[row, :, : len(columns)], "values": self.values[row, :, : len(columns)]}
        where = torch.from_numpy(columns).to(self.keys.device)
        return {"keys": self.keys[row][:, where], "values": self.values[row][:, where]}

    @override
    def gather(self, forks: Sequence[Fork], n_rows: int, n_start: int) -> None:
        if not n_start:
            return
        for name, buffer in (("keys", self.keys), ("values", self.values)):
            if len(forks) == 1:
                buffer[:, :, :n_start] = forks[0][name]
                continue
            for row, fork in enumerate(forks):
                n_tokens = 0
                if fork:
                    n_tokens = fork[name].shape[1]
                    buffer[row, :, :n_tokens] = fork[name]
                # Masked, yet multiplied by zero: what memory held before may be NaN.
                buffer[row, :, n_tokens:n_start] = 0

    def extend(self, n_start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put new keys and values behind `n_start` columns; returns all of them."""
        end = n_start + keys.shape[2]
        self.keys[:, :, n_start:end] = keys
        self.values[:, :, n_start:end] = values
        return self.keys[:, :, :end], self.values[:, :, :end]

    def fits(self, keys: Tensor, values: Tensor) -> bool:
        """Whether such keys and values could stand in these buffers."""
        return all(
            buffer.shape[:2] == new.shape[:2] and buffer.shape[3] == new.shape[3] and buffer.dtype == new.dtype
            for buffer, new in ((self.keys, keys), (self.values, values))
        )

    @property
    @override
    def n_bytes(self) -> int:
        return sum(buffer.numel() * buffer.element_size() for buffer in (self.keys, self.values))

    @property
    @override
    def n_columns(self) -> int:
        return self.keys.shape[2]

    @property
    @override
    def numbers_per_token(self) -> int:
        return sum(buffer.shape[1] * buffer.shape[3] for buffer in (self.keys, self.values))


class Recurrence(LinearAttentionLayer, LayerPast):  # type: ignore[misc]
    """States of convolutions and recurrences, (row, …), which the library's model updates in place: one pass has one,
    and what a later pass begins with is a copy."""

    forks_anywhere = False
    n_columns = sys.maxsize
    numbers_per_token = 0

    @override
    def fork(self, row: int, columns: IntArray) -> Fork:
        return {name: states[row] for name, states in self._states().items()}

    @override
    def gather(self, forks: Sequence[Fork], n_rows: int, n_start: int) -> None:
        begun = [fork for fork in forks if fork]
        for name, like in begun[0].items() if begun else ():
            # A sequence begins with zeros, in a convolution as in a recurrence.
            rows = [fork[name] if fork else torch.zeros_like(like) for fork in forks]
            states = torch.stack(rows if len(rows) == n_rows else rows * n_rows)
            kind, number = name.split()
            index = int(number)
            self.device, self.dtype = states.device, states.dtype
            self.has_previous_state[index] = True
            if kind == "conv":
                self.conv_states[index], self.conv_kernel_size[index] = states, states.shape[-1]
                self.is_conv_states_initialized[index] = True
            else:
                self.recurrent_states[index] = states
                self.is_recurrent_states_initialized[index] = True

    def _states(self) -> dict[str, Tensor]:
        kinds = (("conv", self.conv_states), ("recurrent", self.recurrent_states))
        return {f"{kind} {i}": t for kind, states in kinds for i, t in states.items() if t is not None}

    @property
    @override
    def n_bytes(self) -> int:
        return sum(states.numel() * states.element_size() for states in self._states().values())
