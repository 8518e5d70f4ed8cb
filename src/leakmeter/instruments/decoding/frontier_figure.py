"""The frontier of a sweep as a figure: leakage across, utility up, intervals both ways, and the knee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leakmeter.report import blocks as b
from leakmeter.studies.tables import HEADINGS, SYMBOLS, share_text

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.frontier import Frontier, FrontierChoice
    from leakmeter.studies.kind import Row


def figure_of(told: Frontier, *, footer: str) -> b.Chart:
    panels = [
        b.Panel(
            b.Axis(f"leakage: {HEADINGS['nats']} a response"),
            b.Axis(f"utility: {HEADINGS[utility]}, × 100", from_zero=False),
            list(_series(told, utility)),
            title=HEADINGS[utility],
        )
        for utility in told.choices
    ]
    title = f"Utility over leakage, by {SYMBOLS[told.kind]}; {told.n_cases:,} cases"
    return b.Chart("frontier", title, panels, footer=footer, panel_inches=(5.2, 4.2))


def _series(told: Frontier, utility: str) -> Iterator[b.Series]:
    rows, kind, choice = told.settings, told.kind, told.choices[utility]
    values = [row[kind] for row in rows]
    knee = None if choice.knee is None else values.index(choice.knee)
    efficient = [i for i, value in enumerate(values) if value in choice.efficient]
    remark = _no_knee(choice) if knee is None else ""
    yield _points(told, utility, range(len(rows)), "line", "settings, 95 % intervals over cases", 0, remark)
    beaten = [i for i in range(len(rows)) if i not in efficient]
    if beaten:
        yield _points(told, utility, beaten, "scatter", "another setting, or a mix of two, is better", None)
    if knee is not None:
        ends = [rows[i] for i in (efficient[0], efficient[-1])]
        xs, ys = ([scale * row[name] for row in ends] for name, scale in (("nats", 1.0), (utility, 100.0)))
        yield b.Series("line", ys, xs, name="chord between the ends", faded=True)
        share = share_text(rows[knee][f"{utility}_knee_share"])
        what = "knee" if choice.settled else "unsettled knee"
        label = f"{what}: {SYMBOLS[kind]} = {values[knee]:g}, in {share} of resamples"
        yield _points(told, utility, [knee], "rings", "knee", 1, label)


def _points(
    told: Frontier, utility: str, which: Sequence[int], draws: b.Draws, name: str, colour: int | None,
    remark: str = "",
) -> b.Series:  # fmt: skip
    """Some settings in the order of their leakage, whatever that of their names."""
    shown = sorted((told.settings[i] for i in which), key=lambda row: row["nats"])
    xs, x_low, x_high = _ends(shown, "nats", 1.0)
    ys, low, high = _ends(shown, utility, 100.0)
    points = b.Series(draws, ys, xs, name=name, colour=colour, faded=colour is None, remark=remark)
    if draws != "line":
        return points
    labels = [f"{row[told.kind]:g}" for row in shown]
    return replace(points, low=low, high=high, x_low=x_low, x_high=x_high, labels=labels)


def _no_knee(choice: FrontierChoice) -> str:
    reasons = {
        "same utility": "no knee: utility does not rise beyond its interval",
        "same leakage": "no knee: leakage does not differ beyond its interval",
        "no knee": "no knee: no setting lies above the chord between the ends",
        "one case": "no knee: one case has no interval",
        "one setting": "no knee: one setting",
    }
    return reasons[choice.verdict]


def _ends(rows: Sequence[Row], name: str, scale: float) -> tuple[list[float], ...]:
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
