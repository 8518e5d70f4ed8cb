"""Blocks of a report in every renderer: what is said, what is escaped, and what a page can do."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples, few
from helpers.fisher_cases import several
from helpers.opened_pages import needs_browser, opened
from helpers.report_cases import HOSTILE, clinic, hostile
from helpers.report_checks import CONTROLS, FIRST, PNG, assert_harmless, assert_markdown_harmless, flat
from helpers.report_snapshots import printed
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.susceptibility.fisher.result import FisherResult
from leakmeter.report import blocks as b
from leakmeter.report import charts, console, html, markdown, pictures

ATTACKS = (
    HOSTILE,
    "$\\frac{1}{2}$ ${alert(1)} {\\$x$ [x](javascript:alert(1)) ![i](https://x.test/i.png)",
    "=HYPERLINK(1)",
    "@someone #12 https://x.test www.x.test `code` **bold** | cell | <!-- x -->",
    "</pre></code></svg></title><svg onload=alert(1)>",
    "",
    "\n\n# heading\n- item\n```\n",
)


def every_block(text: str = "A note", other: str = "a value") -> b.Report:
    """A report with each block, and a user's text in every slot that takes one."""
    told, more = b.Untrusted(text), b.Untrusted(other, 40)
    marked = ("own ", told, b.Untrusted(text, marked=True), b.Untrusted(other, 40, marked=True))
    columns = (
        b.Column(("Name ", more)), b.Column("Remark"), b.Column("Loss", "nats", "nats", bar=True, role="nats"),
        b.Column("Signed", "signed_nats", role="signed"), b.Column("Sure", "posterior", role="whole"),
        b.Column("Part", "share", bar=True), b.Column("Ends", "interval"), b.Column("Cases", "count"),
        b.Column("p", "p_value", shade=False), b.Column("ρ", "number", on="wide"), b.Column("Hidden", on="pages"),
    )  # fmt: skip
    rows = [
        b.Row(
            (told, b.Noted(more, (told, "own")), 4.0, -4.0, 0.98, 0.5, b.Interval(3, 5), 1200, b.Shaded(0.00001, 12),
             0.5, told), 0, to="inner",
        ),
        b.Row(
            (marked, b.Values((told, more, "own")), 0.001, 0.001, "< noise", 0.0, None, 3, 0.04, None, more), 1,
            quiet=True,
        ),
        b.Row((told, "own", 2.0, 2.0, 0.88, 0.25, None, 4, 0.04, None, more), 2, strong=True),
    ]  # fmt: skip
    table = b.Table(columns, rows, told, marks=(b.Mark("floor", 0.1, more), b.Mark("placebo", 0.2, "x")))
    words = (b.Words(told, (0, 1), is_sensitive=True), b.Words(more))
    segments = (b.Segment(told, 4.0, (0,), (1,), more, 1, parts=words), b.Segment(b.Untrusted(" rest")))
    shaded = b.ShadedText((b.Passage(segments, more),), told)
    first = b.Disclosed(told, more, 4.0, (told, "own"), (0, 1), (0,), True)
    disclosures = b.Disclosures((first, b.Disclosed(more, told, 3.0, told, (0, 9))), told)
    tokens = b.ShadedText((b.Passage((b.Segment(told, 2.0), b.Segment(b.Untrusted(" x"), 0.0))),), style="tokens")
    bars = b.ChartSeries("bar", (1.0, 2.0, float("inf")), name=told, notes=(told, more, "own"))
    line = b.ChartSeries("line", (1.0, 2.0, 3.0), low=(0.5, 1, 2), high=(2.0, 3, 4), name="mean", notes=(told,) * 3)
    places = b.Axis(("place of ", told), names=(told, more, "own"))
    panel = b.Panel(places, b.Axis("loss", "nats"), (bars, line), title=told, guides=(b.Guide(1.5, "limit"),))
    chart = b.Chart("losses", "Losses", (panel,), footer="Bars: intervals")
    attribution = b.Attribution(
        shaded, tokens, (replace(table, filterable=True, sortable=True),), (4.0, 0.0), ((2.0, 2.0), (0.0, 0.0)),
        (2.0, -1.0), (0.1, 0.1), (0.1, math.inf), (b.Text(told, "prose", heading=more),),
        disclosures=disclosures,
    )  # fmt: skip
    inner = b.Report(told, "inner", (b.Headline(told), table), sections=(b.Section(told, (b.Headline(more),)),))
    lines = [b.Segment(told, line="dotted"), b.Segment(more, 2.0, line="solid")]
    struck = b.ShadedText([b.Passage([b.Segment(told, note=more, struck=True), b.Segment(more)], more)])
    card = (b.Facts(((told, b.Shaded(more, 3)),)), b.ShadedText([b.Passage(lines)], style="tokens"))
    turns = [
        b.ConversationTurn("said", told, more), b.ConversationTurn("read", (told, "own"), told, more),
        b.ConversationTurn("emitted", "answer", tokens, told),
    ]  # fmt: skip
    blocks: list[b.Block] = [
        b.Conversation((told, ", 3 turns"), turns, anchor="t1", is_open=True),
        b.Headline(("Found: ", *marked)), b.Text(marked), b.Text("A reading.", "soft"),
        b.Advice([(told, more)], [("elsewhere", more)]), b.Warning(told),
        b.Facts(((told, more), ("Own", "words")), heading="Facts"), table, shaded, disclosures, chart,
        b.Details(told, (b.Facts((("Seed", more),)), b.Text(told))), b.HeadedBlocks(told, (b.Text(more),)),
        b.Image(told, PNG),
        b.Beside([struck], [table]), b.Cards([b.HeadedBlocks(more, card)]), b.Embedded(told, inner, anchor="inner"),
    ]  # fmt: skip
    return b.Report(
        told, "made up", blocks, lead="What was done.", caveat="A caveat.",
        sections=[b.Section(told, (b.Headline(more), attribution), (told, 4.0), weight=1.0)],
        index=(b.Column("Response"), b.Column("Loss", "nats", shade=True)),
        notes=(b.Facts((("Loss", "what it means"),)),), guide_to="piece",
        aside=(b.Text("How to read it."), b.Text(told)),
        provenance=b.Provenance(
            model=told, run_id=more, version="1", facts=((told, more),), unfinished=b.Unfinished("Only 1.", "More.")
        ),
        command=b.CommandLine(told),
    )  # fmt: skip


def test_words_that_matter_are_marked_in_every_renderer() -> None:
    said = (b.Untrusted("<b>she is on "), b.Untrusted("sick leave & more", marked=True), b.Untrusted(" until\nJune"))
    row = b.Row((said, 3.0))
    table = b.Table((b.Column("Response"), b.Column("Loss", "nats")), [row, b.Row(("own", 1.0))])
    report = b.Report("T", "m", (b.Headline(("Found: ", *said)), table))
    page = html.page(report)
    assert page.count("<bdi>&lt;b&gt;she is on <mark>sick leave &amp; more</mark> until\nJune</bdi>") == 2
    assert_harmless(page)
    assert "**<code>sick leave &#38; more</code>**" in markdown.text(report)
    assert flat(printed(report, width=80)).count("she is on sick leave & more until June") == 2
    narrow = flat(printed(report, width=40)).partition("Loss")[2]
    assert all(words in narrow for words in ("sick leave & more", "until June"))
    bold = "\x1b[1msick leave & more\x1b[0m"
    assert bold in printed(replace(report, blocks=(table,)), colour=True)


texts = st.sampled_from(ATTACKS) | st.text(st.characters(), max_size=40)


@pytest.mark.parametrize("text", few(ATTACKS, 2))
def test_hostile_texts_stay_texts_in_every_renderer(text: str) -> None:
    report = every_block(text, text)
    assert_harmless(html.page(report))
    assert_markdown_harmless(markdown.text(report))
    assert_markdown_harmless(markdown.text(b.Report("T", "m", (b.Headline(text), b.Facts(((text, text),))))))
    for width in (60, 80, 140):
        assert not CONTROLS.search(printed(report, width=width).replace("\x1b", ""))
    assert "\x1b" not in printed(report)
    for chart in b.charts_of(report):
        svg = charts.files(chart)["svg"].decode()
        assert not CONTROLS.search(svg)
        names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
        assert not names & {"script", "image", "foreignObject", "a"}


@settings(max_examples=examples(25), deadline=None)
@given(texts, texts)
def test_any_texts_stay_texts(text: str, other: str) -> None:
    report = every_block(text, other)
    without = replace(report, blocks=[one for one in report.blocks if not isinstance(one, b.Chart)])
    assert_harmless(html.page(without))
    assert_markdown_harmless(markdown.text(without))
    assert not CONTROLS.search(printed(without))


@settings(max_examples=examples(5), deadline=None)
@given(texts)
def test_any_texts_stay_texts_in_charts(text: str) -> None:
    told = b.Untrusted(text)
    series = b.ChartSeries("bar", (1.0,), name=told, notes=(told,))
    chart = b.Chart("x", "X", (b.Panel(b.Axis(("of ", told), names=(told,)), b.Axis("y"), (series,), title=told),))
    root = ElementTree.fromstring(charts.inline_svg(chart))
    assert {"script", "image", "a"}.isdisjoint({one.tag.rpartition("}")[2] for one in root.iter()})


def test_a_users_text_does_not_slip_into_a_string() -> None:
    with pytest.raises(TypeError, match="tuple"):
        f"{b.Untrusted('x')}"
    with pytest.raises(TypeError, match="tuple"):
        str(b.Untrusted("x"))
    assert "secret" not in repr(b.Untrusted("secret"))


def test_a_sentence_stands_whole_and_a_users_text_in_it_stays_apart() -> None:
    said = b.sentence("{n} of {whom} say {what}.", n=1200, whom=b.Untrusted("{n} <b>"), what=("a ", b.Code("--x")))
    assert said == ("1,200", " of ", b.Untrusted("{n} <b>"), " say ", "a ", "--x", ".")
    assert b.plain(said) == "1,200 of {n} <b> say a --x."
    assert b.sentence("It is.", unused="x") == ("It is.",)
    kinds = [(type(part), part) for part in b.sentence("Give `--x` or `--y` {n}.", n="`y`")]
    assert kinds == [
        (str, "Give "),
        (b.Code, "--x"),
        (str, " or "),
        (b.Code, "--y"),
        (str, " "),
        (str, "`y`"),
        (str, "."),
    ]
    with pytest.raises(KeyError):
        b.sentence("{missing}")


def test_a_command_is_code_where_there_is_code_and_is_written_as_it_is_typed() -> None:
    line = "leakmeter redact --disclosures"
    made = b.Report("t", "influence", [b.Advice([("Found", (b.Code(line), " chooses <what>"))])])
    assert f'<code class="whole">{line}</code> chooses &lt;what&gt;' in html.page(made)
    assert "<code>leakmeter redact &#45;&#45;disclosures</code> chooses &#60;what&#62;" in markdown.text(made)
    assert line in flat(printed(made))
    # What does not fit a line of a telephone may be broken.
    for typed, name in (("x" * 30, "whole"), ("x" * 31, "whole long")):
        assert f'<code class="{name}">{typed}</code>' in html.page(b.Report("t", "m", [b.Headline((b.Code(typed),))]))


@pytest.mark.long
def test_the_type_checker_rejects_a_users_text_as_our_words(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "slips.py"
    slips = (
        "b.Column('x', unit=u)", "b.Facts((), heading=u)", "b.Axis('x', u)", "b.Chart(u, 't', ())",
        "b.Mark(u, 1.0, 'x')", "b.Guide(1.0, u)", "b.Headline('a ' + u)",
    )  # fmt: skip
    file.write_text("\n".join(("from leakmeter.report import blocks as b", "u = b.Untrusted('x')", *slips, "")))
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(file)], capture_output=True, text=True)
    lines = {int(number) for number in re.findall(r"slips\.py:(\d+): error", done.stdout)}
    assert lines == set(range(3, 10)), done.stdout


def test_every_block_is_said_by_every_renderer() -> None:
    report = every_block()
    page, note, out = html.page(report), flat(markdown.text(report)), flat(printed(report, width=160))
    everywhere = (
        "Found:", "A note", "a value", "A reading.", "Facts", "A caveat.", "Loss, nats", "4.00", "Sure", "1,200",
    )  # fmt: skip
    for said in everywhere:
        assert all(said in one for one in (page, note, out)), said
    for said in ("[3.00, 5.00]", "< noise", "own"):
        assert said.replace("<", "&lt;") in page
        assert said.replace("<", "&#60;").replace("[", "&#91;").replace("]", "&#93;") in note
        assert said in out
    assert "Hidden" in page
    assert "Hidden" not in note + out
    assert 'class="chart narrow i5"' in page
    # The same report gives the same bytes.
    assert (html.page(every_block()), flat(markdown.text(every_block()))) == (page, note)
    (chart,), (again,) = b.charts_of(report), b.charts_of(every_block())
    files = charts.files(chart)
    assert set(files) == {"png", "svg"}
    assert files["png"].startswith(b"\x89PNG")
    assert "<text" in files["svg"].decode()  # real text, which can be found and read aloud
    assert charts.files(again) == files
    assert vars(charts.figure(chart))["_repr_png_"]() == files["png"]


def test_no_block_is_forgotten_by_the_report_that_has_each() -> None:
    seen: set[type] = set()

    def walk(thing: Any) -> None:
        if is_dataclass(thing):
            seen.add(type(thing))
            for field in fields(thing):
                walk(getattr(thing, field.name))
        elif isinstance(thing, Sequence) and not isinstance(thing, str):
            for one in thing:
                walk(one)

    walk(every_block())
    kinds = {one for one in vars(b).values() if isinstance(one, type) and is_dataclass(one)}
    assert kinds - seen == set()


def test_without_colours_marks_stand_for_them_and_80_columns_do() -> None:
    for report in (every_block(), InfluenceResult.report([clinic()]), InfluenceResult.report([hostile()]),
                   FisherResult.report(several(30))):  # fmt: skip
        out = printed(report)
        assert all(len(line) <= 80 for line in out.splitlines())
    assert "⟦" in printed(InfluenceResult.report([clinic()]))
    coloured = printed(InfluenceResult.report([clinic()]), colour=True)
    assert ("\x1b[" in coloured, "⟦" in coloured) == (True, False)


def test_richs_own_markup_is_letters_to_the_terminal() -> None:
    to_brackets = str.maketrans("()", "[]")
    marked = printed(every_block("[bold]x[/]", "[red]y[/]"))
    assert marked.translate(to_brackets) == printed(every_block("(bold)x(/)", "(red)y(/)")).translate(to_brackets)


def test_of_a_long_text_the_strongest_parts_are_shown() -> None:
    segments = [b.Segment(b.Untrusted(f"part{i:03} {'x' * 90} "), 50.0 - abs(i - 150) / 4, (i,)) for i in range(200)]
    out = printed(b.Report("T", "m", (b.ShadedText((b.Passage(segments),), "Context"),)))
    assert {f"part{i:03}" for i in range(130, 170)} <= set(re.findall(r"part\d+", out))
    assert ("part000" in out, "…" in out) == (False, True)
    assert 100 * out.count("part") <= console.SHOWN_CHARACTERS + 100


def test_intervals_are_drawn_from_low_to_high() -> None:
    series = b.ChartSeries("bar", (1.0, 2.0), low=(0.5, 1.75), high=(3.0, 2.0))
    for one, across in ((series, 1), (replace(series, draws="rows"), 0)):
        drawn = charts.figure(b.Chart("x", "X", (b.Panel(b.Axis("x"), b.Axis("y"), (one,)),)))
        (arms,) = drawn.axes[0].collections
        assert [segment[:, across].tolist() for segment in arms.get_segments()] == [[0.5, 3.0], [1.75, 2.0]]


@pytest.mark.parametrize("scripted", [True, False])
def test_a_page_without_anything_to_choose_and_a_static_one_have_no_script(scripted: bool) -> None:
    report = every_block(HOSTILE)
    blocks = [one for one in report.blocks if not isinstance(one, b.Embedded)]
    if not scripted:
        blocks += [replace(one, filterable=True, sortable=True) for one in blocks if isinstance(one, b.Table)]
    sections = [replace(one, blocks=(b.Text("Within."),)) for one in report.sections * 3]
    page = html.page(replace(report, blocks=blocks, sections=sections, scripted=scripted))
    assert_harmless(page)
    assert_without_script(page)
    assert_without_script(html.page(FisherResult.report(several(3))))
    assert page.count('<details class="line"') == 3


def test_every_renderer_says_what_was_found_and_what_to_do_before_all_else() -> None:
    blocks = [
        b.Text("Behind the finding."), b.Warning("It narrows."), b.Headline("Found above the placebo."),
        b.Table((b.Column("Name"), b.Column("Alone", "nats")), [b.Row(("the row", 1.0))]),
        b.Advice([("Much", "cut it")], [("Little", "ship it")]), b.CommandLine(b.Untrusted("leakmeter again")),
    ]  # fmt: skip
    named = enumerate(("mild", "worst"))
    sections = [b.Section(f"{name} case", [b.Headline(f"In {name}.")], weight=i) for i, name in named]
    report = b.Report("T", "m", blocks, sections=sections, caveat="No guarantee of placebos.")
    order = (
        "Found above", "Behind the finding", "cut it", "It narrows", "worst case", "mild case", "the row",
        "leakmeter again",
    )  # fmt: skip
    for said in (html.page(report).split("</style>")[1], markdown.text(report), printed(report)):
        places = [said.index(one) for one in order]
        assert places == sorted(places)
        # A term is explained once, where it stands first.
        assert said.count("the effect of an irrelevant text") == 1
        assert said.count("how far the response moves when the piece is the only") == 1
    assert ("ship it" in html.page(report), "ship it" in printed(report)) == (True, False)
    # What users write explains nothing.
    report = b.Report("T", "m", [b.Headline((b.Untrusted("the placebo of λ decoys"), " is here."))])
    assert all("irrelevant text" not in said for said in (html.page(report), markdown.text(report), printed(report)))


def test_a_terminal_leaves_out_what_explains_and_never_what_changes_a_meaning() -> None:
    columns = (b.Column("Piece"), b.Column("Nats", "nats", "nats"), b.Column("Inner", detail=True))
    blocks = [
        b.Headline("Found."), b.Text("What changes the number."), b.Text("hidden text", detail=True),
        b.Text("hidden soft", "soft"), b.Text("A unit.", "soft", detail=False),
        b.Advice([(f"Case {n}", "do it") for n in range(3)]), b.Warning("Only the system prompt was measured."),
        b.Warning("hidden warning", detail=True), b.Table(columns, [b.Row(("s1", 1.0, "hidden cell"))], "Pieces"),
        b.Table((b.Column("A"),), [b.Row(("hidden row",))], detail=True),
        b.HeadedBlocks("Kept part", [b.Text("In a part."), b.Text("hidden part", detail=True)]),
        b.HeadedBlocks("hidden heading", [b.Text("hidden soft", "soft")]),
        b.Details("Settings", [b.Facts([("Model", "hidden fact")])]),
    ]  # fmt: skip
    report = b.Report("Title", "influence", blocks, caveat="hidden caveat").interrupted(1, 3)
    brief, whole = (flat(printed(report, explain=explain)) for explain in (False, True))
    assert "hidden" not in brief
    assert brief.endswith(console.LEFT_OUT)
    assert console.LEFT_OUT not in whole
    order = (
        "Found.", "What changes the number.", "s1 1.00", "Kept part In a part.", "! Interrupted: 1 of 3 cases",
        "! Only the system prompt was measured.", "nat: unit", "→ Case 0", "→ Case 1",
    )  # fmt: skip
    places = [brief.index(said) for said in order]
    assert places == sorted(places)
    assert ("A unit." in brief, "Case 2" in brief) == (True, False)
    for said in ("text", "soft", "warning", "row", "cell", "part", "heading", "fact", "caveat"):
        assert f"hidden {said}" in whole


def test_of_pieces_a_terminal_shows_the_findings() -> None:
    def pieces_of(*quiet: bool) -> str:
        rows = [b.Row((f"p{n}", 9.0 - n), piece=n, quiet=one) for n, one in enumerate(quiet)]
        columns = (b.Column("Piece"), b.Column("Nats", "nats", bar=True))
        table = b.Table(columns, rows, "Pieces", rest=("piece", "pieces"))
        text = b.ShadedText([b.Passage([b.Segment(b.Untrusted("the context"))])])
        shown = b.Attribution(text, text, [table], [0.0] * len(rows), [[]] * len(rows), [], [], [])
        return flat(printed(b.Report("Title", "influence", [shown]), explain=False))

    assert "the context" not in pieces_of(False)
    some = pieces_of(False, False, *[True] * 5)
    assert ("p1" in some, "p2" in some, "5 more pieces, no finding" in some) == (True, False, True)
    none = pieces_of(*[True] * 5)
    assert ("p2" in none, "p3" in none, "2 more pieces, no finding" in none) == (True, False, True)
    many = pieces_of(*[False] * 10, True)
    assert ("p7" in many, "p8" in many) == (True, False)
    assert "3 more pieces, at most 1.00 nats each" in many


def test_what_is_struck_out_is_a_mark_where_there_is_no_page() -> None:
    texts = [("A ", False), ("secret", True), (" ", False), ("word", True), (" is out.", False)]
    segments = [b.Segment(b.Untrusted(text), note="piece", struck=struck) for text, struck in texts]
    report = b.Report("T", "m", [b.ShadedText([b.Passage(segments)], "Context")])
    assert html.page(report).count('<del title="piece">') == 2
    assert "A […]  is out." in printed(report)
    assert "A &#91;…&#93;  is out&#46;" in markdown.text(report)


def test_what_is_folded_on_a_page_may_be_explained_in_a_terminal() -> None:
    for told in (True, False):
        report = b.Report("T", "m", [b.Details("By order", [b.Text("Two")], told=told)])
        assert "<details><summary>By order</summary>" in html.page(report)
        assert ["Two" in printed(report, explain=explain) for explain in (False, True)] == [False, told]


def test_charts_of_pages_are_no_figure_files() -> None:
    line = b.ChartSeries("line", (1.0, 3.0), (2.0, 20.0))
    chart = b.Chart("x", "X", (b.Panel(b.Axis("x", scale="log", ticks=(2.0, 14.0)), b.Axis("y"), (line,)),), on="pages")
    report = b.Report("T", "m", [chart, replace(chart, name="own", on="files")])
    assert [one.name for one in b.charts_of(report)] == ["own"]
    assert html.page(report).count("<figure") == 1
    assert ">14<" in html.page(report)
    assert "Chart:" not in printed(report) + markdown.text(report)


def test_a_token_of_two_disclosures_is_marked_once_and_both_are_listed() -> None:
    tokens = [b.Segment(b.Untrusted(text), 5.0) for text in ("Call", " 555", "-01", " now")]
    text = b.ShadedText((b.Passage(tokens),), style="tokens")
    disclosed = [
        b.Disclosed(b.Untrusted("555-01"), "phone", 32.0, "a & b", (1, 3), (4, 2), is_sensitive=True),
        b.Disclosed(b.Untrusted("-01 now"), "other content", 3.25, "s3", (2, 4)),
        b.Disclosed(b.Untrusted("-01"), "code", 7.0, "s3", (2, 3), is_sensitive=True),
    ]
    listed = b.Disclosures(disclosed, "Disclosures")
    attribution = b.Attribution(text, text, (), (), (), (), (), (), disclosures=listed)
    page = html.page(b.Report("T", "m", [attribution], scripted=False))
    assert_harmless(page)
    tokens_div = r'<div class="text tokens" dir="auto">(.*?)</div>\n*<h3>'
    shown = re.search(tokens_div, page.split('class="res"')[1], re.DOTALL)
    assert shown
    words = re.sub("<b [^>]*>|</b>", "", shown[1]).strip()
    assert words == (
        'Call <span class="leak strong" data-d="0">555-01<small class="label">phone, 32.0&nbsp;nats</small></span> '
        '<span class="leak" data-d="1">now<small class="label">3.25&nbsp;nats</small></span>'
    )
    assert '<dt data-d="0" data-u="4 2" class="strong">phone, 32.0&nbsp;nats<dd>“<bdi>555-01</bdi>” ← a &amp; b' in page
    assert '<dt data-d="2" data-u="" class="strong">code, 7.00&nbsp;nats' in page
    assert "<details><summary>Other content: 1 span</summary>" in page
    assert "phone, 32.0 nats “555-01” ← a & b" in flat(printed(b.Report("T", "m", [listed]), width=160))


def test_a_page_ranks_sections_and_keeps_the_heaviest() -> None:
    sections = [b.Section(b.Untrusted(f"case {i}."), (b.Text("x" * 400),), weight=i % 7) for i in range(50)]
    report = b.Report("T", "m", sections=sections, sections_left_out="that leak less")
    page = html.page(report, room=75_000)
    assert len(page.encode()) <= 75_000
    kept = [int(n) for n in re.findall(r"<bdi>case (\d+)\.</bdi>", page)]
    assert 1 < len(kept) < 50
    assert kept == sorted(range(50), key=lambda i: -(i % 7))[: len(kept)]
    assert f"{50 - len(kept)} further cases that leak less are left out of this page; the run holds all." in page
    assert "case 6." in html.page(replace(report, sections=sections[:7]), room=1)  # one is shown whatever it takes
    assert "left out" not in html.page(report)


def test_a_page_of_full_size_has_a_line_of_each_case_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "PAGE_BYTES", 75_000)
    monkeypatch.setattr(html, "LIST_BYTES", 2_000)
    sections = [b.Section(b.Untrusted(f"case {i}."), (b.Text("x" * 400),), weight=-i) for i in range(50)]
    page = html.page(b.Report("T", "m", sections=sections, sections_left_out="that leak less"), room=75_000)
    assert [int(n) for n in re.findall(r"<bdi>case (\d+)\.</bdi>", page)] == list(range(n := page.count("<bdi>case")))
    n_full, n_lines = page.count('<details class="line" '), page.count('<details class="line only" ')
    assert (n_full + n_lines, n_lines > 5) == (n, True)
    assert f"{n_lines} further cases that leak less are one line here, not in full; the run holds all." in page
    assert f"{50 - n} further cases that leak less are left out of this page; the run holds all." in page


def test_what_explains_is_folded_once_a_page_and_the_answer_comes_first() -> None:
    soft, detail = b.Text("How it was done.", "soft"), b.Text("A detail.", detail=True)
    query = b.Text(b.Untrusted("Why?"), "prose", heading="Query", detail=True)
    limits = (b.Text("Not searched: illness.", "soft", detail=False), b.Warning("Narrow."), b.Warning("Aside.", True))
    (attribution,) = (one for section in every_block().sections for one in section.blocks[1:])
    table = b.Table((b.Column("Name"), b.Column("Loss", "nats")), [b.Row(("the row", 1.0))])
    advice = b.Advice([("Much", "cut it")])
    blocks: list[b.Block] = [b.Headline("Found.", "bad"), b.Text("Said."), detail, soft, *limits, query, table, advice]
    one = b.Report("T", "m", sections=[b.Section("a", [*blocks, attribution])], lead="Lead.", caveat="Caveat.",
                   guide_to="piece", notes=(b.Facts((("Colours", "begin at the placebo"),)),))  # fmt: skip
    page = html.page(one).split("</style>")[1]
    shown, told = page.split('<details class="told">')
    order = ("Found.", "Said.", '<div class="attribution">', "cut it", "Narrow.", "the row")
    assert [shown.index(words) for words in order] == sorted(shown.index(words) for words in order)
    assert "Why?" in shown
    assert "Not searched" in shown
    told = told.split("<footer>")[0]
    explained = ("Lead. Caveat.", "A detail.", "How it was done.", "Aside.", "unit of log-probability", "begin at")
    assert all(words in told and words not in shown for words in explained)
    assert page.count("How to read a nat") == 1
    several = html.page(replace(one, sections=[b.Section(name, [*blocks, attribution]) for name in "ab"]))
    assert several.count("<summary>How to read this") == 1
    assert several.count("<summary>More about this case") == 2
    assert several.count("How to read a nat") == 1


def test_rows_that_a_reader_opens_come_after_the_others_and_need_no_script() -> None:
    rows = [b.Row((f"row {i}", 0.000123)) for i in range(8)]
    columns = (b.Column("Name"), b.Column("Part", "share", bar=True, digits=3))
    table = b.Table(columns, rows, "Rows", rest=("row", "rows"), first=5, open_on_pages=3)
    report = b.Report("T", "m", (b.Headline("Kept.", "good"), table), scripted=False)
    page = html.page(report)
    shown, opened = page.split('<details class="more">')
    assert "<summary>5 more rows</summary>" in opened
    assert ("row 2" in shown, "row 3" in shown, "row 3" in opened, "row 7" in opened) == (True, False, True, True)
    assert page.count("0.0123\u00a0%") == 8
    assert '<h2 class="finding good">' in page
    assert "data-sort" not in page.split("</style>")[1]
    assert "3 more rows\n" in re.sub(" +\n", "\n", printed(report))
    report = b.Report("T", "m", (replace(table, first=2, first_on_pages=6),))
    assert "2 further rows are left out of this page; the run holds all." in html.page(report)
    assert "6 more rows" in printed(report)
    assert "6 more rows" in markdown.text(report)


def test_the_title_of_a_figure_does_not_stand_on_its_legend() -> None:
    series = [b.ChartSeries("line", (1.0, 2.0), name=f"a rather long name, number {i}") for i in range(4)]
    drawn = charts.figure(b.Chart("x", "A title", (b.Panel(b.Axis("x"), b.Axis("y"), series, title="Panel"),)))
    drawn.draw_without_rendering()
    legend, title = drawn.legends[0].get_window_extent(), drawn._suptitle.get_window_extent()  # type: ignore[attr-defined]
    (axes,) = drawn.axes
    assert axes.title.get_window_extent().y1 <= legend.y0 <= legend.y1 <= title.y0
    assert (legend.x0 >= 0, legend.x1 <= drawn.bbox.width) == (True, True)


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (0.0, "share", "0 %"), (1.0, "share", "100 %"), (2.4, "share", "240 %"), (0.005, "share", "0.50 %"),
        (0.0, "posterior", "< 0.01 %"), (1.0, "posterior", "> 99.99 %"), (0.5, "posterior", "50 %"),
        (1234567, "count", "1,234,567"), (-3, "count", "−3"), (0.00001, "p_value", "< 0.0001"),
        (0.0312, "p_value", "0.031"), (2.0, "nats", "2.00"), (2.0, "signed_nats", "+2.00"), (-0.5, "number", "−0.50"),
        (float("inf"), "nats", "∞"), (float("nan"), "share", "–"),
    ],
)  # fmt: skip
def test_one_way_to_write_each_kind_of_number(value: float, kind: b.ColumnKind, said: str) -> None:
    assert flat(b.number_text(value, kind)) == said


def test_markdown_that_is_too_long_says_so() -> None:
    blocks = [b.Text("A sentence of some length.")] * 100
    text = markdown.text(b.Report("T", "m", blocks), room=1000)
    assert len(text) < 1100
    assert text.endswith("More did not fit here: the page of the run has all.\n")


def test_every_series_is_drawn() -> None:
    axes = b.Axis("x"), b.Axis("y", "nats")
    many = [0.1 * i for i in range(40)]
    panels = [
        b.Panel(*axes, (b.ChartSeries("scatter", (1.0, 2.0)),)),
        b.Panel(
            b.Axis("x", scale="log"), b.Axis("y", scale="log"), (b.ChartSeries("line", (1.0, 10.0), (1.0, 100.0)),)
        ),
        b.Panel(b.Axis("x", whole=True), b.Axis("y", scale="sqrt"), (b.ChartSeries("steps", (100.0, 3.0, 0.5)),)),
        b.Panel(b.Axis("score"), b.Axis("density"), [b.ChartSeries("density", ys) for ys in (many[:5], (1.0,))]),
        b.Panel(
            b.Axis("x"), b.Axis("", names=("a", "b")), (b.ChartSeries("rows", (1.0, 2), low=(0.5, 1), high=(2.0, 3)),)
        ),
        b.Panel(*axes, (b.ChartSeries("line", many, low=[0.0] * 40, high=[9.0] * 40, faded=True),)),
        b.Panel(b.Axis("token", names=("a", "b")), b.Axis("", names=("p",)), grid=((0.1, 9.0),)),
    ]
    assert "<text" in charts.inline_svg(b.Chart("all", "All", panels, columns=3))
    limit = b.Guide(2.0, "limit", across="x")
    named = [("a", 1.0, "1.00"), (b.Untrusted("<b>"), math.inf, "∞"), ("c", -1.0, "−1.00")]
    for chart in (
        pictures.bars("lengths", "Lengths", b.Axis("left", "nats"), named, [limit]),
        pictures.bars("none", "None", b.Axis("left", "nats"), [("a", 0.0, "0")]),
    ):
        svg = charts.inline_svg(chart)
        assert "<b>" not in svg
        # An inch of a telephone has 88 pixels: letters of 9 points have 11.
        assert {float(size[:-2]) for size in re.findall(r'font-size="([\d.]+px)"', svg)} == {9.0}
        assert " i4" in svg
    with pytest.raises(KeyError):
        charts.files(b.Chart("x", "X", (b.Panel(*axes, (b.ChartSeries("pie", (1.0,)),)),)))  # type: ignore[arg-type]


def test_the_text_of_a_chart_is_no_number_of_its_drawing() -> None:
    panel = b.Panel(
        b.Axis("x"), b.Axis("y"), (b.ChartSeries("line", (1.0, 2.0), name="0.123456", notes=("1.23456", "b")),)
    )
    svg = charts.inline_svg(b.Chart("x", "3.14159", (panel,)))
    assert all(f">{said}<" in svg for said in ("0.123456", "1.23456"))
    assert 'aria-label="3.14159"' in svg


def test_a_chart_on_a_page_takes_the_pages_colours() -> None:
    (chart,) = b.charts_of(every_block())
    svg = charts.inline_svg(chart)
    assert [said in svg for said in ("currentColor", "var(--c0)", "style=", "#0072b2")] == [True, True, False, False]
    parents = [one for one in ElementTree.fromstring(svg).iter() if one.find("{*}title") is not None]
    assert [one.find("{*}title").text for one in parents] == ["A note", "a value", "own", *["A note"] * 3]  # type: ignore[union-attr]
    assert all(one.get("href") or len(one) == 2 for one in parents)  # a marker, or a bar and its title


def test_reports_of_nothing_are_errors() -> None:
    with pytest.raises(UsageError, match="at least one"):
        InfluenceResult.report([])
    with pytest.raises(UsageError, match="at least one"):
        FisherResult.report([])


CELLS = "[...document.querySelector('.pieces tbody tr').cells].map(c => c.textContent)"


@pytest.mark.long
@needs_browser
def test_a_reader_can_take_the_response_apart(tmp_path: Path) -> None:
    with opened(tmp_path, InfluenceResult.report([clinic(), hostile()]), "#c1") as browser:
        assert browser.run(FIRST) == "s1"
        before = browser.run(CELLS)
        losartan = next(i for i, t in enumerate(clinic().response.tokens) if t == " los")
        browser.run(f"document.querySelectorAll('.tokens b')[{losartan}].click()")
        assert browser.run(FIRST) == "s7"
        assert browser.run(CELLS)[2:] == ["3.90", "", "+3.90", "–", "–"]
        assert browser.run("document.querySelectorAll('.ctx')[0].querySelectorAll('.s:not(.h0)').length") == 3
        browser.press("Escape")
        assert browser.run(CELLS) == before
        browser.run(f"document.querySelectorAll('.tokens b')[{losartan}].focus()")
        assert browser.run("document.getElementById('tip').textContent").startswith("loswhole context4.60 nats")
        browser.press("Enter")
        assert browser.run(FIRST) == "s7"
        browser.run("document.querySelector('.back').click()")
        browser.run("document.querySelectorAll('.pieces thead button')[4].click()")  # alone
        assert browser.run("document.querySelector('.pieces th[aria-sort]').textContent") == "Alone"
        column = browser.run("[...document.querySelector('.pieces').tBodies[0].rows].map(r => +r.cells[5].textContent)")
        assert column == sorted(column, reverse=True)
        browser.run("document.querySelector('tr[data-p] th button').click()")  # a piece: its tokens
        assert "alone did to each token" in browser.run("document.querySelector('.state').textContent")
        assert len(browser.requests) == 1


@pytest.mark.long
@needs_browser
def test_a_long_table_shows_its_first_rows_until_it_is_asked_for_all_or_filtered(tmp_path: Path) -> None:
    rows = [b.Row((b.Untrusted(f"row {n}"), float(n))) for n in range(45)]
    columns = (b.Column("Name"), b.Column("Nats", "nats"))
    table = b.Table(columns, rows, "Rows", sortable=True, filterable=True)
    with opened(tmp_path, b.Report("T", "m", [table])) as browser:
        shown = "[...document.querySelectorAll('tbody tr')].filter(row => row.offsetHeight).length"
        assert browser.run(shown) == 20
        browser.run("const box = document.querySelector('input'); box.value = 'row 4';"
                    "box.dispatchEvent(new Event('input'))")  # fmt: skip
        assert browser.run(shown) == 6
        browser.run("box.value = ''; box.dispatchEvent(new Event('input'))")
        browser.run("document.querySelector('.scroll + button').click()")
        assert browser.run(shown) == 45


@pytest.mark.long
@needs_browser
def test_the_policy_forbids_nothing_that_a_page_needs(tmp_path: Path) -> None:
    with opened(tmp_path, every_block(HOSTILE, HOSTILE)) as browser:
        browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.run("document.querySelectorAll('figure svg text').length") > 5
        fill = "getComputedStyle([...document.querySelectorAll('figure svg path')].find(" \
               "p => p.getAttribute('fill') === 'var(--c0)')).fill"  # fmt: skip
        assert browser.run(fill) == "rgb(0, 114, 178)"
        assert browser.run("document.querySelector('.figure img').naturalWidth") == 1


def assert_without_script(page: str) -> None:
    assert "<script" not in page
    assert "script-src 'none'" in page.replace("&#39;", "'")
