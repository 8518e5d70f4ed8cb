"""A limit of time: in which order cases are measured then, and what those that were looked at prove of the others.

Every other part is the one that looks most telling before anything is measured, and the one between is the next of a
random order of all. What is found early is what is worst; what the random ones show holds for all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Final

import numpy as np

from leakmeter.core.plain import counted
from leakmeter.errors import UsageError
from leakmeter.report.blocks import Unfinished
from leakmeter.report.scale import share_percent
from leakmeter.stats.hypergeometric import upper_limit

_TIME: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_ALPHA: Final = 0.05


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Time that a command may measure."""

    text: str
    """As it was given."""
    seconds: float

    @classmethod
    def parsed(cls, text: str) -> TimeLimit:
        """A number of seconds, minutes or hours, such as 90s, 10m or 1.5h."""
        match = _TIME.fullmatch(text)
        if match is None or not float(match[1]):
            raise UsageError(f"budget is '{text}'; give a time, such as 90s, 10m or 1.5h")
        return cls(text, float(match[1]) * _SECONDS[match[2]])


def _ranked(telling: Sequence[float]) -> list[int]:
    return sorted(range(len(telling)), key=lambda part: -telling[part])


def worst_first(telling: Sequence[float]) -> tuple[int, ...]:
    """Parts by how telling each is, the most telling first, so that who interrupts a run is shown what is worst. Before
    them comes the first part: the noise that it measures holds for the others.

    >>> worst_first([0.0, 1.0, 3.0, 1.0])
    (0, 2, 1, 3)
    """
    return tuple(dict.fromkeys((*range(min(1, len(telling))), *_ranked(telling))))


@dataclass(frozen=True, slots=True)
class Order:
    """In which order the parts of a run are measured."""

    parts: tuple[int, ...]
    drawn: tuple[int, ...]
    """All of them, in the random order whose beginning is among the first."""

    @classmethod
    def of(cls, telling: Sequence[float], seed: int) -> Order:
        """The most telling part, one at random, and so on; `telling` says of each how much it is."""
        n = len(telling)
        drawn = np.random.default_rng([seed, n]).permutation(n).tolist()
        ranked = _ranked(telling)
        return cls(tuple(dict.fromkeys(chain.from_iterable(zip(ranked, drawn, strict=True)))), tuple(drawn))

    def proves(self, limit: TimeLimit, found: Collection[int], done: Collection[int], noun: str) -> Unfinished:
        """What those that are `done` prove of the others, in sentences; `found` are those among them that disclose
        something personal or secret. The bound is that of Buonaccorsi (1987) for draws without replacement.

        Time may end sooner where something is found, which takes longer. A bound that few findings make low is wrong
        no more often for it: with so many seconds for a finding and so many for any other, the findings of the
        beginning that time allows are few enough exactly if those of one beginning of fixed length are."""
        n, n_done = len(self.parts), len(done)
        begun = [*takewhile(set(done).__contains__, self.drawn)]
        n_found = sum(part in found for part in begun)
        most = max(0, upper_limit(n, len(begun), n_found, _ALPHA) - len(found))
        left = n - n_done
        return Unfinished(
            f"Only {n_done:,} of {counted(n, noun)} were looked at within {limit.text}.",
            f"{len(begun):,} of these were drawn at random, and {n_done - len(begun):,} looked most telling. "
            f"{len(found):,} of them disclose personal or secret data, {n_found:,} of those drawn at random. So at "
            f"most {min(most, left):,} of the {left:,} that were not looked at do "
            f"({share_percent(min(most, left) / max(1, left), up=True)}), with 95\u00a0% confidence.",
        )
