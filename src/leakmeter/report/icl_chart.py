"""Losses by position as numbers of a static drawing: a mean with its interval for each, on a linear axis from 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.report.chart import HEIGHT, WIDTH
from leakmeter.report.scale import nats_text

_LEVELS_AT_MOST: Final = 5
_LABELS_AT_MOST: Final = 10


@dataclass(frozen=True, slots=True)
class Point:
    """A position: places 0 to `chart.WIDTH` across, `chart.HEIGHT` down to 0."""

    x: float
    y: float
    low: float
    """Height of the interval's lower end."""
    high: float
    said: str
    """Mean and interval in words."""
    tick: str
    """Number of the position."""
    value: str
    """Its mean, where there is room to write it."""


@dataclass(frozen=True, slots=True)
class Positions:
    """What the template draws."""

    points: tuple[Point, ...]
    path: str
    """The line through the means, in the language of SVG paths."""
    levels: tuple[tuple[float, str], ...]
    """Heights of round numbers of nats."""


def positions(rows: Sequence[Mapping[str, Any]], said: Sequence[str]) -> Positions | None:
    """Means of positions with their intervals.

    Args:
        rows: of a summary: `position`, `mean_nats` and `interval_nats` each.
        said: what is said of each.

    Returns:
        The drawing; None for a single position, or where a mean is infinite.
    """
    if len(rows) < 2 or any(row["mean_nats"] is None for row in rows):
        return None
    means = [row["mean_nats"] for row in rows]
    intervals = [row["interval_nats"] or (mean, mean) for row, mean in zip(rows, means, strict=True)]
    top = max(high for _, high in intervals) or 1.0
    column = WIDTH / len(rows)

    def height(nats: float) -> float:
        return round(HEIGHT * (1 - nats / top), 1)

    few = len(rows) <= _LABELS_AT_MOST
    points = tuple(
        Point(
            round((i + 0.5) * column, 1),
            height(mean),
            height(interval[0]),
            height(interval[1]),
            words,
            str(row["position"]) if few or not i % 2 else "",
            nats_text(mean) if few else "",
        )
        for i, (row, mean, interval, words) in enumerate(zip(rows, means, intervals, said, strict=True))
    )
    path = "M" + "L".join(f"{point.x} {point.y}" for point in points)
    return Positions(points, path, tuple((height(level), f"{level:g}") for level in _levels(top)))


def _levels(top: float) -> list[float]:
    """Round numbers from 0 to the top, few of them."""
    power = 10.0 ** math.floor(math.log10(top))
    step = next(
        size for size in (0.1 * power, 0.2 * power, 0.5 * power, power, 2 * power) if top / size < _LEVELS_AT_MOST
    )
    return [step * i for i in range(int(top / step) + 1)]
