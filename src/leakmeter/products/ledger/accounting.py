"""What adds up over answers: nats told of one document to one recipient, from arrays of numbers alone.

l_i = log p(y_i | prompt_i) − log p(y_i | prompt_i without the document) of answer i; 0 where its prompt has none of it.
Under the conditions that `docs/ledger.md` states and proves, Σ l_i is the log-odds, from even odds, of an observer
of all answers. What was told is not untold: a budget is held against the largest |Σ_{j≤i} l_j| over i. Answers of one
time may have come in any order, and answers without a time at any place: the largest is over all such orders.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.stats import UNDEFINED, Posterior, posterior_of

UNMET = "not all conditions for adding up are met"
IMPOSSIBLE = "impossible with it in the prompt: the scoring model is not the model that answered"


@dataclass(frozen=True, slots=True)
class Total:
    """What the answers to one recipient tell of one thing; nats."""

    signed_nats: float | None
    """Σ l_i, the sum so far; None where it is not defined, such as ∞ − ∞."""
    largest_running_nats: float
    """max_i |Σ_{j≤i} l_j|: what a budget is held against. Infinite where a sum is not defined."""
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
        """What an observer concludes from even odds; `is_exact` where every condition of `docs/ledger.md` holds."""
        if not is_exact:
            return Posterior(None, UNMET)
        if self.signed_nats is None:
            return Posterior(None, UNDEFINED)
        # The document was in the prompt, and with it the scoring model never answers so.
        if self.signed_nats == -math.inf:
            return Posterior(None, IMPOSSIBLE)
        return posterior_of(self.signed_nats, noise_nats=self.noise_nats, placebo_nats=self.placebo_running_nats)


def total(
    signed: FloatArray,
    noise: FloatArray,
    placebo: FloatArray,
    draws: Sequence[Hashable],
    times: Sequence[float | None] | None = None,
) -> Total:
    """Add up what answers to one recipient, whose prompts had one thing, tell of it.

    Args:
        signed: l_i of each answer in the order of time, nats.
        noise: the noise floor of each, nats.
        placebo: the signed sum of an irrelevant piece in each prompt, nats; NaN where there is none.
        draws: what tells draws apart; of answers that show one draw the first counts.
        times: of each, ascending; None, anywhere among them, of one whose place is not known. By default all came one
            after the other.

    Examples:
        >>> found = total(np.array([3.0, -5.0, 3.0]), np.zeros(3), np.zeros(3), ["a", "b", "a"])
        >>> found.signed_nats, found.largest_running_nats, found.n_answers, found.n_repeats
        (-2.0, 3.0, 2, 1)
        >>> tied = total(np.array([3.0, -5.0]), np.zeros(2), np.zeros(2), ["a", "b"], [8.0, 8.0])
        >>> tied.signed_nats, tied.largest_running_nats
        (-2.0, 5.0)
    """
    first: dict[Hashable, int] = {}
    for number, draw in enumerate(draws):
        first.setdefault(draw, number)
    numbers = np.array(list(first.values()), dtype=np.intp)
    each, noisy, irrelevant = signed[numbers], noise[numbers], placebo[numbers]
    order = [float(number) if times is None else times[number] for number in numbers]
    with np.errstate(invalid="ignore"):
        # NaN from where a sum is not defined, such as after ∞ − ∞.
        sums, spread = np.cumsum(each), np.cumsum(noisy)
    sizes = _sizes(each)
    worst = int(np.argmax(sizes)) if each.size else None
    last = float(sums[-1]) if each.size else 0.0
    return Total(
        signed_nats=None if math.isnan(last) else last,
        largest_running_nats=_largest(each, np.zeros_like(each), order),
        interval_nats=(_least(np.abs(sums), spread, order), _largest(each, noisy, order)),
        largest_answer_nats=float(sizes.max(initial=0.0)),
        largest_answer=None if worst is None else int(numbers[worst]),
        n_answers=len(numbers),
        n_repeats=len(draws) - len(numbers),
        placebo_running_nats=(None if np.isnan(irrelevant).any() else _largest(irrelevant, np.zeros_like(each), order)),
        noise_nats=float(spread[-1]) if spread.size else 0.0,
    )


def _largest(signed: FloatArray, noise: FloatArray, times: Sequence[float | None]) -> float:
    """The largest |sum| plus noise, over all orders that the times allow; see `total`."""
    is_timed = np.array([time is not None for time in times], dtype=bool)
    when = [time for time in times if time is not None]
    apart = np.array([i for i in range(len(when)) if i == 0 or when[i] != when[i - 1]], dtype=np.intp)
    free = signed[~is_timed]
    with np.errstate(invalid="ignore"):
        # The largest sum has all that speak for it before it, and the smallest all that speak against it.
        high, low = np.maximum(free, 0.0).sum(), np.minimum(free, 0.0).sum()
    spread = float(noise[~is_timed].sum())
    first = float(_sizes(np.array([high, low])).max()) + spread
    if not apart.size:
        return first
    of_known, of_noise = signed[is_timed], noise[is_timed]
    with np.errstate(invalid="ignore"):
        ended = np.cumsum(np.add.reduceat(of_known, apart))
        before = np.concatenate([[0.0], ended[:-1]])
        most, least = (np.add.reduceat(part, apart) for part in (np.maximum(of_known, 0), np.minimum(of_known, 0)))
        most, least = np.where(most > 0, before + most, ended), np.where(least < 0, before + least, ended)
        sizes = np.maximum(np.abs(most + high), np.abs(least + low))
        # After ∞ − ∞ nothing is known any more.
        sizes = np.where(np.isnan(sizes) | np.isnan(ended), math.inf, sizes)
        return max(first, float((sizes + spread + np.cumsum(np.add.reduceat(of_noise, apart))).max()))


def _least(sizes: FloatArray, spread: FloatArray, times: Sequence[float | None]) -> float:
    """What the largest sum was at least, in any order: sums between times, or the last alone if a time is missing."""
    n = len(times)
    whole = None in times
    ends = [i for i in range(n) if i == n - 1 or (not whole and times[i] != times[i + 1])]
    held = [float(sizes[i] - spread[i]) for i in ends if math.isfinite(spread[i])]
    return max([0.0, *(math.inf if math.isnan(size) else size for size in held)])


def _sizes(values: FloatArray) -> FloatArray:
    """Without signs; infinite where one is not defined."""
    return np.where(np.isnan(values), math.inf, np.abs(values))
