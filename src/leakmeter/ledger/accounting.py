"""What adds up over answers: nats told of one document to one recipient, from arrays of numbers alone.

l_i = log p(y_i | prompt_i) − log p(y_i | prompt_i without the document) of answer i; 0 where its prompt has none of it.
Under the conditions that `docs/ledger.md` states and proves, Σ l_i is the log-odds, from even odds, of an observer
of all answers. What was told is not untold: a budget is held against the largest |Σ_{j≤i} l_j| over i.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from leakmeter.stats.posterior import Posterior, posterior_of
from leakmeter.stats.stats import FloatArray

UNMET = "the conditions for adding up are not all met"


@dataclass(frozen=True, slots=True)
class Total:
    """What the answers to one recipient tell of one thing; nats."""

    signed_nats: float
    """Σ l_i, the sum so far."""
    largest_running_nats: float
    """max_i |Σ_{j≤i} l_j|: what a budget is held against."""
    interval_nats: tuple[float, float]
    """Where `largest_running_nats` lies by the noise floors, which add up as they stand."""
    largest_answer_nats: float
    """max_i |l_i|."""
    largest_answer: int | None
    """Its number among the answers that were given; None where none had the thing in its prompt."""
    n_answers: int
    """Draws whose prompt had it, each counted once."""
    n_repeats: int
    """Answers beside these that show a draw again, which adds nothing."""
    placebo_running_nats: float | None
    """max_i |Σ_{j≤i} l_j| of an irrelevant piece in the same prompts: beside the number, never subtracted from it. None
    where a prompt had no room for one."""
    noise_nats: float
    """Σ_i of the noise floors."""

    def posterior(self, *, is_exact: bool) -> Posterior:
        """What an observer concludes from even odds, or why that is not said.

        Args:
            is_exact: whether every condition of `docs/ledger.md` holds.
        """
        if not is_exact:
            return Posterior(None, UNMET)
        return posterior_of(self.signed_nats, noise_nats=self.noise_nats, placebo_nats=self.placebo_running_nats)


def total(
    signed: FloatArray, noise: FloatArray, placebo: FloatArray, draws: Sequence[Hashable], present: Sequence[bool]
) -> Total:
    """Add up what answers to one recipient tell of one thing.

    Args:
        signed: l_i of each answer in the order of time, nats; not read where the thing was not in the prompt.
        noise: the noise floor of each, nats.
        placebo: the signed sum of an irrelevant piece in each prompt, nats; NaN where there is none.
        draws: what tells draws apart; of answers that show one draw the first counts.
        present: whether the prompt had the thing.

    Example:
        >>> found = total(np.array([3.0, -5.0, 3.0]), np.zeros(3), np.zeros(3), ["a", "b", "a"], [True] * 3)
        >>> found.signed_nats, found.largest_running_nats, found.n_answers, found.n_repeats
        (-2.0, 3.0, 2, 1)
    """
    counts, repeats = counted(draws, present)
    each = np.asarray(signed, dtype=np.float64)[counts]
    spread = np.cumsum(np.asarray(noise, dtype=np.float64)[counts])
    sizes = np.abs(running(each))
    irrelevant = np.asarray(placebo, dtype=np.float64)[counts]
    worst = int(np.argmax(np.abs(each))) if each.size else None
    return Total(
        signed_nats=float(running(each)[-1]) if each.size else 0.0,
        largest_running_nats=_largest(sizes),
        interval_nats=(max(0.0, _largest(sizes - spread)), _largest(sizes + spread)),
        largest_answer_nats=_largest(np.abs(each)),
        largest_answer=None if worst is None else int(np.flatnonzero(counts)[worst]),
        n_answers=int(counts.sum()),
        n_repeats=repeats,
        placebo_running_nats=None if np.isnan(irrelevant).any() else _largest(np.abs(running(irrelevant))),
        noise_nats=float(spread[-1]) if spread.size else 0.0,
    )


def counted(draws: Sequence[Hashable], present: Sequence[bool]) -> tuple[np.ndarray, int]:
    """Which answers add up: the first of each draw, where the prompt had the thing; and how many more show one again.

    Args:
        draws, present: see `total`.
    """
    seen: set[Hashable] = set()
    keep = np.zeros(len(draws), dtype=bool)
    repeats = 0
    for number, (draw, there) in enumerate(zip(draws, present, strict=True)):
        if there and draw in seen:
            repeats += 1
        elif there:
            keep[number] = True
            seen.add(draw)
    return keep, repeats


def running(signed: FloatArray) -> FloatArray:
    """Σ_{j≤i} l_j of each i; infinite from where it is not defined, such as after ∞ − ∞."""
    with np.errstate(invalid="ignore"):
        sums = np.cumsum(np.asarray(signed, dtype=np.float64))
    return np.where(np.isnan(sums), math.inf, sums)


def left_of(budget: float, found: Total) -> float:
    """What is left of a budget, nats; below 0 where more was told.

    Args:
        budget: most that |Σ_{j≤i} l_j| may be for any i.
        found: what was told so far.
    """
    return budget - found.largest_running_nats


def _largest(values: FloatArray) -> float:
    return float(values.max()) if values.size else 0.0
