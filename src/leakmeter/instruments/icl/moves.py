"""What may be done to a list of exemplars, and which queries say what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from leakmeter.data.named.base import chosen_numbers
from leakmeter.data.text import unused
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.text.exemplar import Example

MOVES: Final = ("reorder", "drop", "replace", "add")
"""Two exemplars change places; one goes; one of the pool takes the place of one; one of the pool comes last."""
_OF_POOL: Final = ("replace", "add")
_HALVES: Final = 1  # tells the split from other draws of one seed

Exemplars = tuple[Example, ...]
"""In the order of the prompt."""


@dataclass(frozen=True, slots=True)
class Move:
    """One change to a list of exemplars."""

    kind: str
    """One of `MOVES`."""
    positions: tuple[int, ...]
    """In the list before, from 1: of the two that change places, or of the one that goes; none for add."""
    new: Example | None = None
    """What comes from the pool."""

    def applied(self, exemplars: Exemplars) -> Exemplars:
        """The list after it."""
        out = list(exemplars)
        numbers = [position - 1 for position in self.positions]
        if self.new is not None and numbers:
            out[numbers[0]] = self.new
        elif self.new is not None:
            out.append(self.new)
        elif len(numbers) == 1:
            del out[numbers[0]]
        else:
            first, second = numbers
            out[first], out[second] = out[second], out[first]
        return tuple(out)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a search has to do with."""

    exemplars: Exemplars
    """As given."""
    pool: Exemplars
    """What may come."""
    kinds: tuple[str, ...]
    """Of moves, in the order of `MOVES`."""
    choosing: tuple[Example, ...]
    """Queries that choose."""
    reporting: tuple[Example, ...]
    """Queries that have no part in it."""
    max_steps: int
    """Moves taken at most."""
    seed: int

    @property
    def queries(self) -> tuple[Example, ...]:
        """Of both halves."""
        return (*self.choosing, *self.reporting)


def scope_of(
    exemplars: Sequence[Example],
    pool: Sequence[Example] | None,
    queries: Sequence[Example],
    *,
    moves: Sequence[str] = (),
    max_steps: int = 5,
    n_candidates: int = 8,
    seed: int = 0,
) -> Scope:
    """What a search has to do with.

    Args:
        exemplars: as given.
        pool: further examples; None for none.
        queries: of both halves.
        moves: kinds of moves; all that can be made where none is named.
        max_steps: moves taken at most.
        n_candidates: examples of the pool that may come.
        seed: of the split, and of the choice from the pool.

    Raises:
        UnknownNameError: no such move.
        UsageError: fewer than two queries, nothing that could be moved, or a pool that is missing or of no use.
    """
    if max_steps < 1:
        raise UsageError(f"max-steps is {max_steps}; it has to be 1 or more")
    kinds = _checked_moves(moves, has_pool=pool is not None)
    start = tuple(exemplars)
    known = () if pool is None else candidates(pool, start, queries, n=n_candidates, seed=seed)
    if not any(moves_from(start, kinds, known)):
        raise UsageError(f"one exemplar leaves nothing to {' or '.join(kinds)}; give more of them, or a pool")
    return Scope(start, known, kinds, *halves(queries, seed), max_steps, seed)


def moves_from(exemplars: Exemplars, kinds: Sequence[str], pool: Exemplars) -> Iterator[Move]:
    """Every move of these kinds; the last exemplar stays, since without any there is nothing to measure."""
    positions = range(1, len(exemplars) + 1)
    new = [example for example in pool if example not in exemplars]
    for kind in kinds:
        if kind == "reorder":
            yield from (Move(kind, pair) for pair in combinations(positions, 2))
        elif kind == "drop" and len(exemplars) > 1:
            yield from (Move(kind, (position,)) for position in positions)
        elif kind == "replace":
            yield from (Move(kind, (position,), example) for position in positions for example in new)
        elif kind == "add":
            yield from (Move(kind, (), example) for example in new)


def halves(queries: Sequence[Example], seed: int) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """The queries that choose and those that report, each in their order; an odd one reports.

    Raises:
        UsageError: fewer than two queries.
    """
    if len(queries) < 2:
        raise UsageError(
            f"there is {len(queries)} query; give two or more, since one half chooses and the other reports"
        )
    chosen = set(np.random.default_rng([seed, _HALVES]).permutation(len(queries))[: len(queries) // 2].tolist())
    choosing = tuple(query for number, query in enumerate(queries) if number in chosen)
    return choosing, tuple(query for number, query in enumerate(queries) if number not in chosen)


def candidates(
    pool: Sequence[Example], exemplars: Sequence[Example], queries: Sequence[Example], *, n: int, seed: int
) -> Exemplars:
    """What may come from a pool: some at random, in their order, with 'pool' before their ids.

    The very texts of an exemplar, of a query or of another of the pool, white space around them apart, are passed over:
    one of two that are alike seems to have no influence, as the other is still there without it.

    Args:
        pool: labelled examples.
        exemplars: those that are there already.
        queries: all that are asked.
        n: how many at most.
        seed: of the choice.

    Raises:
        UsageError: none is left, or none is asked for.
    """
    if n < 1:
        raise UsageError(f"candidates is {n}; it has to be 1 or more")
    seen = {example.compared for example in (*exemplars, *queries)}
    others: list[Example] = []
    for example in pool:
        if example.compared not in seen:
            others.append(example)
            seen.add(example.compared)
    if not others:
        raise UsageError(f"all {len(pool):,} examples of the pool are exemplars or queries already; give others")
    taken = {example.id for example in exemplars}
    out: list[Example] = []
    for number in chosen_numbers(len(others), n, seed):
        id_ = unused(f"pool {others[number].id}", taken)
        taken.add(id_)
        out.append(Example(id_, others[number].texts, others[number].label))
    return tuple(out)


def _checked_moves(names: Sequence[str], *, has_pool: bool) -> tuple[str, ...]:
    """Kinds of moves, in the order of `MOVES`."""
    for name in names:
        if name not in MOVES:
            raise UnknownNameError("move", name, MOVES)
    if not names:
        return tuple(kind for kind in MOVES if has_pool or kind not in _OF_POOL)
    kinds = tuple(kind for kind in MOVES if kind in names)
    needing = [kind for kind in kinds if kind in _OF_POOL]
    if needing and not has_pool:
        raise UsageError(f"move '{needing[0]}' takes exemplars from a pool; give one with --pool FILE")
    if has_pool and not needing:
        raise UsageError("--pool is for the moves replace and add; add one of them to --moves, or leave --pool out")
    return kinds
