from functools import partial
from pathlib import Path

import pytest
from report_browser import CHROMIUM, Browser
from report_cases import HOSTILE, clinic, hostile, small

from leakmeter.core.check import Number
from leakmeter.report.page import render_page
from leakmeter.report.runs_page import ShownRun, render_runs

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page was not opened in a browser"),
]
FIRST = "document.querySelector('.pieces tbody tr th').textContent"


def test_a_reader_can_take_the_response_apart(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_page([clinic(), hostile()]), encoding="utf-8")
    with Browser() as browser:
        browser.open(file.as_uri())
        assert browser.run(FIRST) == "s1"
        losartan = next(i for i, t in enumerate(clinic()["response"]["tokens"]) if t == " los")
        browser.run(f"document.querySelectorAll('.tokens b')[{losartan}].click()")
        assert browser.run(FIRST) == "s7"
        assert browser.run("document.querySelector('.pieces tbody td:nth-child(3)').textContent") == "3.90"
        assert browser.run("document.querySelectorAll('.ctx')[0].querySelectorAll('.s:not(.h0)').length") == 3
        browser.press("Escape")
        assert browser.run(FIRST) == "s1"
        browser.run(f"document.querySelectorAll('.tokens b')[{losartan}].focus()")
        assert browser.run("document.getElementById('tip').textContent").startswith("loswhole context4.60 nats")
        browser.press("Enter")
        assert browser.run(FIRST) == "s7"
        browser.run("document.querySelector('.back').click()")
        browser.run("document.querySelectorAll('.pieces thead button')[4].click()")  # only this
        assert browser.run("document.querySelector('.pieces th[aria-sort]').textContent") == "Only this"
        only = "[...document.querySelector('.pieces').tBodies[0].rows].map(r => parseFloat(r.cells[5].textContent))"
        column = browser.run(only)
        assert column == sorted(column, reverse=True)
        browser.run(
            "const box = document.querySelector('input'); box.value = 'cannery'; box.dispatchEvent(new Event('input'))"
        )
        assert (
            browser.run("document.querySelectorAll('.pieces')[0].querySelectorAll('tbody tr:not([hidden])').length")
            == 1
        )
        assert browser.requests == [file.as_uri()]
        assert browser.complaints == []


def test_many_cases_come_a_screenful_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_page([small(number) for number in range(45)]), encoding="utf-8")
    with Browser() as browser:
        browser.open(file.as_uri() + "#c42")
        shown = "[...document.querySelectorAll('.case:not([hidden])')].map(a => a.id)"
        assert browser.run(shown) == ["c41", "c42", "c43", "c44", "c45"]
        browser.run("document.querySelector('.pager button').click()")
        assert browser.run(shown)[::19] == ["c21", "c40"]
        assert browser.complaints == []


def test_a_table_with_inventions_shows_one_token_in_the_right_columns(tmp_path: Path) -> None:
    case = small(1)
    for piece in case["pieces"]:
        piece |= {
            "swapped_nats": 1.25,
            "invented": "<b>Ida</b>",
            "entity_type": "person",
            "repeated": "no",
            "n_mentions": 2,
        }
    file = tmp_path / "page.html"
    file.write_text(render_page([case]), encoding="utf-8")
    cells = "[...document.querySelector('.pieces tbody tr').cells].map(c => c.textContent)"
    heads = "[...document.querySelectorAll('.pieces thead tr > *')].map(c => c.textContent)"
    with Browser() as browser:
        browser.open(file.as_uri())
        expected = ["Without this", "", "With an invented one", "Signed", "Only this", "Posterior"]
        assert browser.run(heads)[2:] == expected
        before = browser.run(cells)
        assert before[4] == "1.25"
        assert "invented: <b>Ida</b>" in before[1]
        browser.run("document.querySelectorAll('.tokens b')[0].click()")
        name, _, nats, _, invented, signed, only, posterior = browser.run(cells)
        piece = next(one for one in case["pieces"] if one["name"] == name)
        assert float(nats) == float(f"{piece['per_token'][0]:.2f}")
        # How far noise and placebo move one token with signs is not known: no posterior.
        assert (invented, only, posterior) == ("–", "–", "–")
        assert signed[0] in "+−0"
        browser.press("Escape")
        assert browser.run(cells) == before
        assert browser.complaints == []


def test_runs_on_one_page_work_as_they_do_alone(tmp_path: Path) -> None:
    pages = [[clinic(), hostile()], [small(number) for number in range(45)]]
    runs = [
        ShownRun(
            directory=HOSTILE,
            measure="influence",
            model=HOSTILE,
            n_cases=len(cases),
            headline=HOSTILE,
            quantities={"influence.mean": Number(7.31, (5.2, 9.9), "nats", len(cases))},
            about={"influence.mean": "What the response owes."},
            draw=partial(render_page, cases),
        )
        for cases in pages
    ]
    file = tmp_path / "page.html"
    file.write_text(render_runs(runs), encoding="utf-8")
    with Browser() as browser:
        browser.open(file.as_uri())
        assert browser.run("document.querySelectorAll('img, script').length") == 0
        assert browser.run("document.querySelector('.found').textContent").startswith("</script><img src=x")
        assert browser.run("document.querySelector('details').open") is False
        browser.run("document.querySelector('a[href=\"#page1\"]').click()")
        assert browser.run("document.querySelector('details').open") is True
        with browser.frame(0):
            assert browser.run(FIRST) == "s1"
            losartan = next(i for i, t in enumerate(clinic()["response"]["tokens"]) if t == " los")
            browser.run(f"document.querySelectorAll('.tokens b')[{losartan}].click()")
            assert browser.run(FIRST) == "s7"
            browser.run("document.querySelector('.back').click()")
            browser.run("document.querySelectorAll('.pieces thead button')[4].click()")  # only this
            only = "[...document.querySelector('.pieces').tBodies[0].rows].map(r => parseFloat(r.cells[5].textContent))"
            column = browser.run(only)
            assert column == sorted(column, reverse=True)
            assert browser.run("document.querySelectorAll('img').length") == 0
            assert (
                browser.run("getComputedStyle(document.querySelector('.tokens b.h20, .tokens b')).cursor") == "pointer"
            )
        with browser.frame(1):
            browser.run("document.querySelector('a[href=\"#c42\"]').click()")
            browser.run("new Promise(done => setTimeout(done))")
            shown = "[...document.querySelectorAll('.case:not([hidden])')].map(a => a.id)"
            assert browser.run(shown) == ["c41", "c42", "c43", "c44", "c45"]
        assert [url for url in browser.requests if not url.startswith("data:")] == [file.as_uri()]
        assert browser.complaints == []
