"""The report of several runs: what each found, side by side, and their own reports within."""

from __future__ import annotations

import base64
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from helpers.report_browser import CHROMIUM, Browser
from helpers.report_cases import HOSTILE, clinic, hostile, small
from helpers.report_checks import FIRST, assert_harmless, flat
from helpers.report_snapshots import printed
from helpers.shown_runs import NATS, comparison, shown
from leakmeter.core.quantity import Number
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.report import report
from leakmeter.products.pages.render import ShownRun, runs_report
from leakmeter.report import html


def page_of(*runs: ShownRun, comparisons: Any = ()) -> str:
    return html.page(runs_report(runs, comparisons))


def pages_within(page: str) -> list[str]:
    found = re.findall(r'src="data:text/html;charset=utf-8;base64,([A-Za-z0-9+/=]+)"', page)
    return [base64.b64decode(one).decode() for one in found]


def text_of(page: str) -> str:
    return flat(unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))))


def test_runs_stand_side_by_side_and_their_pages_lie_within() -> None:
    other = shown(small(1), measure="icl", quantities={}, about={}, headline="")
    runs = [shown(), shown(directory="runs/second"), other]
    page = page_of(*runs, comparisons=[(0, 1, comparison())])
    text = text_of(page)
    for said in (
        "3 runs", "Run 2 leaks more than run 1 in 1 of 1 number: influence (by 1.10 nats).",
        "The contexts changed 120 responses.", "runs/second",
        "From run 1 to run 2 117 cases are in both, 0 only in Run 1 and 3 only in Run 2.",
        "Case Changed t13 influence 1.00 → 9.50 nats; another text", "is below 0.05. All else is no difference beyond",
        "influence.mean Influence of the context. nats 7.31 [5.20, 9.90] 120 7.31 [5.20, 9.90] 120",
        "prompts.template: plain, then chat", "influence, nats 1.85 2.95 1.10 [0.40, 1.90] 0.03 worse",
    ):  # fmt: skip
        assert said in text
    assert pages_within(page) == [html.page(report([clinic()]))] * 2 + [html.page(report([small(1)]))]
    assert page == page_of(*runs, comparisons=[(0, 1, comparison())])
    assert "Run 3: icl" in flat(printed(runs_report(runs)))
    more = {"influence.mean": NATS, "influence.repeated.mean": Number(2.0, None, "values", 3)}
    page = page_of(shown(), shown(quantities=more, about=dict.fromkeys(more, "It.")))
    assert "influence.repeated.mean It. values – 2 3" in text_of(page)
    with pytest.raises(UsageError, match="give at least one"):
        runs_report([])


def test_the_policy_allows_what_the_pages_within_need_and_nothing_else() -> None:
    inner = html.page(report([clinic()]))
    page = page_of(shown(), shown())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    told = dict(part.split(" ", 1) for part in unescape(policy).split("; "))
    for tag in ("style", "script"):  # one style sheet, of this page and those within
        assert told[f"{tag}-src"] == html._sources(re.findall(f"<{tag}>(.*?)</{tag}>", inner, re.DOTALL)[:1])
    assert (told["default-src"], told["frame-src"]) == ("'none'", "data:")
    assert page.count('sandbox="allow-scripts"') == 2
    assert "frame-src" not in inner


def test_texts_stay_texts() -> None:
    run = shown(hostile(), headline=HOSTILE, model=HOSTILE, directory=HOSTILE, measure=HOSTILE)
    told = comparison(settings=[{"name": HOSTILE, "first": HOSTILE, "second": None}])
    page = page_of(run, shown(), comparisons=[(0, 1, told)])
    assert_harmless(page)
    assert "<script>" not in page
    assert pages_within(page)[0] == html.page(report([hostile()]))


def test_many_cases_share_the_room() -> None:
    cases = [small(number) for number in range(60)]
    page = html.page(runs_report([shown(*cases), shown(cases[0])] * 2), room=600_000)
    assert len(page.encode()) <= 600_000
    counts = [one.count('<details class="line"') for one in pages_within(page)]
    assert counts[1] == counts[3] == 0  # an only case is no line
    # What the pages of one case leave goes to those behind them.
    assert 1 < counts[0] <= counts[2] <= 60
    assert "left out of this page" in pages_within(page)[0]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page was not opened in a browser")
def test_runs_on_one_page_work_as_they_do_alone(tmp_path: Path) -> None:
    pages = [[clinic(), hostile()], [small(number) for number in range(55)]]
    runs = [shown(*cases, directory=HOSTILE, model=HOSTILE, headline=HOSTILE) for cases in pages]
    file = tmp_path / "page.html"
    file.write_text(page_of(*runs), encoding="utf-8")
    with Browser() as browser:
        browser.open(file.as_uri())
        assert browser.run("document.querySelectorAll('img, script').length") == 0
        found = "document.querySelector('tbody tr').cells[3].textContent"
        assert browser.run(found).startswith("</script><img src=x")
        assert browser.run("document.querySelector('details').open") is False
        browser.run("document.querySelector('a[href=\"#page1\"]').click()")
        assert browser.run("document.querySelector('details').open") is True
        with browser.frame(0):
            browser.run("document.querySelector('#c1 th a').click()")
            losartan = next(i for i, t in enumerate(clinic().response.tokens) if t == " los")
            browser.run(f"document.querySelectorAll('.tokens b')[{losartan}].click()")
            assert browser.run(FIRST) == "s7"
            assert browser.run("document.querySelectorAll('img').length") == 0
        with browser.frame(1):
            browser.run("location.hash = '#c52'")
            browser.until("!!document.querySelector('#c52')")
            listed = "[...document.querySelectorAll('.list>tbody>tr:not(.unfolded)')].map(a => a.id)"
            assert browser.run(listed) == ["c51", "c52", "c53", "c54", "c55"]
        assert [url for url in browser.requests if not url.startswith("data:")] == [file.as_uri()]
        assert browser.complaints == []
