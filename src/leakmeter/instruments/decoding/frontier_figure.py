"""The frontier of a sweep as a figure: leakage across, utility up, a band of intervals, and the knee."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.report.figures import Look, draw_panels
from leakmeter.report.tables import HEADINGS, SYMBOLS, share_text

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.frontier import Frontier, FrontierChoice
    from leakmeter.studies.kind import Row

_LOOK = Look((5.2, 4.4), font_size=10, dpi=200, footer_letters=108)
_CURVE, _KNEE, _QUIET = "#0072B2", "#D55E00", "0.55"  # Okabe and Ito's: told apart by all eyes, and in grey


def draw_frontier(told: Frontier, *, footer: str, stem: Path) -> list[Path]:
    """Draw a panel for each utility; the same numbers give the same bytes with the same matplotlib.

    Args:
        told: see `instruments.decoding.frontier.Frontier`.
        footer: small, under the figure.
        stem: path without a suffix; '.png' and '.svg' are written.

    Raises:
        UsageError: matplotlib is not installed.
    """
    return draw_panels(
        list(told.choices),
        lambda panel, utility: _panel(panel, told, utility),
        look=_LOOK,
        footer=footer,
        stem=stem,
    )


def _panel(panel: Any, told: Frontier, utility: str) -> None:
    rows, kind, choice = told.settings, told.kind, told.choices[utility]
    xs, x_low, x_high = _series(rows, "nats", 1.0)
    ys, y_low, y_high = _series(rows, utility, 100.0)
    # Where leakage does not rise with the setting, the band still runs from left to right.
    order = sorted(range(len(rows)), key=lambda i: xs[i])
    edges = [[edge[i] for i in order] for edge in (xs, y_low, y_high)]
    panel.fill_between(*edges, color=_CURVE, alpha=0.15, linewidth=0, label="95 % interval over cases")
    panel.plot([xs[i] for i in order], [ys[i] for i in order], color=_CURVE, linewidth=1, zorder=2)
    panel.errorbar(
        xs,
        ys,
        xerr=_lengths(xs, x_low, x_high),
        yerr=_lengths(ys, y_low, y_high),
        fmt="none",
        ecolor=_CURVE,
        alpha=0.55,
        elinewidth=0.9,
        capsize=2,
    )
    values = [row[kind] for row in rows]
    efficient = [values.index(value) for value in choice.efficient]
    beaten = [i for i in range(len(rows)) if i not in efficient]
    for of_kind, fill, label in (
        (efficient, _CURVE, None),
        (beaten, "white", "another setting, or a mix of two, is better"),
    ):
        if of_kind:
            places = [[series[i] for i in of_kind] for series in (xs, ys)]
            panel.scatter(*places, s=26, c=fill, edgecolors=_CURVE, linewidths=1.2, zorder=3, label=label)
    knee = None if choice.knee is None else values.index(choice.knee)
    if knee is not None:
        chord = [[series[i] for i in (efficient[0], efficient[-1])] for series in (xs, ys)]
        panel.plot(*chord, color=_QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1, label="chord between the ends")
        share = share_text(rows[knee][f"{utility}_knee_share"])
        what, line = ("knee", "-") if choice.settled else ("unsettled knee", "--")
        label = f"{what}: {SYMBOLS[kind]} = {values[knee]:g}, in {share} of resamples"
        ring = {"c": "none", "edgecolors": _KNEE, "linewidths": 2.2, "linestyles": line, "label": label}
        panel.scatter([xs[knee]], [ys[knee]], s=170, zorder=4, **ring)
    for i, value in enumerate(values):
        _name(panel, f"{value:g}", (xs[i], ys[i]), is_above=_bends_down(xs, ys, order, i), is_knee=i == knee)
    panel.set_xlabel(f"leakage: {HEADINGS['nats']} a response")
    panel.set_ylabel(f"utility: {HEADINGS[utility]}, × 100")
    panel.set_title(f"{HEADINGS[utility]} over leakage, by {SYMBOLS[kind]}; {told.n_cases:,} cases", fontsize=10)
    if knee is None:
        panel.plot([], [], " ", label=_no_knee(choice))
    panel.margins(0.1, 0.12)
    panel.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=1)
    panel.grid(color="0.92", linewidth=0.7)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _name(panel: Any, text: str, place: tuple[float, float], *, is_above: bool, is_knee: bool) -> None:
    """A point's setting beside it, on the outer side of the curve's bend, which then does not cross it."""
    from matplotlib.patheffects import withStroke

    far = 8 if is_knee else 4
    panel.annotate(
        text,
        place,
        xytext=(-far, far) if is_above else (far, -far),
        textcoords="offset points",
        ha="right" if is_above else "left",
        va="bottom" if is_above else "top",
        fontsize=9,
        color=_KNEE if is_knee else "0.15",
        fontweight="bold" if is_knee else "normal",
        path_effects=[withStroke(linewidth=2, foreground="white")],
        zorder=5,
    )


def _bends_down(xs: Sequence[float], ys: Sequence[float], order: Sequence[int], i: int) -> bool:
    """Whether the curve, from left to right, lies above the line between a point's neighbours there; true of ends."""
    at = order.index(i)
    if at in (0, len(order) - 1):
        return True
    before, after = order[at - 1], order[at + 1]
    run = xs[after] - xs[before]
    share = (xs[i] - xs[before]) / run if run else 0.5
    return bool(ys[i] >= ys[before] + share * (ys[after] - ys[before]))


def _no_knee(choice: FrontierChoice) -> str:
    reasons = {
        "same utility": "no knee: utility does not rise beyond its interval",
        "same leakage": "no knee: leakage does not differ beyond its interval",
        "no knee": "no knee: no setting lies above the chord between the ends",
        "one case": "no knee: one case has no interval",
        "one setting": "no knee: one setting",
    }
    return reasons[choice.verdict]


def _series(rows: Sequence[Row], name: str, scale: float) -> tuple[list[float], ...]:
    """Means and the two edges of their intervals; an item alone has none, and the edges lie on it."""
    means = [scale * row[name] for row in rows]
    edges = (
        [
            mean if row[f"{name}_{end}"] is None else scale * row[f"{name}_{end}"]
            for row, mean in zip(rows, means, strict=True)
        ]
        for end in ("low", "high")
    )
    return (means, *edges)


def _lengths(means: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[list[float]]:
    # Rounding can put the interval of equal values beside their mean.
    below = [max(mean - edge, 0.0) for mean, edge in zip(means, low, strict=True)]
    above = [max(edge - mean, 0.0) for mean, edge in zip(means, high, strict=True)]
    return [below, above]
