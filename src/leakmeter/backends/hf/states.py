"""States of sequences already run: forked by reference, gathered into batches, extended in place.

A block holds what the layers keep of a batch (`pasts`); a state is one sequence in it, a row and the columns where its
tokens stand. A later sequence begins with the leading tokens of a state. A pass extends one segment for each group of
rows that it can lay side by side:

    start of row 0   t t t t t . . | n n n .      columns of the start, padding | new tokens, padding
    start of row 1   t t t t t t t | n n n n

States of the round before are found again by the tokens they cover (`Kept`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from leakmeter.backends.hf.pasts import Fork, KeysValues, LayerPast, Recurrence
from leakmeter.core.tree import Ranges
from leakmeter.stats.arrays import IntArray

SPARE_COLUMNS = 32  # for rounds to come; a block that is full is copied into a new one


@dataclass(slots=True)
class StateBlock:
    """What the layers keep of a batch of sequences; columns from `n_columns` on are free."""

    n_rows: int
    n_columns: int = 0
    layers: dict[int, LayerPast] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        return sum(past.n_bytes for past in self.layers.values())

    @property
    def n_spare(self) -> int:
        return min((past.n_columns for past in self.layers.values()), default=self.n_columns) - self.n_columns


@dataclass(frozen=True, slots=True)
class SequenceState:
    """One sequence in a block."""

    block: StateBlock
    row: int
    columns: IntArray
    """Where each token stands, (token,)."""
    layers: Mapping[int, LayerPast]
    """What layers kept when its last token was run."""
    only_at: int | None = None
    """The number of leading tokens after which it can be forked, 0 for nowhere; None where that is after any."""

    def start(self, most: int) -> Start:
        """The longest start that it gives to a sequence which shares so many leading tokens with it."""
        # Of a branch that several passes run, the first states are of its beginning alone.
        n_tokens = min(most, len(self.columns)) if self.only_at is None else self.only_at
        return Start(self, n_tokens) if 0 < n_tokens <= most else Start(None, 0)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a branch begins: the leading `n_tokens` of a sequence already run, or nothing."""

    state: SequenceState | None
    n_tokens: int

    @property
    def columns(self) -> IntArray:
        return self.state.columns[: self.n_tokens] if self.state is not None else np.empty(0, dtype=np.int64)

    def fork(self, layer: int) -> Fork:
        """What a layer keeps of these tokens."""
        past = self.state.layers.get(layer) if self.state is not None else None
        return past.fork(self.state.row, self.columns) if past is not None and self.state is not None else {}


def longest_start(states: Iterable[SequenceState], most: int) -> Start:
    """The longest start, of at most so many tokens, that states of one sequence give."""
    return max((state.start(most) for state in states), key=lambda start: start.n_tokens, default=Start(None, 0))


@dataclass(frozen=True, slots=True)
class Hidden:
    """What the last tokens of a sequence do not attend to."""

    first: int = 0
    """Number of the first token that does not."""
    ranges: Ranges = ()
    """Ranges [start, end) of tokens before it; none where every token attends to all."""


def continued_block(starts: Sequence[Start], n_new: int) -> StateBlock | None:
    """The block that these starts, in this order, would extend in place by `n_new` columns; None if there is none."""
    first = starts[0].state
    if first is None or first.block.n_rows != len(starts) or first.block.n_spare < n_new:
        return None
    block = first.block
    newest = -1
    for row, start in enumerate(starts):
        if start.state is None or start.state.block is not block or start.state.row != row:
            return None
        newest = max(newest, int(start.columns[-1]) if start.n_tokens else -1)
    # Columns after the newest of these sequences belong to others: they would be carried along for nothing.
    return block if newest == block.n_columns - 1 else None


class PassSegment:
    """Rows of a pass whose states lie side by side."""

    def __init__(
        self,
        starts: Sequence[Start],
        positions: Sequence[IntArray],
        n_new: int,
        *,
        lasts: bool,
        n_spare: int = 0,
        hidden: Sequence[Hidden] = (),
        views: bool = False,
        one_scratch: bool = True,
    ) -> None:
        """Lay rows out. `positions` are those of each row's whole sequence, and `n_new` is the number of new tokens of
        the longest. If the states are needed after the pass (`lasts`), `n_spare` columns are kept free for tokens that
        extend them in place. With `views`, attention reads the states that all rows begin with where they are, without
        a copy for each row; no new token then attends to what is hidden. With `one_scratch`, states that are not needed
        after the pass are not needed after their layer either."""
        self.starts = starts
        self.positions = positions
        self.n_new = n_new
        self.lasts = lasts
        self.hidden = hidden
        self.views = views
        self.block = continued_block(starts, n_new) if lasts else None
        self._in_place = self.block is not None
        if self.block is not None:
            self.n_start = self.block.n_columns
            self.columns = [start.columns for start in starts]
        else:
            self.n_start = max(start.n_tokens for start in starts)
            self.columns = [np.arange(start.n_tokens) for start in starts]
            self.block = StateBlock(len(starts)) if lasts else None
        self._n_spare = n_spare
        self._one_scratch = one_scratch
        self._scratch: KeysValues | None = None

    @property
    def is_plain(self) -> bool:
        """Whether every row sees all columns of the start, and new tokens up to its own, so that no mask is needed."""
        if any(hidden.ranges for hidden in self.hidden) and not self.views:
            return False
        return all(
            len(columns) == self.n_start and len(where) - len(columns) == self.n_new
            for columns, where in zip(self.columns, self.positions, strict=True)
        )

    @property
    def n_shared(self) -> int:
        """Leading columns that are the same in all rows: those of one start from which all are forked."""
        first = self.starts[0]
        alike = all(start.state is first.state and start.n_tokens == first.n_tokens for start in self.starts)
        return first.n_tokens if alike else 0

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put new keys and values (row, head, n_new, size) behind those of the start; returns all of them."""
        if self.views:
            return keys, values
        if self.block is not None and self._in_place:
            past = self.block.layers[layer]
            assert isinstance(past, KeysValues)
        elif self.block is not None:
            past = self.block.layers[layer] = self._buffers(keys, values, self._n_spare)
        elif self.n_start == 0:
            return keys, values
        else:
            # One pair of buffers serves all layers of one size, unless later layers attend to an earlier one's states.
            if self._scratch is None or not self._one_scratch or not self._scratch.fits(keys, values):
                self._scratch = self._buffers(keys, values, 0)
            past = self._scratch
        if not self._in_place:
            past.gather(self._forks(layer), len(self.starts), self.n_start)
        return past.extend(self.n_start, keys, values)

    def recurrence(self, layer: int, n_states: int) -> Recurrence:
        """So many states of a layer for the model to update. Whoever began with what was there before keeps it."""
        past = Recurrence(n_states)
        past.gather(self._forks(layer), len(self.starts), self.n_start)
        if self.block is not None:
            self.block.layers[layer] = past
        return past

    def viewed(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values that all rows begin with, (1, head, token, size), where they are."""
        fork = self.starts[0].fork(layer)
        return fork["keys"][None], fork["values"][None]

    def token_columns(self) -> list[IntArray]:
        """Where each row's tokens stand after the pass."""
        return [
            np.concatenate([columns, self.n_start + np.arange(len(where) - len(columns))])
            for columns, where in zip(self.columns, self.positions, strict=True)
        ]

    def states(self) -> list[SequenceState]:
        assert self.block is not None
        end = self.block.n_columns = self.n_start + self.n_new
        layers = dict(self.block.layers)
        anywhere = all(past.forks_anywhere for past in layers.values())
        return [
            # What went through a recurrence after the last token of a row was padding.
            SequenceState(
                self.block, row, columns, layers, None if anywhere else len(columns) * int(columns[-1] == end - 1)
            )
            for row, columns in enumerate(self.token_columns())
        ]

    def _buffers(self, keys: Tensor, values: Tensor, n_spare: int) -> KeysValues:
        return KeysValues(keys, values, self.n_start + self.n_new + n_spare)

    def _forks(self, layer: int) -> list[Fork]:
        """Each row's fork; a single one where all rows have the same."""
        return [start.fork(layer) for start in (self.starts[:1] if self.n_shared else self.starts)]


StateGroup = tuple[bool, int]
"""Whether a sequence stands apart, and its side (see `Branch`): states serve only sequences of their group."""


@dataclass(slots=True)
class Kept:
    """Sequences whose states are kept for the next round, as many as fit. All are used equally late, so the first
    ones stay; what does not fit is run again."""

    most_bytes: int
    _sequences: list[tuple[IntArray, IntArray, SequenceState, StateGroup]] = field(default_factory=list)
    _by_tokens: dict[tuple[bytes, bytes, StateGroup], SequenceState] = field(default_factory=dict)
    _block_bytes: dict[int, int] = field(default_factory=dict)

    def add(
        self, ids: IntArray, positions: IntArray, state: SequenceState, *, beside: Mapping[int, int], group: StateGroup
    ) -> None:
        """Keep the states of a sequence, if the block they stand in is kept already or fits. `beside` has the bytes of
        other blocks that are still held; some of these may be kept too."""
        if id(state.block) not in self._block_bytes:
            held = {**beside, **self._block_bytes, id(state.block): state.block.n_bytes}
            if sum(held.values()) > self.most_bytes:
                return
            self._block_bytes[id(state.block)] = state.block.n_bytes
        self._by_tokens[ids.tobytes(), positions.tobytes(), group] = state
        self._sequences.append((ids, positions, state, group))

    def clear(self) -> None:
        self._sequences.clear()
        self._by_tokens.clear()
        self._block_bytes.clear()

    def start(self, ids: IntArray, positions: IntArray, most: int, group: StateGroup) -> Start:
        """The longest start of a sequence, at most `most` tokens, whose states are kept."""
        # A sequence that was drawn further begins with all of one that was kept: no need to compare with each.
        whole = self._by_tokens.get((ids[:most].tobytes(), positions[:most].tobytes(), group))
        if whole is not None and (start := whole.start(most)).n_tokens:
            return start
        best = Start(None, 0)
        for other_ids, other_positions, state, other_group in self._sequences:
            if other_group != group:
                continue
            n = min(len(other_ids), most)
            same = (other_ids[:n] == ids[:n]) & (other_positions[:n] == positions[:n])
            shared = n if same.all() else int(np.argmin(same))
            if shared > best.n_tokens:
                best = max(best, state.start(shared), key=lambda start: start.n_tokens)
        return best


class Before:
    """Starts of a round's branches, by index, in states that the round before left; held until these are done."""

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

    def cut_back(self, number: int) -> None:
        """Free the columns behind a branch's start, where nothing else is in the block or begins there: a long
        context's states are then extended in place, and not held twice."""
        start = self.starts.get(number)
        if start is None or start.state is None or start.state.block.n_rows > 1:
            return
        block = start.state.block
        last = int(start.columns[-1])
        others = (other for i, other in self.starts.items() if i != number and other.state is start.state)
        if last == start.n_tokens - 1 and all(other.n_tokens <= start.n_tokens for other in others):
            block.n_columns = start.n_tokens

    def drop(self, number: int) -> None:
        start = self.starts.pop(number, None)
        if start is None or start.state is None:
            return
        key = id(start.state.block)
        self._uses[key] -= 1
        if not self._uses[key]:
            del self.blocks[key]

    def clear(self) -> None:
        self.starts.clear()
        self.blocks.clear()
        self._uses.clear()
