"""Rows of numbers to a figure: means with their intervals, a line for each choice of the other factors."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakmeter.core.written import write_whole
from leakmeter.errors import UsageError
from leakmeter.report.tables import HEADINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
_LINES_WITH_BARS = 12  # from so many points on, a band shows the interval better than bars
# Okabe and Ito's colours, which all kinds of eyes tell apart, without their yellow, which paper does not.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LETTERS_LEVEL = 40  # of all names along an axis, beyond which they would run into each other
_LAYOUT_DIGITS = 6
_APART = 0.04  # of the least distance of two places, between lines whose bars would cover each other


@dataclass(frozen=True, slots=True)
class Look:
    """Measures of a figure of panels side by side."""

    panel_inches: tuple[float, float]
    font_size: int
    dpi: int
    """Of the PNG."""
    footer_letters: int
    """That fit the width of a panel."""


_LOOK = Look((4.6, 4.4), font_size=9, dpi=160, footer_letters=95)


def draw(
    rows: Sequence[Row], *, x: str, lines: Sequence[str], ys: Sequence[str], title: str, footer: str, stem: Path
) -> list[Path]:
    """Draw a panel for each of `ys` over `x`; the same rows give the same bytes with the same matplotlib.

    Args:
        rows: with `x`, `lines`, and each of `ys` with its '_low' and '_high'.
        x: column of the horizontal axis; text makes it a list of names.
        lines: columns whose values tell one line from another.
        ys: columns of the vertical axes; one that no row has is left out.
        title: over the figure.
        footer: small, under it.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    shown = [y for y in ys if any(row.get(y) is not None for row in rows)]
    return draw_panels(
        shown,
        lambda panel, y: _panel(panel, rows, x, lines, y, legend=bool(lines) and y == shown[0]),
        look=_LOOK,
        title=title,
        footer=footer,
        stem=stem,
    )


def draw_panels(
    shown: Sequence[str],
    paint: Callable[[Any, str], None],
    *,
    look: Look,
    footer: str,
    stem: Path,
    title: str | None = None,
) -> list[Path]:
    """Draw panels side by side and save them as PNG and SVG; the same panels give the same bytes.

    Args:
        shown: what each panel shows.
        paint: draws one of `shown` into its panel.
        look: sizes.
        footer: small, under the figure; empty for none.
        stem: path without a suffix.
        title: over the figure.

    Returns:
        Paths of both files.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure = panels_figure(shown, paint, look=look, footer=footer, title=title)
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for path in paths:
        write_whole(path, encoded(figure, path.suffix[1:], look))
    return paths


def panels_figure(
    shown: Sequence[str], paint: Callable[[Any, str], None], *, look: Look, footer: str, title: str | None = None
) -> Figure:
    """A matplotlib figure of panels side by side; see `draw_panels`.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("the figure needs matplotlib: pip install matplotlib") from None
    width, height = look.panel_inches
    with mpl.rc_context(_settings(look)):
        figure = Figure(figsize=(width * len(shown), height), layout="constrained")
        for panel, name in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            paint(panel, name)
        if title is not None:
            figure.suptitle(title)
        if footer:
            figure.supxlabel(textwrap.fill(footer, look.footer_letters * len(shown)), fontsize=6, color="0.35")
        # The layout's last digits differ from one time to the next, and an SVG names what is cut off by them.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for panel in figure.axes:
            x, y, wide, high = (round(share, _LAYOUT_DIGITS) for share in panel.get_position(original=True).bounds)
            panel.set_position((x, y, wide, high))
    return figure


def encoded(figure: Figure, form: str, look: Look) -> bytes:
    """A figure as 'png' or 'svg'; the same figure gives the same bytes with the same matplotlib."""
    import matplotlib as mpl

    sink = io.BytesIO()
    with mpl.rc_context(_settings(look)):
        figure.savefig(
            sink, format=form, dpi=look.dpi, metadata={"Software": None} if form == "png" else {"Date": None}
        )
    return sink.getvalue()


def _settings(look: Look) -> dict[str, Any]:
    # Without the first, ids in the SVG differ from one time to the next.
    return {"svg.hashsalt": "leakmeter", "svg.fonttype": "path", "font.size": look.font_size}


def _panel(panel: Any, rows: Sequence[Row], x: str, lines: Sequence[str], y: str, *, legend: bool) -> None:
    names = list(dict.fromkeys(str(row[x]) for row in rows))
    is_text = any(isinstance(row[x], str) for row in rows)
    groups = dict.fromkeys(tuple(row[name] for name in lines) for row in rows)
    steps = np.diff(np.unique([float(row[x]) for row in rows])) if not is_text else ()
    apart = _APART * (min(steps) if len(steps) else 1.0)
    for number, group in enumerate(groups):
        look = {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}
        of_line = [row for row in rows if tuple(row[name] for name in lines) == group and row.get(y) is not None]
        aside = apart * (number - (len(groups) - 1) / 2) if len(of_line) <= _LINES_WITH_BARS else 0.0
        places = [aside + (names.index(row[x]) if is_text else row[x]) for row in of_line]
        means = [row[y] for row in of_line]
        # An item alone has no interval; matplotlib draws none for NaN.
        low, high = ([row[f"{y}_{end}"] for row in of_line] for end in ("low", "high"))
        label = ", ".join(f"{_heading(name)} {value}" for name, value in zip(lines, group, strict=True))
        if len(of_line) > _LINES_WITH_BARS:
            panel.plot(places, means, label=label, color=look["color"])
            panel.fill_between(places, low, high, alpha=0.2, color=look["color"], linewidth=0)
        else:
            # Rounding can put the interval of equal values beside their mean.
            below = [max(mean - edge, 0.0) for mean, edge in zip(means, low, strict=True)]
            above = [max(edge - mean, 0.0) for mean, edge in zip(means, high, strict=True)]
            # A line would say that there is something between two names.
            style = "none" if is_text else "-"
            panel.errorbar(places, means, yerr=[below, above], linestyle=style, capsize=3, label=label, **look)
    if is_text:
        panel.margins(x=0.5 / max(1, len(names) - 1))
        slanted = {"rotation": 20, "ha": "right"} if sum(map(len, names)) > _LETTERS_LEVEL else {}
        panel.set_xticks(range(len(names)), names, **slanted)
    elif all(isinstance(row[x], int) for row in rows):
        panel.xaxis.get_major_locator().set_params(integer=True)
    panel.set_xlabel(_heading(x))
    panel.set_ylabel(_heading(y))
    panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
    if legend:
        panel.legend(frameon=False)


def _heading(name: str) -> str:
    return HEADINGS.get(name, name.replace("_", " "))
