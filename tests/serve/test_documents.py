"""Several documents in one field, with lines of dashes between them; what was typed is kept in the tab."""

from __future__ import annotations

import json

import pytest

from helpers.report_browser import CHROMIUM, Browser
from helpers.serving import CASE
from leakmeter.serve.live import Typed
from leakmeter.serve.serving import Serving


@pytest.mark.parametrize(
    ("context", "documents"),
    [
        ("Anna sang.", 1),
        ("Anna sang.\n---\nBo ate.", 2),
        ("---\nAnna sang.\n-----  \nBo ate.\n---\n", 2),
        ("a --- b\n- - -\n--", 1),
    ],
)
def test_lines_of_dashes_divide_documents(context: str, documents: int) -> None:
    case = Typed("toy", context, "Who?", "Anna").case
    assert len(case.documents) == documents
    assert documents == 1 or not any("--" in document.text for document in case.documents)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_sample_is_there_first_and_what_is_typed_stays_until_cleared(browser: Browser, serving: Serving) -> None:
    value = "document.querySelector('#live [name=context]').value"
    browser.until(f"{value}.includes('Tobias Quillmere')")
    browser.run(
        f"{value} = {json.dumps(CASE['context'])};"
        "document.getElementById('live').dispatchEvent(new Event('input', {bubbles: true}))"
    )
    browser.open(serving.access.origin + "/")
    browser.until(f"{value} === {json.dumps(CASE['context'])}")
    browser.run("document.getElementById('clear').click()")
    assert browser.run(f"{value} + (sessionStorage.getItem('live') || '')") == ""
    assert not browser.complaints
