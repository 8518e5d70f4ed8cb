"""A study's directory as a report: its tables and figures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from leakmeter.core.plain import to_json
from leakmeter.core.record import Record
from leakmeter.errors import DataError, StoreError
from leakmeter.report import blocks as b
from leakmeter.report import html
from leakmeter.studies.tables import Columns, ReadableTable, Row, interval_of, shown_names, to_markdown

MARKDOWN: Final = "table.md"
TABLES: Final = "table.json"
"""What tells a study's directory from a run's."""
_LABELS: Final = 4
"""As many columns tell a row from others, at most."""


@dataclass(frozen=True, slots=True)
class StudyTables(Record):
    """What a study's directory says in words and tables."""

    tables: tuple[ReadableTable, ...]
    """The first has the study's title."""
    command: str
    findings: tuple[str, ...] = ()
    """What the study says it found."""
    headline: str = ""
    """Of one that says nothing; see `extremes`."""

    def markdown(self, *, brief: bool = False) -> str:
        """The tables; `brief`, with nothing about them but what was found."""
        first, *others = self.tables
        findings = tuple(f"finding: {finding}" for finding in self.findings)
        about = () if brief else (*first.about, f"command: {self.command}")
        shown = [replace(first, about=(*findings, *about)), *(replace(t, about=()) if brief else t for t in others)]
        return "\n".join(to_markdown(table, level=1 + (number > 0)) for number, table in enumerate(shown))

    def files(self) -> dict[str, str]:
        """Texts by the names of files."""
        return {MARKDOWN: self.markdown(), TABLES: f"{to_json(self)}\n"}


def is_study(directory: Path) -> bool:
    """Whether a directory is a study's, which has tables and is no run."""
    return (directory / TABLES).is_file() and not (directory / "spec.json").exists()


def page_of_study(directory: Path) -> str:
    """The page of a study's directory: its tables, its figures, and how to run it again."""
    try:
        tables = StudyTables.from_dict(json.loads((directory / TABLES).read_text(encoding="utf-8")))
        figures = {path.stem: path.read_bytes() for path in sorted(directory.glob("*.png"))}
    except (OSError, ValueError, DataError) as error:
        raise StoreError(f"study '{directory}' cannot be read: {error}") from None
    return html.page(study_report(tables, figures, directory=str(directory)))


def study_report(
    tables: StudyTables, figures: Mapping[str, bytes], *, directory: str, room: int = html.PAGE_BYTES
) -> b.Report:
    """Tables, and figures in their order as long as a page has room for them."""
    main, *others = tables.tables
    parts = [b.Part(b.Untrusted(table.title), _blocks(table)) for table in others]
    first = [*_findings(tables), *_blocks(main)]
    report = b.Report(
        b.Untrusted(main.title) if main.title else "A study",
        "study",
        [*first, *parts],
        notes=[b.Facts((("Directory", b.Untrusted(directory)),), heading="Study")],
        command=b.Command(b.Untrusted(tables.command)),
    )
    left = room - len(html.page(report).encode(errors="replace"))
    images: list[b.Block] = []
    for name, png in figures.items():
        left -= len(png) * 4 // 3 + 2 * len(name.encode(errors="replace")) + 200
        if left > 0:
            images.append(b.Image(b.Untrusted(name), png))
    n = len(figures) - len(images)
    if n:
        do = "s do" if n > 1 else " does"
        images.append(b.Text(f"{n} further figure{do} not fit on this page; the directory holds all.", "soft"))
    return replace(report, blocks=[*first, *images, *parts])


def _findings(tables: StudyTables) -> Iterator[b.Block]:
    headline, *others = tables.findings or (tables.headline,)
    if headline:
        yield b.Headline(b.Untrusted(headline))
    yield from (b.Text(b.Untrusted(line)) for line in others)


def extremes(table: ReadableTable, rows: Sequence[Row], columns: Columns) -> str:
    """The rows with the largest and the smallest value of the first column that has intervals; "" where none has."""
    names = shown_names(rows, columns)
    name = next((name for name in names if any(_interval(row, name) for row in rows)), None)
    if name is None:
        return ""
    column = names.index(name)
    head = table.heads[column]
    matched = [
        (row[name], ends, cells)
        for row, cells in zip(rows, table.rows, strict=True)
        if (ends := _interval(row, name)) is not None
    ]
    ranked = sorted(matched, key=lambda estimate: float(estimate[0]))
    (_, (_, top), least), (_, (bottom, _), most) = ranked[0], ranked[-1]
    # A symbol stays what it is.
    head = head[:1].upper() + head[1:] if head[:1].isascii() else head
    if len(matched) == 1:
        return f"{head}: {most[column]}."
    labels = [i for i in range(column) if len({cells[i] for _, _, cells in matched}) > 1][:_LABELS]

    def named(cells: Sequence[str]) -> str:
        labelled = ", ".join(f"{table.heads[i]} {cells[i]}" for i in labels)
        return f"{cells[column]} ({labelled})" if labelled else cells[column]

    order = " Their intervals overlap, so the order may be chance." if bottom <= top else ""
    return f"{head}: from {named(least)} to {named(most)}.{order}"


def _interval(row: Row, name: str) -> tuple[float, float] | None:
    value = row.get(name)
    return interval_of(row, name) if isinstance(value, float) and math.isfinite(value) else None


def _blocks(table: ReadableTable) -> list[b.Block]:
    """The table, and then what is to be known of it."""
    blocks: list[b.Block] = []
    if table.heads:
        columns = [b.Column(b.Untrusted(head)) for head in table.heads]
        rows = [b.Row([b.Untrusted(cell) for cell in row]) for row in table.rows]
        blocks.append(b.Table(columns, rows, first=len(rows), first_on_pages=len(rows)))
    return blocks + [b.Text(b.Untrusted(line), "soft") for line in table.about]
