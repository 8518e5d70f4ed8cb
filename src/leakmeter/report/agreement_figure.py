"""Correlations as a figure: a mark and its interval for each predictor, a panel for each choice of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from leakmeter.report.figures import Look, draw_panels

Row = Mapping[str, Any]

_LOOK: Final = Look((4.6, 5.2), font_size=9, dpi=160, footer_letters=95)
_VALUE: Final = "spearman"


def draw(
    rows: Sequence[Row], *, y: str, panels: str, lines: Sequence[str], title: str, footer: str, stem: Path
) -> list[Path]:
    """Draw Spearman's correlation of each predictor; the same rows give the same bytes with the same matplotlib.

    Args:
        rows: see `studies.agreement`.
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
            panel.errorbar(values, places, xerr=[below, above], fmt="o", capsize=3, label=label)
        panel.axvline(0.0, color="0.6", linewidth=0.8)
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.set_xlim(-1.05, 1.05)
        panel.set_xlabel(f"Spearman, {which}")
        if lines:
            panel.legend(frameon=False)

    shown = list(dict.fromkeys(row[panels] for row in rows))
    return draw_panels(shown, paint, look=_LOOK, title=title, footer=footer, stem=stem)
