"""A greedy search for exemplars that leak less: all lists one move away are measured, and the best is taken.

The best of many lists looks better than it is on the queries that chose it. So the queries are split by chance: one
half chooses, and the other, which has no part in it, reports (`instruments.icl.selection`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final, Self

import numpy as np

from leakmeter.core.limits import refuse_bad
from leakmeter.core.record import Record, Unbounded
from leakmeter.data.mapping import unused
from leakmeter.data.named import chosen_numbers
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.icl.result import IclResult
from leakmeter.stats import stats
from leakmeter.text.exemplars import LabelledText

MOVES: Final = ("reorder", "drop", "replace", "add")
"""Two exemplars change places; one goes; one of the pool takes the place of one; one of the pool comes last."""
_OF_POOL: Final = ("replace", "add")

ExemplarList = tuple[LabelledText, ...]
"""In the order of the prompt."""


@dataclass(frozen=True, slots=True)
class Move(Record):
    """One change to a list of exemplars."""

    kind: str
    """'reorder', 'drop', 'replace' or 'add'."""
    exemplars: tuple[str, ...] = ()
    """Ids of the two that change places, or of the one that goes."""
    new: str | None = None
    """Id of what comes from the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredList(Record):
    """A list of exemplars, measured by the queries that choose."""

    move: Move | None
    """That made it; None for the list as given."""
    exemplars: tuple[str, ...]
    """Ids, in the order of the prompt."""
    loss_nats: Unbounded
    """ICLInf."""
    largest_nats: Unbounded
    """Largest loss of a query."""
    accuracy: float

    @classmethod
    def from_results(cls, exemplars: ExemplarList, results: Sequence[IclResult], move: Move | None = None) -> Self:
        losses = [result.loss_nats for result in results]
        return cls(
            move=move,
            exemplars=tuple(example.id for example in exemplars),
            loss_nats=stats.mean(losses),
            largest_nats=max(losses),
            accuracy=stats.mean([bool(result.is_right) for result in results]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRound(Record):
    """All lists one move away."""

    best: tuple[MeasuredList, ...]
    """The one of each kind of move with the lowest ICLInf."""
    n_lists: int
    """Measured in this round."""
    n_too_long: int
    """Passed over, since a query would not fit the model's window."""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """What is searched: which moves, of which exemplars, chosen by which queries and reported by which others."""

    exemplars: ExemplarList
    pool: ExemplarList
    kinds: tuple[str, ...]
    """Of moves, in the order of `MOVES`."""
    choosing: tuple[LabelledText, ...]
    reporting: tuple[LabelledText, ...]
    max_steps: int
    seed: int

    @property
    def queries(self) -> tuple[LabelledText, ...]:
        return (*self.choosing, *self.reporting)


@dataclass(frozen=True, slots=True)
class ExemplarSearch:
    lists: tuple[ExemplarList, ...]
    """As given, and after each step."""
    path: tuple[MeasuredList, ...]
    """The same, measured."""
    rounds: tuple[SearchRound, ...]

    @property
    def is_exhausted(self) -> bool:
        """Whether it ended because no move lowers ICLInf, rather than after the most steps."""
        return len(self.path) <= len(self.rounds)


def search(
    scope: SearchScope,
    measured: Callable[[ExemplarList], Sequence[IclResult]],
    *,
    fits: Callable[[ExemplarList], bool] = lambda exemplars: True,
    on_round: Callable[[MeasuredList, MeasuredList | None, SearchRound], None] = lambda before, after, searched: None,
) -> ExemplarSearch:
    """Take the best move until none lowers ICLInf by more than its noise floor.

    No list is measured twice: one that was passed over once had a higher ICLInf than what was taken instead. A list
    behind which a query does not fit the model's window is passed over. `on_round` gets the list before a round, the
    list that was taken, and the round.
    """
    results = measured(scope.exemplars)
    lists, path, rounds = [scope.exemplars], [MeasuredList.from_results(scope.exemplars, results)], list[SearchRound]()
    floor = _noise(results)
    seen = {scope.exemplars}
    while len(rounds) < min(scope.max_steps, len(path)):
        best: dict[str, tuple[MeasuredList, ExemplarList, float]] = {}
        n_lists = n_too_long = 0
        for move, exemplars in moves_from(lists[-1], scope.kinds, scope.pool):
            if exemplars in seen:
                continue
            seen.add(exemplars)
            if not fits(exemplars):
                n_too_long += 1
                continue
            n_lists += 1
            results = measured(exemplars)
            candidate = MeasuredList.from_results(exemplars, results, move)
            if move.kind not in best or candidate.loss_nats < best[move.kind][0].loss_nats:
                best[move.kind] = candidate, exemplars, _noise(results)
        before, after = path[-1], None
        lowest = min(best.values(), key=lambda candidate: candidate[0].loss_nats, default=None)
        if lowest is not None and lowest[0].loss_nats < before.loss_nats - floor:
            after, exemplars, floor = lowest
            lists.append(exemplars)
            path.append(after)
        rounds.append(
            SearchRound(best=tuple(candidate[0] for candidate in best.values()), n_lists=n_lists, n_too_long=n_too_long)
        )
        on_round(before, after, rounds[-1])
    return ExemplarSearch(tuple(lists), tuple(path), tuple(rounds))


def moves_from(
    exemplars: ExemplarList, kinds: Sequence[str], pool: ExemplarList
) -> Iterator[tuple[Move, ExemplarList]]:
    """Every move of these kinds, and the list after it.

    The last exemplar stays, since without any there is nothing to measure.
    """
    n, new = len(exemplars), [example for example in pool if example not in exemplars]
    for kind in kinds:
        if kind == "reorder":
            for i, j in combinations(range(n), 2):
                swapped = list(exemplars)
                swapped[i], swapped[j] = swapped[j], swapped[i]
                yield Move(kind, (exemplars[i].id, exemplars[j].id)), tuple(swapped)
        elif kind == "drop" and n > 1:
            yield from ((Move(kind, (exemplars[i].id,)), (*exemplars[:i], *exemplars[i + 1 :])) for i in range(n))
        elif kind == "replace":
            for i, newcomer in product(range(n), new):
                yield Move(kind, (exemplars[i].id,), newcomer.id), (*exemplars[:i], newcomer, *exemplars[i + 1 :])
        elif kind == "add":
            yield from ((Move(kind, (), newcomer.id), (*exemplars, newcomer)) for newcomer in new)


def _noise(results: Sequence[IclResult]) -> float:
    """How far other ways to compute the same may move ICLInf, nats."""
    return stats.mean([result.noise_floor_nats for result in results])


# ---- what is searched -----------------------------------------------------------------------------------------------
def scope_of(
    exemplars: Sequence[LabelledText],
    pool: Sequence[LabelledText] | None,
    queries: Sequence[LabelledText],
    *,
    moves: Sequence[str] = (),
    max_steps: int = 5,
    n_candidates: int = 8,
    seed: int = 0,
) -> SearchScope:
    """Without `moves` all that can be made, without a pool those that need none."""
    refuse_bad((max_steps >= 1, "max-steps", max_steps, "1 or more"))
    kinds = _checked_moves(moves, has_pool=pool is not None)
    start = tuple(exemplars)
    chosen = () if pool is None else candidates(pool, start, queries, n=n_candidates, seed=seed)
    if not any(moves_from(start, kinds, chosen)):
        raise UsageError(f"one exemplar leaves nothing to {' or '.join(kinds)}; give more of them, or a pool")
    return SearchScope(start, chosen, kinds, *halves(queries, seed), max_steps, seed)


def halves(queries: Sequence[LabelledText], seed: int) -> tuple[tuple[LabelledText, ...], tuple[LabelledText, ...]]:
    """The queries that choose and those that report, each in their order; an odd one reports."""
    if len(queries) < 2:
        raise UsageError(
            f"there is {len(queries)} query; give two or more: half of them choose and the other half report"
        )
    # The 1 tells the split from other draws of one seed.
    chosen = set(np.random.default_rng([seed, 1]).permutation(len(queries))[: len(queries) // 2].tolist())
    choosing = tuple(query for number, query in enumerate(queries) if number in chosen)
    return choosing, tuple(query for number, query in enumerate(queries) if number not in chosen)


def candidates(
    pool: Sequence[LabelledText],
    exemplars: Sequence[LabelledText],
    queries: Sequence[LabelledText],
    *,
    n: int,
    seed: int,
) -> ExemplarList:
    """At most `n` examples of a pool, chosen by the seed, in their order; 'pool' stands before an id that an
    exemplar has too.

    The very texts of an exemplar, of a query or of another of the pool, white space around them apart, are passed over:
    one of two that are alike seems to have no influence, as the other is still there without it.
    """
    refuse_bad((n >= 1, "candidates", n, "1 or more"))
    seen = {example.compared for example in (*exemplars, *queries)}
    others: list[LabelledText] = []
    for example in pool:
        if example.compared not in seen:
            others.append(example)
            seen.add(example.compared)
    if not others:
        raise UsageError(f"all {len(pool):,} examples of the pool are already exemplars or queries; give others")
    ids = {example.id for example in exemplars}
    out: list[LabelledText] = []
    for number in chosen_numbers(len(others), n, seed):
        id_ = others[number].id
        if id_ in ids:
            id_ = unused(f"pool {id_}", ids)
        ids.add(id_)
        out.append(LabelledText(id_, others[number].texts, others[number].label))
    return tuple(out)


def _checked_moves(names: Sequence[str], *, has_pool: bool) -> tuple[str, ...]:
    for name in names:
        if name not in MOVES:
            raise UnknownNameError("move", name, MOVES)
    if not names:
        return tuple(kind for kind in MOVES if has_pool or kind not in _OF_POOL)
    kinds = tuple(kind for kind in MOVES if kind in names)
    needing = [kind for kind in kinds if kind in _OF_POOL]
    if needing and not has_pool:
        raise UsageError(f"move '{needing[0]}' needs a pool of exemplars; give one with --pool FILE")
    if has_pool and not needing:
        raise UsageError("--pool is for the moves replace and add; add one of them to --moves, or leave --pool out")
    return kinds
