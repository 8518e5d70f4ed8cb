"""A report for the terminal: 80 columns do, and where there is no colour, marks stand for it.

Text only ever enters through `blocks.plain` and `rich.text.Text`, so neither the terminal nor rich's markup gets to
interpret any of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, cast

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType
from rich.jupyter import JupyterMixin
from rich.padding import Padding
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

from leakmeter.core.plain import excerpt
from leakmeter.overriding import override
from leakmeter.report import blocks as b
from leakmeter.report import glossary, scale
from leakmeter.report.masked import rewritten

SHOWN_CHARACTERS: Final = 6000
"""Of a shaded text; of a longer one the strongest parts."""
BLOCKS: Final = "▁▂▃▄▅▆▇█"
"""Colours of the scale, on a console without colours."""
SCREEN_LINES: Final = 24
"""Lines of a terminal."""
_STRUCK: Final = "[…]"
_SUPERSCRIPT: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_WIDE_COLUMNS: Final = 76
_NAME_COLUMNS: Final = 16
_UNBROKEN: Final = re.compile(r"[^\S\n\u00a0]*(?:[^\s\[]*\[[−\d.,∞e+]+, [^\s\]]+\]\S*|\n|[\S\u00a0]+)")
"""A word with the spaces before it; an interval, such as '[5.2, 9.9]', is one."""
_PARTS: Final = re.compile(r"[^\s_./:-]*[\s_./:-]*", re.ASCII)
"""Parts of a text between which it may be folded."""


def view(report: b.Report, *, explain: bool = True, ends_with_headline: bool = False) -> Composed:
    """A report for `rich.print`, or the last line of a notebook cell: one section whole, or the index of several.
    Without `explain` the findings, what changes their meaning, and what to do: commands have an option for the rest.
    What is longer than a screen `ends_with_headline`, which has scrolled out of it."""
    return Composed(_with_short_ids(report), explain, ends_with_headline)


def _with_short_ids(report: b.Report) -> b.Report:
    """A report in which the ids of its cases fit into a column, each the same wherever it is said."""
    names = [name for section in report.sections if isinstance(name := section.name, b.Untrusted)]
    if all(cell_len(name.text) <= min(name.at_most or _NAME_COLUMNS, _NAME_COLUMNS) for name in names):
        return report
    ids = {name.text for name in names}
    short = short_names(ids, _NAME_COLUMNS)

    def shortened(part: Any) -> Any:
        if isinstance(part, b.Untrusted) and part.text in ids:
            return replace(part, text=short.get(part.text, part.text), at_most=None)
        return None

    blocks: Sequence[b.Block] = rewritten(list(report.blocks), shortened)
    # Of many sections a terminal shows no more than the names and cells.
    only = len(report.sections) == 1
    sections = [
        rewritten(section, shortened) if only else replace(section, name=rewritten(section.name, shortened))
        for section in report.sections
    ]
    return replace(report, blocks=blocks, sections=sections)


@dataclass(frozen=True, slots=True, repr=False)
class Composed:
    """A report that is rendered when printed, since only the console knows whether it has colours."""

    report: b.Report
    explain: bool
    ends_with_headline: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        # Terminals that say whether their background is dark do it in COLORFGBG ("15;0"); most are.
        dark = os.environ.get("COLORFGBG", "").rpartition(";")[2] not in {"7", "15"}
        paint = Paint(coloured=console.color_system is not None and not console.no_color, dark=dark)
        render = _report if self.explain else _brief
        n_lines = 0
        for number, (apart, shown) in enumerate(render(self.report, paint, options.max_width)):
            part = wrapped(shown, options.max_width) if isinstance(shown, Text) else shown
            if apart and number:
                n_lines += 1
                yield Padding(Text(), 0)
            if n_lines <= SCREEN_LINES:
                n_lines += len(console.render_lines(part, options.update(height=None)))
            yield Padding(part, 0)
        headline = b.headline_of(self.report)
        if self.ends_with_headline and headline and n_lines > SCREEN_LINES:
            yield Padding(Text(), 0)
            yield Padding(wrapped(Text(headline, style="bold"), options.max_width), 0)

    def _repr_mimebundle_(self, include: Sequence[str] = (), exclude: Sequence[str] = (), **_: Any) -> dict[str, str]:
        # Rich's own way, without its base class.
        return JupyterMixin._repr_mimebundle_(cast("ConsoleRenderable", self), include, exclude)

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__}, for rich.print or the last line of a notebook cell>"


@dataclass(frozen=True, slots=True)
class Paint:
    """How to show a colour of the scale on this console."""

    coloured: bool
    dark: bool

    def style(self, heat: int) -> Style | str:
        if not heat or not self.coloured:
            return ""
        swatch = scale.ramp(dark=self.dark)[heat - 1]
        return Style(color=swatch.ink, bgcolor=swatch.paper)

    def bar(self, cell: b.Cell, column: b.Column, heat: int, columns: int) -> Text:
        if not isinstance(cell, float | int):
            return Text()
        if column.kind == "share":
            return Text("█" * round(min(1.0, max(0.0, cell)) * columns))
        eighths = round(scale.position(cell) * columns * 8)
        text = "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
        if not self.coloured:
            return Text(text)
        # The palest tints vanish on the terminal's own background; a bar needs the stronger half of the ramp.
        return Text(text, style=Style(color=scale.ramp(dark=self.dark)[max(heat, 9) - 1].paper))


Shown = tuple[bool, RenderableType]  # whether an empty line comes before, and what comes


def _report(report: b.Report, paint: Paint, columns: int) -> Iterator[Shown]:
    order = b.arranged(b.blocks_of(report))
    # What explains is said last, beside the cursor are the findings.
    explained = [shown_block for shown_block in order.rest if _explains(shown_block)]
    rest = [shown_block for shown_block in order.rest if not _explains(shown_block)]
    shown = [*order.lead, *b.index_of(report), *rest]
    for shown_block, terms in glossary.explaining(shown):
        yield from _block(shown_block, paint, columns)
        for term in terms:
            yield False, _gloss(term)
    apart = True
    for shown_block in explained:
        for _, line in _block(shown_block, paint, columns):
            yield apart, line
            apart = False
    if report.caveat:
        yield apart, _dim(report.caveat)


LEFT_OUT: Final = "Conditions, caveats and how it was measured: add --explain"


def _brief(report: b.Report, paint: Paint, columns: int) -> Iterator[Shown]:
    order = b.arranged(b.blocks_of(report))
    lead = [part for block in order.lead for part in b.brief(block)]
    tables = [part for block in (*b.index_of(report), *order.rest) for part in b.brief(block)]
    shown: list[b.Block] = [*(block for block in lead if not isinstance(block, b.Warning | b.Advice)), *tables]
    for block in shown:
        yield from _block(block, paint, columns)
    warnings = [block for block in lead if isinstance(block, b.Warning)]
    advice = [block for block in lead if isinstance(block, b.Advice)]
    words = (word for inner in b.walk(shown) for word in glossary.words(inner))
    # Terms and advice take three lines.
    n_terms = min(2, max(1, 3 - sum(len(block.rows) for block in advice)))
    lines = [line for block in warnings for _, line in _block(block, paint, columns)]
    lines += [_gloss(term) for term in glossary.first_said(words, set())[:n_terms]]
    lines += [line for block in advice for _, line in _block(block, paint, columns)]
    yield from ((not number, line) for number, line in enumerate([*lines, _dim(LEFT_OUT)]))


def _explains(block: b.Block) -> bool:
    if isinstance(block, b.Details):
        return not block.told
    return isinstance(block, b.Facts | b.CommandLine) or (isinstance(block, b.Text) and block.style == "soft")


def _block(block: b.Block, paint: Paint, columns: int) -> Iterator[Shown]:
    match block:
        case b.Headline(text):
            yield False, _said(text, "bold")
        case b.Warning(text):
            yield False, Text(f"! {b.plain(text)}", style="bold")
        case b.Text(text, style, heading):
            if heading:
                yield True, _heading(heading)
            yield False, _dim(text) if style == "soft" else _said(text)
        case b.Advice(rows):
            for number, (finding, do) in enumerate(rows):
                yield not number, Text.assemble("→ ", b.plain(finding), ": ", (b.plain(do), "bold"))
        case b.Facts():
            if block.on == "everywhere" and block.facts:
                facts = ((_lower(name), b.plain(b.fact_phrase(value))) for name, value in block.facts)
                facts_text = " · ".join(map(" ".join, facts))
                yield False, _dim(f"{block.heading}: {facts_text}" if block.heading else facts_text)
        case b.Table():
            if block.caption:
                yield True, _heading(block.caption)
            yield not block.caption, _table(block, paint, columns)
        case b.ShadedText():
            if block.heading:
                yield True, _heading(block.heading)
            yield from ((number > 0, line) for number, line in enumerate(shaded_text(block, paint)))
        case b.Details(summary, inner_blocks, told=True):
            yield from _block(b.HeadedBlocks(summary, inner_blocks), paint, columns)
        case b.Details():
            for inner in block.blocks:
                if isinstance(inner, b.Facts):
                    yield from _block(inner, paint, columns)
        case b.HeadedBlocks():
            yield True, _heading(block.heading)
            for inner in block.blocks:
                yield from _block(inner, paint, columns)
        case b.CommandLine(line):
            yield False, _dim(("run it again: ", line))
        case _:
            for inner in b.spelled_out(block):
                yield from _block(inner, paint, columns)


def _said(phrase: b.Phrase, style: str = "", *, on_one_line: bool = False) -> Text:
    """A phrase with its marked words in bold."""
    text = Text(style=style)
    for part in b.parts(phrase):
        words = re.sub(r"\s+", " ", b.plain(part)) if on_one_line else b.plain(part)
        text.append(words, "bold" if b.has_marks(part) else None)
    return text


def wrapped(text: Text, columns: int) -> Text:
    """A paragraph in lines that fit, none of which ends within a number's interval or before its unit."""
    plain = text.plain
    words = [found.span() for found in _UNBROKEN.finditer(plain)]
    breaks, at = [], 0
    for start, end in words:
        word = plain[start:end].lstrip(" ")
        spaces = end - start - len(word)
        if word == "\n":
            at = 0
            continue
        n = cell_len(word)
        if at and at + spaces + n > columns:
            breaks.append((start, spaces))
            at = n
        else:
            at += spaces + n
    if not breaks:
        return text
    broken = [*plain]
    for start, spaces in breaks:
        # The last of the spaces ends the line, so that styles keep their places.
        if spaces:
            broken[start + spaces - 1] = "\n"
    made = text.copy()
    made.plain = "".join(broken)
    return made


def folded(text: str, columns: int) -> str:
    """A text in lines of at most that width, ended between words; a word that is wider is divided behind marks such as
    '_' where it has some."""
    lines = [""]
    for word in re.findall(r"\S*\s*", text):
        for part in _PARTS.findall(word) if cell_len(word.rstrip()) > columns else [word]:
            for piece in chop_cells(part, columns) if cell_len(part.rstrip()) > columns else [part]:
                if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > columns:
                    lines.append("")
                lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def parts_of(text: str) -> list[str]:
    """What `folded` does not divide."""
    return _PARTS.findall(text)


def short_names(names: Iterable[str], columns: int) -> dict[str, str]:
    """Names on a line of that width, each with its middle, beginning or end left out where it is longer; all as they
    are where they would not stay distinct."""
    long = [name for name in dict.fromkeys(names) if cell_len(name) > columns]
    least, most = min(long, default=""), max(long, default="")
    n_common = next((i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), len(least))
    ways: tuple[Callable[[str], str], ...] = (
        lambda name: excerpt(name, columns),
        lambda name: f"…{name[n_common:][: columns - 1]}",
        lambda name: f"…{name[1 - columns :]}",
    )
    for shorten in ways:
        made = {name: shorten(name) for name in long}
        if len(set(made.values())) == len(long) and all(cell_len(short) <= columns for short in made.values()):
            return made
    return {name: name for name in long}


def _heading(phrase: b.Phrase) -> Text:
    return Text(b.plain(phrase), style="bold underline")


def _dim(phrase: b.Phrase) -> Text:
    return Text(b.plain(phrase), style="dim")


def _gloss(term: glossary.Term) -> Text:
    return Text.assemble((f"{term.name}: ", "dim italic"), (term.gloss, "dim"))


def _lower(name: b.Phrase) -> str:
    text = b.plain(name)
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


# ---- tables ---------------------------------------------------------------------------------------------------------
def _table(table: b.Table, paint: Paint, columns: int) -> Table:
    wide = columns >= _WIDE_COLUMNS
    shown = [i for i, c in enumerate(table.columns) if c.on == "everywhere" or (c.on == "wide" and wide)]
    kept = table.rows[: table.first]
    longest = _longest(table, shown)
    # Only texts of users are cut: what the program says, and words that it marks, are read whole, on as many lines as
    # it takes.
    folded = longest is not None and any(_is_own(cell) or _has_marks(cell) for cell in (r.cells[longest] for r in kept))
    bar_columns = max(8, min(columns // 5, 24, columns - 10 * len(shown) - 12))
    drawn = Table(
        box=None, padding=(0, 1, 0, 0), pad_edge=False, collapse_padding=True, header_style="dim",
        expand=longest is not None,
    )  # fmt: skip
    if table.numbered:
        drawn.add_column(Text("#"), justify="right", no_wrap=True)
    for i in shown:
        column = table.columns[i]
        text = column.kind == "text"
        drawn.add_column(
            _column_head(column),
            justify="right" if column.is_numeric else "left",
            no_wrap=not text or (i == longest and not folded),
            overflow="fold" if text and (i != longest or folded) else "ellipsis",
            ratio=1 if i == longest else None,
            max_width=_NAME_COLUMNS if text and i != longest else None,
        )
        if column.bar and wide:
            drawn.add_column(
                Text(_ruler(bar_columns) if column.kind == "nats" else ""), no_wrap=True, width=bar_columns
            )
    rows = list[list[Text]]()
    for number, row in enumerate(kept, 1):
        cells = [Text(str(number))] if table.numbered else []
        for i in shown:
            column, cell = table.columns[i], row.cells[i]
            heat = b.heat_of(cell, row, table.floor_nats)
            cells.append(_cell(cell, column, max(60, columns) if i == longest else 40))
            if column.shade or isinstance(cell, b.Shaded):
                cells[-1].stylize(paint.style(heat))
            if column.bar and wide:
                cells.append(paint.bar(cell, column, heat, bar_columns))
        rows.append(cells)
    _fit(table, drawn, rows, shown, longest, columns)
    for row, cells in zip(kept, rows, strict=True):
        drawn.add_row(*cells, style="dim" if row.quiet else "bold" if row.strong else "")
    if len(table.rows) > len(kept):
        # In the widest column of words, so that the sentence is read whole.
        remainder = Text(_more(table, len(kept)), style="dim")
        before = shown[: shown.index(longest)] if longest is not None else []
        at = int(table.numbered) + len(before) + sum(wide and table.columns[i].bar for i in before)
        drawn.add_row(*[Text()] * at, remainder)
    return drawn


def _fit(
    table: b.Table, drawn: Table, rows: Sequence[list[Text]], shown: Sequence[int], longest: int | None, columns: int
) -> None:
    """Fold the program's own words, and shorten the names in front, which are ids, to the room that there is."""
    first = int(table.numbered)
    at = first
    places = dict[int, int]()
    for i in shown:
        places[i] = at
        at += 1 + (table.columns[i].bar and columns >= _WIDE_COLUMNS)
    rooms = {i: _NAME_COLUMNS for i in shown if table.columns[i].kind == "text" and i != longest}
    if longest is not None:
        taken = 0
        for place, column in enumerate(drawn.columns):
            if place != places[longest]:
                lines = [line for cells in (*rows, [_head_of(column)] * at) for line in cells[place].plain.split("\n")]
                width = max(map(cell_len, lines), default=0)
                taken += 1 + (column.width or min(width, column.max_width or width))
        rooms[longest] = max(columns - taken, _NAME_COLUMNS)
    for i, room in rooms.items():
        cells = [row.cells[i] for row in table.rows[: len(rows)]]
        if i == shown[0] and cells and all(isinstance(cell, b.Untrusted) for cell in cells):
            short = short_names((texts[places[i]].plain for texts in rows), room)
            for texts in rows:
                texts[places[i]] = Text(short.get(texts[places[i]].plain, texts[places[i]].plain))
            continue
        for texts, cell in zip(rows, cells, strict=True):
            if _is_own(cell) and not isinstance(cell, b.Noted):
                texts[places[i]] = Text(folded(texts[places[i]].plain, room))


def _head_of(column: Column) -> Text:
    return column.header if isinstance(column.header, Text) else Text(str(column.header))


def _column_head(column: b.Column) -> Text:
    """The title, on two lines where it is wider than the numbers beneath."""
    title = b.plain(column.title)
    spaces = [i for i, letter in enumerate(title) if letter == " "]
    if not column.is_numeric or len(title) <= 10 or not spaces:
        return Text(title)
    middle = min(spaces, key=lambda i: abs(2 * i - len(title)))
    return Text(f"{title[:middle]}\n{title[middle + 1 :]}")


def _is_own(cell: b.Cell) -> bool:
    return isinstance(cell, b.Noted | str) or (isinstance(cell, tuple) and all(isinstance(part, str) for part in cell))


def _has_marks(cell: b.Cell) -> bool:
    return b.has_marks(b.cell_phrase(cell, b.Column("")))


def _cell(cell: b.Cell, column: b.Column, characters: int) -> Text:
    phrase = b.cell_phrase(cell, column)
    if b.has_marks(phrase):
        text = _said(phrase, on_one_line=True)
    elif _is_own(cell) and not isinstance(cell, b.Noted):
        text = Text(" ".join(b.plain(phrase).split()))
    else:
        text = Text(excerpt(b.plain(phrase), characters))
    if column.kind == "interval":
        text.stylize("dim")
    if column.bar:
        text.stylize("bold")
    if isinstance(cell, b.Noted):
        for note in cell.notes:
            text.append(f"\n{b.plain(note)}", "italic")
    return text


def _longest(table: b.Table, shown: Sequence[int]) -> int | None:
    """The column of words that takes the width that is left; None where all are short."""
    lengths = {
        i: max((len(b.plain(b.cell_phrase(row.cells[i], table.columns[i]))) for row in table.rows[:50]), default=0)
        for i in shown
        if table.columns[i].kind == "text"
    }
    noted = [i for i in lengths if any(isinstance(row.cells[i], b.Noted) for row in table.rows[:50])]
    longest = noted[0] if noted else max(lengths, key=lambda i: lengths[i], default=None)
    return longest if longest is not None and lengths[longest] > _NAME_COLUMNS else None


def _more(table: b.Table, n_shown: int) -> str:
    n = len(table.rows) - n_shown
    sentence = f"{n:,} more {table.rest[n != 1]}"
    bars = [i for i, column in enumerate(table.columns) if column.bar and column.kind == "nats"]
    nats = [row.cells[i] for i in bars[:1] for row in table.rows[n_shown:]]
    numbers = [float(value) for value in nats if isinstance(value, float | int)]
    if numbers and all(row.quiet for row in table.rows[n_shown:]):
        return f"{sentence}, no finding"
    return f"{sentence}, at most {scale.nats_text(max(numbers))} nats each" if numbers else sentence


def _ruler(columns: int) -> str:
    """The ticks of the common scale above the bars: 1, 3 and 10 nats."""
    cells = [" "] * columns
    for tick in (1.0, 3.0, 10.0):
        at = min(columns - 2, round(scale.position(tick) * columns))
        if cells[at - 1] != " ":
            continue
        cells[at : at + len(f"{tick:g}")] = f"{tick:g}"
    return "".join(cells)


# ---- shaded texts ---------------------------------------------------------------------------------------------------
def shaded_text(text: b.ShadedText, paint: Paint) -> Iterator[Text]:
    if text.style == "tokens":
        yield _tokens(text, paint)
        if text.floor_said_nats is not None:
            noise = (
                f" above {text.floor_name} {scale.nats_text(text.floor_said_nats)}: " if text.floor_said_nats else ""
            )
            yield _legend(paint, noise)
        return
    if not text.unmeasured and all(segment.nats is None for passage in text.passages for segment in passage.segments):
        yield _uncoloured(text)
        return
    yield _passages(text, paint)
    floor = text.floor_nats if text.floor_said_nats is None else text.floor_said_nats
    yield _legend(paint, f" above {text.floor_name} {scale.nats_text(floor)}: ", after="  ¹ ² ³ rank")
    for why in text.unmeasured:
        yield _dim(_unmeasured(b.UNMEASURED[why], paint))


def _tokens(text: b.ShadedText, paint: Paint) -> Text:
    out = Text()
    marked = {number for one in text.disclosed if one.is_sensitive for number in range(*one.tokens)}
    for number, segment in enumerate(segment for passage in text.passages for segment in passage.segments):
        heat = scale.heat(segment.nats or 0.0, text.floor_nats)
        at = len(out)
        out.append(segment.text.shown, paint.style(heat))
        if segment.line or number in marked:
            out.stylize("underline", at)
        if heat and not paint.coloured:
            out.append(block(heat))
    return out


def _uncoloured(text: b.ShadedText) -> Text:
    """A text without numbers, with a mark where it is struck out; of a long one beginning and end."""
    out = ""
    for passage in text.passages:
        out += ("" if not out or out.endswith("\n") else "\n") if passage.name else ""
        out += f"── {excerpt(b.plain(passage.name), 60)}\n" if passage.name else ""
        for segment in passage.segments:
            if not segment.struck:
                out += segment.text.shown
            elif not out.rstrip().endswith(_STRUCK):
                out += _STRUCK
    if len(out) > SHOWN_CHARACTERS:
        half = SHOWN_CHARACTERS // 2
        out = f"{out[:half]}\n… {len(out) - 2 * half:,} characters more …\n{out[-half:]}"
    return Text(out)


def _passages(text: b.ShadedText, paint: Paint) -> Text:
    """Each character shaded by the strongest piece that covers it, without weak parts of a long text."""
    runs = _runs(text)
    kept = _affordable(runs)
    out, elided, ranked, last = Text(), False, set[int](), -1
    for index, (number, segment, words) in enumerate(runs):
        name = text.passages[number].name
        if number != last and name:
            out.append("" if not out or out.plain.endswith("\n") else "\n")
            out.append(f"── {excerpt(b.plain(name), 60)}\n", "dim")
        last = number
        if index not in kept:
            if not elided:
                out.append(" … ", "dim")
            elided = True
            continue
        elided = False
        heat = scale.heat(segment.nats or 0.0, text.floor_nats)
        rank = "" if segment.rank is None or segment.rank in ranked else str(segment.rank).translate(_SUPERSCRIPT)
        if segment.rank is not None:
            ranked.add(segment.rank)
        if segment.unmeasured:
            out.append(_unmeasured(words, paint), "dim")
        elif heat and not paint.coloured and segment.rank is not None:
            out.append(f"⟦{block(heat)}{rank}{words}⟧")
        else:
            out.append(rank, "bold")
            out.append(words, paint.style(heat))
    return out


def _unmeasured(words: str, paint: Paint) -> str:
    """Words without an exact number, which are dim; where a terminal has no colours, they have brackets."""
    return words if paint.coloured or not words.strip() else f"‹{words}›"


def _runs(text: b.ShadedText) -> list[tuple[int, b.Segment, str]]:
    """Stretches with the same strongest piece: number of the passage, the first segment, all the words."""
    stretches = []
    for number, passage in enumerate(text.passages):
        for _, same in groupby(
            passage.segments, lambda each_segment: (each_segment.pieces[:1], each_segment.rank, each_segment.unmeasured)
        ):
            group = list(same)
            stretches.append((number, group[0], "".join(segment.text.shown for segment in group)))
    return stretches


def _affordable(runs: Sequence[tuple[int, b.Segment, str]]) -> set[int]:
    """Indices of the runs to show: all of a short text, of a long one the strongest that fit."""
    if sum(len(words) for _, _, words in runs) <= SHOWN_CHARACTERS:
        return set(range(len(runs)))
    left, kept = SHOWN_CHARACTERS, set()
    strength = [-1.0 if segment.nats is None else segment.nats for _, segment, _ in runs]
    for index in sorted(range(len(runs)), key=lambda i: (-strength[i], i)):
        if len(runs[index][2]) <= left:
            left -= len(runs[index][2])
            kept.add(index)
    return kept


# ---- colours of the scale --------------------------------------------------------------------------------------------
def block(heat: int) -> str:
    """A colour of the scale, on a console without colours."""
    return BLOCKS[(heat - 1) * len(BLOCKS) // scale.BINS]


def _legend(paint: Paint, quiet: str = "", *, after: str = "") -> Text:
    """The ticks of the scale in their colours; `quiet` says what has none."""
    text = Text("nats  ", style="dim")
    text.append(quiet, "dim")
    for tick in scale.TICKS_NATS:
        heat = scale.heat(tick, 0.0)
        mark = "" if paint.coloured else block(heat)
        text.append(f" {mark}{tick:g}{'+' if tick == scale.TOP_NATS else ''} ", paint.style(heat))
    text.append(after, "dim")
    return text
