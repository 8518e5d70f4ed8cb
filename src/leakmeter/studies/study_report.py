"""A study's directory as a report: the tables of its `table.md`, and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from leakmeter.core.plain import visible
from leakmeter.errors import StoreError
from leakmeter.report import blocks as b
from leakmeter.report import html

TABLE: Final = "table.md"
"""What tells a study's directory from a run's."""
_CELLS: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"\|( --- \|)+")
_COMMAND: Final = "command: "
FINDING: Final = "finding: "
"""What a line of a table begins with that says what was found."""
_NUMBER: Final = re.compile(r"(?P<mean>[−-]?\d[\d.]*)[^\[]*\[(?P<low>[−-]?\d[\d.]*), (?P<high>[−-]?\d[\d.]*)\]")
_LABELS: Final = 4
"""As many columns tell a row from others, at most."""


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    """A table of `tables.to_markdown`, with what is said of it."""

    title: str
    lines: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def page_of_study(directory: Path) -> str:
    """The page of a study's directory: its tables, its figures, and how to run it again."""
    try:
        markdown = (directory / TABLE).read_text(encoding="utf-8")
        figures = {path.stem: path.read_bytes() for path in sorted(directory.glob("*.png"))}
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"study '{directory}' cannot be read: {error}") from None
    return html.page(study_report(markdown, figures, directory=str(directory)))


def study_report(
    markdown: str, figures: Mapping[str, bytes], *, directory: str, room: int = html.PAGE_BYTES
) -> b.Report:
    """Tables, and figures in their order as long as a page has room for them."""
    sections = list(read_markdown(markdown))
    lines = [line for section in sections for line in section.lines]
    command = next((line.removeprefix(_COMMAND) for line in lines if line.startswith(_COMMAND)), None)
    parts = [b.Part(b.Untrusted(section.title), _blocks(section)) for section in sections[1:]]
    report = b.Report(
        b.Untrusted(sections[0].title) if sections and sections[0].title else "A study",
        "study",
        notes=[b.Facts((("Directory", b.Untrusted(directory)),), heading="Study")],
        command=None if command is None else b.Command(b.Untrusted(command)),
    )
    first = [*_findings(sections[0]), *_blocks(sections[0])] if sections else []
    report = replace(report, blocks=[*first, *parts])
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


def _findings(section: MarkdownTable) -> Iterator[b.Block]:
    """What a study says it found; of one that says nothing, its largest and its smallest number with an interval."""
    findings = [line.removeprefix(FINDING) for line in section.lines if line.startswith(FINDING)]
    if findings:
        yield b.Headline(b.Untrusted(findings[0]))
        yield from (b.Text(b.Untrusted(line)) for line in findings[1:])
    elif (extremes := _extremes(section.heads, section.rows)) is not None:
        yield b.Headline(extremes)


def _extremes(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> b.Phrase | None:
    """The rows with the largest and the smallest value of the first column that has intervals."""
    column = next((i for i in range(len(heads)) if any(_NUMBER.match(row[i]) for row in rows)), None)
    if column is None:
        return None
    matched = [(match, row) for row in rows if (match := _NUMBER.match(row[column])) is not None]
    ranked = sorted(matched, key=lambda pair: _number(pair[0], "mean"))
    (low, least), (high, most) = ranked[0], ranked[-1]
    head = heads[column]
    # A symbol stays what it is.
    head = head[:1].upper() + head[1:] if head[:1].isascii() else head
    if len(matched) == 1:
        return b.Untrusted(f"{head}: {most[column]}.")
    labels = [i for i in range(column) if len({row[i] for _, row in matched}) > 1][:_LABELS]

    def named(row: Sequence[str]) -> str:
        labelled = ", ".join(f"{heads[i]} {row[i]}" for i in labels)
        return f"{row[column]} ({labelled})" if labelled else row[column]

    overlap = _number(high, "low") <= _number(low, "high")
    order = " Their intervals overlap, so the order may be chance." if overlap else ""
    return b.Untrusted(f"{head}: from {named(least)} to {named(most)}.{order}")


def _number(match: re.Match[str], name: str) -> float:
    return float(match[name].replace("−", "-").rstrip("."))


def _blocks(section: MarkdownTable) -> list[b.Block]:
    """The table, and then what is to be known of it; the command stands at the end of the page."""
    blocks: list[b.Block] = []
    if section.heads:
        columns = [b.Column(b.Untrusted(head)) for head in section.heads]
        rows = [b.Row([b.Untrusted(cell) for cell in row]) for row in section.rows]
        blocks.append(b.Table(columns, rows, first=len(rows), first_on_pages=len(rows)))
    about = [line for line in section.lines if not line.startswith((_COMMAND, FINDING))]
    return blocks + [b.Text(b.Untrusted(line), "soft") for line in about]


def read_markdown(markdown: str) -> Iterator[MarkdownTable]:
    """The tables of a file of `tables.to_markdown`."""
    section: MarkdownTable | None = None
    for line in visible(markdown).splitlines():
        if line.startswith("#") or section is None:
            if section is not None:
                yield section
            section = MarkdownTable(line.lstrip("# ") if line.startswith("#") else "")
        if line.startswith("|") and not _RULE.fullmatch(line):
            # The first line of a table is its heads.
            if section.heads:
                section.rows.append(_cells(line))
            else:
                section.heads.extend(_cells(line))
        elif line.strip() and not line.startswith(("#", "|")):
            section.lines.append(_plain(line.removeprefix("- ")))
    if section is not None:
        yield section


def _cells(line: str) -> list[str]:
    return [_plain(cell.strip()) for cell in _CELLS.split(line.strip())[1:-1]]


def _plain(text: str) -> str:
    return text.replace("\\|", "|")
