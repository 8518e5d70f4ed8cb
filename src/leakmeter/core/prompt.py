"""A prompt is named pieces of token ids; pieces are cut, masked or kept by name, never by editing text.

prompt   [frame][s1 ......][s2 ....][s3 ...][frame][query][frame]
without  [frame][s1 ......]         [s3 ...][frame][query][frame]     positions close up
masking  [frame][s1 ......]   gap   [s3 ...][frame][query][frame]     positions stay as they were
hiding   [frame][s1 ......][s2 ....][s3 ...][frame][query][frame]     what follows the context does not attend to s2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from leakmeter.errors import UnknownNameError
from leakmeter.stats.arrays import IntArray

FRAME: Final = "frame"
CONTEXT: Final = "context"
QUERY: Final = "query"
VIRTUAL: Final = 2**30
"""From this id on tokens are none of a vocabulary: a back end reads vectors of a soft prompt in their place."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Token ids under a name; `gap` is the number of positions left empty before them."""

    name: str
    role: str
    ids: tuple[int, ...]
    gap: int = 0


@dataclass(frozen=True)
class Prompt:
    """Pieces in order. Two pieces may share a name: they are then one removable thing said in two places."""

    pieces: tuple[Piece, ...]
    hidden: frozenset[str] = frozenset()
    """Names of pieces that the tokens behind the context, and those of the response, do not attend to."""

    @cached_property
    def ids(self) -> IntArray:
        """All token ids, shape (token,)."""
        return np.asarray([token for piece in self.pieces for token in piece.ids], dtype=np.int64)

    @cached_property
    def positions(self) -> IntArray:
        """Position of each token, shape (token,): consecutive, except over gaps."""
        ends = np.cumsum([piece.gap + len(piece.ids) for piece in self.pieces], dtype=np.int64)
        parts = [np.arange(end - len(piece.ids), end) for piece, end in zip(self.pieces, ends, strict=True)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    @cached_property
    def next_position(self) -> int:
        """Position of the first response token, trailing gaps included."""
        return sum(p.gap + len(p.ids) for p in self.pieces)

    def names(self, role: str = CONTEXT) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.name for p in self.pieces if p.role == role))

    def without(self, *names: str) -> Prompt:
        """The prompt with the named pieces cut out and positions closed up."""
        cut = self._known(names)
        return Prompt(tuple(p for p in self.pieces if p.name not in cut))

    def hiding(self, *names: str) -> Prompt:
        """The prompt with attention to the named pieces blocked for all that stands behind the context.

        The context's own tokens have still seen them: this is no removal, but what is run again is short.
        """
        prompt = replace(self, hidden=self._known(names))
        # Many prompts of one long context differ in this alone: what they have in common is made once.
        prompt.__dict__.update(ids=self.ids, positions=self.positions, n_before=self.n_before)
        return prompt

    @cached_property
    def n_before(self) -> int:
        """Number of tokens up to the last one of the context: those behind it do not attend to what is hidden."""
        last = max((i for i, piece in enumerate(self.pieces) if piece.role == CONTEXT), default=-1)
        return sum(len(piece.ids) for piece in self.pieces[: last + 1])

    @cached_property
    def hidden_tokens(self) -> tuple[tuple[int, int], ...]:
        """Ranges [start, end) of the hidden tokens, in order, none of them next to another."""
        ranges: list[tuple[int, int]] = []
        start = 0
        for piece in self.pieces:
            end = start + len(piece.ids)
            if piece.name in self.hidden and start < end:
                if ranges and ranges[-1][1] == start:
                    start = ranges.pop()[0]
                ranges.append((start, end))
            start = end
        return tuple(ranges)

    def blank(self, role: str = CONTEXT) -> Prompt:
        """The prompt without the pieces of a role."""
        return Prompt(tuple(p for p in self.pieces if p.role != role))

    def only(self, *names: str, role: str = CONTEXT) -> Prompt:
        """The blank prompt with just the named pieces of the role put back."""
        kept = self._known(names)
        return Prompt(tuple(p for p in self.pieces if p.role != role or p.name in kept))

    def with_inserted(self, index: int, piece: Piece) -> Prompt:
        return Prompt((*self.pieces[:index], piece, *self.pieces[index:]))

    def n_tokens(self, role: str) -> int:
        return sum(len(p.ids) for p in self.pieces if p.role == role)

    def _known(self, names: Iterable[str]) -> frozenset[str]:
        name_set = frozenset(names)
        have = {p.name for p in self.pieces}
        for name in sorted(name_set - have):
            raise UnknownNameError("piece", name, have)
        return name_set
