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
from helpers.shown_runs import comparison, shown
from leakmeter.commands.studies.contexts import Contexts
from leakmeter.commands.studies.study_report import StudyTables, extremes, figure_of, study_report
from leakmeter.commands.studies.tables import readable
from leakmeter.core import registry
from leakmeter.engine.groups import groups_of
from leakmeter.engine.measure import Callbacks, measure_cases
from leakmeter.instruments.influence import report as influence
from leakmeter.products.pages.render import runs_report
from leakmeter.report import charts, html

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


def test_a_page_of_several_runs_is_for_everybody(browser: Browser, tmp_path: Path) -> None:
    runs = [shown(), shown(small(1), small(2), directory="runs/second"), shown(measure="icl", quantities={}, about={})]
    page = html.page(runs_report(runs, [(0, 1, comparison())]))
    assert_accessible(browser, page, tmp_path / "runs.html")


def test_the_page_of_a_study_is_for_everybody(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    rows = [
        {"model": model, "cid_lambda": weight, "unit": "sentence", "nats": nats, "nats_low": nats - 1,
         "nats_high": nats + 1, "nats_per_token": nats / 9, "difference_nats": nats, "n_responses": 1000,
         "pieces_median": 12.0, "peak_piece": 3, "peak_nats": nats, "early_nats": nats, "late_nats": nats}
        for model in ("a-model-with-a-long-name-7b-instruct", "another-1b") for weight, nats in ((0.5, 3.0), (1.0, 9.0))
    ]  # fmt: skip
    columns = Contexts.columns
    main = readable("Influence of contexts", ["as published"], rows, columns)
    found = extremes(main, rows, columns)
    told = "leakmeter study run mine.toml --data records.json"
    tables = StudyTables((main, main), told, headline=found.sentence, advice=found.advice)
    chart = figure_of(rows, "cid_lambda", ["nats"], ["model"], columns=columns, title="Influence", footer="seed 0")
    page = html.page(study_report(tables, {"figure": charts.files(chart)["png"]}, directory="runs/study-contexts"))
    assert_accessible(browser, page, tmp_path / "study.html")
