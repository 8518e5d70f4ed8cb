"""What a report says, without how: typed blocks that an instrument makes and four renderers show.

A plain `str` in a block is the program's own words. A text that came from a user, a model or a file is `Untrusted`,
which is no `str`: the type checker rejects it where own words are expected, and formatting it into a string raises.
Both meet in a `Phrase`. Renderers escape every text; an `Untrusted` passes `core.plain.visible` before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from string import Formatter
from typing import Any, Final, Literal, NamedTuple, NoReturn, Self, TypeAlias, TypeVar

from leakmeter.core.plain import counted, excerpt, visible
from leakmeter.overriding import override
from leakmeter.report import scale

T = TypeVar("T")
ColumnKind: TypeAlias = Literal[
    "text", "nats", "signed_nats", "number", "posterior", "share", "count", "p_value", "interval"
]
"""How the cells of a column are written; a posterior is never rounded to 0 or 1, a share may be either, or more."""
Role: TypeAlias = Literal["", "nats", "signed", "whole"]
"""What a column shows while one response token is chosen: the same as before, what the row's piece did to the token,
the same with its sign, or nothing, since it is about the whole response."""
Unmeasured: TypeAlias = Literal["", "screened", "unseen"]
"""Why a stretch of a text has no exact number: a search screened it only, or did not look at it on its own."""
UNMEASURED: Final[Mapping[Unmeasured, str]] = {
    "screened": "screened only, no exact value",
    "unseen": "not scored individually",
}
"""As legends say it."""
SeriesStyle: TypeAlias = Literal["line", "bar", "scatter", "density", "steps", "rows", "rings", "ticks", "lengths"]
"""How a series is drawn; `rows` is one number a line, with its name at the left; `rings` go around points of others;
`ticks` are many numbers a line, as strokes; `lengths` are bars from the left, one below the other, with their labels
behind their ends."""

IN_FRONT: Final = 3
"""Sentences behind a finding; more are read under "How to read this"."""
_SENTENCE_ENDS: Final = re.compile(r"[.?!](?=\s|$)")
HOUSE: Final = 7
"""The pages' own colour among those of series, for what a chart is about."""


@dataclass(frozen=True, slots=True)
class Untrusted:
    """A text that came from a user, a model or a file."""

    text: str = field(repr=False)
    at_most: int | None = None
    """Show it on one line of so many characters, its middle cut out; None shows it whole."""
    to: str = ""
    """Where on its page it leads to: an anchor of ours, such as that of a section."""
    marked: bool = False
    """These are the words that matter in the text around them."""

    @property
    def shown(self) -> str:
        """The text without anything that a terminal or the bidirectional algorithm would obey; not escaped."""
        return visible(self.text) if self.at_most is None else excerpt(self.text, self.at_most)

    @override
    def __str__(self) -> NoReturn:
        raise TypeError("a text from a user does not go into a string of ours; put both into a tuple")

    @override
    def __format__(self, spec: str) -> NoReturn:
        self.__str__()


class Code(str):
    """Words of ours to be typed as they stand, such as a command or an option; a page does not break them."""

    __slots__ = ()


Phrase: TypeAlias = str | Untrusted | tuple[str | Untrusted, ...]
"""Parts of one text of a user that follow one another, such as marked words and those around them, are read as one."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The finding, in one sentence that a reader can act on."""

    text: Phrase
    verdict: Literal["", "good", "bad"] = ""
    """Where it is one: a page marks it with a colour."""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `soft` for what explains, `prose` for text to be read as it was written."""

    text: Phrase
    style: Literal["plain", "soft", "prose"] = "plain"
    heading: Phrase = ""
    detail: bool | None = None
    """Explains a finding that a reader understands without: a terminal shows it with --explain only, a page under "How
    to read this". None: so does what is soft."""

    @property
    def is_detail(self) -> bool:
        return self.style == "soft" if self.detail is None else self.detail


@dataclass(frozen=True, slots=True)
class Warning:
    """What narrows the meaning of the numbers."""

    text: Phrase
    detail: bool = False
    """Changes no reading of a number: a terminal shows it with --explain only, a page under "How to read this"."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about what was found: rows of a decision table."""

    rows: Sequence[tuple[Phrase, Phrase]]
    """(what was found, what to do), those that these results meet."""
    others: Sequence[tuple[Phrase, Phrase]] = ()
    """The rest of the decision table; a page folds it, other renderers leave it out."""

    @classmethod
    def from_table(cls, table: Iterable[tuple[str, str]], met: Collection[tuple[str, str]]) -> Self:
        """What rows have between backticks is `Code`."""
        shown = [(row in met, (row[0], sentence(row[1]))) for row in table]
        return cls([row for is_met, row in shown if is_met], [row for is_met, row in shown if not is_met])


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends, in the unit of its column."""

    low: float
    high: float


def interval(ends: tuple[float, float] | None) -> Interval | None:
    return None if ends is None else Interval(*ends)


def finding(nats: float, *, is_finding: bool) -> Cell:
    return nats if is_finding else scale.nats_cell(nats)


@dataclass(frozen=True, slots=True)
class Noted:
    """A text with short remarks beside it."""

    text: Phrase
    notes: Sequence[Phrase] = ()


@dataclass(frozen=True, slots=True)
class Shaded:
    """A cell with a colour of the scale that its number of nats does not say, such as that of a p-value's grade."""

    cell: float | Phrase
    heat: int
    """1 to `scale.BINS`; 0 for no colour."""
    notes: Sequence[Phrase] = ()
    """Short remarks beside it, which pages alone show."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what is said of each, such as settings."""

    facts: Sequence[tuple[Phrase, Phrase | Shaded]]
    heading: str = ""
    on: Literal["everywhere", "pages"] = "everywhere"


@dataclass(frozen=True, slots=True)
class Values:
    """Several words, such as the kinds of what a case discloses: a reader of a page chooses rows by each of them."""

    values: Sequence[Phrase]


Cell: TypeAlias = float | Interval | Noted | Shaded | Values | Phrase | None
"""None: not measured. A numeric column may hold words where there is no number."""


@dataclass(frozen=True, slots=True)
class Column:
    heading: Phrase
    kind: ColumnKind = "text"
    unit: str = ""
    """Written behind the heading; empty where heading or caption tells it."""
    shade: bool = False
    """Give each number of nats its colour of the scale."""
    bar: bool = False
    """Draw each number of nats as a bar beside it, on the scale of all bars; each share as its part of the whole."""
    role: Role = ""
    on: Literal["everywhere", "wide", "pages", "chips"] = "everywhere"
    """`wide`: left out where there is little room, in a narrow terminal and in the line of a folded section; `pages`:
    shown by HTML alone; `chips`: not shown, a reader of a page chooses rows by it."""
    chips: bool = False
    """Has few values: a reader of a page with a script chooses rows by them, in a table that can be sorted or filtered
    and in the list of cases."""
    digits: int | None = None
    """Significant digits of a share, where those of its kind are too few."""
    detail: bool = False
    """A terminal shows it with --explain only."""

    @property
    def title(self) -> Phrase:
        return (*parts(self.heading), f", {self.unit}") if self.unit else self.heading

    @property
    def is_numeric(self) -> bool:
        """Whether cells stand at the right and sort as numbers."""
        return self.kind not in ("text", "interval")


@dataclass(frozen=True, slots=True)
class Row:
    cells: Sequence[Cell]
    piece: int | None = None
    """Number of the piece it is about; shaded segments of the same `Attribution` link to it."""
    quiet: bool = False
    """Not a finding: no colour."""
    to: str = ""
    """The `anchor` of the embedded report that its first cell leads to; or the path of a page of the same server."""
    strong: bool = False
    """Meets what was asked for: in bold."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A number to compare bars with, such as the noise floor."""

    name: str
    nats: float
    note: Phrase


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: Phrase = ""
    rest: tuple[str, str] = ("row", "rows")
    """What rows are called that are left out."""
    first: int = 20
    """Rows that a terminal or Markdown shows."""
    first_on_pages: int = 1000
    open_on_pages: int = 20
    """Rows that a page shows at once; a reader opens the others."""
    marks: Sequence[Mark] = ()
    """Two at most."""
    floor_nats: float = 0.0
    """Where colours of nats begin."""
    sortable: bool = False
    """A reader of the page may sort it; adds the script to a page."""
    filterable: bool = False
    numbered: bool = False
    """Begin each row with its number, from 1; a page does so where its readers cannot sort."""
    detail: bool = False
    """Is not what a reader looks for first: a terminal shows it with --explain only."""


Columns: TypeAlias = list[tuple[Column, Callable[[T], Cell]]]
"""Columns, and what each shows of an item."""


def heads(columns: Columns[T]) -> tuple[Column, ...]:
    return tuple(column for column, _ in columns)


def cells(columns: Columns[T], item: T) -> tuple[Cell, ...]:
    return tuple(cell(item) for _, cell in columns)


def table_of(
    items: Iterable[T],
    columns: Columns[T],
    caption: Phrase = "",
    *,
    quiet: Callable[[T], bool] = lambda item: False,
    to: Callable[[T], str] = lambda item: "",
    **more: Any,
) -> Table:
    """A row for each item, all shown unless `more` (fields of a table) has `first`."""
    rows = [Row(cells(columns, item), quiet=quiet(item), to=to(item)) for item in items]
    return Table(heads(columns), rows, caption, **{"first": len(rows), **more})


@dataclass(frozen=True, slots=True)
class Words:
    text: Untrusted
    disclosures: Sequence[int] = ()
    """Numbers of the disclosures, among those of the same `Attribution`, that came from them."""
    is_sensitive: bool = False
    """Whether something personal or secret did."""


@dataclass(frozen=True, slots=True)
class Disclosed:
    """A span of a response that the context gave away."""

    text: Untrusted
    kind: Phrase
    nats: float
    origin: Phrase
    """Where it came from: documents, or pieces."""
    tokens: tuple[int, int]
    """First token of the response, and the one behind the last."""
    pieces: Sequence[int] = ()
    """Numbers of the pieces that it came from."""
    is_sensitive: bool = False
    """Whether it is something personal or secret; a page marks it strongly."""


@dataclass(frozen=True, slots=True)
class Disclosures:
    """What a response gives away of its context, one line each, in the order of the response."""

    disclosed: Sequence[Disclosed]
    heading: Phrase = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a shaded text."""

    text: Untrusted
    nats: float | None = None
    pieces: Sequence[int] = ()
    """Numbers of the pieces that cover it."""
    values: Sequence[int] = ()
    """Numbers of the values with several mentions of which this is one."""
    note: Phrase = ""
    """About the stretch; a page without script shows it under the pointer."""
    rank: int | None = None
    """Of the strongest piece that covers it, from 1."""
    struck: bool = False
    """Taken out of the text: struck through on a page, […] elsewhere."""
    line: Literal["", "solid", "dotted"] = ""
    """Drawn beneath a token, or a part of one."""
    unmeasured: Unmeasured = ""
    """Why there are no nats where there might be some; it is shown in a way of its own, never as a colour."""
    parts: Sequence[Words] = ()
    """The text, cut where words begin and end that a disclosure came from; empty where none do."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A document of a shaded text, or all of it."""

    segments: Sequence[Segment]
    name: Phrase = ""


@dataclass(frozen=True, slots=True)
class ShadedText:
    """A text in colours of the scale: stretches by their nats, or, as `tokens`, one token a segment."""

    passages: Sequence[Passage]
    heading: Phrase = ""
    floor_nats: float = 0.0
    """At and below which there is no colour: the placebo where there is one, else the noise floor."""
    floor_said_nats: float | None = None
    """The floor that the legend names; where None, `floor_nats`, or as `tokens` no legend."""
    floor_name: str = "noise"
    style: Literal["pieces", "tokens"] = "pieces"
    disclosed: Sequence[Disclosed] = ()
    """What of a text in `tokens` is marked."""
    detail: bool = False
    """A terminal shows it with --explain only."""

    @property
    def unmeasured(self) -> list[Unmeasured]:
        return sorted({segment.unmeasured for passage in self.passages for segment in passage.segments} - {""})


@dataclass(frozen=True, slots=True)
class Attribution:
    """A context beside the response, with the pieces in tables: choose a token and see its pieces, or the reverse."""

    context: ShadedText
    response: ShadedText
    tables: Sequence[Table]
    nats: Sequence[float]
    """Of each piece, in the order of their numbers; 0 of one that is no finding."""
    signed_by_token: Sequence[Sequence[float]]
    """(piece, response token), nats."""
    whole_signed_by_token: Sequence[float]
    floor_by_token: Sequence[float]
    """At and below which a piece did nothing to a response token."""
    whole_floor_by_token: Sequence[float]
    """As that, of the whole context; infinite where it is no finding."""
    beside: Sequence[Block] = ()
    """Shown above the response, such as the query."""
    partly: bool = False
    """Whether there are more pieces than those in the tables: no share of all pieces is known."""
    disclosures: Disclosures = Disclosures(())
    """Marked in the response, and listed beneath it; where there is no page, other blocks of a report list them."""


@dataclass(frozen=True, slots=True)
class Axis:
    label: Phrase
    unit: str = ""
    scale: Literal["linear", "log", "sqrt"] = "linear"
    names: Sequence[Phrase] = ()
    """Of the places 0, 1, 2 …, where it has names instead of numbers."""
    whole: bool = False
    """Only whole numbers have ticks."""
    ticks: Sequence[float] = ()
    """Where there are ticks, if it is not the scale that says."""
    ends: tuple[float, float] | None = None
    """How far it reaches, if it is not the numbers that say."""
    from_zero: bool = True
    """Whether a vertical axis has 0 in it."""

    @property
    def title(self) -> Phrase:
        return (*parts(self.label), f", {self.unit}") if self.unit else self.label


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """Numbers that are drawn alike."""

    draws: SeriesStyle
    y: Sequence[float]
    """Heights; of a density the sample itself, of rows their lengths."""
    x: Sequence[float] = ()
    """Places, of rows from the top; 0, 1, 2 … where empty."""
    name: Phrase = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    """Ends of intervals; of a line with many points a band."""
    x_low: Sequence[float] = ()
    x_high: Sequence[float] = ()
    """Ends of intervals of the places."""
    labels: Sequence[Phrase] = ()
    """What is written beside each number."""
    notes: Sequence[Phrase] = ()
    """About each number; a page shows it under the pointer."""
    colour: int | None = None
    """Among the colours of series; its place in the panel where None."""
    faded: bool = False
    marked: bool = True
    """Whether each number of a line has a mark; those of a line with many have none."""
    remark: Phrase = ""
    """Written into the panel in the colour of the series, such as its mean."""


@dataclass(frozen=True, slots=True)
class Guide:
    """A straight line across a panel."""

    at: float
    label: str
    across: Literal["x", "y"] = "y"
    """The axis it has its place on."""
    line: Literal["dashed", "dotted"] = "dashed"


@dataclass(frozen=True, slots=True)
class Panel:
    x: Axis
    y: Axis
    series: Sequence[ChartSeries] = ()
    title: Phrase = ""
    notes: Sequence[Phrase] = ()
    """Lines beneath the title."""
    guides: Sequence[Guide] = ()
    grid: Sequence[Sequence[float]] | None = None
    """Nats, (row, column), drawn as colours of the scale under the axes' names, instead of series."""
    named_above: bool = False
    """The name of each line stands above it, which leaves the whole width to its numbers."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of one panel or of small multiples."""

    name: str
    """Fit for a file."""
    title: str
    panels: Sequence[Panel]
    footer: str = ""
    columns: int = 2
    """Panels beside each other, at most."""
    panel_inches: tuple[float, float] = (4.8, 3.6)
    on: Literal["everywhere", "files", "pages"] = "everywhere"
    """`files`: drawn for figure files, and left out of pages; `pages`: the reverse."""
    first: bool = False
    """Is looked at before anything is read: pages show it below the finding, before the cases."""


def chart_of_rows(name: str, title: str, axis: str, names: Sequence[Phrase], series: ChartSeries, footer: str) -> Chart:
    """A figure file of nats, one line each; `axis` says what they are and stands at the axis."""
    panel = Panel(Axis(axis, "nats"), Axis("", names=names), (series,))
    inches = 7.2, 1.1 + 0.24 * max(len(names), 4)
    return Chart(name, title, (panel,), footer=footer, panel_inches=inches, on="files")


@dataclass(frozen=True, slots=True)
class Image:
    """A figure that is drawn already; pages show it, other renderers name it."""

    name: Phrase
    png: bytes = field(repr=False)

    @property
    def inches(self) -> int:
        """Its width, of which a reader's screen has to have enough; figures are drawn with 160 pixels an inch."""
        return min(24, max(3, round(int.from_bytes(self.png[16:20], "big") / 160)))


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks in two columns of a wide page; one column after the other elsewhere."""

    first: Sequence[Block]
    second: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks under a summary that a reader opens; a terminal shows their facts alone."""

    summary: Phrase
    blocks: Sequence[Block]
    told: bool = False
    """A terminal shows all of them with --explain."""


@dataclass(frozen=True, slots=True)
class HeadedBlocks:
    """Blocks under a heading of their own."""

    heading: Phrase
    blocks: Sequence[Block]
    detail: bool = False
    """Is not what a reader looks for first: a terminal shows it with --explain only."""


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """What somebody said in a conversation, or what was read in it."""

    side: Literal["said", "read", "emitted"]
    """Whether the user or somebody else said it, the model read it, or the model emitted it."""
    who: Phrase
    text: Phrase | ShadedText
    note: Phrase = ""
    """Beside who said it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation in its order, as people know chats: what was read is folded; a terminal leaves it out."""

    summary: Phrase
    turns: Sequence[ConversationTurn]
    anchor: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Cards:
    """Parts beside each other, as many as a page has room for; one after the other elsewhere."""

    parts: Sequence[HeadedBlocks]
    heading: Phrase = ""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """How to run it again."""

    line: Untrusted

    @classmethod
    def from_line(cls, line: str | None) -> Self | None:
        return None if line is None else cls(Untrusted(line))


@dataclass(frozen=True, slots=True)
class Embedded:
    """Another report whole, as a page within the page, which has it among its own blocks and not in a section; other
    renderers show its headlines."""

    summary: Phrase
    report: Report
    anchor: str = ""


Block: TypeAlias = (
    Headline
    | Text
    | Warning
    | Advice
    | Facts
    | Table
    | ShadedText
    | Disclosures
    | Attribution
    | Chart
    | Image
    | Beside
    | Details
    | HeadedBlocks
    | Cards
    | Conversation
    | CommandLine
    | Embedded
)


class Later(Sequence["Block"]):
    """Blocks that are made when they are first read: a terminal shows none of many cases."""

    def __init__(self, make: Callable[[], Iterable[Block]]) -> None:
        self._make = make

    @cached_property
    def _blocks(self) -> Sequence[Block]:
        return tuple(self._make())

    @override
    def __len__(self) -> int:
        return len(self._blocks)

    @override
    def __getitem__(self, at: Any) -> Any:
        return self._blocks[at]


@dataclass(frozen=True, slots=True)
class Section:
    """One case: a line of a page that a reader opens; where it is the only one, it is shown whole."""

    name: Phrase
    blocks: Sequence[Block]
    cells: Sequence[Cell] = ()
    """Under the report's `index` columns."""
    weight: float = 0.0
    """Sections are ranked by it, the heaviest first; a page that cannot hold all keeps these."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What is said of a run of which cases are left."""

    only: str
    """How many are measured, in a sentence: a headline begins with it."""
    details: str
    """What that means for the others, in sentences."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers come from; what is empty is not told."""

    model: Phrase = ""
    run_id: Phrase = ""
    version: str = ""
    facts: Sequence[tuple[Phrase, Phrase]] = ()
    n_left_out: int = 0
    """Cases that could not be used."""
    unfinished: Unfinished | None = None
    """Where cases are left that were not measured yet."""

    def named_facts(self) -> list[tuple[Phrase, Phrase]]:
        named = (("Model", self.model), ("Run", self.run_id), ("Version", self.version), *self.facts)
        return [(name, value) for name, value in named if value]


@dataclass(frozen=True, slots=True)
class Report:
    """What an instrument says about one case or many.

    All renderers show it in one order: what was found (headlines, the texts behind them), what to do about it, what
    narrows it (warnings), the cases by weight, then the other blocks, and last what explains: see `arranged`.
    """

    title: Phrase
    measure: str
    blocks: Sequence[Block] = ()
    """About all cases together; where there is one section, they follow its blocks."""
    lead: str = ""
    """What was done, for who sees a page without its run; a terminal leaves it out."""
    caveat: str = ""
    sections: Sequence[Section] = ()
    index: Sequence[Column] = ()
    """Of sections; where all columns are for pages, no other renderer lists the sections."""
    index_caption: str = ""
    """Above the sections: what they are ranked by."""
    index_first: int = 20
    """Sections that a terminal or Markdown lists."""
    case: tuple[str, str] = ("case", "cases")
    scripted: bool = True
    """Whether its page may have the script; without, nothing is sorted or turned over."""
    aside: Sequence[Block] = ()
    """Beside the lead of a page, such as how to read its colours; a terminal leaves it out."""
    sections_left_out: str = ""
    """Which sections a page leaves out first, as in "that leak less"."""
    n_further: int = 0
    """Sections that there are beyond these."""
    held_by: str = "the run holds all"
    """Where a reader finds what a page leaves out."""
    notes: Sequence[Block] = ()
    """What headings and settings mean, at the end."""
    again: str = ""
    """What is to be known before its command is given again."""
    is_signed: bool = True
    """Whether command and run may be told: they may hold a seed that has to stay secret, or be made of it."""
    guide_to: str = ""
    """What nats are about, "piece"; empty leaves the guide to nats out."""
    has_posteriors: bool = True
    """Whether the guide says posteriors; else how many times as likely nats make a response, which is all that is known
    of one that was given."""
    provenance: Provenance = Provenance()
    command: CommandLine | None = None
    secrets: Sequence[str] = field(default=(), repr=False)
    """Keys and passwords that it says; see `masked`."""

    def signed(self, command: str | None, provenance: Provenance) -> Report:
        """With how many cases are left out; and with its command line and run, where these may be told."""
        n = provenance.n_left_out
        left_out = f"{counted(n, 'case')} could not be used and {'is' if n == 1 else 'are'} left out."
        report = _said_first(left_out, self) if n else self
        if (left := provenance.unfinished) is not None:
            report = _said_first(left.only, replace(report, blocks=(Warning(left.details), *report.blocks)))
        if not self.is_signed:
            return report
        notes = (*self.notes, Text(self.again, "soft")) if self.again and command is not None else self.notes
        return replace(report, notes=notes, provenance=provenance, command=CommandLine.from_line(command))

    def interrupted(self, n_measured: int, n_cases: int | None, noun: str = "cases") -> Report:
        """With a warning where not all cases, or what else the `noun` says, were measured."""
        if n_cases is None or n_measured >= n_cases:
            return self
        return replace(self, blocks=(Warning(interrupted(n_measured, n_cases, noun)), *self.blocks))


def _said_first(sentence: str, report: Report) -> Report:
    """The report with a sentence before its finding, or as a warning where its cases have a finding each."""
    at = next((i for i, block in enumerate(report.blocks) if isinstance(block, Headline)), None)
    if at is None:
        return replace(report, blocks=(Warning(sentence), *report.blocks))
    found = report.blocks[at]
    assert isinstance(found, Headline)
    told = Headline((f"{sentence} ", *parts(found.text)), "bad" if found.verdict == "bad" else "")
    return replace(report, blocks=(*report.blocks[:at], told, *report.blocks[at + 1 :]))


def interrupted(n_measured: int, n: int, noun: str) -> str:
    return f"Interrupted: {n_measured:,} of {n:,} {noun} are measured, and all numbers here are for these."


def parts(phrase: Phrase) -> tuple[str | Untrusted, ...]:
    return phrase if isinstance(phrase, tuple) else (phrase,) if phrase else ()


def has_marks(phrase: Phrase) -> bool:
    return any(isinstance(part, Untrusted) and part.marked for part in parts(phrase))


def joined(phrases: Iterable[Phrase], separator: str = ", ") -> tuple[str | Untrusted, ...]:
    listed: list[str | Untrusted] = []
    for phrase in phrases:
        listed += [separator, *parts(phrase)] if listed else parts(phrase)
    return tuple(listed)


def sentence(words: str, **named: Phrase | int) -> tuple[str | Untrusted, ...]:
    """A whole sentence of ours with what stands for the names in its braces: so it is found as it is written, and texts
    of users stay apart from our words. What it has between backticks, which no brace
    stands in, is `Code`."""
    filled: list[str | Untrusted] = []
    for own, name, _, _ in Formatter().parse(words):
        value = "" if name is None else named[name]
        filled += [Code(part) if number % 2 else part for number, part in enumerate(own.split("`"))]
        filled += parts(f"{value:,}" if isinstance(value, int) else value)
    return tuple(part for part in filled if part)


def plain(phrase: Phrase) -> str:
    """A phrase made visible; a renderer with markup has to escape it."""
    return "".join(visible(part) if isinstance(part, str) else part.shown for part in parts(phrase))


def number_text(value: float, kind: ColumnKind) -> str:
    if kind == "nats":
        return scale.nats_cell(value)
    if kind == "signed_nats":
        return scale.signed_cell(value)
    if math.isnan(value):
        return scale.NOT_MEASURED
    if kind == "posterior":
        return scale.percent(value)
    if kind == "share":
        size = abs(value)
        return f"{100 * value:.{0 if size == 0 or size >= 0.0995 else 1 if size >= 0.00995 else 2}f}\u00a0%"
    if kind == "count":
        return f"{value:,.0f}".replace("-", "−")
    if kind == "p_value":
        return "<\u00a00.0001" if value < 0.0001 else f"{value:.{4 if value < 0.01 else 3 if value < 0.1 else 2}f}"
    return scale.nats_text(value)


def cell_phrase(cell: Cell, column: Column) -> Phrase:
    if cell is None:
        return "" if column.kind in ("text", "interval") else scale.NOT_MEASURED
    if isinstance(cell, Interval):
        return f"[{scale.nats_text(cell.low)}, {scale.nats_text(cell.high)}]"
    if isinstance(cell, Noted):
        return cell.text
    if isinstance(cell, Shaded):
        return cell_phrase(cell.cell, column)
    if isinstance(cell, Values):
        return joined(cell.values)
    if isinstance(cell, float | int):
        if column.kind == "share" and column.digits is not None and not math.isnan(cell):
            return scale.share_text(cell, column.digits)
        return number_text(cell, column.kind)
    return cell


def heat_of(cell: Cell, row: Row, floor_nats: float = 0.0) -> int:
    """Colour of a cell, 1 to `scale.BINS`, or 0 for none."""
    if isinstance(cell, Shaded):
        return cell.heat
    return scale.heat(cell, floor_nats) if isinstance(cell, float | int) and not row.quiet else 0


def lines_only(n: int, names: tuple[str, str], held_by: str, kind: str = "") -> str:
    kind = f" {kind}" if kind else ""
    return f"{n:,} further {names[n != 1]}{kind} {'are' if n != 1 else 'is'} one line here, not in full; {held_by}."


def left_out(n: int, names: tuple[str, str], held_by: str, kind: str = "") -> str:
    kind = f" {kind}" if kind else ""
    return f"{n:,} further {names[n != 1]}{kind} {'are' if n != 1 else 'is'} left out of this page; {held_by}."


def fact_phrase(value: Phrase | Shaded) -> Phrase:
    return cell_phrase(value, Column("", "nats"))


def facts_of(named: Mapping[str, str]) -> list[Facts]:
    """Settings, which may hold names of models and files of the user; long ones are for pages."""
    split: dict[Literal["everywhere", "pages"], list[tuple[Phrase, Phrase]]] = {"everywhere": [], "pages": []}
    for name, value in named.items():
        split["pages" if name == "Weights (SHA-256)" else "everywhere"].append((name, Untrusted(value)))
    return [Facts(facts, on=on) for on, facts in split.items() if facts]


def n_sentences(phrase: Phrase) -> int:
    """Sentences of the program; those of a user's text within them are not counted."""
    words = "".join(part if isinstance(part, str) else "…" for part in parts(phrase))
    return len(_SENTENCE_ENDS.findall(words))


def front(phrases: Iterable[Phrase], n: int = IN_FRONT) -> Iterator[Text]:
    """Paragraphs, what matters most first: up to `n` sentences stand behind the finding, the rest explains it."""
    for phrase in phrases:
        if phrase:
            n -= n_sentences(phrase)
            yield Text(phrase, detail=n < 0)


def warnings_of(sentences: Iterable[str]) -> list[Warning]:
    """Warnings of results, which may hold texts of the user."""
    return [Warning(Untrusted(sentence)) for sentence in sentences]


def within(block: Block) -> Sequence[Block]:
    match block:
        case Details() | HeadedBlocks():
            return block.blocks
        case Cards():
            return block.parts
        case Conversation():
            return tuple(turn.text for turn in block.turns if isinstance(turn.text, ShadedText))
        case Beside():
            return (*block.first, *block.second)
        case Attribution():
            return (block.context, *block.beside, block.response, *block.tables)
        case _:
            return ()


def walk(blocks: Sequence[Block]) -> Iterator[Block]:
    """Blocks and those within them, in reading order."""
    for block in blocks:
        yield block
        yield from walk(within(block))


def spelled_out(block: Block) -> Sequence[Block]:
    """Simpler blocks that a renderer without a page shows for a block; none for blocks that it knows itself."""
    match block:
        case Attribution():
            marks = (mark for table in block.tables[:1] for mark in table.marks)
            legend = joined(((f"{mark.name} ", *parts(mark.note)) for mark in marks), " · ")
            return (*within(block), *([Text(legend, "soft")] if legend else []))
        case Disclosures():
            lines: list[tuple[Phrase, Phrase]] = [
                (
                    (*parts(disclosure.kind), f", {scale.nats_text(disclosure.nats)}\u00a0nats"),
                    ("“", disclosure.text, "” ← ", *parts(disclosure.origin)),
                )
                for disclosure in block.disclosed
            ]
            return (Facts(lines, plain(block.heading)),) if lines else ()
        case Beside():
            return within(block)
        case Conversation():
            said: list[Block] = []
            for turn in block.turns:
                who = (*parts(turn.who), *((" ", *parts(turn.note)) if turn.note else ()))
                if isinstance(turn.text, ShadedText):
                    said.append(replace(turn.text, heading=who))
                else:
                    said.append(Text((*who, ": ", *parts(turn.text)), "soft"))
            return (HeadedBlocks(block.summary, said, detail=True),)
        case Cards():
            return (HeadedBlocks(block.heading, block.parts),) if block.heading else block.parts
        case Embedded():
            return (
                HeadedBlocks(block.summary, [inner for inner in block.report.blocks if isinstance(inner, Headline)]),
            )
        case Chart():
            sentence = f"Chart: {block.title}; pages and figure files show it."
            return (Text(sentence, "soft"),) if block.on == "everywhere" else ()
        case Image():
            return (Text(("Figure: ", *parts(block.name), "; pages show it."), "soft"),)
        case _:
            return ()


def brief(block: Block) -> Iterator[Block]:
    """What a terminal shows of a block without --explain."""
    match block:
        case Headline():
            yield block
        case Advice():
            yield Advice(block.rows[:2])
        case Table():
            # `pages` leaves a column out of a terminal.
            columns = [replace(column, on="pages") if column.detail else column for column in block.columns]
            yield from () if block.detail else (replace(block, columns=columns, marks=()),)
        case Warning() | ShadedText():
            yield from () if block.detail else (block,)
        case Text():
            yield from () if block.is_detail else (block,)
        case Attribution():
            for table in (part for inner in block.tables for part in brief(inner) if isinstance(part, Table)):
                n_findings = sum(not row.quiet for row in table.rows)
                yield replace(table, first=min(n_findings, 8) or 3)
        case HeadedBlocks():
            kept = () if block.detail else tuple(part for inner in block.blocks for part in brief(inner))
            yield from (HeadedBlocks(block.heading, kept),) if kept else ()
        case Cards() | Beside():
            yield from (part for inner in within(block) for part in brief(inner))
        case _:
            return


def explains(block: Block) -> bool:
    """Whether a page shows it under "How to read this". A text under a heading of its own, such as a query, is told
    apart by that."""
    match block:
        case Warning() | Table():
            return block.detail
        case Text():
            return block.is_detail and (block.style == "soft" or not block.heading) and block.style != "prose"
        case _:
            return False


class Arranged(NamedTuple):
    """Blocks in the order of every renderer; the cases, where there are several, come behind `lead`."""

    lead: Sequence[Block]
    """Headlines with the texts behind them, what to do, the picture, and what narrows the meaning."""
    rest: Sequence[Block]
    """Charts, tables and what else there is."""


def arranged(blocks: Sequence[Block]) -> Arranged:
    """Findings first, then what to do about them, then the picture; the rest keeps its order."""
    leading = takewhile(lambda block: isinstance(block, Headline | Text | Advice | Warning), blocks)
    texts = [block for block in leading if isinstance(block, Text) and block.style == "plain" and not block.heading]
    kinds: tuple[type, ...] = (Headline, Advice, Warning)
    headlines, advice, warnings = ([block for block in blocks if isinstance(block, kind)] for kind in kinds)
    pictures = [block for block in blocks if isinstance(block, Chart) and block.first]
    first_blocks = [*headlines, *texts, *advice, *pictures, *warnings]
    first_ids = set(map(id, first_blocks))
    return Arranged(first_blocks, [block for block in blocks if id(block) not in first_ids])


def blocks_of(report: Report) -> Sequence[Block]:
    """Blocks that are not folded: those of the section, where there is one only, and the report's own."""
    only = report.sections[0].blocks if len(report.sections) == 1 else ()
    return (*only, *report.blocks)


def ranked(report: Report) -> Sequence[Section]:
    """Its sections, the heaviest first; none where there is only one."""
    return sorted(report.sections, key=lambda section: -section.weight) if len(report.sections) > 1 else ()


def index_of(report: Report) -> Sequence[Table]:
    """The cases as a table, where there is no page; empty for one case, or where all columns are for pages."""
    rows = [Row((section.name, *section.cells)) for section in ranked(report)]
    if not rows or (report.index and all(column.on in ("pages", "chips") for column in report.index)):
        return ()
    columns = (Column(report.case[0].capitalize()), *report.index)
    return (Table(columns, rows, report.index_caption, rest=report.case, first=report.index_first),)


def headline_of(report: Report) -> str:
    """The first finding of a report; "" where there is none."""
    blocks = [*report.blocks, *(block for section in report.sections[:1] for block in section.blocks)]
    return next((plain(block.text) for block in blocks if isinstance(block, Headline)), "")


def charts_of(report: Report) -> list[Chart]:
    """The charts of a report that are figure files."""
    return [chart for chart in walk(blocks_of(report)) if isinstance(chart, Chart) and chart.on != "pages"]
