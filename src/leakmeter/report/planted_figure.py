"""How well scores tell people who were planted from people who were not: AUC over repeats, and the curves behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakmeter.report.small_multiples import COLOURS, Panel, draw_grid, draw_levels

Row = Mapping[str, Any]


def draw_auc(rows: Sequence[Row], *, title: str, footer: str, stem: Path) -> list[Path]:
    """Draw the AUC of each score over repeats, a panel for each type and box; see `small_multiples.draw_levels`.

    Args:
        rows: of `instruments.pii.check.checked`.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    by_panel: dict[str, list[Row]] = {}
    for row in rows:
        by_panel.setdefault(_panel_of(row), []).append(row)
    panels = [Panel(name, "AUC", of) for name, of in by_panel.items()]
    return draw_levels(panels, x="repeats", lines=("score",), y="auc", title=title, footer=footer, stem=stem)


def draw_curves(points: Sequence[Row], *, title: str, footer: str, stem: Path) -> list[Path]:
    """Draw receiver operating characteristics, a panel for each type, box and number of repeats; see `draw_grid`.

    Args:
        points: of `instruments.pii.check.checked`, each curve's in order.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in points:
        of_panel = curves.setdefault(f"{_panel_of(row)}, repeats {row['repeats']}", {})
        of_panel.setdefault(row["score"], []).append((row["share_held_out"], row["share_planted"]))

    def paint(panel: Any, name: str) -> None:
        for number, (score, curve) in enumerate(curves[name].items()):
            panel.plot(*zip(*curve, strict=True), color=COLOURS[number % len(COLOURS)], linewidth=1.4, label=score)
        panel.plot([0, 1], [0, 1], color="0.4", linewidth=1, linestyle="--", label="chance")
        panel.set_title(name, fontsize=9)
        panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        panel.set_xlabel("share of those held out")
        panel.set_ylabel("share of those planted")

    n_levels = len({row["repeats"] for row in points})
    return draw_grid(list(curves), paint, title=title, footer=footer, stem=stem, columns=n_levels)


def _panel_of(row: Row) -> str:
    return f"{row['type']}, {row['box']} box"
