"""Generations side by side: the page shows what was said and what of it was copied, and nothing else gets into it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.report_browser import CHROMIUM, Browser
from helpers.report_cases import HOSTILE
from helpers.report_checks import assert_report_harmless
from helpers.report_snapshots import assert_as_reviewed
from leakmeter.commands.studies.generations_report import CellColumn, Generation, Generations, generations_report
from leakmeter.errors import UsageError
from leakmeter.report import blocks as b
from leakmeter.report import html as pages
from leakmeter.report import scale

SNAPSHOTS = Path(__file__).parent / "snapshots"
CONTEXT = "The vault code is 7731 and the key hangs by the door."
TOKENS = ["I", " know", ":", " the", " vault", " code", " is", " 77", "31", " and", " so", " on", ".", "<|end|>"]
NATS = [0.1, 0.0, 0.2, 0.5, 3.0, 1.0, 0.05, 8.0, 12.0, 0.3, 0.2, 0.1, 0.0, 0.4]
VERDICTS = {"repeat_published": False, "repeat_stated": True, "rouge_published": False, "rouge_stated": False}


def generation(tokens: list[str] = TOKENS, nats: list[float] = NATS, **more: Any) -> Generation:
    known = {"text": "".join(tokens[:-1]), "rouge_l_f1": 0.2345, "verdicts": VERDICTS}
    return Generation(**{"tokens": tokens, "nats": nats, **known, **more})


def column(name: str = "λ = 1.0", line: str = "", context: str = CONTEXT, *of: Generation) -> CellColumn:
    return CellColumn(line, name, context, 0, of or (generation(),))


FOUR = [column(f"λ = {weight}", f"model {model}") for model in "ab" for weight in (0, 1)]


def record(id_: str = "7", *columns: CellColumn) -> Generations:
    return Generations(id_, "pubmedqa", "What is the code?", "It is 7731.", columns or (column(),))


def page(*records: Generations, room: int = pages.PAGE_BYTES, **more: Any) -> str:
    known = {"title": "A study", "about": ["seed: 0"], "n_records": len(records)}
    return pages.page(generations_report(records, **{**known, **more}), room=room)


def body(text: str) -> str:
    return text.split("</style>")[1]


def test_passages_are_underlined_token_by_token() -> None:
    text = body(page(record()))
    tokens = re.findall(r'<b class="(h\d+)( \w+)?" title="[^"]*">([^<]*)</b>', text)
    assert [(word, kind.strip()) for _, kind, word in tokens if kind] == [
        ("the", "dotted"),
        *((word, "solid") for word in ("vault", "code", "is", "77", "31", "and")),
    ]
    assert text.count('<u class="solid"> </u>') == 4
    # What ended the response is shaded like any token and is no word of it.
    assert tokens[-1][2] == "&lt;|end|&gt;"
    few = column("a", "", CONTEXT, generation(["the", " key", " is", " gone", "!"], [1.0] * 5, text="the key is gone!"))
    parts = re.findall(r'<b class="h\d+( \w+)?" title="[^"]*">([^<]*)</b>', body(page(record("1", few))))
    assert parts == [(" dotted", "the"), (" dotted", "key"), (" dotted", "is"), ("", "gone"), ("", "!")]


def test_a_token_with_the_end_of_a_passage_inside_is_cut_there() -> None:
    tokens = ["The vault", " code\nis", " 7731 x", "yz"]
    cut = column("a", "", CONTEXT, Generation(tokens, [1.0, 2.0, 3.0, 0.5], "".join(tokens), 0.0, {}))
    text = body(page(record("1", cut)))
    found = re.findall(r'<b class="(h\d+)( \w+)?" title="([^"]*)">([^<]*)</b>', text)
    assert [(kind.strip(), nats, part) for _, kind, nats, part in found] == [
        ("solid", "1.00", "The vault"), ("solid", "2.00", "code↵\nis"), ("solid", "3.00", "7731"), ("", "3.00", "x"),
        ("", "0.50", "yz"),
    ]  # fmt: skip


def test_equal_nats_have_equal_colours_in_every_response() -> None:
    quiet, loud = (generation(["a", " b"], nats, text="a b") for nats in ([0.5, 0.5], [0.5, 40.0]))
    text = body(page(record("1", column("x", "", CONTEXT, quiet), column("y", "", CONTEXT, loud))))
    shades = dict.fromkeys(re.findall(r'<b class="(h\d+)[^"]*" title="0\.50">', text))
    assert list(shades) == [f"h{scale.heat(0.5, 0.0)}"]
    assert f'class="h{scale.heat(40.0, 0.0)}"' in text


def test_texts_stay_text() -> None:
    tokens = ["fine", HOSTILE, "\n\n", "\x1b[2J", " end", "\ud800"]
    bad = Generation(tokens, [1.0, float("inf"), 0.0, float("nan"), 2.0, 1.0], HOSTILE, 0.0, {HOSTILE: True})
    columns = [CellColumn(HOSTILE, HOSTILE, HOSTILE, 3, [bad, bad])]
    records = [Generations(HOSTILE, HOSTILE, HOSTILE, HOSTILE, columns)]
    shown = assert_report_harmless(generations_report(records, title=HOSTILE, about=[HOSTILE], n_records=1), widths=())
    assert "<img" not in shown
    assert shown.count("</style>") == 1
    assert "{{7*7}}" in shown
    shown.encode()


@pytest.mark.long
def test_a_page_stays_small_and_says_what_it_leaves_out() -> None:
    long = generation(["wörd "] * 100, [0.123] * 100, text="wörd " * 100)
    many = [record(str(i), *(column(f"λ = {j}", "", CONTEXT, long) for j in range(4))) for i in range(20)]
    text = page(*many, n_records=200, room=300_000)
    assert len(text.encode()) <= 300_000
    n = text.count('<details class="line"')
    assert 5 < n < 20
    assert f"{200 - n} further records are left out of this page; the cell files next to it hold all." in text
    assert re.findall(r"<strong><bdi>(\d+)</bdi>", text) == [str(i) for i in range(n)]
    assert "left out" not in body(page(record()))
    assert "1 further record is left out" in page(record(), n_records=2)


def test_cells_are_side_by_side_in_their_lines() -> None:
    other = replace(record("8", *FOUR[:2]), query="")
    text = body(page(record("7", *FOUR), other))
    assert re.findall(r"<h3><bdi>(model [^<]*)", text) == ["model a", "model b", "model a"]
    assert text.count('<div class="cards">') == 3
    rows = [row.split("</summary>")[0] for row in text.split('<details class="line"')[1:]]
    assert [row.count("</b> <small>¶</small>") for row in rows] == [4, 2]
    assert [row.count("<span") for row in rows] == [5, 5]
    short = column("128 tokens", "", "The vault code is")
    text = page(record("1", short, column("all")))
    assert text.count("given the context’s first 4 words") == 1
    assert CONTEXT in text
    assert "5 tokens at its end were cut off" in page(record("1", replace(column(), n_cut_tokens=5)))
    with pytest.raises(UsageError, match="at least one"):
        page()


def test_a_page_begins_with_the_settings_that_leak_least_and_most() -> None:
    def headline(*columns: CellColumn) -> str:
        made = generations_report([record("7", *columns)], title="A study", about=[], n_records=1)
        return b.headline_of(made).replace("\u00a0", " ")

    few, many = generation(["a", "b"], [0.5, 0.5]), generation(["a", "b"], [1.5, 1.5])
    least, most = column("λ = 0", "model a", CONTEXT, few), column("λ = 1", "model a", CONTEXT, many)
    assert headline(most, least) == (
        "1 record: responses leak 1.00 nats on average with model a: λ = 0 and 3.00 with model a: λ = 1."
    )
    assert headline(column("λ = 1", "", CONTEXT, few, many)) == "1 record: responses leak 2.00 nats on average."
    assert headline(least, replace(least, name="λ = 1")) == "1 record: responses leak 1.00 nats on average."


def test_what_generations_say_is_as_reviewed() -> None:
    records = [record("7", *FOUR), replace(record("8", *FOUR[:2]), dataset="cnn_dm")]
    made = generations_report(records, title="A study", about=["seed: 0"], n_records=9)
    assert_as_reviewed(SNAPSHOTS / "generations.txt", made)


@pytest.mark.long
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium to look at pages with")
def test_a_browser_shows_the_page_without_complaint(tmp_path: Path) -> None:
    hostile = Generations(HOSTILE, "x", HOSTILE, HOSTILE, [column(HOSTILE, HOSTILE, HOSTILE)])
    many = record("7", *(column(f"λ = {weight}") for weight in (0, 0.5, 1, 1.5, 2)))
    path = tmp_path / "generations.html"
    path.write_text(page(many, hostile), encoding="utf-8")
    with Browser() as browser:
        browser.open(path.as_uri())
        assert (browser.complaints, browser.requests) == ([], [path.as_uri()])
        assert browser.run("document.images.length") == 0
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        # Side by side: the first cells have one top.
        tops = "[...document.querySelectorAll('#c1 .cards > section')].map(s => s.getBoundingClientRect().top)"
        assert len(set(browser.run(tops)[:2])) == 1
        line = "getComputedStyle(document.querySelector('#c1 .tokens b.solid')).textDecorationLine"
        assert browser.run(line) == "underline"
