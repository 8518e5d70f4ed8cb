"""Many small panels in rows and columns, such as one for each variant of a measure; one legend for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leakmeter.report.figures import Look, draw_panels

Row = Mapping[str, Any]

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "0.15")  # Okabe and Ito's
MARKERS: Final = ("o", "^", "s", "D", "v", "P", "X")
_TITLE_INCHES: Final = 0.5
_LEGEND_SHARE: Final = 0.06
"""Of a panel's height."""
_LETTERS_AN_INCH: Final = 20


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows of one panel, and what they are called."""

    title: str
    y_label: str
    rows: Sequence[Row]


def draw_grid(
    shown: Sequence[str],
    paint: Callable[[Any, str], None],
    *,
    title: str,
    footer: str,
    stem: Path,
    columns: int = 3,
    panel_inches: tuple[float, float] = (3.1, 2.7),
) -> list[Path]:
    """Draw panels from left to right and top to bottom; the same panels give the same bytes with the same matplotlib.

    Args:
        shown: what each panel shows.
        paint: draws one of `shown` into its panel; labels of the first panel make the legend.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.
        columns: panels beside each other, at most.
        panel_inches: width and height of a panel.

    Raises:
        UsageError: matplotlib is not installed.
    """
    look, paint_all = grid(shown, paint, columns=columns, panel_inches=panel_inches)
    return draw_panels(("all",), paint_all, look=look, title=title, footer=footer, stem=stem)


def grid(
    shown: Sequence[str],
    paint: Callable[[Any, str], None],
    *,
    columns: int = 3,
    panel_inches: tuple[float, float] = (3.1, 2.7),
) -> tuple[Look, Callable[[Any, str], None]]:
    """Panels in rows and columns as the one panel of a figure (see `figures.panels_figure`); see `draw_grid`."""
    n_columns = min(columns, len(shown))
    n_rows = -(-len(shown) // n_columns)
    width, height = (n * inches for n, inches in zip((n_columns, n_rows), panel_inches, strict=True))

    def paint_all(whole: Any, _: str) -> None:
        figure, heights = whole.figure, [_LEGEND_SHARE, *(1.0 for _ in range(n_rows))]
        places = whole.get_subplotspec().subgridspec(n_rows + 1, n_columns, height_ratios=heights)
        whole.remove()
        legend = figure.add_subplot(places[0, :])
        legend.axis("off")
        for i, name in enumerate(shown):
            panel = figure.add_subplot(places[1 + i // n_columns, i % n_columns])
            paint(panel, name)
            panel.grid(color="0.92", linewidth=0.7)
            panel.set_axisbelow(True)
            panel.spines[["top", "right"]].set_visible(False)
        marks, labels = figure.axes[1].get_legend_handles_labels()
        legend.legend(marks, labels, loc="center", ncols=2 * n_columns, frameon=False)

    footer_letters = int(width * _LETTERS_AN_INCH)
    return Look((width, height + _TITLE_INCHES), font_size=9, dpi=160, footer_letters=footer_letters), paint_all


def draw_levels(
    panels: Sequence[Panel], *, x: str, lines: Sequence[str], y: str, title: str, footer: str, stem: Path
) -> list[Path]:
    """Draw means of levels with their intervals, a panel for each group of rows; see `draw_grid`.

    Args:
        panels: rows with `x`, `lines`, and `y` with its '_low' and '_high'.
        x: column of the levels.
        lines: columns whose values tell marks of one colour from another; they stand beside each other at a level.
        y: column of the means.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix.

    Raises:
        UsageError: matplotlib is not installed.
    """
    rows = [row for panel in panels for row in panel.rows]
    levels = list(dict.fromkeys(row[x] for row in rows))
    groups = list(dict.fromkeys(tuple(row[line] for line in lines) for row in rows))
    named = {panel.title: panel for panel in panels}

    def paint(panel: Any, name: str) -> None:
        for number, group in enumerate(groups):
            of_group = [row for row in named[name].rows if tuple(row[line] for line in lines) == group]
            aside = 0.6 * ((number + 0.5) / len(groups) - 0.5)
            places = [levels.index(row[x]) + aside for row in of_group]
            means = [row[y] for row in of_group]
            # Rounding can put the interval of equal values beside their mean.
            below = [max(row[y] - row[f"{y}_low"], 0.0) for row in of_group]
            above = [max(row[f"{y}_high"] - row[y], 0.0) for row in of_group]
            look = {"color": COLOURS[number % len(COLOURS)], "fmt": MARKERS[number % len(MARKERS)]}
            label = ", ".join(str(value) for value in group)
            panel.errorbar(places, means, yerr=[below, above], capsize=3, markersize=5, label=label, **look)
        panel.set_title(name, fontsize=9)
        panel.set_xticks(range(len(levels)), [str(level) for level in levels])
        panel.set_xlim(-0.5, len(levels) - 0.5)
        panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
        panel.set_xlabel(x.replace("_", " "))
        panel.set_ylabel(named[name].y_label)

    return draw_grid(list(named), paint, title=title, footer=footer, stem=stem)
