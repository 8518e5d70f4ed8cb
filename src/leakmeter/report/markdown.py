"""A report as GitHub Markdown, for a comment on a pull request or the summary of a job.

All punctuation of a text is written as character references, which Markdown takes for letters. A text from a user
stands in `<code>` besides, where GitHub finds neither links nor names to notify.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Final

from leakmeter.core.plain import visible
from leakmeter.report import blocks as b
from leakmeter.report import glossary
from leakmeter.report.console import Paint, block, shaded_text

ROOM: Final = 60_000
"""Characters; a comment may have 65,536."""
_REFERENCES: Final = {ord(letter): f"&#{ord(letter)};" for letter in string.punctuation}
# What our own words may hold as it is: none of it begins anything in the middle of a line.
_HARMLESS: Final = ",.;:'\"()/?%=+-"
_OWN: Final = {code: text for code, text in _REFERENCES.items() if chr(code) not in _HARMLESS} | {
    ord(letter): f"&#{ord(letter)};&#8203;"
    for letter in "@#"  # which begin a name or a number to link to
}


def text(report: b.Report, *, room: int = ROOM) -> str:
    """The report as Markdown: one section whole, or the index of several; equal input gives equal text. It has at most
    `room` characters, and says where more is left out."""
    out, left = [f"### {_say(report.title)}\n\n"], room
    for part in _report(report):
        left -= len(part)
        if left < 0:
            out.append("More did not fit here: the page of the run has all.\n")
            break
        out.append(part)
    return "".join(out)


def _report(report: b.Report) -> Iterator[str]:
    order = b.arranged(b.blocks_of(report))
    shown = [*order.lead, *b.index_of(report), *order.rest]
    for shown_block, terms in glossary.explaining(shown):
        yield from _block(shown_block)
        if terms:
            yield "".join(f"- _{_own(term.name)}_: {_own(term.gloss)}\n" for term in terms) + "\n"
    if report.caveat:
        yield f"_{_say(report.caveat)}_\n\n"
    facts = report.provenance.named_facts()
    if facts:
        yield from _block(b.Details("Run", (b.Facts(facts),)))
    if report.command:
        yield from _block(report.command)


def _block(block: b.Block) -> Iterator[str]:
    match block:
        case b.Headline(phrase):
            yield f"**{_say(phrase)}**\n\n"
        case b.Warning(phrase):
            yield f"⚠️ {_say(phrase)}\n\n"
        case b.Advice(rows):
            yield _heading("What to do")
            yield "".join(f"- {_say(finding)}: **{_say(do)}**\n" for finding, do in rows) + "\n"
        case b.Text(phrase, style, heading):
            if heading:
                yield _heading(heading)
            yield f"{_pre(b.plain(phrase))}\n\n" if style == "prose" else f"{_say(phrase)}\n\n"
        case b.Facts(facts, heading, on):
            if on == "everywhere" and facts:
                lines = [f"- {_say(name)}: {_say(b.fact_phrase(value))}\n" for name, value in facts]
                yield (_heading(heading) if heading else "") + "".join(lines) + "\n"
        case b.Table():
            yield from _table(block)
        case b.ShadedText():
            # With marks for colours, as on a terminal without colours.
            shaded = shaded_text(block, Paint(coloured=False, dark=False))
            heading = _heading(block.heading) if block.heading else ""
            yield heading + "".join(f"{_pre(line.plain)}\n\n" for line in shaded)
        case b.Details(summary, inner):
            yield f"<details><summary>{_say(summary)}</summary>\n\n"
            for child in inner:
                yield from _block(child)
            yield "</details>\n\n"
        case b.HeadedBlocks(heading, inner):
            yield _heading(heading)
            for child in inner:
                yield from _block(child)
        case b.CommandLine(line):
            yield f"Run it again:\n\n{_pre(line.shown)}\n\n"
        case _:
            for child in b.spelled_out(block):
                yield from _block(child)


def _heading(phrase: b.Phrase) -> str:
    return f"#### {_say(phrase)}\n\n"


def _table(table: b.Table) -> Iterator[str]:
    columns = [(i, column) for i, column in enumerate(table.columns) if column.on in ("everywhere", "wide")]
    heads = [_say(column.title) for _, column in columns]
    rules = ["---:" if column.is_numeric else "---" for _, column in columns]
    shown = [
        [_cell(row.cells[i], column, row, table.floor_nats) for i, column in columns]
        for row in table.rows[: table.first]
    ]
    lines = [heads, rules, *shown]
    if table.numbered:
        numbers = ("#", "---:", *map(str, range(1, len(lines) - 1)))
        lines = [[number, *line] for number, line in zip(numbers, lines, strict=True)]
    yield _heading(table.caption) if table.caption else ""
    yield "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
    if len(table.rows) > table.first:
        n = len(table.rows) - table.first
        yield f"{n:,} more {table.rest[n != 1]}.\n\n"


def _cell(cell: b.Cell, column: b.Column, row: b.Row, floor_nats: float) -> str:
    cell_text = _say(b.cell_phrase(cell, column))
    if isinstance(cell, b.Noted):
        cell_text += "".join(f"<br>_{_say(note)}_" for note in cell.notes)
    coloured = column.bar or column.shade or isinstance(cell, b.Shaded)
    heat = b.heat_of(cell, row, floor_nats) if coloured and column.kind != "share" else 0
    cell_text = f"{cell_text} {block(heat)}" if heat else cell_text
    return f"**{cell_text}**" if row.strong and cell_text else cell_text


def _pre(words: str) -> str:
    """A text as it is; blank lines do not end what begins with this element."""
    return f"<pre>{visible(words).translate(_REFERENCES)}</pre>"


def _say(phrase: b.Phrase) -> str:
    return "".join(map(_part, b.parts(phrase)))


def _part(part: str | b.Untrusted) -> str:
    if isinstance(part, b.Code):
        return f"<code>{_line(visible(part)).translate(_REFERENCES)}</code>"
    if isinstance(part, str):
        return _own(visible(part))
    said = f"<code>{_line(part.shown).translate(_REFERENCES)}</code>"
    return f"**{said}**" if part.marked else said


def _own(words: str) -> str:
    """Words of the program, without links even if they came from elsewhere."""
    return _line(words).translate(_OWN).replace("://", "&#58;//").replace("www.", "www&#46;")


def _line(words: str) -> str:
    return words.replace("\n", " ").replace("\t", " ")
