"""What a model makes of people's values, as figures of a study: densities, and shares of what was brought out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakmeter.report.density_panel import FOOTER, paint_densities
from leakmeter.report.drawing import label
from leakmeter.report.small_multiples import COLOURS, MARKERS, draw_grid
from leakmeter.report.tables import HEADINGS

Row = Mapping[str, Any]


def draw_densities(
    rows: Sequence[Row], factors: Sequence[str], *, value: str, title: str, footer: str, stem: Path
) -> list[Path]:
    """Draw densities of true values and of invented ones, a panel for each type and choice of factors.

    Args:
        rows: one a value, with `type`, `value` ('true' or 'invented'), the factors and numbers in nats.
        factors: columns that tell cells apart.
        value: column of the numbers, one of `tables.HEADINGS`.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    panels: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        samples = panels.setdefault(_named(row, ("type", *factors)), {"true": [], "invented": []})
        samples[row["value"]].append(row[value])

    def paint(panel: Any, name: str) -> None:
        paint_densities(panel, **panels[name], title=name, x_label=HEADINGS[value])

    n_types = len({row["type"] for row in rows})
    footer = f"{footer}; {FOOTER[0].lower()}{FOOTER[1:]}"
    # Types from left to right, cells from top to bottom.
    return draw_grid(list(panels), paint, title=title, footer=footer, stem=stem, columns=n_types, panel_inches=(4, 3.2))


def draw_parts(
    rows: Sequence[Row], factors: Sequence[str], *, value: str, title: str, footer: str, stem: Path
) -> list[Path]:
    """Draw the share of every part of a value with its interval, a panel for each type; see `draw_densities`.

    Args:
        rows: one a part, with `type`, `part`, the factors, and shares with '_low' and '_high'.
        factors: columns that tell marks of one colour from another.
        value: column of the shares.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix.

    Raises:
        UsageError: matplotlib is not installed.
    """
    types = list(dict.fromkeys(row["type"] for row in rows))
    groups = list(dict.fromkeys(_named(row, factors) for row in rows))

    def paint(panel: Any, type_: str) -> None:
        of_type = [row for row in rows if row["type"] == type_]
        parts = list(dict.fromkeys(row["part"] for row in of_type))
        for number, group in enumerate(groups):
            of_group = [row for row in of_type if _named(row, factors) == group]
            aside = 0.6 * ((number + 0.5) / len(groups) - 0.5)
            shares = [row[value] for row in of_group]
            arms = [
                [max(row[value] - row[f"{value}_low"], 0.0) for row in of_group],
                [max(row[f"{value}_high"] - row[value], 0.0) for row in of_group],
            ]
            look = {"color": COLOURS[number % len(COLOURS)], "fmt": MARKERS[number % len(MARKERS)], "label": group}
            panel.errorbar(
                shares,
                [parts.index(row["part"]) + aside for row in of_group],
                xerr=arms,
                capsize=3,
                markersize=5,
                **look,
            )
        panel.set_title(type_, fontsize=9)
        panel.set_yticks(range(len(parts)), [part.replace("_", " ") for part in parts])
        panel.set_ylim(len(parts) - 0.5, -0.5)
        panel.set_xlim(-0.02, 1.02)
        panel.set_xlabel("share of values")

    return draw_grid(types, paint, title=title, footer=footer, stem=stem, columns=3, panel_inches=(3.8, 3.4))


def _named(row: Row, columns: Sequence[str]) -> str:
    """A row by some of its columns: the type by itself, others behind their names."""
    return label(", ".join(str(row[name]) if name == "type" else f"{name} {row[name]}" for name in columns))
