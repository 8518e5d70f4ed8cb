"""Figures of studies: means with their intervals, a line for each choice of the other factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from leakmeter.report import blocks as b
from leakmeter.studies.tables import Columns, Row, heading_of

_APART: Final = 0.04
"""Of the least distance of two places, between lines whose intervals would cover each other."""
_SPREAD: Final = 0.6
"""Of the distance of two names, over which groups stand beside each other."""
_MANY_POINTS: Final = 12
"""From so many on a band shows the interval, and nothing is covered."""


def figure_of(
    rows: Sequence[Row], x: str, ys: Sequence[str], lines: Sequence[str], *, columns: Columns, title: str, footer: str
) -> b.Chart:
    """A panel for each of `ys` over `x`, with intervals of columns '_low' and '_high'; what no row has is left out.

    `lines` are columns whose values tell one line from another. Text in `x` makes it a list of names.
    """
    shown = [y for y in ys if any(row.get(y) is not None for row in rows)]
    panels = [_panel(rows, x, lines, y, columns) for y in shown]
    return b.Chart("figure", title, panels, footer=footer, columns=len(panels), panel_inches=(4.6, 3.9))


def intervals(
    draws: b.Draws, rows: Sequence[Row], value: str, places: Sequence[float], name: str, number: int
) -> b.Series:
    """Means with their intervals, '_low' and '_high', which are NaN where an item alone has none."""
    low, high = ([row[f"{value}_{end}"] for row in rows] for end in ("low", "high"))
    return b.Series(
        draws, [row[value] for row in rows], places, name=b.Untrusted(name), low=low, high=high, colour=number
    )


def beside(place: float, number: int, n_groups: int) -> float:
    """Where a group stands of those that share a place of an axis with names."""
    return place + _SPREAD * ((number + 0.5) / n_groups - 0.5)


def groups_of(rows: Sequence[Row], columns: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values of some columns, in the order in which these come up."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in columns), []).append(row)
    return groups


def _panel(rows: Sequence[Row], x: str, lines: Sequence[str], y: str, columns: Columns) -> b.Panel:
    is_text = any(isinstance(row[x], str) for row in rows)
    names = list(dict.fromkeys(str(row[x]) for row in rows)) if is_text else []
    steps = np.diff(np.unique([float(row[x]) for row in rows])) if not is_text else ()
    apart = _APART * (min(steps) if len(steps) else 1.0)
    groups = groups_of(rows, lines)
    series = []
    for number, (group, of_group) in enumerate(groups.items()):
        shown = [row for row in of_group if row.get(y) is not None]
        aside = apart * (number - (len(groups) - 1) / 2) if len(shown) <= _MANY_POINTS else 0.0
        places = [aside + (names.index(row[x]) if is_text else row[x]) for row in shown]
        name = ", ".join(f"{heading_of(column, columns)} {value}" for column, value in zip(lines, group, strict=True))
        # A line would say that there is something between two names.
        series.append(intervals("scatter" if is_text else "line", shown, y, places, name, number))
    whole = not is_text and all(isinstance(row[x], int) for row in rows)
    axis = b.Axis(heading_of(x, columns), names=[b.Untrusted(name) for name in names], whole=whole)
    return b.Panel(axis, b.Axis(heading_of(y, columns)), series)
