"""Charts as PNG and SVG files, as figures of a notebook, and as SVG within a page: matplotlib draws all of them.

Texts reach a figure through `_label` alone: control characters are made visible, letters that the typeface lacks are
shown as �, and nothing is a formula. The same chart gives the same bytes with the same matplotlib.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

import numpy as np

from leakmeter.core.files import write_whole
from leakmeter.core.plain import excerpt
from leakmeter.errors import UsageError
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.stats.arrays import FloatArray, ObjectArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS: Final = ("png", "svg")
# Okabe and Ito's colours, which all kinds of eyes tell apart, without their yellow, which paper does not; and our own.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#262626", "#a8480c")
_ON_DARK: Final = ("#56b4e9", "#f0884a", "#2cc79b", "#dc9bc0", "#f0b840", "#8fcdf2", "#d9d9d9", "#f2ad62")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_INK, _SOFT, _FADED = "#1f1c18", "#635d54", "#8c8c8c"
_FACE: Final = "DejaVu Sans"
_INCHES_AT_MOST: Final = 24
_LINE_INCHES: Final = 0.25  # of a legend
_LEVELS: Final = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
_SVG: Final = "http://www.w3.org/2000/svg"
_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_NUMBER: Final = re.compile(r"-?\d+\.\d{2,}")
_DRAWING: Final = threading.RLock()


def figure(chart: b.Chart) -> Figure:
    """The chart as a matplotlib figure, which a notebook shows."""
    with _settings():
        drawn = _figure(chart, titled=True)
    # A notebook knows figures of pyplot, which keeps all it made; it asks any other object for this.
    vars(drawn)["_repr_png_"] = lambda: _saved(drawn, "png")
    return drawn


def draw(chart: b.Chart, ax: Axes | None = None) -> Axes | ObjectArray:
    """Draw the chart into `ax`, or into a new figure of pyplot; see `results.result.AnyResult.plot`."""
    with _settings():
        if ax is None:
            from matplotlib import pyplot

            return _axes_of(_figure(chart, titled=True, new=pyplot.figure))
        if len(chart.panels) != 1:
            raise UsageError(
                f"'{chart.name}' has {len(chart.panels):,} panels, and ax is one; leave ax out, which makes a figure"
            )
        (panel,) = chart.panels
        _panel(ax, panel, 0)
        if not panel.title:
            ax.set_title("\n".join(textwrap.wrap(chart.title, 60)), fontsize=9)
        handles = {
            name: handle for handle, name in zip(*ax.get_legend_handles_labels(), strict=True) if _is_seen(handle, ax)
        }
        if handles:
            ax.legend(handles.values(), handles.keys(), frameon=False, fontsize=8)
    return ax


def _axes_of(drawn: Figure) -> Axes | ObjectArray:
    """Axes of its panels, in their order; of one panel its axes alone."""
    axes = [each for each in drawn.axes if each.get_label() != "<colorbar>"]
    if len(axes) == 1:
        return axes[0]
    several = np.empty(len(axes), dtype=np.object_)
    several[:] = axes
    return several


def files(chart: b.Chart) -> dict[str, bytes]:
    """The chart in each of `FORMS`."""
    drawn = figure(chart)
    return {form: _saved(drawn, form) for form in FORMS}


def write(chart: b.Chart, stem: Path) -> list[Path]:
    """The files that the chart was written to: `stem` with the suffix of each of `FORMS`."""
    written = {stem.with_suffix(f".{form}"): data for form, data in files(chart).items()}
    for path, data in written.items():
        write_whole(path, data)
    return list(written)


def inline_svg(chart: b.Chart) -> str:
    """The chart as markup for a page: real text, the page's colours, no style that its policy would forbid."""
    with _settings():
        svg = _saved(_figure(chart, titled=False), "svg")
    root = ElementTree.fromstring(svg)
    mark = hashlib.sha256(svg).hexdigest()[:8]
    captions = {
        f"said-{number}-{place}": series.notes
        for number, panel in enumerate(chart.panels)
        for place, series in enumerate(panel.series)
    }
    _cleaned(root, mark, captions)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": chart.title}
    inches = _inches(chart)[0]
    root.set("class", f"chart {'narrow' if inches < 6 else 'wide'} i{min(math.ceil(inches), _INCHES_AT_MOST)}")
    return ElementTree.tostring(root, encoding="unicode")


def style() -> str:
    light, dark = ("".join(f"--c{i}:{colour};" for i, colour in enumerate(colours)) for colours in (COLOURS, _ON_DARK))
    # Letters of 9 points are at least 11 pixels high: a figure that is wider than its page is moved sideways.
    widths = "".join(f".i{inches}{{min-width:{5.5 * inches:g}rem}}" for inches in range(3, _INCHES_AT_MOST + 1))
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f".chart.narrow{{max-width:34rem}}.chart.i4{{max-width:27rem}}.chart.wide{{max-width:60rem}}"
        f".chart text{{font-family:var(--sans)}}{widths}"
    )


@contextmanager
def _settings() -> Iterator[None]:
    try:
        import matplotlib as mpl
    except ImportError:
        raise UsageError("charts need matplotlib, which is not installed: pip install matplotlib") from None
    # Settings and typefaces of matplotlib are of the whole process, and pages are drawn in several threads.
    # Without the salt, ids in the SVG differ from one time to the next.
    with _DRAWING, mpl.rc_context({
        "svg.hashsalt": "leakmeter", "svg.fonttype": "none", "font.size": 9, "text.parse_math": False,
        "text.color": _INK, "axes.edgecolor": _SOFT, "axes.labelcolor": _INK, "xtick.color": _SOFT,
        "ytick.color": _SOFT, "axes.spines.top": False, "axes.spines.right": False, "font.family": _FACE,
    }):  # fmt: skip
        yield


def _saved(drawn: Figure, form: str) -> bytes:
    sink = io.BytesIO()
    with _settings():
        drawn.savefig(sink, format=form, dpi=160, metadata={"Software": None} if form == "png" else {"Date": None})
    return sink.getvalue()


def _inches(chart: b.Chart) -> tuple[float, float]:
    n_columns = min(chart.columns, len(chart.panels))
    n_rows = -(-len(chart.panels) // n_columns)
    return chart.panel_inches[0] * n_columns, chart.panel_inches[1] * n_rows


def _figure(chart: b.Chart, *, titled: bool, new: Callable[..., Figure] | None = None) -> Figure:
    """A figure of pyplot's if `new` makes one."""
    from matplotlib.figure import Figure

    new = new or Figure
    wide, high = _inches(chart)
    # The solver of the layout takes half of the time, and where there is one panel its margins are known.
    only = chart.panels[0]
    simple = not titled and len(chart.panels) == 1 and not only.x.names and (only.named_above or not only.y.names)
    lines = textwrap.wrap(chart.title, max(20, int(wide * 11.5))) if titled else []
    title = (0.32 if titled else 0.0) + 0.18 * len(lines[1:])
    drawn = new(figsize=(wide, high + title + (0.18 if titled else 0.0)), layout=None if simple else "constrained")
    if not titled:
        drawn.patch.set_alpha(0.0)
    n_columns = min(chart.columns, len(chart.panels))
    grid = drawn.subplots(-(-len(chart.panels) // n_columns), n_columns, squeeze=False)
    for number, (axes, panel) in enumerate(zip(grid.flat, chart.panels, strict=False)):
        if not titled:
            axes.patch.set_alpha(0.0)
        _panel(axes, panel, number)
    for axes in grid.flat[len(chart.panels) :]:
        axes.remove()
    handles: dict[str, Any] = {}
    for axes in drawn.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            if _is_seen(handle, axes):
                handles.setdefault(name, handle)
    longest = max(map(len, handles), default=0)
    n_across = max(1, min(4, len(handles), int(wide / (0.5 + 0.07 * longest))))
    legend = _LINE_INCHES * -(-len(handles) // n_across)
    if handles:
        drawn.set_figheight(drawn.get_figheight() + max(0.0, legend - _LINE_INCHES))
        drawn.legend(
            handles.values(),
            handles.keys(),
            loc="upper center",
            bbox_to_anchor=(0.0, 0.0, 1.0, 1.0 - title / drawn.get_figheight()),
            ncols=n_across,
            frameon=False,
        ).set_in_layout(False)
    if titled:
        drawn.suptitle("\n".join(lines)).set_in_layout(False)
        if chart.footer:
            drawn.supxlabel("\n".join(textwrap.wrap(chart.footer, max(40, int(wide * 13)))), fontsize=9, color=_SOFT)
    if simple:
        left, bottom = (0.1 if only.named_above else 0.65) / wide, 0.5 / drawn.get_figheight()
        top = (0.1 + legend + 0.25 * bool(only.title)) / drawn.get_figheight()
        drawn.axes[0].set_position((left, bottom, 1 - left - 0.1 / wide, 1 - bottom - top))
        return drawn
    # Title and legend stand where the solver of the layout would put one on the other.
    engine: Any = drawn.get_layout_engine()
    engine.set(rect=(0.0, 0.0, 1.0, 1.0 - (title + legend + 0.1 * bool(title + legend)) / drawn.get_figheight()))
    # The solver of the layout ends on other last digits each time, and an SVG names what is cut off by them.
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    for axes in drawn.axes:
        x, y, across, up = (round(share, 6) for share in axes.get_position(original=True).bounds)
        axes.set_position((x, y, across, up))
    return drawn


def _is_seen(handle: Any, axes: Any) -> bool:
    """Whether something of a line or of bars is drawn: else a legend does not name it."""
    if not hasattr(handle, "get_xdata"):
        return len(getattr(handle, "patches", (handle,))) > 0
    xs, ys = (np.asarray(numbers, dtype=np.float64) for numbers in (handle.get_xdata(), handle.get_ydata()))
    seen = np.isfinite(ys) & np.isfinite(xs)
    # A guide is across one axis, and may lie beyond the ends that were asked for.
    for numbers, (low, high), other in ((xs, sorted(axes.get_xlim()), ys), (ys, sorted(axes.get_ylim()), xs)):
        if len(set(numbers.tolist())) == 1 and len(other) > 1:
            seen &= (numbers >= low) & (numbers <= high)
    return bool(seen.any())


def _panel(axes: Any, panel: b.Panel, number: int) -> None:
    axes.set_title("\n".join(_label(line, 60) for line in (panel.title, *panel.notes) if line), fontsize=9)
    axes.set_xlabel(_label(panel.x.title, 80))
    axes.set_ylabel(_label(panel.y.title, 80))
    if panel.grid is not None:
        _grid(axes, panel, panel.grid)
        return
    for axis, set_scale in ((panel.x, axes.set_xscale), (panel.y, axes.set_yscale)):
        if axis.scale == "sqrt":
            set_scale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0.0)), np.square))
        elif axis.scale == "log":
            set_scale("log")
    samples = [y for series in panel.series if series.draws == "density" for y in series.y if math.isfinite(y)]
    if samples:
        margin = 0.15 * (max(samples) - min(samples)) or 1.0
        axes.set_xlim(min(samples) - margin, max(samples) + margin)  # densities reach as far as any
    for place, series in enumerate(panel.series):
        _DRAW[series.draws](axes, series, place, f"said-{number}-{place}")
    remarks = [(place, series) for place, series in enumerate(panel.series) if series.remark]
    for line, (place, series) in enumerate(remarks):
        look = {"color": _look(series, place)[0]["color"], "fontsize": 9, "va": "top"}
        axes.text(0.02, 0.97 - 0.08 * line, _label(series.remark, 60), transform=axes.transAxes, **look)
    kinds = {series.draws for series in panel.series}
    # A limit is what bars are read against.
    pen = {"color": _INK, "linewidth": 1.6} if "lengths" in kinds else {"color": _SOFT, "linewidth": 1}
    for guide in panel.guides:
        if panel.named_above:
            # Not through the names.
            rows = range(len(panel.y.names))
            at = zip(*((guide.at, row + y) for row in rows for y in (-0.22, 0.22, np.nan)), strict=True)
            axes.plot(*at, linestyle=guide.line, label=guide.label, **pen)
        else:
            line = axes.axhline if guide.across == "y" else axes.axvline
            line(guide.at, linestyle=guide.line, label=guide.label, **pen)
    _ticks(axes.xaxis, panel.x, slanted=True)
    if panel.named_above:
        _named_above(axes, panel)
    else:
        _ticks(axes.yaxis, panel.y)
    if panel.named_above:
        axes.set_ylim(len(panel.y.names) - 0.6, -0.8)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    elif "rows" in kinds:
        axes.set_ylim(max(math.ceil(max(_places(series), default=0.0) - 0.5) for series in panel.series) + 0.6, -0.6)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    elif "lengths" in kinds:
        axes.set_ylim(max(map(max, map(_places, panel.series))) + 0.6, -0.6)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    elif "density" in kinds:
        axes.set_ylim(-0.22, 1.25)
        axes.set_yticks([])
    elif panel.y.scale != "log" and panel.y.from_zero:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if panel.x.names:
        axes.set_xlim(-0.6, len(panel.x.names) - 0.4)
    for shown_axis, set_ends in ((panel.x, axes.set_xlim), (panel.y, axes.set_ylim)):
        if shown_axis.ends:
            set_ends(*shown_axis.ends)


def _named_above(axes: Any, panel: b.Panel) -> None:
    """The name of each line above it at the left, and what is written of its numbers at the right. The lines are drawn
    faintly, since no axis of names leads the eye."""
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    said = {row: label for series in panel.series for row, label in zip(_places(series), series.labels, strict=False)}
    for row, name in enumerate(panel.y.names):
        axes.axhline(row, color=_SOFT, linewidth=0.5, alpha=0.35, zorder=0)
        for at, phrase, side in ((0.0, name, "left"), (1.0, said.get(row, ""), "right")):
            across = {"transform": axes.get_yaxis_transform(), "ha": side, "va": "center"}
            axes.text(at, row - 0.42, _label(phrase), color=_INK, **across)


def _ticks(axis: Any, axis_of: b.Axis, *, slanted: bool = False) -> None:
    if axis_of.names:
        names = [_label(name) for name in axis_of.names]
        # More letters along an axis would run into each other.
        slant = {"rotation": 20, "ha": "right"} if slanted and sum(map(len, names)) > 40 else {}
        axis.set_ticks(range(len(names)), names, **slant)
        return
    ticks = axis_of.ticks or (_log_ticks(*axis.get_view_interval()) if axis_of.scale == "log" else ())
    if ticks:
        axis.set_ticks(ticks, [f"{value:g}" for value in ticks])
        axis.set_ticks([], minor=True)
    elif axis_of.scale == "sqrt":
        highest = max(axis.get_view_interval())
        # Levels below a fiftieth of the highest would be drawn over each other.
        axis.set_ticks([level for level in _LEVELS if not level or 0.02 * highest <= level <= highest])
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    if axis_of.whole:
        axis.get_major_locator().set_params(integer=True)


def _log_ticks(low: float, high: float) -> list[float]:
    """A few round numbers; where the axis is short, equal steps."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5)):
        ticks = [tick for power in powers for digit in digits if low <= (tick := float(f"{digit}e{power}")) <= high]
        if len(ticks) >= 3:
            return ticks[:: -(-len(ticks) // 5)]
    step = float(f"{(high - low) / 3:.0e}")
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)] if step else [low]


# ---- series ---------------------------------------------------------------------------------------------------------
def _look(series: b.ChartSeries, place: int) -> tuple[dict[str, Any], str]:
    """Colour and name, and the marker."""
    number = place if series.colour is None else series.colour
    look = {"color": _FADED if series.faded else COLOURS[number % len(COLOURS)]}
    if name := _label(series.name):
        look["label"] = name
    return look, _MARKERS[number % len(_MARKERS)]


def _places(series: b.ChartSeries) -> list[float]:
    return list(series.x) if series.x else [float(i) for i in range(len(series.y))]


def _arms(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[list[float]] | None:
    """Lengths to both sides; rounding can put the interval of equal values beside their mean."""
    if not low:
        return None
    ends = zip(values, low, high, strict=True)
    return [list(arms) for arms in zip(*((max(y - a, 0.0), max(z - y, 0.0)) for y, a, z in ends), strict=True)]


def _line(axes: Any, series: b.ChartSeries, place: int, gid: str, *, joined: bool = True) -> None:
    (look, marker), xs, ys = _look(series, place), _places(series), list(series.y)
    thin = {"linewidth": 0.9, "alpha": 0.7} if series.faded else {"linewidth": 1.6}
    # A band shows the intervals of many points better than bars.
    many = joined and len(ys) > 12
    if many and series.low:
        axes.fill_between(xs, list(series.low), list(series.high), alpha=0.2, color=look["color"], linewidth=0)
    elif series.low or series.x_low:
        arms = {"yerr": _arms(ys, series.low, series.high), "xerr": _arms(xs, series.x_low, series.x_high)}
        axes.errorbar(xs, ys, **arms, fmt="none", ecolor=look["color"], capsize=2, elinewidth=0.8)
    hidden = (joined and series.faded) or not series.marked or (many and not series.notes)
    if series.labels:
        axes.margins(0.1, 0.12)
    axes.plot(
        xs, ys, marker="" if hidden else marker, linestyle="-" if joined else "none",
        markersize=4 if len(ys) <= 60 else 2.5, gid=gid, **look, **(thin if joined else {"alpha": 0.75}),
    )  # fmt: skip
    for x, y, phrase in zip(xs, ys, series.labels, strict=False):
        beside = {"xytext": (-4, 4), "textcoords": "offset points", "ha": "right", "fontsize": 9}
        axes.annotate(_label(phrase), (x, y), color=look["color"], **beside)


def _bar(axes: Any, series: b.ChartSeries, place: int, gid: str) -> None:
    finite = [y for y in series.y if math.isfinite(y)]
    top = max(finite, default=1.0) or 1.0
    heights = [y if math.isfinite(y) else top for y in series.y]  # an infinite one reaches the top
    look, _ = _look(series, place)
    for number, bar in enumerate(axes.bar(_places(series), heights, width=0.75, alpha=0.75, **look)):
        bar.set_gid(f"{gid}-{number}")
    if arms := _arms(series.y, series.low, series.high):
        axes.errorbar(_places(series), heights, yerr=arms, fmt="none", ecolor=_INK, capsize=3)


def _lengths(axes: Any, series: b.ChartSeries, place: int, gid: str) -> None:
    """The first is on top; room for the longest label is kept behind the longest bar."""
    (look, _), places = _look(series, place), _places(series)
    longest = max((length for length in series.y if math.isfinite(length)), default=0.0) or 1.0
    ends = [min(length, 2 * longest) if length > 0 else 0.0 for length in series.y]  # an infinite one is twice as long
    for number, bar in enumerate(axes.barh(places, ends, height=0.6, **look)):
        bar.set_gid(f"{gid}-{number}")
    letters = max((len(_label(label)) for label in series.labels), default=0)
    axes.set_xlim(0.0, max(ends) / (1.0 - min(0.6, 0.03 * letters)) if max(ends) else 1.0)
    for end, at, phrase in zip(ends, places, series.labels, strict=False):
        axes.annotate(_label(phrase), (end, at), xytext=(4, 0), textcoords="offset points", va="center")


def _rows(axes: Any, series: b.ChartSeries, place: int, gid: str) -> None:
    (look, marker), places = _look(series, place), _places(series)
    if arms := _arms(series.y, series.low, series.high):
        axes.errorbar(list(series.y), places, xerr=arms, fmt="none", ecolor=look["color"], capsize=3)
    axes.plot(list(series.y), places, marker=marker, markersize=5, linestyle="none", gid=gid, **look)


def _strokes(axes: Any, series: b.ChartSeries, place: int, gid: str) -> None:
    look, _ = _look(series, place)
    # One path for all: a page has no room for an element each.
    xs = np.repeat(np.asarray(series.y, dtype=np.float64), 3)
    ys = np.asarray([at for row in _places(series) for at in (row - 0.16, row + 0.16, np.nan)])
    axes.plot(xs, ys, linewidth=0.8, alpha=0.8, gid=gid, **look)


def _steps(axes: Any, series: b.ChartSeries, place: int, gid: str) -> None:
    (look, _), xs = _look(series, place), _places(series)
    axes.step(xs, list(series.y), where="mid", color=look["color"], alpha=0.5, linewidth=0.9 if series.faded else 1.4)
    if not series.faded:
        axes.plot(xs, list(series.y), marker=_MARKERS[0], markersize=4, linestyle="none", gid=gid, **look)


def _rings(axes: Any, series: b.ChartSeries, place: int, gid: str) -> None:
    ring = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "markeredgewidth": 2, "linestyle": "none"}
    axes.plot(_places(series), list(series.y), gid=gid, **ring, **_look(series, place)[0])


def _density(axes: Any, series: b.ChartSeries, place: int, gid: str) -> None:
    """Scaled to its height, with a tick for each number and a dashed line at their mean."""
    look, _ = _look(series, place)
    sample = np.asarray([y for y in series.y if math.isfinite(y)], dtype=np.float64)
    low, high = axes.get_xlim()
    across = np.linspace(low, high, 200)
    curve = density(sample, across)
    if len(sample):
        axes.axvline(float(sample.mean()), ymax=1.22 / 1.47, color=look["color"], linewidth=1, linestyle="--")
    if curve is not None:
        axes.plot(across, curve / curve.max(), color=look["color"], linewidth=1.6)
        axes.fill_between(across, curve / curve.max(), color=look["color"], alpha=0.15, linewidth=0)
    at = -0.06 - 0.08 * (place % 2)
    # Numbers that would be drawn over each other, at one of 400 places, are drawn once: a page has no room for all.
    _, first = np.unique(np.round((sample - low) / (high - low) * 400), return_index=True)
    ticks = sample[first]
    xs, ys = np.repeat(ticks, 3), np.tile((at - 0.03, at + 0.03, np.nan), len(ticks))
    axes.plot(xs, ys, linewidth=1, gid=gid, **look)


def density(sample: FloatArray, at: FloatArray) -> FloatArray | None:
    """Gaussian kernels with Scott's bandwidth, n^(−1/5) standard deviations, at the points of an even grid; None for
    less than five numbers, or where the density would fall between the points."""
    from scipy.stats import gaussian_kde

    bandwidth = float(sample.std(ddof=1)) * len(sample) ** -0.2 if len(sample) > 1 else 0.0
    if len(sample) < 5 or bandwidth < at[1] - at[0]:
        return None
    return np.asarray(gaussian_kde(sample)(at), dtype=np.float64)


_DRAW: Final[dict[b.SeriesStyle, Callable[[Any, b.ChartSeries, int, str], None]]] = {
    "line": _line, "scatter": partial(_line, joined=False), "bar": _bar, "rows": _rows, "steps": _steps,
    "density": _density, "rings": _rings, "ticks": _strokes, "lengths": _lengths,
}  # fmt: skip


def _grid(axes: Any, panel: b.Panel, grid: Sequence[Sequence[float]]) -> None:
    from matplotlib.colors import FuncNorm, ListedColormap

    nats = np.asarray(grid, dtype=np.float64)
    colours = ListedColormap(["#ffffff", *(swatch.paper for swatch in scale.ramp(dark=False))])
    knee = scale.KNEE_NATS
    norm = FuncNorm(
        (lambda x: np.log1p(np.maximum(x, 0.0) / knee), lambda y: knee * np.expm1(y)), vmin=0.0, vmax=scale.TOP_NATS
    )
    mesh = axes.pcolormesh(nats, cmap=colours, norm=norm, edgecolors="0.93", linewidth=0.4, rasterized=True)
    axes.set_yticks(np.arange(len(nats)) + 0.5, [_label(name) for name in panel.y.names], fontsize=8)
    axes.set_xticks(
        np.arange(nats.shape[1]) + 0.5, [_label(name, 14) for name in panel.x.names], rotation=90, fontsize=8
    )
    axes.invert_yaxis()
    bar = axes.figure.colorbar(mesh, ax=axes, ticks=[0.0, *scale.TICKS_NATS], pad=0.01)
    bar.ax.set_yticklabels([f"{tick:g}" for tick in (0.0, *scale.TICKS_NATS)])
    bar.set_label("nats")


def _label(phrase: b.Phrase, characters: int = 48) -> str:
    glyphs = _known()
    return "".join(x if ord(x) in glyphs else "\ufffd" for x in excerpt(b.plain(phrase), characters))


@lru_cache(maxsize=1)
def _known() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(_FACE)).get_charmap())


# ---- within a page --------------------------------------------------------------------------------------------------
def _cleaned(element: Any, mark: str, captions: dict[str, Sequence[b.Phrase]]) -> None:
    """Make an element of matplotlib's SVG, and all within it, fit for a page with a strict policy."""
    for child in list(element):
        unseen = child.tag == f"{{{_SVG}}}path" and "opacity: 0" in child.get("style", "").split("; ")
        if unseen or child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
            element.remove(child)
    own_id = element.attrib.pop("id", "")
    for rule in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in rule.partition(":"))
        if name == "font":
            element.set("font-size", value.split()[0])
        elif name and name != "font-family":
            element.set(name, _COLOUR.get(value, value))
    if own_id and element.tag == f"{{{_SVG}}}path":
        element.set("id", f"{mark}{own_id}")  # what others refer to
    if _HREF in element.attrib:
        href = element.attrib.pop(_HREF)
        element.set("href", f"#{mark}{href[1:]}" if href.startswith("#") else href)
    for name in ("d", "x", "y", "transform"):
        if name in element.attrib:
            element.set(name, _NUMBER.sub(lambda match: f"{float(match[0]):.1f}", element.get(name).replace("\n", "")))
    base, _, place = own_id.rpartition("-")
    if own_id in captions:
        marks = list(element.iter(f"{{{_SVG}}}use"))
        for use, phrase in zip(marks, captions[own_id], strict=False):
            _titled(use, phrase)
    elif base in captions and place.isdigit() and int(place) < len(captions[base]):
        _titled(element, captions[base][int(place)])
    if element.get("transform", "").startswith("rotate(-0"):
        del element.attrib["transform"]
    element.attrib.pop("clip-path", None)  # axes reach as far as what is drawn in them
    for child in list(element):
        _cleaned(child, mark, captions)
        child.tail = None
        group, titled = child.tag == f"{{{_SVG}}}g", child.find(f"{{{_SVG}}}title") is not None
        if not child.attrib and not child.text and (not len(child) or (group and not titled)):
            at = list(element).index(child)
            element[at : at + 1] = list(child)  # a group that says nothing of its own
    if not (element.text or "").strip():
        element.text = None


def _titled(element: Any, phrase: b.Phrase) -> None:
    title = ElementTree.SubElement(element, f"{{{_SVG}}}title")
    title.text = b.plain(phrase)


_COLOUR: Final = {
    **{colour: f"var(--c{i})" for i, colour in enumerate(COLOURS)},
    _INK: "currentColor", _SOFT: "var(--soft)", _FADED: "var(--soft)", "#ffffff": "var(--paper)",
}  # fmt: skip
ElementTree.register_namespace("", _SVG)
