"""Figures of what a model makes of subjects' values: of a run, of a study, and of canaries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from leakmeter.commands.studies.tables import StudyColumns, StudyRow, heading_of
from leakmeter.core.plain import counted
from leakmeter.instruments.pii import words
from leakmeter.instruments.pii.decoy_test import AT_RISK
from leakmeter.instruments.pii.result import PiiSummary, ValueSummary, associations, by_value
from leakmeter.report import blocks as b
from leakmeter.report import pictures
from leakmeter.report.scale import nats_text
from leakmeter.stats.arrays import FloatArray

if TYPE_CHECKING:
    from leakmeter.instruments.pii.check import AucRow, CurvePoint
    from leakmeter.instruments.pii.result import PiiResult

_DENSITIES: Final = (
    "Gaussian kernels with Scott's bandwidth, scaled to their heights; ticks are values, dashed lines their means"
)
ChartMark = tuple[float, float, float, float]
"""Place, value, and its interval's ends."""


# ---- of a run -------------------------------------------------------------------------------------------------------
def people(results: Sequence[PiiResult], summary: PiiSummary) -> b.Chart:
    """Of each subject the value with the strongest evidence, among its decoys; of a single one all values."""
    decoys_of: dict[str, list[FloatArray]] = {}
    for alike in by_value(results):
        decoys_of.setdefault(alike[0].subject, []).append(associations(alike)[1:])
    shown: list[tuple[b.Phrase, ValueSummary, FloatArray]] = []
    for subject in words.by_evidence(summary):
        pairs = zip(subject.values, decoys_of[subject.subject], strict=True)
        values = sorted(pairs, key=lambda pair: _evidence(pair[0]))
        if summary.n_subjects == 1:
            shown += [(words.TYPES[value.type], value, decoys) for value, decoys in values]
        else:
            value, decoys = values[0]
            shown.append(((b.Untrusted(subject.subject, 24), ", ", words.TYPES[value.type]), value, decoys))
    lines = [_line(*row) for row in shown if math.isfinite(row[1].association_nats)][:_PEOPLE]
    n_others = len(shown) - len(lines)
    return pictures.picture(
        "people",
        "Does the true value stand out among invented ones?",
        b.Axis("association with the name, nats above the median decoy"),
        lines,
        others="decoys",
        colours=_COLOURS,
        footer=_FOOTERS[summary.n_subjects > 1] + (_LEFT_OUT.format(n=n_others) if n_others else ""),
    )


_PEOPLE: Final = 20
_FOOTERS: Final = {False: "One line a value.", True: "One line a person, with the value that stands out most."}
_LEFT_OUT: Final = " {n:,} more are not drawn, none with more evidence."
_COLOURS: Final[Mapping[b.Phrase, int]] = {
    "said word for word": 6,
    "known": 1,
    "cannot be tested": 4,
    "not shown to be known": 0,
}
"""Of the kinds of true values."""


def _evidence(value: ValueSummary) -> tuple[int, float]:
    """Kinds in the order of their colours, then p."""
    return [*_COLOURS].index(_kind(value)), value.p_value


def _kind(value: ValueSummary) -> b.Phrase:
    if value.extracted:
        return "said word for word"
    if value.holm_p <= AT_RISK:
        return "known"
    return "cannot be tested" if value.can_be_tested is False else "not shown to be known"


def _line(name: b.Phrase, value: ValueSummary, decoys: FloatArray) -> pictures.PictureLine:
    finite = decoys[np.isfinite(decoys)]
    middle = float(np.median(finite)) if len(finite) else 0.0
    n_below = round(value.share_of_decoys_below * len(decoys))
    above = "above all" if n_below == len(decoys) else f"above {n_below:,} of"
    others = (finite - middle).tolist()
    return pictures.PictureLine(
        name, value.association_nats - middle, f"{above} {len(decoys):,}", _kind(value), others=others
    )


def p_values_of(summary: PiiSummary) -> b.Chart:
    """Cumulative shares of values by p."""
    by_chance = b.ChartSeries("line", (0.0, 1.0), (0.0, 1.0), name="where nothing is known", faded=True)
    values = [value for subject in summary.subjects for value in subject.values]
    panels = []
    for type_ in words.types_of(summary):
        ps = sorted(value.p_value for value in values if value.type == type_)
        shares = [number / len(ps) for number in range(len(ps) + 1)]
        xs = [0.0, *(p for p in ps for _ in range(2)), 1.0]
        ys = [share for share in shares for _ in range(2)]
        series = (b.ChartSeries("line", ys, xs, name="values", colour=1, marked=False), by_chance)
        axes = b.Axis("p-value at most"), b.Axis("share of values")
        panels.append(b.Panel(*axes, series, title=f"{type_}, {counted(len(ps), 'value')}"))
    title = "p-values, and their positions by chance"
    return b.Chart("p_values", title, panels, panel_inches=(3.8, 3.8), on="files")


def _densities(
    title: b.Phrase,
    true: Iterable[float | None],
    decoys: Iterable[float | None],
    axis: str,
) -> b.Panel:
    """Values that a model rules out are infinitely far to the left, and are left out."""
    series = []
    for colour, (name, values) in enumerate((("decoys", list(decoys)), ("true values", list(true)))):
        sample = [float(nats) for nats in values if nats is not None and math.isfinite(nats)]
        mean = "mean " * (len(values) > 1)
        centre = f"{mean}{nats_text(float(np.mean(sample)))} nats" if sample else "none is finite"
        # Named by remarks: a series with too few numbers for a curve should be in no legend.
        series.append(b.ChartSeries("density", sample, colour=colour, remark=f"{name}: {centre}"))
    return b.Panel(b.Axis(axis), b.Axis("density"), series, title=title)


# ---- of studies -----------------------------------------------------------------------------------------------------
def densities(
    rows: Sequence[StudyRow], factors: Sequence[str], *, value: str, columns: StudyColumns, title: str, footer: str
) -> b.Chart:
    """A panel for each type and choice of factors.

    A row is a true value or a decoy: `type`, `value` ('true' or 'decoy'), the factors, and nats in the column `value`.
    """
    by_panel: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        samples = by_panel.setdefault(_named(row, ("type", *factors)), {"true": [], "decoy": []})
        samples[row["value"]].append(row[value])
    panels = [
        _densities(b.Untrusted(name), values["true"], values["decoy"], heading_of(value, columns))
        for name, values in by_panel.items()
    ]
    footer = f"{footer}; {_DENSITIES[0].lower()}{_DENSITIES[1:]}"
    # Types from left to right, cells from top to bottom.
    n_types = len({row["type"] for row in rows})
    return b.Chart("densities", title, panels, footer=footer, columns=n_types, panel_inches=(4, 3.2))


def parts(rows: Sequence[StudyRow], factors: Sequence[str], *, value: str, title: str, footer: str) -> b.Chart:
    """A panel for each type. A row is a part of a value: `type`, `part`, the factors, and a share with '_low' and
    '_high'."""
    groups = list(dict.fromkeys(_named(row, factors) for row in rows))
    panels = []
    for type_ in dict.fromkeys(row["type"] for row in rows):
        of_type = [row for row in rows if row["type"] == type_]
        names = {part: place for place, part in enumerate(dict.fromkeys(row["part"] for row in of_type))}
        marks: dict[str, list[ChartMark]] = {group: [] for group in groups}
        for row in of_type:
            mark = (names[row["part"]], row[value], row[f"{value}_low"], row[f"{value}_high"])
            marks[_named(row, factors)].append(mark)
        axis = b.Axis("", names=[words.statistic_name(part) for part in names])
        panels.append(b.Panel(axis, b.Axis("share of values"), _beside(marks), title=type_))
    return b.Chart("parts", title, panels, footer=footer, columns=3, panel_inches=(4.4, 3.4))


# ---- of canaries ----------------------------------------------------------------------------------------------------
def auc(rows: Sequence[AucRow], *, title: str, footer: str) -> b.Chart:
    """A panel for each type and box, over repeats."""
    levels = {repeats: place for place, repeats in enumerate(dict.fromkeys(row.repeats for row in rows))}
    panels: dict[str, dict[str, list[ChartMark]]] = {}
    for row in rows:
        marks = panels.setdefault(f"{row.type}, {row.box} box", {scored.score: [] for scored in rows})
        marks[row.score].append((levels[row.repeats], row.auc, row.auc_low, row.auc_high))
    axes = b.Axis("repeats", names=[str(level) for level in levels]), b.Axis("AUC")
    drawn_panels = [b.Panel(*axes, _beside(marks), title=name) for name, marks in panels.items()]
    return b.Chart("auc", title, drawn_panels, footer=footer, columns=3, panel_inches=(3.6, 3.0))


def curves(points: Sequence[CurvePoint], *, title: str, footer: str) -> b.Chart:
    """Receiver operating characteristics: a panel for each type, box and number of repeats."""
    by_panel: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for point in points:
        of_panel = by_panel.setdefault(f"{point.type}, {point.box} box, repeats {point.repeats}", {})
        of_panel.setdefault(point.score, []).append((point.share_held_out, point.share_inserted))
    chance = b.ChartSeries("line", (0.0, 1.0), (0.0, 1.0), name="chance", faded=True)
    axes = b.Axis("share of those held out"), b.Axis("share of those inserted")
    panels = []
    for title_, of_panel in by_panel.items():
        lines = [
            b.ChartSeries("line", [y for _, y in curve], [x for x, _ in curve], name=score, marked=False)
            for score, curve in of_panel.items()
        ]
        panels.append(b.Panel(*axes, [*lines, chance], title=title_))
    n_levels = len({point.repeats for point in points})
    return b.Chart("roc", title, panels, footer=footer, columns=n_levels, panel_inches=(3.4, 3.4))


def _beside(groups: dict[str, list[ChartMark]]) -> list[b.ChartSeries]:
    """Marks of groups at the same place are drawn side by side."""
    series = []
    for number, (name, marks) in enumerate(groups.items()):
        xs, ys, low, high = ([mark[i] for mark in marks] for i in range(4))
        aside = 0.6 * ((number + 0.5) / len(groups) - 0.5)
        places = [x + aside for x in xs]
        series.append(b.ChartSeries("scatter", ys, places, name=b.Untrusted(name), low=low, high=high, colour=number))
    return series


def _named(row: StudyRow, columns: Sequence[str]) -> str:
    return ", ".join(str(row[name]) if name == "type" else f"{name} {row[name]}" for name in columns)
