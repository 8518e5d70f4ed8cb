"""Rényi divergences over their order as numbers of a static drawing: promised and measured, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leakmeter.report import audit_words as words
from leakmeter.report.chart import WIDTH
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case

HEIGHT: Final = 300
_MARGIN: Final = 0.04  # of the width, on either side of the first and the last order
_DECADES_AT_MOST: Final = 8
_LABEL_APART: Final = 18.0


@dataclass(frozen=True, slots=True)
class Line:
    """One of the lines, from the least order to the largest."""

    name: str
    path: str
    """In the language of SVG paths."""
    dots: tuple[tuple[float, float, str], ...]
    """Place and words of each order."""
    label_y: float
    """Height at which its name does not stand on another's."""


@dataclass(frozen=True, slots=True)
class LogLog:
    """What the template draws, 0 to `chart.WIDTH` across and `HEIGHT` down to 0."""

    label: str
    """What it shows, for who cannot see it."""
    promised: Line
    measured: Line
    maxima: Line
    """Sum of the maxima over exemplars, which the paper takes."""
    order_x: float
    """Where the order of the promise is."""
    order_label: str
    ticks: tuple[tuple[float, str], ...]
    """Places and numbers of orders."""
    levels: tuple[tuple[float, str], ...]
    """Heights of powers of ten of nats."""


def log_log(case: Case) -> LogLog | None:
    """Promised and measured of all tokens together, over the finite orders; None where nothing finite was told."""
    rows = [row for row in case["by_order"] if row["order"] is not None]
    told = ("promised", "measured", "sum_of_maxima")
    series = [[words.infinite(row[f"{name}_nats"]) for row in rows] for name in told]
    shown = [nats for line in series for nats in line if 0.0 < nats < math.inf]
    if len(rows) < 2 or any(not 0.0 <= nats < math.inf for line in series for nats in line) or not shown:
        return None
    low = math.floor(math.log10(min(shown)))
    high = max(math.ceil(math.log10(max(shown))), low + 1)
    low = max(low, high - _DECADES_AT_MOST)
    first, last = (math.log(rows[i]["order"]) for i in (0, -1))

    def across(order: float) -> float:
        share = (math.log(order) - first) / (last - first)
        return round(WIDTH * (_MARGIN + share * (1 - 2 * _MARGIN)), 1)

    def up(nats: float) -> float:
        """What is below the least power of ten shown, as 0 is, lies on it."""
        exponent = max(math.log10(nats), low) if nats > 0.0 else low
        return round(HEIGHT * (high - exponent) / (high - low), 1)

    xs = [across(row["order"]) for row in rows]
    heights = [[up(nats) for nats in line] for line in series]
    labels = _apart([line[-1] for line in heights])
    names = ("promised", "measured, of one exemplar", "sum of maxima")
    promised, measured, maxima = (
        Line(
            name,
            "M" + "L".join(f"{x} {y}" for x, y in zip(xs, ys, strict=True)),
            tuple(
                (x, y, f"order {words.order_text(row['order'])}: {name} {nats_text(nats)} nats")
                for x, y, row, nats in zip(xs, ys, rows, line, strict=True)
            ),
            label_y,
        )
        for name, ys, line, label_y in zip(names, heights, series, labels, strict=True)
    )
    order = case["promise"]["order"]
    return LogLog(
        "Rényi divergence of all tokens over its order, nats; both axes logarithmic",
        promised,
        measured,
        maxima,
        across(order),
        f"α = {words.order_text(order)}",
        tuple((x, words.order_text(row["order"])) for x, row in zip(xs, rows, strict=True)),
        tuple((up(10.0**power), _power(power)) for power in range(low, high + 1)),
    )


def _apart(heights: Sequence[float]) -> list[float]:
    """Heights of labels, moved down where they would stand on one another."""
    out = list(heights)
    order = sorted(range(len(out)), key=lambda i: out[i])
    for above, below in pairwise(order):
        out[below] = max(out[below], out[above] + _LABEL_APART)
    return [round(y, 1) for y in out]


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -4 <= power <= 4 else f"1e{power}"
