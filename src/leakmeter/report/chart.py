"""Static drawings as numbers, 0 to 1000 across and HEIGHT down to 0: bars of response tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakmeter.report.scale import nats_text

WIDTH = 1000
HEIGHT = 150
_GAP = 0.15  # of a column, on each side of its bar
_LABELS_AT_MOST = 10
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


def _labelled(n: int) -> list[int]:
    step = next(step for k in range(12) for step in (10**k, 2 * 10**k, 5 * 10**k) if n <= step * _LABELS_AT_MOST)
    return sorted({0, *range(step - 1, n, step)})
