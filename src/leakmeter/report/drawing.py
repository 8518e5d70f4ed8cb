"""Figures of a measure's cases, for a paper or a notebook: described without matplotlib, painted with it.

Texts reach a figure through `label` alone: control characters are made visible, dollars begin no formula, and letters
that the typeface lacks are shown as �.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from leakmeter.report.figures import Look, encoded, panels_figure
from leakmeter.report.shade import excerpt
from leakmeter.report.small_multiples import COLOURS, MARKERS, grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Interval = Sequence[float] | None
FORMS: Final = ("png", "svg")
_LETTERS: Final = 48
_FACE: Final = "DejaVu Sans"


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure that is not painted yet."""

    title: str
    panels: Sequence[str]
    """What each panel shows."""
    paint: Callable[[Any, str], None]
    """Draws one of `panels` into its matplotlib axes; labels of the first make the legend."""
    footer: str = ""
    columns: int = 2
    """Panels beside each other, at most."""
    panel_inches: tuple[float, float] = (4.8, 3.6)

    def figure(self) -> Figure:
        """The figure, which a notebook shows.

        Raises:
            UsageError: matplotlib is not installed.
        """
        look, paint = self._grid()
        figure = panels_figure(("all",), paint, look=look, footer=self.footer, title=self.title)
        # A notebook knows figures of pyplot, which keeps all it made; it asks any other object for this.
        vars(figure)["_repr_png_"] = lambda: encoded(figure, "png", look)
        return figure

    def encoded(self) -> dict[str, bytes]:
        """The figure as each of `FORMS`; the same cases give the same bytes with the same matplotlib.

        Raises:
            UsageError: matplotlib is not installed.
        """
        look, paint = self._grid()
        figure = panels_figure(("all",), paint, look=look, footer=self.footer, title=self.title)
        return {form: encoded(figure, form, look) for form in FORMS}

    def _grid(self) -> tuple[Look, Callable[[Any, str], None]]:
        return grid(self.panels, self.paint, columns=self.columns, panel_inches=self.panel_inches)


@dataclass(frozen=True, slots=True)
class Bar:
    """A number with its interval, and what it is called."""

    name: str
    value: float
    interval: Interval = None


def label(text: str, characters: int = _LETTERS) -> str:
    """A text of a case for a figure, on one line."""
    known = _known()
    drawn = "".join(letter if ord(letter) in known else "\ufffd" for letter in excerpt(text, characters))
    return drawn.replace("$", "\\$")


@lru_cache(maxsize=1)
def _known() -> frozenset[int]:
    """Letters of matplotlib's own typeface."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(_FACE)).get_charmap())


def rows(panel: Any, bars: Sequence[Bar], *, x_label: str, colour: str = COLOURS[0]) -> None:
    """Numbers from top to bottom, one a line, with their intervals; names are texts of cases."""
    panel.errorbar(
        [bar.value for bar in bars], range(len(bars)), xerr=_arms(bars), fmt=MARKERS[0], color=colour, capsize=3,
        markersize=5,
    )  # fmt: skip
    panel.set_yticks(range(len(bars)), [label(bar.name) for bar in bars])
    panel.set_ylim(len(bars) - 0.4, -0.6)
    panel.set_xlim(left=min(0.0, panel.get_xlim()[0]))
    panel.set_xlabel(x_label)


def columns(panel: Any, bars: Sequence[Bar], *, x_label: str, y_label: str, colour: str = COLOURS[0]) -> None:
    """Numbers from left to right as bars, with their intervals."""
    panel.bar(range(len(bars)), [bar.value for bar in bars], color=colour, alpha=0.55, width=0.75)
    panel.errorbar(
        range(len(bars)), [bar.value for bar in bars], yerr=_arms(bars), fmt="none", ecolor="0.15", capsize=3
    )
    panel.set_xticks(range(len(bars)), [label(bar.name) for bar in bars])
    panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
    panel.set_xlabel(x_label)
    panel.set_ylabel(y_label)


def inches(n_rows: int, width: float = 7.2) -> tuple[float, float]:
    """Size of a panel of so many lines."""
    return width, 1.1 + 0.24 * max(n_rows, 4)


def _arms(bars: Sequence[Bar]) -> list[list[float]]:
    """Lengths to either side; a number without an interval has none."""
    ends = [bar.interval or (bar.value, bar.value) for bar in bars]
    # Rounding can put the interval of equal values beside their mean.
    return [
        [max(bar.value - low, 0.0) for bar, (low, _) in zip(bars, ends, strict=True)],
        [max(high - bar.value, 0.0) for bar, (_, high) in zip(bars, ends, strict=True)],
    ]
