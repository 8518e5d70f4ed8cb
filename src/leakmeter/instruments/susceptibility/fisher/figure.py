"""Figures of Fisher susceptibility: how far predictors agree with what they are held against, and means of levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.report import blocks as b
from leakmeter.studies.figure import beside, groups_of, intervals
from leakmeter.studies.kind import Row

_VALUE: Final = "spearman"
_NEAR: Final = 0.7
"""Share of the ceiling from which on it is drawn."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """A panel of points."""

    name: str
    x_label: str
    xs: Sequence[float]
    """Of each item; on the logarithmic axis, those above 0."""
    row: Row
    """Correlations of the items: `pearson` and `spearman`, each with its '_low' and '_high'."""


@dataclass(frozen=True, slots=True)
class Levels:
    """A panel of means of levels."""

    title: str
    y_label: str
    rows: Sequence[Row]


def queries(
    panels: Sequence[Scatter],
    ys: Sequence[float],
    groups: Sequence[str],
    *,
    y_label: str,
    ceiling: float,
    title: str,
    footer: str,
) -> b.Chart:
    """Each predictor against the same values, with its correlations.

    `ys` and `groups`, told apart by colour and mark, are of each item. `ceiling` is what no y exceeds, drawn where one
    comes near.
    """
    near = max(ys, default=0.0) > _NEAR * ceiling
    guides = (b.Guide(ceiling, f"ceiling, {ceiling:.2f} nats"),) if near else ()
    drawn = []
    for panel in panels:
        series = []
        for group in dict.fromkeys(groups):
            points = [
                (x, y) for x, y, item_group in zip(panel.xs, ys, groups, strict=True) if item_group == group and x > 0
            ]
            xs, heights = [x for x, _ in points], [y for _, y in points]
            series.append(b.Series("scatter", heights, xs, name=b.Untrusted(group)))
        n_left_out = sum(not x > 0 for x in panel.xs)
        label = panel.x_label + (f" ({n_left_out} at 0 or below not shown)" if n_left_out else "")
        scale: Any = "log" if n_left_out < len(panel.xs) else "linear"
        correlations = [f"{what.capitalize()} {_correlation(panel.row, what)}" for what in ("pearson", "spearman")]
        axes = b.Axis(label, scale=scale), b.Axis(y_label)
        drawn.append(b.Panel(*axes, series, title=b.Untrusted(panel.name), said=correlations, guides=guides))
    return b.Chart("queries", title, drawn, footer=footer, columns=3, panel_inches=(3.2, 2.8))


def agreement(rows: Sequence[Row], *, y: str, panels: str, lines: Sequence[str], title: str, footer: str) -> b.Chart:
    """Spearman's correlation of each predictor, from rows of `instruments.susceptibility.fisher.study`.

    `y` is a column of the predictors, from top to bottom, `panels` one with a panel for each of its values; `lines`
    tell marks of one colour from another.
    """
    names = list(dict.fromkeys(row[y] for row in rows))
    groups = list(groups_of(rows, lines))
    drawn = []
    for (which,), of_panel in groups_of(rows, (panels,)).items():
        of_group = groups_of([row for row in of_panel if row[_VALUE] is not None], lines)
        series = [
            intervals(
                "rows", shown, _VALUE, [beside(names.index(row[y]), number, len(groups)) for row in shown],
                _name(group), number,
            )
            for number, group in enumerate(groups)
            for shown in (of_group.get(group, []),)
        ]  # fmt: skip
        axis = b.Axis(("Spearman, ", b.Untrusted(str(which))), ends=(-1.05, 1.05))
        zero = (b.Guide(0.0, "", across="x", line="dotted"),)
        drawn.append(b.Panel(axis, b.Axis("", names=[b.Untrusted(name) for name in names]), series, guides=zero))
    return b.Chart("agreement", title, drawn, footer=footer, panel_inches=(4.6, 4.0))


def levels(panels: Sequence[Levels], *, x: str, lines: Sequence[str], y: str, title: str, footer: str) -> b.Chart:
    """Means of levels, `y`, with '_low' and '_high', a panel for each group of rows; `lines` stand side by side."""
    rows = [row for panel in panels for row in panel.rows]
    places = list(dict.fromkeys(row[x] for row in rows))
    groups = list(groups_of(rows, lines))
    axis = b.Axis(x.replace("_", " "), names=[b.Untrusted(str(level)) for level in places])
    drawn = []
    for panel in panels:
        of_group = groups_of(panel.rows, lines)
        series = [
            intervals(
                "scatter", shown, y, [beside(places.index(row[x]), number, len(groups)) for row in shown],
                _name(group), number,
            )
            for number, group in enumerate(groups)
            for shown in (of_group.get(group, []),)
        ]  # fmt: skip
        drawn.append(b.Panel(axis, b.Axis(panel.y_label), series, title=b.Untrusted(panel.title)))
    return b.Chart("levels", title, drawn, footer=footer, columns=3, panel_inches=(3.1, 2.7))


def _name(group: Sequence[Any]) -> str:
    return ", ".join(map(str, group))


def _correlation(row: Row, what: str) -> str:
    if row[what] is None:
        return "–"
    low, high = row[f"{what}_low"], row[f"{what}_high"]
    return f"{row[what]:z.2f}" + ("" if math.isnan(low) else f" [{low:z.2f}, {high:z.2f}]")
