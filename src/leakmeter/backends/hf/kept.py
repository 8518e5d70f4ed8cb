"""States of the round before, found again by the tokens they cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from leakmeter.backends.hf.states import Start, State
from leakmeter.core.prompt import IntArray


@dataclass(slots=True)
class Kept:
    """Sequences whose states are at hand, as many as fit.

    Those of one round are all used equally late, so what comes first stays; what does not fit is run again.
    """

    most_bytes: int
    _sequences: list[tuple[IntArray, IntArray, State]] = field(default_factory=list)
    _whole: dict[bytes, int] = field(default_factory=dict)
    _lengths: set[int] = field(default_factory=set)
    _block_bytes: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, ids: IntArray, positions: IntArray, state: State, *, beside: Mapping[int, int] | None = None) -> None:
        """Keep the states of a sequence, if the block they stand in is kept already or fits.

        Args:
            ids: of the whole sequence.
            positions: likewise.
            state: of all its tokens.
            beside: other blocks that are still held, with their bytes; some may be among those that are kept.
        """
        if id(state.block) not in self._block_bytes:
            held = {**(beside or {}), **self._block_bytes, id(state.block): state.block.n_bytes}
            if sum(held.values()) > self.most_bytes:
                return
            self._block_bytes[id(state.block)] = state.block.n_bytes
        self._whole[_key(ids, positions)] = len(self._sequences)
        self._lengths.add(len(ids))
        self._sequences.append((ids, positions, state))

    def clear(self) -> None:
        """Forget all."""
        self._sequences.clear()
        self._whole.clear()
        self._lengths.clear()
        self._block_bytes.clear()

    def start(self, ids: IntArray, positions: IntArray, most: int) -> Start:
        """The longest start of a sequence, `most` tokens at most, whose states are at hand."""
        # A sequence that was drawn further begins with all of one that was kept: no need to compare with each.
        if most in self._lengths and (found := self._whole.get(_key(ids[:most], positions[:most]))) is not None:
            return Start(self._sequences[found][2], most)
        best = Start(None, 0)
        for other_ids, other_positions, state in self._sequences:
            n = min(len(other_ids), most)
            same = (other_ids[:n] == ids[:n]) & (other_positions[:n] == positions[:n])
            shared = n if same.all() else int(np.argmin(same))
            if shared > best.n_tokens:
                best = Start(state, shared)
        return best


class Before:
    """What runs of a round begin with, of the states that the round before left; held until these were run.

    Args:
        starts: by the number of the run.
    """

    def __init__(self, starts: dict[int, Start]) -> None:
        self.starts = starts
        self.blocks: dict[int, int] = {}
        """Blocks that are held, with their bytes."""
        self._uses: dict[int, int] = {}
        for start in starts.values():
            assert start.state is not None
            block = start.state.block
            self.blocks[id(block)] = block.n_bytes
            self._uses[id(block)] = self._uses.get(id(block), 0) + 1

    def drop(self, number: int) -> None:
        """Let go of what a run began with."""
        start = self.starts.pop(number, None)
        if start is None or start.state is None:
            return
        key = id(start.state.block)
        self._uses[key] -= 1
        if not self._uses[key]:
            del self.blocks[key]

    def clear(self) -> None:
        """Let go of all."""
        self.starts.clear()
        self.blocks.clear()
        self._uses.clear()


def _key(ids: IntArray, positions: IntArray) -> bytes:
    return ids.tobytes() + positions.tobytes()
