"""Reports of every instrument follow one template, and whoever shows one says the same sentence."""

from __future__ import annotations

import re
from base64 import b64decode
from html import unescape
from typing import Final

import pytest

import leakmeter
from helpers.each_run import runs_by_name
from helpers.places import ROOT
from helpers.report_snapshots import printed
from helpers.report_template import Front, assert_follows_template
from leakmeter.core import registry
from leakmeter.report import blocks as b
from leakmeter.report import html, markdown
from leakmeter.results.run import Run

KEPT: Final = sorted((ROOT / "tests" / "golden").glob("older*/*/spec.json"))


def reports() -> dict[str, Run]:
    """Runs that earlier versions measured, and those of this one."""
    paths = {path.parent.name: path.parent for path in KEPT} | runs_by_name()
    return {name: leakmeter.load_run(path) for name, path in paths.items()}


def flat(text: str) -> str:
    return " ".join(text.replace("\u00a0", " ").replace("\u200b", "").split())


def test_there_is_a_run_of_every_instrument() -> None:
    assert {run.measure for run in reports().values()} == set(registry.instruments())


@pytest.mark.parametrize("name", [path.parent.name for path in KEPT])
def test_a_report_of_several_and_of_one_case_follows_the_template(name: str) -> None:
    check(leakmeter.load_run(next(path.parent for path in KEPT if path.parent.name == name)))


def test_reports_of_this_version_follow_the_template() -> None:
    for path in runs_by_name().values():
        check(leakmeter.load_run(path))


def check(run: Run) -> None:
    for cases in (run.cases, run.cases[:1]):
        report = run.kind.report(cases)
        assert_follows_template(report)
        said = flat(b.headline_of(report))
        assert said
        for shown in (
            printed(report, explain=False),
            printed(report),
            re.sub(r"</?code>|\*\*", "", unescape(markdown.text(report))),
            " ".join(Front(html.page(report)).headlines),
            run.kind.findings(cases).headline,
        ):
            assert said in flat(shown)
    one = run.cases[0]
    assert said in flat(repr(one))
    (address,) = re.findall(r"base64,([^\"]*)", one._repr_html_())
    assert said in flat(" ".join(Front(b64decode(address).decode()).headlines))


def test_sentences_beyond_the_third_are_read_under_how_to_read_this() -> None:
    texts = ["One. Two.", ("Of “", b.Untrusted("No. No. No."), "”: three."), "Four."]
    assert [text.is_detail for text in b.front(texts)] == [False, False, True]
    # What matters less does not stand in front of what matters more.
    assert [text.is_detail for text in b.front(["One. Two.", "Three. Four.", "Five."])] == [False, True, True]
