"""Pages of every instrument in a browser: by axe-core's rules for WCAG 2.2 AA, and asking the network for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from helpers.accessibility import AXE, violations
from helpers.differentiable_toy import DifferentiableToy
from helpers.listed_cases import many
from helpers.report_browser import CHROMIUM, Browser
from helpers.report_cases import clinic, disclosing, sampled, small
from leakmeter.core import registry
from leakmeter.engine.groups import groups_of
from leakmeter.engine.measure import Callbacks, measure_cases
from leakmeter.instruments.influence import report as influence
from leakmeter.report import html

MEASURES = registry.instruments()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: pages were not opened in a browser"),
    pytest.mark.skipif(AXE is None, reason="axe-core is not installed: pip install axe-playwright-python"),
]


def page_of(name: str, n: int) -> str:
    """The page of an instrument's example, once or several times."""
    instrument, backend = registry.instrument(name), DifferentiableToy()
    examples = [instrument.example(f"case {number}", None) for number in range(n)]
    measure = instrument.measure(**examples[0].parameters)
    prepared = [one.settings.prepare(one.case, backend, measure) for one in examples]
    parts = measure_cases(backend, measure, prepared, None, Callbacks(), groups=groups_of([None] * len(prepared), n))
    results = list(instrument.result.from_run(parts, asdict(measure)))
    return instrument.result.render_page(results, command="leakmeter", run=None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


def assert_accessible(browser: Browser, page: str, path: Path) -> None:
    assert AXE is not None
    path.write_text(page, encoding="utf-8", errors="replace")
    n_requests = len(browser.requests)
    browser.open(path.as_uri())
    assert [url for url in browser.requests[n_requests:] if not url.startswith("data:")] == [path.as_uri()]
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    browser.run(f"{AXE.read_text(encoding='utf-8')}; true")
    for dark in (False, True):
        for width in (1280, 390):
            assert violations(browser, dark=dark, width=width) == []
            # Nothing is wider than the screen: what is, moves in a box of its own.
            assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.complaints == []


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", MEASURES)
def test_the_page_of_an_instrument_is_for_everybody(name: str, n: int, browser: Browser, tmp_path: Path) -> None:
    assert_accessible(browser, page_of(name, n), tmp_path / "page.html")


def test_a_page_with_what_can_be_chosen_is_for_everybody(browser: Browser, tmp_path: Path) -> None:
    assert_accessible(browser, html.page(influence.report([clinic()])), tmp_path / "one.html")
    assert_accessible(browser, html.page(influence.report([clinic(), sampled(), small(1)])), tmp_path / "three.html")
    assert_accessible(browser, html.page(influence.report([disclosing()])), tmp_path / "disclosures.html")
    assert_accessible(browser, html.page(many(120)), tmp_path / "list.html")
