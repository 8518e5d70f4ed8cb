"""Figures of what a model makes of subjects' values: of a run, of a study, and of canaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.instruments.pii import words
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text
from leakmeter.studies.tables import HEADINGS

Row = Mapping[str, Any]
_DENSITIES: Final = (
    "Gaussian kernels with Scott's bandwidth, scaled to their heights; ticks are values, dashed lines their means"
)


# ---- of a run -------------------------------------------------------------------------------------------------------
def densities_of(summary: words.Summary) -> b.Chart:
    """Associations of true values and of decoys, a panel for each type."""
    panels = [_densities(type_, *_associations(values), "association, nats") for type_, values in _by_type(summary)]
    return b.Chart(
        "densities",
        "Associations of true values and of decoys with their names",
        panels,
        footer=_DENSITIES,
        columns=3,
        panel_inches=(3.8, 3.0) if len(panels) > 1 else (5.6, 3.0),
    )


def p_values_of(summary: words.Summary) -> b.Chart:
    """Shares of values by p, beside what they would be where nothing is known, a panel for each type."""
    return b.Chart(
        "p_values",
        "p-values, and where they would be by chance",
        [_p_values(type_, values) for type_, values in _by_type(summary)],
        panel_inches=(3.8, 3.8),
        on="files",
    )


def _by_type(summary: words.Summary) -> list[tuple[str, list[Row]]]:
    values = [value for subject in summary["subjects"] for value in subject["values"]]
    return [(type_, [value for value in values if value["type"] == type_]) for type_ in words.types_of(summary)]


def _associations(values: Sequence[Row]) -> tuple[list[float], list[float]]:
    true = [value["association_nats"] for value in values]
    return true, [nats for value in values for nats in value["null_associations_nats"]]


def _densities(title: b.Phrase, true: Sequence[float | None], decoys: Sequence[float | None], axis: str) -> b.Panel:
    """Values that a model rules out lie infinitely far to the left, and are left out."""
    series = []
    for colour, (name, values) in enumerate((("decoys", decoys), ("true values", true))):
        sample = [nats for nats in values if nats is not None and math.isfinite(nats)]
        mean = "mean " * (len(values) > 1)
        said = f"{mean}{nats_text(float(np.mean(sample)))} nats" if sample else "none is finite"
        series.append(b.Series("density", sample, name=name, colour=colour, remark=f"{name}: {said}"))
    return b.Panel(b.Axis(axis), b.Axis("density"), series, title=title)


def _p_values(type_: str, values: Sequence[Row]) -> b.Panel:
    """The share of values whose p is at most so much, as steps."""
    ps = sorted(float(value["p_value"]) for value in values)
    shares = [number / len(ps) for number in range(len(ps) + 1)]
    xs = [0.0, *(p for p in ps for _ in range(2)), 1.0]
    ys = [share for share in shares for _ in range(2)]
    by_chance = b.Series("line", (0.0, 1.0), (0.0, 1.0), name="where nothing is known", faded=True)
    series = (b.Series("line", ys, xs, name="values", colour=1, marked=False), by_chance)
    title = f"{type_}, {words.counted(len(ps), 'value')}"
    return b.Panel(b.Axis("p-value at most"), b.Axis("share of values"), series, title=title)


# ---- of studies -----------------------------------------------------------------------------------------------------
def densities(rows: Sequence[Row], factors: Sequence[str], *, value: str, title: str, footer: str) -> b.Chart:
    """Densities of true values and of decoys, a panel for each type and choice of factors.

    Args:
        rows: one a value, with `type`, `value` ('true' or 'invented'), the factors and numbers in nats.
        factors: columns that tell cells apart.
        value: column of the numbers, one of `tables.HEADINGS`.
        title: over the figure.
        footer: small, under it.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        samples = found.setdefault(_named(row, ("type", *factors)), {"true": [], "invented": []})
        samples[row["value"]].append(row[value])
    panels = [_densities(b.Untrusted(name), of["true"], of["invented"], HEADINGS[value]) for name, of in found.items()]
    footer = f"{footer}; {_DENSITIES[0].lower()}{_DENSITIES[1:]}"
    # Types from left to right, cells from top to bottom.
    n_types = len({row["type"] for row in rows})
    return b.Chart("densities", title, panels, footer=footer, columns=n_types, panel_inches=(4, 3.2))


def parts(rows: Sequence[Row], factors: Sequence[str], *, value: str, title: str, footer: str) -> b.Chart:
    """The share of every part of a value with its interval, a panel for each type; see `densities`.

    Args:
        rows: one a part, with `type`, `part`, the factors, and shares with '_low' and '_high'.
        factors: columns that tell marks of one colour from another.
        value: column of the shares.
        title: over the figure.
        footer: small, under it.
    """
    groups = list(dict.fromkeys(_named(row, factors) for row in rows))
    panels = []
    for type_ in dict.fromkeys(row["type"] for row in rows):
        of_type = [row for row in rows if row["type"] == type_]
        names = list(dict.fromkeys(row["part"] for row in of_type))
        series = [
            _beside(
                [row for row in of_type if _named(row, factors) == group], number, len(groups), group,
                places={part: place for place, part in enumerate(names)}, x="part", y=value,
            )
            for number, group in enumerate(groups)
        ]  # fmt: skip
        axis = b.Axis("", names=[words.statistic_name(part) for part in names])
        panels.append(b.Panel(axis, b.Axis("share of values"), series, title=type_))
    return b.Chart("parts", title, panels, footer=footer, columns=3, panel_inches=(4.4, 3.4))


# ---- of canaries ----------------------------------------------------------------------------------------------------
def auc(rows: Sequence[Row], *, title: str, footer: str) -> b.Chart:
    """The AUC of each score over repeats, a panel for each type and box.

    Args:
        rows: of `instruments.pii.check.checked`.
        title: over the figure.
        footer: small, under it.
    """
    levels = {repeats: place for place, repeats in enumerate(dict.fromkeys(row["repeats"] for row in rows))}
    scores = list(dict.fromkeys(row["score"] for row in rows))
    panels = []
    for name in dict.fromkeys(map(_panel_of, rows)):
        own = [row for row in rows if _panel_of(row) == name]
        series = [
            _beside(
                [row for row in own if row["score"] == score], number, len(scores), score,
                places=levels, x="repeats", y="auc",
            )
            for number, score in enumerate(scores)
        ]  # fmt: skip
        axis = b.Axis("repeats", names=[str(level) for level in levels])
        panels.append(b.Panel(axis, b.Axis("AUC"), series, title=name))
    return b.Chart("auc", title, panels, footer=footer, columns=3, panel_inches=(3.6, 3.0))


def curves(points: Sequence[Row], *, title: str, footer: str) -> b.Chart:
    """Receiver operating characteristics, a panel for each type, box and number of repeats.

    Args:
        points: of `instruments.pii.check.checked`, each curve's in order.
        title: over the figure.
        footer: small, under it.
    """
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in points:
        of_panel = found.setdefault(f"{_panel_of(row)}, repeats {row['repeats']}", {})
        of_panel.setdefault(row["score"], []).append((row["share_held_out"], row["share_planted"]))
    chance = b.Series("line", (0.0, 1.0), (0.0, 1.0), name="chance", faded=True)
    axes = b.Axis("share of those held out"), b.Axis("share of those planted")
    panels = [
        b.Panel(
            *axes,
            [
                *(
                    b.Series("line", [y for _, y in curve], [x for x, _ in curve], name=score, marked=False)
                    for score, curve in of_panel.items()
                ),
                chance,
            ],
            title=name,
        )
        for name, of_panel in found.items()
    ]
    n_levels = len({row["repeats"] for row in points})
    return b.Chart("roc", title, panels, footer=footer, columns=n_levels, panel_inches=(3.4, 3.4))


def _panel_of(row: Row) -> str:
    return f"{row['type']}, {row['box']} box"


def _beside(
    rows: Sequence[Row], number: int, of: int, name: str, *, places: Mapping[Any, int], x: str, y: str
) -> b.Series:
    """Marks with intervals, beside those of other groups at the same place."""
    aside = 0.6 * ((number + 0.5) / of - 0.5)
    return b.Series(
        "scatter", [row[y] for row in rows], [places[row[x]] + aside for row in rows], name=b.Untrusted(name),
        low=[row[f"{y}_low"] for row in rows], high=[row[f"{y}_high"] for row in rows], colour=number,
    )  # fmt: skip


def _named(row: Row, columns: Sequence[str]) -> str:
    """A row by some of its columns: the type by itself, others behind their names."""
    return ", ".join(str(row[name]) if name == "type" else f"{name} {row[name]}" for name in columns)
