"""Studies of private generation as figures: Rényi against Rényi, and the paper's convention with its zero-leak line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from leakmeter.report.figures import Look, draw_panels
from leakmeter.report.tables import HEADINGS

Row = Mapping[str, Any]

_LOOK: Final = Look((5.2, 4.6), font_size=9, dpi=180, footer_letters=100)
_PROMISED, _MEASURED, _PAPER, _QUIET = "0.15", "#D55E00", "#0072B2", "0.5"  # Okabe and Ito's
_PANELS: Final = ("renyi", "paper")
_NAMES: Final = {"target_epsilon": "target ε", "delta": "δ"}


def draw(rows: Sequence[Row], *, x: str, lines: Sequence[str], title: str, footer: str, stem: Path) -> list[Path]:
    """Draw both panels over `x`, axes logarithmic; the same rows give the same bytes with the same matplotlib.

    Args:
        rows: see `instruments.generation.table`.
        x: column of the horizontal axis.
        lines: columns whose values tell one line from another.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    return draw_panels(
        _PANELS, lambda panel, name: _panel(panel, name, rows, x, lines), look=_LOOK, title=title, footer=footer,
        stem=stem,
    )  # fmt: skip


def _panel(panel: Any, name: str, rows: Sequence[Row], x: str, lines: Sequence[str]) -> None:
    first = True
    for group in dict.fromkeys(tuple(row[line] for line in lines) for row in rows):
        of_line = sorted((row for row in rows if tuple(row[line] for line in lines) == group), key=lambda row: row[x])
        draw_line = _renyi if name == "renyi" else _paper
        draw_line(panel, of_line, x, labelled=first)
        first = False
    if all(isinstance(row[x], int | float) for row in rows):
        panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel(_NAMES.get(x, HEADINGS.get(x, x.replace("_", " "))))
    titles = {
        "renyi": ("Rényi against Rényi: order α*, same tokens, same neighbours", "Rényi divergence, nats"),
        "paper": ("The paper’s convention: no verdict", "ε"),
    }
    panel.set_title(titles[name][0], fontsize=10)
    panel.set_ylabel(titles[name][1])
    panel.legend(frameon=False, fontsize=8)
    panel.grid(color="0.92", linewidth=0.7)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _renyi(panel: Any, rows: Sequence[Row], x: str, *, labelled: bool) -> None:
    _line(panel, rows, x, "promised_rdp_nats", "promised", labelled, color=_PROMISED, marker="o", markersize=3.5)
    sum_of = {"color": _QUIET, "marker": "s", "markersize": 3.5, "linestyle": ":"}
    _line(panel, rows, x, "sum_of_maxima_nats", "measured, sum of maxima", labelled, **sum_of)
    one = {"color": _MEASURED, "marker": "o", "markersize": 4.5}
    _line(panel, rows, x, "measured_rdp_nats", "measured, worst exemplar", labelled, **one)


def _paper(panel: Any, rows: Sequence[Row], x: str, *, labelled: bool) -> None:
    _line(panel, rows, x, "promised_epsilon", "promised", labelled, color=_PROMISED, marker="o", markersize=3.5)
    one = {"color": _MEASURED, "marker": "o", "markersize": 4.5}
    _line(panel, rows, x, "paper_epsilon", "measured, in the paper’s convention", labelled, **one)
    none = {"color": _QUIET, "linestyle": "--"}
    _line(panel, rows, x, "zero_leak_epsilon", "the same of a mechanism that tells nothing", labelled, **none)
    printed = {"color": _PAPER, "marker": "x", "linestyle": "none"}
    _line(panel, rows, x, "printed_epsilon", "as the paper printed it", labelled, **printed)


def _line(panel: Any, rows: Sequence[Row], x: str, y: str, label: str, labelled: bool, **look: Any) -> None:
    """One line through what a logarithmic axis can show."""
    shown = [(row[x], row[y]) for row in rows if row[y] is not None and 0 < row[y] < math.inf]
    if shown:
        panel.plot(*zip(*shown, strict=True), label=label if labelled else None, linewidth=1.4, **look)
