"""A study's directory as a report: what `tables.to_markdown` wrote is read back cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.report_cases import HOSTILE
from helpers.report_checks import PNG, assert_report_harmless
from leakmeter.report import blocks as b
from leakmeter.report import html
from leakmeter.studies.study_report import read_markdown, study_report
from leakmeter.studies.tables import to_markdown

ROWS = [{"model": "a|b", "nats": 2.0, "nats_low": 1.5, "nats_high": 2.5}, {"model": "c", "nats": None}]
COMMAND = "leakmeter study run mine.toml --data 'a|b.json'"


def page_of(text: str, figures: dict[str, bytes] | None = None, **more: Any) -> str:
    return html.page(study_report(text, figures or {}, **{"directory": "x", **more}))


def test_tables_are_read_back() -> None:
    first = to_markdown("Influence | over λ", ["as published", f"command: {COMMAND}"], ROWS)
    tables = list(read_markdown(first + "\n" + to_markdown("Seeds", [], ROWS[:1], level=2)))
    assert [table["title"] for table in tables] == ["Influence | over λ", "Seeds"]
    assert tables[0]["lines"] == ["as published", f"command: {COMMAND}"]
    assert tables[0]["heads"] == ["model", "τ̂, nats"]
    assert tables[0]["rows"] == [["a|b", "2.00 [1.50, 2.50]"], ["c", "–"]]
    assert (tables[1]["lines"], tables[1]["rows"]) == ([], [["a|b", "2.00 [1.50, 2.50]"]])


def test_the_page_has_tables_figures_and_command() -> None:
    text = to_markdown("T", [f"command: {COMMAND}"], ROWS) + "\n" + to_markdown("Seeds", [], ROWS[:1], level=2)
    page = page_of(text, {"figure": PNG}, directory="runs/study-x")
    assert "<h1><bdi>T</bdi></h1>" in page
    assert "<h2><bdi>Seeds</bdi></h2>" in page
    assert '<bdi>a|b</bdi><td class="t"><bdi>2.00 [1.50, 2.50]</bdi>' in page.replace("\n", "")
    assert "<code>leakmeter study run mine.toml --data &#39;a|b.json&#39;</code>" in page
    assert 'src="data:image/png;base64,iVBOR' in page
    assert 'alt="figure"' in page
    assert "runs/study-x" in page
    assert "script-src &#39;none&#39;" in page


def headline(rows: list[dict[str, Any]], about: Sequence[str] = ()) -> str:
    return b.headline_of(study_report(to_markdown("T", about, rows), {}, directory="x"))


def test_a_page_begins_with_what_was_found() -> None:
    rows = [
        {"model": "m", "openness": name, "nats": mean, "nats_low": mean - 0.25, "nats_high": mean + 0.25}
        for name, mean in (("open", 2.0), ("closed", -1.0), ("both", 1.75))
    ]
    assert (
        headline(rows) == "τ̂, nats: from -1.00 [-1.25, -0.75] (openness closed) to 2.00 [1.75, 2.25] (openness open)."
    )
    assert headline(rows[::2]).endswith("Their intervals overlap: the order may be chance.")
    assert headline(rows[:1]) == "τ̂, nats: 2.00 [1.75, 2.25]."
    assert headline([{"model": "m"}]) == ""
    assert headline(rows, ["finding: nothing was found", "seed 0"]) == "nothing was found"
    page = page_of(to_markdown("T", [f"command: {COMMAND}", "seed 0"], rows))
    assert page.count("leakmeter study run") == 1
    assert page.index("<table") < page.index("seed 0") < page.index("leakmeter study run")


def test_texts_stay_texts() -> None:
    told = HOSTILE.replace("\ud800", "")
    text = to_markdown(told, [told, f"command: {told}"], [{"model": told, told: 1.0}])
    page = assert_report_harmless(study_report(text, {told: PNG}, directory=told), widths=())
    assert page.count("<img") == 1
    assert "<h1>A study</h1>" in page_of("")


def test_figures_that_do_not_fit_are_left_out_and_every_row_is_shown() -> None:
    page = page_of("# T\n", {"a": PNG, "b": bytes(html.PAGE_BYTES), "c": PNG})
    assert page.count("<img") == 1
    assert "2 further figures do not fit" in page
    assert len(page.encode()) < html.PAGE_BYTES
    page = page_of(to_markdown("T", [], [{"model": f"m{i}"} for i in range(1100)]))
    assert "m1099" in page
    assert "left out" not in page
