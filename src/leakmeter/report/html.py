"""A report as one HTML file that asks nothing of the network and trusts nothing it shows.

Text enters a page in one way only, through `_say`, after `core.plain.visible`. The content security policy names the
hashes of our own style sheet and script, so a piece of text that somehow became markup could still neither run, nor
load, nor restyle anything. Without the script a page keeps its colours and its numbers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup, escape

from leakmeter.core.plain import visible
from leakmeter.core.record import JsonObject
from leakmeter.report import blocks as b
from leakmeter.report import charts, glossary, scale
from leakmeter.stats.stats import posterior_from_even_odds

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE_BYTES: Final = 1_900_000
"""Size of a page up to which its sections are shown."""
LIST_BYTES: Final = 6_000_000
"""Of the lines of further cases, which come on top of that."""
SECTIONS_A_SCREEN: Final = 50
"""Lines; a reader turns to the next. A browser with the script reads further ones only when they are shown."""
A_HANDFUL: Final = 5
"""Cases that need neither script nor search box."""
CHIPS_AT_MOST: Final = 8
"""Values of a column that have a button each; more are a menu of check boxes."""
_SCRIPTS: Final = ("common.js", "list.js", "attribution.js", "page.js")
_LINES_BYTES: Final = 2000
"""Of what stands around the lines of cases."""
_AROUND_BYTES: Final = 75_000
"""Of a page without the pages within it."""
_CODE_CHARACTERS: Final = 30
"""That fit a line of a telephone: only longer code is broken, and what is around others stays on their lines."""


class _Level(NamedTuple):
    """Blocks of a page, or of a case on it, in their order: the answer first."""

    found: Sequence[b.Block]
    """The verdict, and what is said of it."""
    answer: Sequence[b.Block]
    """Beside its context."""
    advice: Sequence[b.Block]
    picture: Sequence[b.Block]
    """Of what was found: a telephone shows no more than the verdict and what to do before one scrolls."""
    narrowing: Sequence[b.Block]
    """What narrows the meaning of the numbers."""
    rest: Sequence[b.Block]
    explained: Sequence[b.Block]
    """What is read under "How to read this"."""

    @classmethod
    def of(cls, blocks: Sequence[b.Block]) -> _Level:
        order = b.arranged(blocks)
        explained: list[b.Block] = []
        lead, rest = (list(_without_explanations(some, explained)) for some in order)
        others = [row for block in lead if isinstance(block, b.Advice) for row in block.others]
        if others:
            explained.append(b.HeadedBlocks("Other results, and what to do", [b.Facts(others)]))
        return cls(
            [block for block in lead if isinstance(block, b.Headline | b.Text)],
            [block for block in rest if isinstance(block, b.Attribution)],
            [block for block in lead if isinstance(block, b.Advice)],
            [block for block in lead if isinstance(block, b.Chart)],
            [block for block in lead if isinstance(block, b.Warning)],
            [block for block in rest if not isinstance(block, b.Attribution)],
            explained,
        )


def _without_explanations(blocks: Iterable[b.Block], explained: list[b.Block]) -> Iterator[b.Block]:
    """Blocks without what explains, which is gathered: a page has one fold for it. Of a fold, which holds data, it is
    the soft texts; a fold that has nothing else is left out."""
    for block in blocks:
        match block:
            case b.HeadedBlocks():
                yield replace(block, blocks=list(_without_explanations(block.blocks, explained)))
            case b.Details():
                texts = [inner for inner in block.blocks if isinstance(inner, b.Text) and inner.style == "soft"]
                explained += texts
                left = [inner for inner in block.blocks if inner not in texts]
                if left:
                    yield replace(block, blocks=left)
            case _ if b.explains(block):
                explained.append(block)
            case _:
                yield block


def page(report: b.Report, *, room: int = PAGE_BYTES) -> str:
    """The page as text; equal input gives equal bytes. Of sections that do not fit into `room`, in bytes, the heaviest
    are kept, the first in any case. Of the others a page of full size has their lines, up to `LIST_BYTES`, and it says
    how many are left out."""
    inner = [embedded for embedded in b.walk(report.blocks) if isinstance(embedded, b.Embedded)]
    addresses: dict[int, str] = {}
    within = room - _AROUND_BYTES
    for number, embedded in enumerate(inner):
        # Room that a page does not need is left to the next ones; an address takes four bytes for three.
        addresses[id(embedded)] = address(page(embedded.report, room=max(1, within // (len(inner) - number) * 3 // 4)))
        within -= len(addresses[id(embedded)])
    template = environment().get_template("report.html.j2")
    ranked, scripted = b.ranked(report), _scripted(report)
    level, terms = _Level.of(b.blocks_of(report)), glossary.of_page(report)
    shown: list[Markup] = []
    lines: list[Markup] = []
    drawn: dict[int, Markup] = {}

    def chart(chart_block: b.Chart) -> Markup:
        if id(chart_block) not in drawn:  # the page is made twice, first without its sections
            drawn[id(chart_block)] = Markup(charts.inline_svg(chart_block))
        return drawn[id(chart_block)]

    def whole() -> str:
        at_once = SECTIONS_A_SCREEN if scripted else len(ranked)
        return template.render(
            report=report,
            level=level,
            terms=terms,
            only=report.sections[0] if len(report.sections) == 1 else None,
            sections=shown[:at_once],
            later=[*shown[at_once:], *lines],
            n_lines=len(lines),
            n_left_out=len(ranked) - len(shown) - len(lines) + report.n_further,
            scripted=scripted,
            policy=policy(report, framed=[embedded.report for embedded in inner]),
            address=lambda embedded: addresses[id(embedded)],
            chart=chart,
        )

    macros: Any = template.make_module({"report": report, "chart": chart, "scripted": scripted})
    left = room - _size(whole()) - _LINES_BYTES
    for number, section in enumerate(ranked, 1):
        body = macros.section(section, number)
        left -= _size(body)
        if left < 0 and shown:
            break
        shown.append(body)
    left = LIST_BYTES if room >= PAGE_BYTES and scripted else 0
    for number, section in enumerate(ranked[len(shown) :], len(shown) + 1):
        line = macros.line(section, number)
        left -= _size(line)
        if left < 0:
            break
        lines.append(line)
    return whole() + "\n"


def fragment(blocks: Sequence[b.Block], *, level: int = 2, held_by: str = "the run holds all") -> Markup:
    """Blocks, other than reports, as a part of a page that has the style sheet and the script of reports: findings
    first, under headings of this level. `held_by` says where to find what a table leaves out."""
    order = _Level.of(blocks)
    report = b.Report("", "", blocks, held_by=held_by)
    context = {"report": report, "chart": lambda block: Markup(charts.inline_svg(block)), "scripted": True}
    macros: Any = environment().get_template("report.html.j2").make_module(context)
    shown = (*order.found, *order.answer, *order.advice, *order.picture, *order.narrowing, *order.rest)
    # Terms are told where there is more than a sentence.
    terms = glossary.of_page(report) if order.answer or order.rest else []
    return Markup("").join((*(macros.show(block, level) for block in shown), macros.how(order.explained, terms)))


def address(html: str) -> str:
    """A page as a data address, a third longer: no letter of it can end the attribute it stands in. Its links work; in
    `srcdoc` they would lead to the page around it."""
    return "data:text/html;charset=utf-8;base64," + base64.b64encode(html.encode(errors="replace")).decode()


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


@lru_cache(maxsize=1)
def environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    templates = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"say": _say, "plain": b.plain, "kind": lambda block: type(block).__name__}
    templates.globals |= {
        # Safe to pass unescaped: both are this package's own files.
        "style": Markup(style()),
        "script": Markup(script()),
        "scales": _scales(),
        "screen": SECTIONS_A_SCREEN,
        "handful": A_HANDFUL,
        "chips_at_most": CHIPS_AT_MOST,
        "level_of": _Level.of,
        "cell": lambda row, column: _say(b.cell_phrase(row, column)),
        "heat": b.heat_of,
        "heat_of_nats": scale.heat,
        "nats": lambda nats: scale.nats_cell(nats),
        "width": _width,
        "cut": _cut,
        "marked": _marked,
        "numbered": lambda disclosed, is_sensitive: [
            (number, span) for number, span in enumerate(disclosed) if span.is_sensitive == is_sensitive
        ],
        "nats_text": scale.nats_text,
        "token": _token,
        "data": _data,
        "left_out": b.left_out,
        "lines_only": b.lines_only,
        "unmeasured": b.UNMEASURED,
        "fact": lambda value: _say(b.fact_phrase(value)),
        "png": lambda data: "data:image/png;base64," + base64.b64encode(data).decode(),
        "loud": b.Row(()),
    }
    return templates


def asset(name: str) -> str:
    return resources.files("leakmeter.report").joinpath("assets", name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def script() -> str:
    """The script of a page: its files share names with one another and with nothing else."""
    return '"use strict";\n(() => {\n' + "\n".join(map(asset, _SCRIPTS)) + "})();\n"


@lru_cache(maxsize=1)
def style() -> str:
    light, dark = (
        "".join(f".h{i}{{background:{s.paper};color:{s.ink}}}" for i, s in enumerate(scale.ramp(dark=is_dark), 1))
        for is_dark in (False, True)
    )
    lengths = "".join(f".w{i}{{--w:{i}%}}.f{i}{{--f:{i}%}}.p{i}{{--p:{i}%}}" for i in range(101))
    # Dark is for screens only: a page printed from a dark desktop comes out on white paper.
    ticks = "".join(
        f".axis::{side}{{content:'{tick:g}';left:calc({scale.percent_of_axis(tick)}%*.86)}}"
        for side, tick in (("before", 1.0), ("after", 10.0))
    )
    sheet = asset("report.css") + charts.style()
    return f"{sheet}{light}{ticks}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n{lengths}\n"


def _scales() -> JsonObject:
    return {
        "steps": [
            (
                f"{nats:+g}".replace("-", "−"),
                scale.percent(posterior_from_even_odds(nats)),
                scale.times_text(nats),
                scale.heat(nats, 0.0),
            )
            for nats in scale.STEPS_NATS
        ],
        "ticks": [(f"{tick:g}", scale.percent_of_axis(tick)) for tick in scale.TICKS_NATS],
        "bins": scale.BINS,
        "top": f"{scale.TOP_NATS:g}",
        "knee": f"{scale.KNEE_NATS:g}",
    }


def _say(phrase: b.Phrase) -> Markup:
    """A phrase as markup: every text escaped, and the direction of users' texts kept apart from that of ours. Parts of
    a user's text that follow one another have one direction."""
    markup = Markup("")
    for is_own, parts in groupby(b.parts(phrase), lambda part: isinstance(part, str)):
        said = Markup("").join(map(_part, parts))
        markup += said if is_own else Markup("<bdi>") + said + Markup("</bdi>")
    return markup


def _part(part: str | b.Untrusted) -> Markup:
    if isinstance(part, b.Code):
        typed = visible(part)
        return Markup('<code class="whole{}">{}</code>').format(" long" if len(typed) > _CODE_CHARACTERS else "", typed)
    if isinstance(part, str):
        return escape(visible(part))
    text = Markup("<mark>{}</mark>").format(part.shown) if part.marked else escape(part.shown)
    return Markup('<a href="#{}">{}</a>').format(part.to, text) if part.to else text


def _width(cell: b.Cell, kind: b.ColumnKind = "nats") -> int:
    """Length of a bar, in percent of the longest."""
    if not isinstance(cell, float | int):
        return 0
    return round(100 * min(1.0, max(0.0, cell))) if kind == "share" else scale.percent_of_axis(float(cell))


def _cut(table: b.Table) -> tuple[b.Table, b.Table]:
    """The rows that are shown at once, and those that a reader opens; the script does it where they can be sorted."""
    n = table.open_on_pages
    rest = replace(table, rows=table.rows[n:], first_on_pages=table.first_on_pages - n, caption="", marks=())
    return replace(table, rows=table.rows[:n]), rest


def _token(segment: b.Segment) -> tuple[str, str]:
    """A space before a word, and the word: at a line's end the space would hang there as a sliver of colour."""
    text = segment.text.shown
    word = text.lstrip(" ")
    gap = text[: len(text) - len(word)] if word or segment.nats is None else ""
    return gap, text[len(gap) :].replace("\n", "↵\n")


def _marked(
    segments: Sequence[b.Segment], disclosed: Sequence[b.Disclosed]
) -> Iterator[tuple[int, b.Disclosed | None, Sequence[b.Segment]]]:
    """The tokens of a response in runs, each with the number of its disclosure and this, or −1 and None. A token of two
    disclosures is the first's."""
    at = 0
    for number, disclosure in enumerate(disclosed):
        start, end = max(at, disclosure.tokens[0]), min(len(segments), disclosure.tokens[1])
        if start < end:
            yield -1, None, segments[at:start]
            yield number, disclosure, segments[start:end]
            at = end
    yield -1, None, segments[at:]


def _data(attribution: b.Attribution) -> Markup:
    """Numbers for the script: floors, totals, signed nats a token; no text of the case at all."""
    numbers = {
        "f": _short(attribution.context.floor_nats),
        "p": [_short(nats) for nats in attribution.floor_by_token],
        "q": [_short(nats) for nats in attribution.whole_floor_by_token],
        "n": [_short(nats) for nats in attribution.nats],
        "w": [_short(nats) for nats in attribution.whole_signed_by_token],
        "t": [[_short(nats) for nats in row] for row in attribution.signed_by_token],
    }
    text = json.dumps(numbers, allow_nan=False, separators=(",", ":"))
    # Nothing in it can end the script element that it stands in.
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _short(number: float) -> float | int | None:
    """Three significant digits, as the page shows; None for infinity and NaN."""
    if not math.isfinite(number):
        return None
    short = float(f"{number:.3g}")
    return int(short) if short == int(short) else short


def _scripted(report: b.Report) -> bool:
    """Whether there is something to choose, search, sort or turn over."""
    if not report.scripted:
        return False
    if len(report.sections) > A_HANDFUL:
        return True
    blocks = b.walk([*report.blocks, *(block for section in report.sections for block in section.blocks)])
    return any(
        isinstance(block, b.Attribution) or (isinstance(block, b.Table) and (block.sortable or block.filterable))
        for block in blocks
    )


def policy(report: b.Report, framed: Sequence[b.Report] = ()) -> str:
    """The content security policy of a page. A page shown within is under this policy as well as its own."""
    scripts = [script()] if any(map(_scripted, (report, *framed))) else []
    return (
        f"default-src 'none'; style-src {_sources([style()])}; script-src {_sources(scripts)}; "
        f"{'frame-src data:; ' if framed else ''}img-src data:; base-uri 'none'; form-action 'none'"
    )


def _sources(inline: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in inline)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
