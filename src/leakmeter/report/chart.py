"""Static drawings as numbers, 0 to 1000 across and HEIGHT down to 0: bars of response tokens, and a curve of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from leakmeter.report.scale import nats_text

WIDTH = 1000
HEIGHT = 150
_GAP = 0.15  # of a column, on each side of its bar
_LABELS_AT_MOST = 10
_LEVELS_NATS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
_LEVEL_SHARE = 0.02  # of the highest, below which levels would be drawn over each other
_FAR = 4.0  # times the highest bar, from where a line at the limit would leave no bar to be seen


@dataclass(frozen=True, slots=True)
class Chart:
    """What the template draws."""

    label: str
    """What it shows, for who cannot see it."""
    bars: tuple[tuple[float, float, float, float, str], ...]
    """x, y, width, height and words of each token."""
    line: float | None
    """Height of the line that no bar may cross."""
    line_label: str
    ticks: tuple[tuple[float, str], ...]
    """Place and number of every so-manieth token."""
    top_label: str
    """Value at the top."""


def bars(
    values: Sequence[float], words: Sequence[str], *, label: str, limit: float | None = None, limit_label: str = ""
) -> Chart:
    """Values from 0 up, one a token, on a linear axis.

    Args:
        values: one a token; infinite ones reach the top.
        words: what is said of each.
        label: what the chart shows.
        limit: a value that none exceeds; a line is drawn at it and the axis reaches it, unless all are far below.
        limit_label: what the limit is.
    """
    finite = [value for value in values if value < float("inf")]
    highest = max(finite, default=0.0)
    if limit is not None and limit > _FAR * highest > 0:
        label, limit = f"{label}; {limit_label}", None
    top = max(highest, limit or 0.0) or 1.0
    column = WIDTH / len(values)
    return Chart(
        label,
        tuple(
            (
                round((i + _GAP) * column, 1),
                round(HEIGHT * (1 - min(1.0, value / top)), 1),
                round((1 - 2 * _GAP) * column, 1),
                round(HEIGHT * min(1.0, value / top), 1),
                said,
            )
            for i, (value, said) in enumerate(zip(values, words, strict=True))
        ),
        None if limit is None else round(HEIGHT * (1 - limit / top), 1),
        limit_label,
        tuple((round((i + 0.5) * column, 1), str(i + 1)) for i in _labelled(len(values))),
        nats_text(top),
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """What the template draws: a level for each step, and drops and rises between them."""

    label: str
    """What it shows, for who cannot see it."""
    path: str
    """The line, in the language of SVG paths."""
    dots: tuple[tuple[float, float, str, str, bool], ...]
    """Place, words and number of each step, and whether it went back."""
    line: float
    """Height of the limit."""
    line_label: str
    yardstick: float | None
    """Height of a number to compare with."""
    yardstick_label: str
    ticks: tuple[tuple[float, str], ...]
    """Place and number of every so-manieth step."""
    levels: tuple[tuple[float, str], ...]
    """Heights of round numbers of nats."""


def curve(
    nats: Sequence[float],
    words: Sequence[str],
    backward: Sequence[bool],
    *,
    label: str,
    limit: float,
    limit_label: str,
    yardstick: float | None = None,
    yardstick_label: str = "",
) -> Curve:
    """Nats after each step, on an axis of square roots, on which a limit far below the first can be seen.

    Args:
        nats: before any step and after each, 0 or more.
        words: what is said of each.
        backward: whether the step went back.
        label: what the curve shows.
        limit: a line is drawn at it.
        limit_label: what the limit is.
        yardstick: a number to compare with, at which a fainter line is drawn.
        yardstick_label: what that is.
    """
    highest = max(*nats, limit, yardstick or 0.0)

    def height(value: float) -> float:
        return round(HEIGHT * (1 - math.sqrt(value / highest)), 1)

    column = WIDTH / len(nats)
    heights = [height(value) for value in nats]
    edges = [round(i * column, 1) for i in range(len(nats) + 1)]
    parts = [f"M{edges[0]} {heights[0]}H{edges[1]}"]
    parts += [f"V{after}H{edge}" for (_, after), edge in zip(pairwise(heights), edges[2:], strict=True)]
    few = len(nats) <= _LABELS_AT_MOST
    return Curve(
        label,
        "".join(parts),
        tuple(
            (round((i + 0.5) * column, 1), heights[i], words[i], nats_text(nats[i]) if few else "", backward[i])
            for i in range(len(nats))
        ),
        height(limit),
        limit_label,
        None if yardstick is None else height(yardstick),
        yardstick_label,
        tuple((round((i + 0.5) * column, 1), str(i)) for i in (range(len(nats)) if few else _labelled(len(nats)))),
        tuple((height(level), f"{level:g}") for level in _levels(highest)),
    )


def _levels(highest: float) -> list[float]:
    return [0.0, *(level for level in _LEVELS_NATS if _LEVEL_SHARE * highest <= level <= highest)]


def _labelled(n: int) -> list[int]:
    step = next(step for k in range(12) for step in (10**k, 2 * 10**k, 5 * 10**k) if n <= step * _LABELS_AT_MOST)
    return sorted({0, *range(step - 1, n, step)})
