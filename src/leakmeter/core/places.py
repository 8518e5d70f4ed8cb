"""Where numbers stand in a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from leakmeter.core.measurement import NATS
from leakmeter.core.quantity import AnyQuantity, Case, LowerBound, Quantity

Quantities = tuple[AnyQuantity, ...]
Number = Callable[[Case], float | None]


def at(*path: str) -> Number:
    """What stands at a place of a result, by names, outermost first; where one of them is None, the case has no such
    number."""

    def number(case: Case) -> float | None:
        inner: Any = case
        for name in path:
            inner = getattr(inner, name)
            if inner is None:
                return None
        return float(inner)

    return number


def most(numbers: Iterable[float]) -> float | None:
    """The largest; None of no numbers."""
    return max(numbers, default=None)


NOISE: Final = at("noise_floor_nats")
"""Of sums over a response."""

HALF_WIDTH: Final = at("half_width_nats")
"""Of sums over a response that are middles of intervals."""


def of_response(name: str, about: str, of: Number, lower_bound: LowerBound | None = None) -> Quantity:
    """A sum over a response, nats, with its noise and its half-width."""
    return Quantity(name, NATS, about, of, floor=NOISE, half_width=HALF_WIDTH, lower_bound=lower_bound)
