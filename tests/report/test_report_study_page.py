"""A study's directory as a page: what `tables.to_markdown` wrote is read back cell by cell."""

from __future__ import annotations

from report_cases import HOSTILE

from leakmeter.report import frame
from leakmeter.report.study_page import read_markdown, render_study
from leakmeter.report.tables import to_markdown

ROWS = [{"model": "a|b", "nats": 2.0, "nats_low": 1.5, "nats_high": 2.5}, {"model": "c", "nats": None}]
COMMAND = "leakmeter study run mine.toml --data 'a|b.json'"
PNG = b"\x89PNG" + bytes(3000)


def test_tables_are_read_back() -> None:
    first = to_markdown("Influence | over λ", ["as published", f"command: {COMMAND}"], ROWS)
    tables = list(read_markdown(first + "\n" + to_markdown("Seeds", [], ROWS[:1], level=2)))
    assert [table["title"] for table in tables] == ["Influence | over λ", "Seeds"]
    assert tables[0]["lines"] == ["as published", f"command: {COMMAND}"]
    assert tables[0]["heads"] == ["model", "τ̂, nats"]
    assert tables[0]["rows"] == [["a|b", "2.00 [1.50, 2.50]"], ["c", "–"]]
    assert (tables[1]["lines"], tables[1]["rows"]) == ([], [["a|b", "2.00 [1.50, 2.50]"]])


def test_the_page_has_tables_figures_and_command() -> None:
    page = render_study(to_markdown("T", [f"command: {COMMAND}"], ROWS), {"figure": PNG}, directory="runs/study-x")
    assert "<h1><bdi>T</bdi></h1>" in page
    assert "<td><bdi>a|b</bdi><td><bdi>2.00 [1.50, 2.50]</bdi>" in page
    assert "<code>leakmeter study run mine.toml --data &#39;a|b.json&#39;</code>" in page
    assert 'src="data:image/png;base64,iVBOR' in page
    assert 'alt="figure"' in page
    assert "script-src &#39;none&#39;" in page


def test_figures_that_do_not_fit_are_left_out() -> None:
    page = render_study("# T\n", {"a": PNG, "b": bytes(frame.PAGE_BYTES)}, directory="x")
    assert page.count("<img") == 1
    assert "1 further figure does not fit" in page
    assert len(page.encode()) < frame.PAGE_BYTES


def test_texts_stay_texts() -> None:
    told = HOSTILE.replace("\ud800", "")
    page = render_study(to_markdown(told, [told, f"command: {told}"], [{"model": told}]), {told: PNG}, directory=told)
    assert page.count("<img") == 1
    assert "\x1b" not in page
    assert "<script" not in page


def test_nothing_in_it() -> None:
    assert "<h1><bdi>A study</bdi></h1>" in render_study("", {}, directory="x")
