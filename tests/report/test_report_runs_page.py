"""The page of several runs: what each found, side by side, and their own pages within."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from report_cases import HOSTILE, clinic, hostile, small

from leakmeter.core.check import Number
from leakmeter.errors import UsageError
from leakmeter.report import frame
from leakmeter.report.page import render_page
from leakmeter.report.runs_page import ShownComparison, ShownRun, render_runs

NATS = Number(7.31, (5.2, 9.9), "nats", 120)
DIGEST = re.compile(r"sha256-[A-Za-z0-9+/=]{44}")


def shown(draw: Callable[[], str] = lambda: render_page([clinic()]), **more: Any) -> ShownRun:
    told = ShownRun(
        directory="runs/influence-1f2e",
        measure="influence",
        model="toy",
        n_cases=120,
        headline="The contexts changed 120 responses.",
        quantities={"influence.mean": NATS},
        about={"influence.mean": "What the response owes."},
        draw=draw,
    )
    return replace(told, **more)


def comparison(**more: object) -> dict[str, object]:
    row = {
        "quantity": "influence", "unit": "nats", "first": 1.85, "second": 2.95, "difference": 1.1,
        "interval": [0.4, 1.9], "p_value": 0.01, "holm_p_value": 0.03, "n_pairs": 117, "verdict": "worse",
    }  # fmt: skip
    settings = [{"name": "params.temperature", "first": 1.0, "second": 0.7}]
    return {"n_pairs": 117, "n_other_texts": 0, "settings": settings, "quantities": [row], **more}


def pages_within(page: str) -> list[str]:
    found = re.findall(r'src="data:text/html;charset=utf-8;base64,([A-Za-z0-9+/=]+)"', page)
    return [base64.b64decode(one).decode() for one in found]


def text_of(page: str) -> str:
    said: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            said.append(data)

    Reader().feed(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))
    return " ".join(" ".join(said).split())


def test_runs_stand_side_by_side_and_their_pages_lie_within() -> None:
    other = shown(lambda: render_page([small(1)]), measure="icl", quantities={}, about={}, headline="")
    page = render_runs([shown(), shown(directory="runs/second"), other], [ShownComparison(0, 1, comparison())])
    said = text_of(page)
    assert "3 runs" in said
    assert "The contexts changed 120 responses." in said
    assert "influence.mean What the response owes. nats 7.31 [5.20, 9.90] 120 7.31 [5.20, 9.90] 120" in said
    assert "Run 2 less run 1 117 cases are in both." in said
    assert "params.temperature: 1, then 0.7" in said
    assert "influence nats 1.85 2.95 1.10 [0.40, 1.90] 0.03 117 worse" in said
    assert pages_within(page) == [render_page([clinic()])] * 2 + [render_page([small(1)])]
    assert page == render_runs([shown(), shown(directory="runs/second"), other], [ShownComparison(0, 1, comparison())])


def test_a_quantity_that_one_run_lacks() -> None:
    more = {"influence.mean": NATS, "influence.repeated.mean": Number(2.0, None, "values", 3)}
    page = render_runs([shown(), shown(quantities=more, about=dict.fromkeys(more, "It."))])
    assert "influence.repeated.mean It. values – 2.00 3" in text_of(page)


def test_the_policy_allows_what_the_pages_within_need_and_nothing_else() -> None:
    inner = render_page([clinic()])
    page = render_runs([shown(), shown()])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    told = dict(part.split(" ", 1) for part in unescape(policy).split("; "))
    own_style = frame._digest(re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0])
    style, script = (
        frame._digest(re.findall(f"<{tag}>(.*?)</{tag}>", inner, re.DOTALL)[0]) for tag in ("style", "script")
    )
    assert told["default-src"] == "'none'"
    assert told["frame-src"] == "data:"
    assert DIGEST.findall(told["style-src"]) == [own_style, style]
    assert told["script-src"] == f"'{script}'"
    assert page.count('sandbox="allow-scripts"') == 2
    assert "frame-src" not in inner


def test_texts_stay_texts() -> None:
    page = render_runs(
        [
            shown(lambda: render_page([hostile()]), headline=HOSTILE, model=HOSTILE, directory=HOSTILE),
            shown(),
        ],
        [ShownComparison(0, 1, comparison(settings=[{"name": HOSTILE, "first": HOSTILE, "second": None}]))],
    )
    assert "<img" not in page
    assert "\x1b" not in page
    assert not re.search("[\u202e\u2066\ud800]", page)
    assert page.count("<script>") == 0
    assert pages_within(page)[0] == render_page([hostile()])


def test_many_cases_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [small(number) for number in range(60)]
    monkeypatch.setattr(frame, "PAGE_BYTES", 300_000)
    page = render_runs([shown(lambda: render_page(cases)), shown(lambda: render_page(cases[:1]))] * 2)
    assert len(page.encode()) <= 300_000
    counts = [one.count('class="case"') for one in pages_within(page)]
    assert counts[1] == counts[3] == 1
    # What the pages of one case leave goes to those behind them.
    assert 1 < counts[0] <= counts[2] <= 60
    assert "left out of this page" in pages_within(page)[0]


def test_no_run() -> None:
    with pytest.raises(UsageError, match="give at least one"):
        render_runs([])
