"""What goes through the model in one pass: batches of runs, within limits of tokens and of states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from leakmeter.backends.hf.forward import Forward
from leakmeter.backends.hf.schedule import Limits, Padding, batches, together
from leakmeter.backends.hf.states import SPARE_COLUMNS, Start, continued_block
from leakmeter.core.chunk import Chunk

_ALIKE: Final = Padding(new=1.0, starts=1.5)
_PADDED: Final = Padding(new=1.15, starts=math.inf)


def passes_of(
    chunk: Chunk,
    runs: Sequence[int],
    starts: dict[int, Start],
    lasting: dict[int, bool],
    continues: Sequence[bool],
    *,
    limits: Limits,
    forward: Forward,
) -> list[list[list[int]]]:
    """Runs in passes of batches.

    Args:
        chunk: has the runs.
        runs: their numbers.
        starts: of each, the states that it begins with.
        lasting: of each, whether its states are needed once it has been run.
        continues: of each of the chunk's, whether the next round extends it.
        limits: of a pass.
        forward: what runs them.
    """
    joins = forward.joins_segments
    cut = batches(
        chunk,
        runs,
        starts,
        lasting,
        limits,
        forward.bytes_per_token,
        # Where tokens of all lengths share a pass without padding, a batch is of rows that are alike.
        padding=_ALIKE if joins else _PADDED,
    )
    if not joins:
        return [[batch] for batch in cut]

    def state_bytes(batch: list[int]) -> int:
        begun = [starts[i] for i in batch]
        n_new = max(len(chunk.runs[i].ids) - starts[i].n_tokens for i in batch)
        n_columns = max(start.n_tokens for start in begun) + n_new
        if not any(lasting[i] for i in batch):
            # A layer's keys and values are put together with those of the start, and forgotten.
            return len(batch) * n_columns * forward.bytes_per_token // forward.n_layers
        if continued_block(begun, n_new) is not None:
            return 0
        n_columns += SPARE_COLUMNS if any(continues[i] for i in batch) else 0
        return len(batch) * n_columns * forward.bytes_per_token

    return list(together(cut, chunk, starts, limits, state_bytes))


def halves(group: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    """A pass over several batches as two over half of them; over one, as two over half of its rows."""
    if len(group) > 1:
        half = len(group) // 2
        return [[list(batch) for batch in part] for part in (group[:half], group[half:])]
    half = len(group[0]) // 2
    return [[list(part)] for part in (group[0][:half], group[0][half:]) if part]
