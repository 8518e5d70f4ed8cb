"""Where numbers stand in a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from leakmeter.core.quantity import AnyQuantity, Case

Quantities = tuple[AnyQuantity, ...]
Number = Callable[[Case], float | None]


def at(*path: str, null: float | None = None) -> Number:
    """What stands at a place of a result.

    Args:
        path: names, outermost first; where one of the outer ones is null, the case has no such number.
        null: what a null at the place itself stands for.
    """

    def of(case: Case) -> float | None:
        inner: Any = case
        for name in path[:-1]:
            inner = getattr(inner, name)
            if inner is None:
                return None
        found = getattr(inner, path[-1])
        return null if found is None else float(found)

    return of


def most(numbers: Iterable[float | None]) -> float | None:
    """The largest, where null stands for infinity; None of no numbers."""
    return max((math.inf if number is None else number for number in numbers), default=None)


NOISE: Final = at("noise_floor_nats")
"""Of sums over a response."""
