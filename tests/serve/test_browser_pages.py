"""The pages of the ledger and of the doctor in a browser: by keyboard, on a telephone, in the dark, and untouched by
hostile texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.accessibility import check_page
from helpers.logged_answers import ChatToy, logged
from helpers.report_browser import CHROMIUM, Browser
from leakmeter.engine.loading import KeptModel
from leakmeter.ledger.measuring import Measuring, add
from leakmeter.ledger.store import Ledger
from leakmeter.serve.serving import Serving

pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]
_HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>\u202e'
_SECRET = "Ms Ana Alvi, 12 Elm Street: call 202-555-0143."


def test_the_ledger_from_its_matrix_to_one_answer(
    browser: Browser, serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    made = []
    for n in range(30):
        documents = {f"weather-{n % 5}": f"It rains at coast {n % 5}.", **({_HOSTILE: _SECRET} if n % 3 == 2 else {})}
        made.append(logged(n, documents, "Ana Alvi" if n % 3 == 2 else "Rain", recipient=f"reader-{n % 4}"))
    browser.open(f"{serving.access.origin}/ledger")
    assert "leakmeter ledger add" in browser.run("document.querySelector('main pre').innerText")
    check_page(browser)
    add(Ledger.of_user(serving.ledger), made, KeptModel(ChatToy()), Measuring(keep_texts=True))

    browser.open(f"{serving.access.origin}/ledger")
    title = browser.run("document.title")
    assert browser.run("document.querySelectorAll('figure svg').length") == 2
    check_page(browser)
    # By keyboard: the first link of the table, and what it opens.
    for _ in range(2):
        browser.run("document.querySelector('tbody a').focus()")
        before = browser.run("location.href")
        browser.press("Enter")
        browser.until(f"location.href !== '{before}' && document.readyState === 'complete'")
        check_page(browser)
    for page in ("by/document", "by/subject", "by/recipient", "by/day", "budgets?budget=1&per=document"):
        browser.open(f"{serving.access.origin}/ledger/{page}")
        check_page(browser)
        assert browser.run("document.querySelectorAll('main img, main script:not([type])').length") == 0
        to = browser.run("(document.querySelector('tbody a') || {}).href")
        if to:
            browser.open(to)
            check_page(browser)
    assert browser.run("document.title") != "1"
    assert title == "Ledger · leakmeter"
    assert browser.complaints == []
    assert all(one.startswith((serving.access.origin, "data:")) for one in browser.requests)


def test_the_doctor_by_keyboard(browser: Browser, serving: Serving) -> None:
    browser.open(f"{serving.access.origin}/doctor")
    check_page(browser)
    browser.run("document.querySelector('#doctor .primary').focus()")
    browser.press("Enter")
    browser.until("document.getElementById('status').textContent === 'Done.'")
    assert "Passed" in browser.run("document.querySelector('#examined h2').innerText")
    assert browser.run("document.activeElement.id") == "examined"
    check_page(browser)
    assert browser.complaints == []
