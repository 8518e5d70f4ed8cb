"""What a gate found, in sentences: shared by the terminal, JUnit XML and SARIF. Nothing of a text is in them."""

from __future__ import annotations

from typing import Final

from leakmeter.core.check import Number
from leakmeter.report.scale import nats_text

_WITHIN: Final = {"<=": "at most", "<": "below", ">=": "at least", ">": "above"}
_BEYOND: Final = {"<=": "more than", "<": "not below", ">=": "less than", ">": "not above"}


def interval_text(interval: tuple[float, float] | None) -> str:
    """' [5.2, 9.9]', or nothing."""
    return "" if interval is None else f" [{', '.join(map(nats_text, interval))}]"


def number_text(number: Number) -> str:
    """'7.31 [5.2, 9.9] nats over 120 cases'."""
    cases = "1 case" if number.n == 1 else f"{number.n:,} cases"
    return f"{nats_text(number.value)}{interval_text(number.interval)} {number.unit} over {cases}"


def bound_sentence(name: str, number: Number, operator: str, limit: float, *, is_within: bool, holds: bool) -> str:
    """What was found of a bound.

    Args:
        name: of the number.
        number: the number.
        operator: of the bound.
        limit: of the bound.
        is_within: whether the value is.
        holds: whether the bound does, which may ask more.
    """
    found = f"{name} is {number_text(number)}"
    if holds:
        return f"{found}: {_WITHIN[operator]} {limit:.12g}, as asked."
    if not is_within:
        return f"{found}: {_BEYOND[operator]} {limit:.12g}."
    if number.interval is None:
        return f"{found}: {_WITHIN[operator]} {limit:.12g}, but one case has no interval that could be."
    return f"{found}: {_WITHIN[operator]} {limit:.12g}, but not all of its interval is."


def regression_sentence(
    quantity: str, number: Number, floor: float, before: float, after: float, *, holds: bool
) -> str:
    """What was found beside a baseline.

    Args:
        quantity: its name.
        number: mean of now − then.
        floor: amount by which noise may move it.
        before: mean of the baseline's.
        after: mean of the same cases now.
        holds: whether it is no worse.
    """
    verdict = "no worse than chance and noise allow" if holds else "worse by more than chance and noise allow"
    noise = f", with a noise floor of {nats_text(floor)}" if floor > 0.0 else ""
    return (
        f"{quantity} went from {nats_text(before)} to {nats_text(after)} on average, by {number_text(number)}{noise}: "
        f"{verdict}."
    )
