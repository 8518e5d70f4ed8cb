"""A greedy search for exemplars of which less shows: all lists one move away are measured, and the best is taken.

The best of many lists looks better than it is on the queries that chose it. So the queries are split by chance: one
half chooses, and the other, which has no part in it, reports (`instruments.icl.selection`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakmeter.instruments.icl.moves import Exemplars, Move, Scope, moves_from
from leakmeter.instruments.icl.table import loss_of
from leakmeter.stats import stats

Cases = Sequence[Mapping[str, Any]]
"""Case objects of queries; see `instruments.icl.result`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A list of exemplars, and what the choosing queries say of it."""

    exemplars: Exemplars
    cases: Cases
    move: Move | None = None
    """That made it; None for the list as given."""

    @property
    def icl_inf(self) -> float:
        """Mean over queries of the largest loss of an exemplar, nats (Eq. 4)."""
        return stats.mean([loss_of(case) for case in self.cases])

    @property
    def noise_floor(self) -> float:
        """How far other ways to compute the same may move that mean, nats."""
        return stats.mean([case["noise_floor_nats"] for case in self.cases])


@dataclass(frozen=True, slots=True)
class Round:
    """All lists one move away."""

    best: tuple[Measured, ...]
    """The one of each kind of move with the lowest ICLInf."""
    taken: Measured | None
    """The best of them, if it is lower than the list before by more than the noise floor."""
    n_lists: int
    """Measured in this round."""
    n_too_long: int
    """Left out because a query would not fit the model's window."""


@dataclass(frozen=True, slots=True)
class Search:
    """The way of a search."""

    start: Measured
    rounds: tuple[Round, ...]

    @property
    def path(self) -> tuple[Measured, ...]:
        """The list as given, and after each step."""
        return (self.start, *(one.taken for one in self.rounds if one.taken is not None))

    @property
    def is_exhausted(self) -> bool:
        """Whether it ended because no move lowers ICLInf, rather than after the most steps."""
        return bool(self.rounds) and self.rounds[-1].taken is None


def search(
    scope: Scope,
    measured: Callable[[Exemplars], Cases],
    *,
    fits: Callable[[Exemplars], bool] = lambda exemplars: True,
    on_round: Callable[[Measured, Round], None] = lambda before, one: None,
) -> Search:
    """Take the best move until none lowers ICLInf by more than its noise floor.

    No list is measured twice: one that was passed over once had a higher ICLInf than what was taken instead.

    Args:
        scope: what is searched.
        measured: a list to the case objects of the choosing queries.
        fits: whether every query fits the model's window behind a list; one that does not is passed over.
        on_round: told of the list before a round, and of the round, as soon as it is over.
    """
    first = now = Measured(scope.exemplars, measured(scope.exemplars))
    seen, rounds = {scope.exemplars}, list[Round]()
    while len(rounds) < scope.max_steps and (not rounds or rounds[-1].taken is not None):
        best: dict[str, Measured] = {}
        n_lists = n_too_long = 0
        for move in moves_from(now.exemplars, scope.kinds, scope.pool):
            exemplars = move.applied(now.exemplars)
            if exemplars in seen:
                continue
            seen.add(exemplars)
            if not fits(exemplars):
                n_too_long += 1
                continue
            n_lists += 1
            one = Measured(exemplars, measured(exemplars), move)
            if move.kind not in best or one.icl_inf < best[move.kind].icl_inf:
                best[move.kind] = one
        lowest = min(best.values(), key=lambda one: one.icl_inf, default=None)
        taken = lowest if lowest is not None and lowest.icl_inf < now.icl_inf - now.noise_floor else None
        rounds.append(Round(tuple(best.values()), taken, n_lists, n_too_long))
        on_round(now, rounds[-1])
        now = taken or now
    return Search(first, tuple(rounds))
