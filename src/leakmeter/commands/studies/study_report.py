"""A study's directory as a report: its tables and figures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from leakmeter.commands.studies.tables import (
    ReadableTable,
    StudyColumns,
    StudyRow,
    heading_of,
    interval_of,
    is_numeric,
    label_of,
    shown_names,
    to_latex,
    to_markdown,
)
from leakmeter.core.plain import counted, to_json
from leakmeter.core.record import Record
from leakmeter.errors import DataError, StoreError
from leakmeter.report import blocks as b
from leakmeter.report import html

_APART: Final = 0.04
"""Of the least distance of two places, between lines whose intervals would cover each other."""
_SPREAD: Final = 0.6
"""Of the distance of two names, over which groups stand beside each other."""
_MANY_POINTS: Final = 12
"""From so many on a band shows the interval, and nothing is covered."""


def figure_of(
    rows: Sequence[StudyRow],
    x: str,
    ys: Sequence[str],
    lines: Sequence[str],
    *,
    columns: StudyColumns,
    title: str,
    footer: str,
) -> b.Chart:
    """A panel for each of `ys` over `x`, with intervals of columns '_low' and '_high'; what no row has is left out.

    `lines` are columns whose values tell one line from another. Text in `x` makes it a list of names.
    """
    shown = [y for y in ys if any(row.get(y) is not None for row in rows)]
    panels = [_panel(rows, x, lines, y, columns) for y in shown]
    return b.Chart("figure", title, panels, footer=footer, columns=len(panels), panel_inches=(4.0, 3.6))


def intervals(
    draws: b.SeriesStyle, rows: Sequence[StudyRow], value: str, places: Sequence[float], name: str, number: int
) -> b.ChartSeries:
    """Means with their intervals, '_low' and '_high', which are NaN where few items have none."""
    low, high = ([row[f"{value}_{end}"] for row in rows] for end in ("low", "high"))
    return b.ChartSeries(
        draws, [row[value] for row in rows], places, name=b.Untrusted(name), low=low, high=high, colour=number
    )


def beside(place: float, number: int, n_groups: int) -> float:
    """Where a group stands of those that share a place of an axis with names."""
    return place + _SPREAD * ((number + 0.5) / n_groups - 0.5)


def groups_of(rows: Sequence[StudyRow], columns: Sequence[str]) -> dict[tuple[Any, ...], list[StudyRow]]:
    """Rows by their values of some columns, in the order in which these come up."""
    groups: dict[tuple[Any, ...], list[StudyRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in columns), []).append(row)
    return groups


def _panel(rows: Sequence[StudyRow], x: str, lines: Sequence[str], y: str, columns: StudyColumns) -> b.Panel:
    is_text = any(isinstance(row[x], str) for row in rows)
    names = list(dict.fromkeys(str(row[x]) for row in rows)) if is_text else []
    steps = np.diff(np.unique([float(row[x]) for row in rows])) if not is_text else ()
    apart = _APART * (min(steps) if len(steps) else 1.0)
    groups = groups_of(rows, lines)
    series = []
    for number, (group, of_group) in enumerate(groups.items()):
        shown = [row for row in of_group if row.get(y) is not None]
        aside = apart * (number - (len(groups) - 1) / 2) if len(shown) <= _MANY_POINTS else 0.0
        places = [aside + (names.index(row[x]) if is_text else row[x]) for row in shown]
        name = ", ".join(f"{heading_of(column, columns)} {value}" for column, value in zip(lines, group, strict=True))
        # A line would say that there is something between two names.
        colour = b.HOUSE if len(groups) == 1 else number
        series.append(intervals("scatter" if is_text else "line", shown, y, places, name, colour))
    whole = not is_text and all(isinstance(row[x], int) for row in rows)
    axis = b.Axis(heading_of(x, columns), names=[b.Untrusted(name) for name in names], whole=whole)
    return b.Panel(axis, b.Axis(heading_of(y, columns)), series)


MARKDOWN: Final = "table.md"
TABLES: Final = "table.json"
"""A study's directory has it, and a run's has not."""


@dataclass(frozen=True, slots=True)
class StudyTables(Record):
    """The words and tables of a study's directory."""

    tables: tuple[ReadableTable, ...]
    """The first has the study's title."""
    command: str
    findings: tuple[str, ...] = ()
    headline: str = ""
    """Where there are no findings; see `extremes`."""
    advice: tuple[str, str] | None = None
    """What was found, and what to do."""

    def markdown(self) -> str:
        first, *others = self.tables
        findings = tuple(f"finding: {finding}" for finding in self.findings)
        shown = [replace(first, about=(*findings, *first.about, f"command: {self.command}")), *others]
        return "\n".join(to_markdown(table, level=1 + (number > 0)) for number, table in enumerate(shown))

    def latex(self) -> str:
        """Every table for a paper, one behind another; the comment on top names the command."""
        first, *others = self.tables
        main = label_of(first.title)
        tables = [to_latex(replace(first, about=(*self.findings, *first.about)), label=main, command=self.command)]
        for table in others:
            titled = replace(table, title=f"{first.title}: {table.title}")
            tables.append(to_latex(titled, label=f"{main}-{label_of(table.title)}"))
        return "\n".join(tables)

    def files(self) -> dict[str, str]:
        return {MARKDOWN: self.markdown(), TABLES: f"{to_json(self)}\n"}


def tables_of(directory: Path) -> StudyTables:
    try:
        return StudyTables.from_dict(json.loads((directory / TABLES).read_text(encoding="utf-8")))
    except (OSError, ValueError, DataError) as error:
        raise StoreError(f"study '{directory}' cannot be read: {error}") from None


def is_study(directory: Path) -> bool:
    return (directory / TABLES).is_file() and not (directory / "spec.json").exists()


def page_of_study(directory: Path) -> str:
    tables = tables_of(directory)
    try:
        figures = {path.stem: path.read_bytes() for path in sorted(directory.glob("*.png"))}
    except OSError as error:
        raise StoreError(f"study '{directory}' cannot be read: {error}") from None
    return html.page(study_report(tables, figures, directory=str(directory)))


def study_report(
    tables: StudyTables, figures: Mapping[str, bytes], *, directory: str, room: int = html.PAGE_BYTES
) -> b.Report:
    """What was found, figures in their order as long as a page has room for them, and the tables."""
    main, *others = tables.tables
    headline, *findings = tables.findings or (tables.headline,)
    found: list[b.Block] = [b.Headline(b.Untrusted(headline))] if headline else []
    found += [b.Text(b.Untrusted(line)) for line in findings]
    if tables.advice is not None:
        condition, do = tables.advice
        found.append(b.Advice([(b.Untrusted(condition), b.Untrusted(do))]))
    parts = [*_blocks(main), *(b.HeadedBlocks(b.Untrusted(table.title), _blocks(table)) for table in others)]
    report = b.Report(
        b.Untrusted(main.title) if main.title else "A study",
        "study",
        [*found, *parts],
        notes=[b.Facts((("Directory", b.Untrusted(directory)),), heading="Study")],
        command=b.CommandLine(b.Untrusted(tables.command)),
    )
    left = room - len(html.page(report).encode(errors="replace"))
    images: list[b.Block] = []
    for name, png in figures.items():
        left -= len(png) * 4 // 3 + 2 * len(name.encode(errors="replace")) + 200
        if left > 0:
            images.append(b.Image(b.Untrusted(name), png))
    if n := len(figures) - len(images):
        left_out = f"{counted(n, 'further figure')} did not fit on this page; the directory holds all."
        images.append(b.Text(left_out, "soft"))
    return replace(report, blocks=[*found, *images, *parts])


_EXTREMES: Final = {
    "one": "{what}: {most}{unit}.",
    "apart": "{what}: from {least}{unit} to {most}{unit}, beyond the intervals.",
    "overlapping": "{what}: from {least}{unit} to {most}{unit}, within the intervals.",
    "factor": "{what} changes with {factor}: from {least}{unit}{at_least} to {most}{unit}{at_most}, beyond the "
    "intervals.",
    "factors": "{what} changes most with {factor}: from {least}{unit}{at_least} to {most}{unit}{at_most}, beyond the "
    "intervals.",
    "no factor": "{what} does not clearly change with {factors}: {least} to {most}{unit}, within the intervals.",
}
"""What the rows with the smallest and the largest value say, by whether their intervals overlap and by how many factors
the rows have. Intervals that overlap do not show that nothing changes."""
_ADVICE: Final = {
    "none": (
        "No intervals",
        "run the study again with more records (--set): with so few, no number says how sure it is",
    ),
    "one": ("One row", "measure it beside other settings (--set), which show what it depends on"),
    "beyond": (
        "Intervals that do not overlap",
        "the difference is more than chance, for this model and these records: measure your own before you rely on it",
    ),
    "within": (
        "Intervals that overlap",
        "choose for other reasons, or give more records (--set), which narrow the intervals: that nothing changes is "
        "not shown",
    ),
}


@dataclass(frozen=True, slots=True)
class Extremes:
    """What the rows with the smallest and the largest value say, and what to do about it."""

    sentence: str = ""
    advice: tuple[str, str] | None = None


def extremes(table: ReadableTable, rows: Sequence[StudyRow], columns: StudyColumns) -> Extremes:
    """With what the first column that has intervals changes, from its smallest value to its largest, and whether that
    is more than their intervals; empty where no column may have one."""
    names = shown_names(rows, columns)
    name = next((name for name in names if any(_interval(row, name) for row in rows)), None)
    if name is None:
        if not any(f"{name}_low" in row for row in rows for name in names):
            return Extremes()
        undecided = "Undecided: too few records for an interval. That is neither good nor bad."
        return Extremes(undecided, _ADVICE["none"])
    column = names.index(name)
    matched = [
        (float(row[name]), ends, cells)
        for row, cells in zip(rows, table.rows, strict=True)
        if (ends := _interval(row, name)) is not None
    ]
    ranked = sorted(matched, key=lambda estimate: estimate[0])
    (_, (_, top), least), (_, (bottom, _), most) = ranked[0], ranked[-1]
    head, comma, unit = table.heads[column].rpartition(", ")
    what = head if comma else unit
    said = {
        # A symbol stays what it is.
        "what": what[:1].upper() + what[1:] if what[:1].isascii() else what,
        "unit": f"\u00a0{unit}" if comma else "",
        "least": _number(least[column]),
        "most": _number(most[column]),
    }
    if len(matched) == 1:
        return Extremes(_EXTREMES["one"].format(**said | {"most": most[column]}), _ADVICE["one"])
    # At most four columns tell a row from others, and no count does.
    factors = [i for i in range(column) if names[i] != "n" and not names[i].startswith("n_")]
    labels = [i for i in factors if len({cells[i] for _, _, cells in matched}) > 1][:4]
    overlaps = bottom <= top

    def of(found: str, **more: str) -> Extremes:
        return Extremes(_EXTREMES[found].format(**said, **more), _ADVICE["within" if overlaps else "beyond"])

    if not labels:
        return of("overlapping" if overlaps else "apart")
    if overlaps:
        return of("no factor", factors=_listed([table.heads[i] for i in labels]))
    differing = [i for i in labels if least[i] != most[i]]
    if not differing:
        return of("apart")

    def named(cells: Sequence[str]) -> str:
        return f" ({', '.join(f'{table.heads[i]} {cells[i]}' for i in differing)})"

    strongest = max(differing, key=lambda i: _spread([(cells[i], value) for value, _, cells in matched]))
    return of(
        "factors" if len(labels) > 1 else "factor",
        factor=table.heads[strongest],
        at_least=named(least),
        at_most=named(most),
    )


def _spread(levels: Sequence[tuple[str, float]]) -> float:
    """How far the means of a factor's levels lie apart."""
    values: dict[str, list[float]] = {}
    for level, value in levels:
        values.setdefault(level, []).append(value)
    means = [float(np.mean(of_level)) for of_level in values.values()]
    return max(means) - min(means)


def _number(cell: str) -> str:
    """A cell without its interval."""
    return cell.partition(" [")[0]


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _interval(row: StudyRow, name: str) -> tuple[float, float] | None:
    value = row.get(name)
    return interval_of(row, name) if isinstance(value, float) and math.isfinite(value) else None


def _blocks(table: ReadableTable) -> list[b.Block]:
    """The table, but columns of which all rows have the same; these are said once."""
    blocks: list[b.Block] = []
    if table.heads:
        columns = list(zip(*table.rows, strict=True)) or [()] * len(table.heads)
        same = [i for i, cells in enumerate(columns) if i and len(cells) > 1 and len(set(cells)) == 1]
        shown = [i for i in range(len(columns)) if i not in same]
        heads = [b.Column(b.Untrusted(table.heads[i]), "number" if is_numeric(columns[i]) else "text") for i in shown]
        rows = [b.Row([b.Untrusted(row[i]) for i in shown]) for row in table.rows]
        blocks.append(b.Table(heads, rows, first=len(rows), first_on_pages=len(rows)))
        if same:
            said = b.joined((b.Untrusted(table.heads[i]), " ", b.Untrusted(columns[i][0])) for i in same)
            blocks.append(b.Text(("In all rows: ", *said, ".")))
    return blocks + [b.Text(b.Untrusted(line), "soft") for line in table.about]
