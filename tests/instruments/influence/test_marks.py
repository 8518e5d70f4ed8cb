"""Disclosures on the page of a report: marks in the response, words of the context, a list, and what lights up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.report_browser import CHROMIUM, Browser
from helpers.report_cases import HOSTILE, disclosing
from helpers.report_checks import assert_harmless, assert_markdown_harmless, flat
from helpers.report_snapshots import printed
from leakmeter.core.plain import visible
from leakmeter.instruments.influence import disclosure_report
from leakmeter.instruments.influence.context import stretches
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.report import blocks as b
from leakmeter.report import html, markdown

report = InfluenceResult.report


def lines(case: InfluenceResult) -> list[str]:
    return [
        flat(f"{b.plain(one.kind)} {one.nats:.2f} <- {b.plain(one.origin)}")
        for one in disclosure_report.disclosures(case).disclosed
    ]


def test_a_line_says_what_was_given_away_and_where_it_came_from() -> None:
    case = disclosing()
    assert lines(case) == [
        "name of a person 13.00 <- crm/4411",
        "phone number 32.00 <- crm/4411, wiki",
        "other content 8.55 <- wiki together",
    ]
    # Of a single document its pieces are named, and the words where they are others.
    one = replace(case, documents=case.documents[:1])
    assert lines(one)[1:] == ["phone number 32.00 <- s1, s3", "other content 8.55 <- s4, s2 together"]
    other = replace(case.disclosures[3], relation="reworded", sources=case.disclosures[3].sources[:1])
    assert lines(replace(one, disclosures=(other,))) == ["other content 8.55 <- s4: “Hives are moved at night.”"]
    worded = replace(case.disclosures[1], evidence="words")
    assert lines(replace(one, disclosures=(worded,))) == [
        "phone number 32.00 <- s1, s3, by wording only; the scores do not confirm it"
    ]
    first = case.disclosures[1].sources[0]
    many = replace(case.disclosures[1], sources=tuple(replace(first, piece=f"s{i}") for i in range(1, 11)))
    named = "s1, s2, s3, s4, s5, s6, s7, s8 and 2 more"
    assert lines(replace(one, disclosures=(many,))) == [f"phone number 32.00 <- {named}"]


def test_the_page_marks_spans_and_their_sources_without_a_script() -> None:
    case = disclosing()
    page = html.page(replace(report([case]), scripted=False))
    assert "<script>" not in page
    spans = re.findall(r'<span class="leak( strong)?" data-d="(\d)">(.*?)</span>', page)
    said = [(strong, number, re.sub("<[^>]*>", "", inside).replace("&nbsp;", " ")) for strong, number, inside in spans]
    assert said == [
        (" strong", "0", "Odile Fenwarrenname of a person, 13.0 nats"),
        (" strong", "1", "555-010-2231phone number, 32.0 nats"),
        ("", "2", "moving hives in May8.55 nats"),
    ]
    assert re.findall(r'<u class="source( strong)?" data-d="([\d ]+)">(.*?)</u>', page) == [
        (" strong", "0", "Odile Fenwarren"),
        (" strong", "1", "555-010-2231"),
        ("", "2", "Bees swarm in May."),
        (" strong", "1", "555-010-2231"),
        ("", "2", "Hives are moved at night."),
    ]
    assert page.count("<dt data-d=") == 3
    assert 'data-u="1 3"' in page


def test_words_of_a_stretch_are_the_stretch_again() -> None:
    for case in (disclosing(HOSTILE), disclosing()):
        for stretch in stretches(case.context, case.documents, case.pieces):
            words = disclosure_report.parts(stretch, case.disclosed)
            assert "".join(part.text.text for part in words) in ("", stretch.text)
    # Sources that overlap share words; a place outside the context is cut.
    name, phone, *_ = case.disclosures
    (source,) = name.sources
    places = replace(source, start=-5, end=source.start + 5), replace(source, start=10**9, end=10**9)
    wide = replace(phone, sources=places)
    (first, *_) = stretches(case.context, case.documents, case.pieces)
    parts = [(part.text.text, part.disclosures) for part in disclosure_report.parts(first, [name, wide])]
    assert parts == [("Odile", [0, 1]), (" Fenwarren", [0])]


def test_hostile_disclosures_stay_texts() -> None:
    shown = report([disclosing(HOSTILE)])
    assert_harmless(html.page(shown))
    assert_markdown_harmless(markdown.text(shown))
    assert "\x1b" not in printed(shown)
    assert visible(HOSTILE)[:16] in b.plain(disclosure_report.disclosures(disclosing(HOSTILE)).disclosed[0].origin)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    file = tmp_path / "page.html"
    file.write_text(html.page(report([disclosing()])), encoding="utf-8")
    with Browser() as opened:
        opened.open(file.as_uri())
        yield opened
        assert opened.complaints == []


def lit(browser: Browser, kind: str) -> Any:
    return browser.run(f"[...document.querySelectorAll('{kind}.lit')].map(one => one.textContent)")


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_disclosure_lights_up_all_its_sources_and_a_source_what_it_gave_away(browser: Browser) -> None:
    labels = "document.querySelectorAll('.leak .choose')"
    assert browser.run(f"[...{labels}].map(one => one.textContent)")[1] == "phone number, 32.0\u00a0nats"
    browser.run(f"{labels}[1].focus()")
    browser.press("Enter")
    assert lit(browser, ".source") == ["555-010-2231"] * 2
    assert lit(browser, "dt") == ["phone number, 32.0\u00a0nats"]
    assert browser.run("document.querySelector('.state').innerText").startswith("Lit in the context: the words")
    pressed = f"[...{labels}].map(one => one.getAttribute('aria-pressed'))"
    assert browser.run(pressed) == ["false", "true", "false"]
    browser.press("Escape")
    assert lit(browser, "") == []
    # From the list, by a click, and again to leave it.
    for expected in (["Odile Fenwarren"], []):
        browser.run("document.querySelector('.leaks button').click()")
        assert lit(browser, ".source") == expected
    # A piece lights up what came from it, and so does its row; a token what it is part of.
    for chosen in ("document.querySelectorAll('.ctx .s')[2]", "document.querySelector('tr[data-p=\"2\"] button')",
                   "document.querySelectorAll('.tokens b')[11]"):  # fmt: skip
        browser.run(f"{chosen}.click()")
        assert [one[:12] for one in lit(browser, ".leak")] == ["moving hives"], chosen
        assert len(lit(browser, ".source")) == 2
        browser.press("Escape")
        assert lit(browser, "") == []
