"""How far predictors agree with what they are held against: query by query, and their correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leakmeter.report.small_multiples import COLOURS, MARKERS, draw_grid

Row = Mapping[str, Any]

_PANEL_INCHES: Final = (4.6, 4.0)
_VALUE: Final = "spearman"
_NEAR: Final = 0.7
"""Share of the ceiling from which on it is drawn."""
_FEW_TICKS: Final = 3
_MANY_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Scatter:
    """A panel of points."""

    name: str
    x_label: str
    xs: Sequence[float]
    """Of each item; on a logarithmic axis, those above 0."""
    row: Row
    """Correlations of the items: `pearson` and `spearman`, each with its '_low' and '_high'."""


def draw_scatter(
    panels: Sequence[Scatter],
    ys: Sequence[float],
    groups: Sequence[str],
    *,
    y_label: str,
    ceiling: float,
    title: str,
    footer: str,
    stem: Path,
) -> list[Path]:
    """Draw each predictor against the same values, with its correlations; see `small_multiples.draw_grid`.

    Args:
        panels: predictors.
        ys: of each item.
        groups: likewise, told apart by colour and mark.
        y_label: of the vertical axes.
        ceiling: which no y exceeds; drawn where one comes near.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    named = {panel.name: panel for panel in panels}

    def paint(panel: Any, name: str) -> None:
        one = named[name]
        for group, colour, mark in zip(dict.fromkeys(groups), COLOURS, MARKERS, strict=False):
            points = [(x, y) for x, y, of in zip(one.xs, ys, groups, strict=True) if of == group and x > 0]
            look = {"c": colour, "marker": mark, "s": 12, "alpha": 0.6, "linewidths": 0}
            panel.scatter([x for x, _ in points], [y for _, y in points], label=group, **look)
        shown = [x for x in one.xs if x > 0]
        if shown:
            panel.set_xscale("log")
            panel.minorticks_off()
            ticks = _ticks(min(shown), max(shown))
            panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        if max(ys, default=0.0) > _NEAR * ceiling:
            panel.axhline(ceiling, color="0.4", linewidth=1, linestyle="--", label=f"ceiling, {ceiling:.2f} nats")
        # Room for the marks of what is near 0.
        panel.set_ylim(bottom=-0.03 * panel.get_ylim()[1])
        left_out = len(one.xs) - len(shown)
        panel.set_xlabel(one.x_label + (f" ({left_out} at 0 or below not shown)" if left_out else ""))
        panel.set_ylabel(y_label)
        said = [f"{what.capitalize()} {_correlation(one.row, what)}" for what in ("pearson", "spearman")]
        panel.set_title("\n".join([name, *said]), fontsize=9)

    return draw_grid(list(named), paint, title=title, footer=footer, stem=stem)


def draw(
    rows: Sequence[Row], *, y: str, panels: str, lines: Sequence[str], title: str, footer: str, stem: Path
) -> list[Path]:
    """Draw Spearman's correlation of each predictor; the same rows give the same bytes with the same matplotlib.

    Args:
        rows: see `instruments.susceptibility.fisher.agreement`.
        y: column of the predictors, from top to bottom.
        panels: column that has a panel for each of its values.
        lines: columns whose values tell marks of one colour from another.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    names = list(dict.fromkeys(row[y] for row in rows))
    groups = list(dict.fromkeys(tuple(row[line] for line in lines) for row in rows))

    def paint(panel: Any, which: str) -> None:
        for number, group in enumerate(groups):
            of_group = [
                row
                for row in rows
                if row[panels] == which and tuple(row[line] for line in lines) == group and row[_VALUE] is not None
            ]
            # Groups stand beside each other in a predictor's place.
            places = [names.index(row[y]) + 0.6 * ((number + 0.5) / len(groups) - 0.5) for row in of_group]
            values = [row[_VALUE] for row in of_group]
            below = [max(row[_VALUE] - row[f"{_VALUE}_low"], 0.0) for row in of_group]
            above = [max(row[f"{_VALUE}_high"] - row[_VALUE], 0.0) for row in of_group]
            label = ", ".join(str(value) for value in group)
            look = {"color": COLOURS[number % len(COLOURS)], "fmt": MARKERS[number % len(MARKERS)]}
            panel.errorbar(values, places, xerr=[below, above], capsize=3, markersize=4, label=label, **look)
        panel.axvline(0.0, color="0.6", linewidth=0.8)
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.set_xlim(-1.05, 1.05)
        panel.set_xlabel(f"Spearman, {which}")

    shown = list(dict.fromkeys(row[panels] for row in rows))
    return draw_grid(shown, paint, title=title, footer=footer, stem=stem, columns=2, panel_inches=_PANEL_INCHES)


def _correlation(row: Row, what: str) -> str:
    if row[what] is None:
        return "–"
    low, high = row[f"{what}_low"], row[f"{what}_high"]
    return f"{row[what]:z.2f}" + ("" if math.isnan(low) else f" [{low:z.2f}, {high:z.2f}]")


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers on a logarithmic axis; where it is short, equal steps."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5)):
        ticks = [tick for power in powers for digit in digits if low <= (tick := float(f"{digit}e{power}")) <= high]
        if len(ticks) >= _FEW_TICKS:
            return ticks[:: -(-len(ticks) // _MANY_TICKS)]
    step = float(f"{(high - low) / 3:.0e}")
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)] if step else [low]
