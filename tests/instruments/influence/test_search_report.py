"""Reports of searched contexts: exact, screened and not looked at are told apart, and the audit's words are its own."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.accessibility import AXE, check_page
from helpers.report_browser import CHROMIUM, Browser
from helpers.report_cases import HOSTILE
from helpers.report_checks import CONTROLS, assert_harmless, assert_markdown_harmless, flat
from helpers.report_snapshots import assert_as_reviewed, printed
from leakmeter.backends.toy import Toy
from leakmeter.core.backend import Capabilities
from leakmeter.instruments.influence import search_report
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.instruments.influence.searched import AuditRound, SearchSummary
from leakmeter.report import blocks as b
from leakmeter.report import html, markdown, scale

report = InfluenceResult.report

SNAPSHOTS = Path(__file__).parent / "snapshots"
TEXTS = (
    "The boat is red. Rain fell on the lake all day. A dog sleeps at the door. Bread is sold here. The road is long.",
    "The number of Ana is 41 77 20. The moon rose late. Songs were sung. A lamp burns. The hill is green.",
    "Ana is called on 41 77 20. Trees stand by the river. The sun is warm. A cat ran off. Doors were shut.",
)
ASKED: dict[str, Any] = {"query": "What is the number of Ana?", "response": "41 77 20"}


@cache
def measured(search: str = "top:2:3", audit: str | None = "0.9:40%", *, blind: bool = False) -> InfluenceResult:
    toy = Toy()
    # A served model hides nothing.
    toy.capabilities = Capabilities(hides_pieces=not blind)
    found = leakmeter.influence(toy, context=TEXTS, **ASKED, search=search, audit=audit)
    assert found.search is not None
    assert not found.search.is_complete
    return replace(found, cost=replace(found.cost, seconds=0.1))


def summary_of(case: InfluenceResult) -> SearchSummary:
    assert case.search is not None
    return case.search


def with_search(case: InfluenceResult, **fields: Any) -> InfluenceResult:
    return replace(case, search=replace(summary_of(case), **fields))


def said_of(*cases: InfluenceResult) -> str:
    return flat(printed(report(cases), width=200))


def texts_of(case: InfluenceResult) -> tuple[str, str, str]:
    return said_of(case), flat(markdown.text(report([case]))), flat(html.page(report([case])))


def audit_of(**fields: Any) -> AuditRound:
    usual = AuditRound(confidence=0.95, threshold_nats=0.5214, n_left=12, n_drawn=5, drawn=(), n_found=0, most_missed=3)
    return replace(usual, **fields)


def said_of_rounds(*rounds: AuditRound, **fields: Any) -> str:
    return said_of(with_search(measured(), rounds=rounds, **fields))


def table_of(case: InfluenceResult, caption: str) -> b.Table:
    (table,) = (one for one in search_report.tables(case) if caption in str(one.caption))
    return table


@pytest.mark.parametrize("blind", [False, True], ids=["attention", "removal"])
def test_what_a_report_says_is_as_reviewed(blind: bool) -> None:
    name = "search_removal.txt" if blind else "search.txt"
    assert_as_reviewed(SNAPSHOTS / name, report([measured(blind=blind)], command="leakmeter influence"))


# ---- the audit's words ----------------------------------------------------------------------------------------------
def test_the_statement_of_the_audit_is_worded_as_it_is_proved() -> None:
    said = said_of_rounds(audit_of(n_found=2, most_missed=4))
    # 0.5214 rounded up: whatever exceeds the number that is printed exceeds the threshold.
    assert "With 95 % confidence at most 4 pieces that are not listed exceed 0.522 nats" in said
    assert "(5 of the 12 pieces left were drawn at random and scored; 2 exceeded it and are listed now)" in said
    one = said_of_rounds(audit_of(most_missed=1))
    assert "With 95 % confidence at most 1 piece that is not listed exceeds 0.522 nats" in one
    assert "none exceeded it" in one
    for nats in (0.0123456, 0.5, 3.0601, 41.23, 999.9, 1234.5):
        (shown,) = re.findall(r"exceed ([\d.]+) nats", said_of_rounds(audit_of(threshold_nats=nats)))
        assert nats <= float(shown) <= nats * 1.01


def test_what_narrows_a_search_is_said() -> None:
    case = with_search(measured(), rounds=(audit_of(threshold_nats=None, n_found=5),))
    assert "Fewer than 2 pieces were scored exactly before the draw" in said_of(case)
    assert "−1" not in str([*search_report.sentences(case), *search_report.warnings(case)])
    assert search_report.cell(case) == "not known"
    for text in texts_of(measured(audit=None)):
        assert "No piece was audited, so it is unknown what the screen missed. Audit with" in text
    warnings = [one.text for one in search_report.warnings(measured(audit=None))]
    assert any("--audit 0.95:5%" in str(text) for text in warnings)
    stopped = said_of(with_search(measured(), stopped_early=True, n_rescored=3))
    assert "The stopping rule, a heuristic, was not satisfied within 3 pieces" in stopped
    usual = said_of(with_search(measured(), stopped_early=False))
    assert not any(words in usual for words in ("not satisfied", "No piece was audited"))


def test_the_last_round_comes_first_and_each_says_its_own_confidence() -> None:
    rounds = audit_of(confidence=0.975, n_found=1), audit_of(confidence=0.9875, n_left=7, most_missed=2)
    said = said_of_rounds(*rounds, audit_confidence=0.95)
    second, first = said.index("Audit, round 2. With 98.75 % confidence"), said.index("Audit, round 1. With 97.5 %")
    assert second < first
    assert "All of these statements hold together with 95 % confidence." in said


def test_several_cases_say_how_many_statements_may_be_false() -> None:
    case = measured()
    cases = [replace(case, id=f"case {number}") for number in range(4)]
    said = said_of(*cases, replace(measured(audit=None), id="other"))
    assert "Of 4 such statements, at most 0.4 is expected to be false." in said
    assert "In 1 of 5 searched cases no piece was audited, so it is unknown what the screen missed." in said
    assert "not audited" in said
    assert "Missed by the search" in [column.heading for column in report(cases).index]


# ---- exact, screened, not looked at ---------------------------------------------------------------------------------
def test_screened_values_stand_in_a_table_of_their_own_without_bars() -> None:
    case = measured("top:1:1")
    table = table_of(case, "Screened")
    shown = [row.cells[2] for row in table.rows]
    values = [piece.screened_nats for piece in summary_of(case).pieces]
    assert shown == sorted((one for one in values if one is not None), reverse=True)
    assert not any(column.bar or column.shade or column.role for column in table.columns)
    assert all(row.piece is None and row.quiet for row in table.rows)
    assert summary_of(case).interval_confidence == 0.8
    assert "Exact value, 80\u00a0%" in [column.heading for column in table.columns]
    # A group that was not removed is no group that did nothing.
    case = measured(blind=True)
    case = with_search(case, pieces=tuple(replace(piece, group_nats=0.0) for piece in summary_of(case).pieces))
    assert {row.cells[2] for row in table_of(case, "Not scored").rows} == {None}


def test_pieces_say_how_they_were_found() -> None:
    case = measured()
    (first, *_), name = summary_of(case).rounds, case.pieces[0].name
    drawn = replace(first, drawn=(name,), threshold_nats=case.pieces[0].nats / 2)
    found = with_search(case, rounds=(drawn,))
    assert search_report.found_by(found, found.pieces[0]) == "audit"
    assert search_report.remarks(found, found.pieces[0]) == ["missed by the screen, found by the audit"]
    below = with_search(case, rounds=(replace(drawn, threshold_nats=2 * case.pieces[0].nats),))
    assert search_report.remarks(below, below.pieces[0]) == []
    other = found.pieces[1]
    assert (search_report.found_by(found, other), search_report.remarks(found, other)) == ("screen", [])
    for text in texts_of(found):
        assert "missed by the screen, found by the audit" in text
    # The draw is of pieces with exact values.
    assert set(first.drawn) <= {piece.name for piece in case.pieces}
    assert len(first.drawn) == first.n_drawn


def test_a_document_stands_beside_the_sum_over_its_pieces() -> None:
    case = measured()
    table = table_of(case, "Documents")
    by_name = {b.plain(b.cell_phrase(row.cells[0], table.columns[0])): row for row in table.rows}
    for level in summary_of(case).levels:
        within = range(level.start, level.end)
        parts = [piece.nats for piece in case.pieces if piece.start in within]
        parts += [piece.screened_nats or 0.0 for piece in summary_of(case).pieces if piece.start in within]
        row = by_name[level.name]
        assert row.cells[2:] == (level.nats, level.screened_nats, pytest.approx(sum(parts)))
        assert row.quiet == (level.nats is None)


def test_a_whole_that_is_more_than_its_parts_says_that_they_may_hide_each_other() -> None:
    case = measured()
    quiet = tuple(replace(piece, screened_nats=0.0) for piece in summary_of(case).pieces)
    pieces = tuple(replace(piece, nats=0.01) for piece in case.pieces)
    hiding = replace(with_search(case, pieces=quiet), pieces=pieces)
    assert hiding.whole_nats > 1
    said = said_of(hiding)
    assert "more than twice the sum over its pieces" in said
    assert "sentences that repeat each other mask each other in leave-one-out" in said
    loud = replace(case, pieces=tuple(replace(piece, nats=100.0) for piece in case.pieces))
    assert "more than twice the sum over its pieces" not in said_of(loud)


def test_nothing_is_said_of_pieces_that_are_not_known() -> None:
    case = measured()
    none = tuple(replace(piece, nats=0.0, posterior=None) for piece in case.pieces)
    quiet = replace(case, pieces=none, disclosures=(), whole_nats=0.0, whole_posterior=None)
    said = said_of(quiet)
    assert "No piece that was scored exactly is above noise and placebo." in said
    assert "ship, and measure again" not in said
    assert "score every piece without --search before you ship" in said
    # Means over cases would be of pieces that were chosen because they are large.
    assert "pieces" not in InfluenceResult.findings([case, replace(case, id="b")]).figures
    (drawn,) = (one for one in report([case]).blocks if isinstance(one, b.Chart) and one.name == "pieces")
    assert f"{len(search_report.units_left(case))} without an exact value are not shown" in drawn.footer


def test_a_context_whose_every_piece_was_scored_is_shown_as_ever() -> None:
    case = leakmeter.influence("toy", context="Ana is 41. She sings.", query="Age?", response="41", search="top:2")
    assert summary_of(case).is_complete
    said, _, page = texts_of(case)
    assert "; 0 left without an exact value." in said
    assert "No piece was audited" not in said
    assert " data-partly" not in page
    assert all(scale.nats_cell(piece.nats) in said for piece in case.pieces)


def test_texts_of_a_search_stay_text() -> None:
    attack: dict[str, Any] = {"name": HOSTILE, "text": HOSTILE, "document": HOSTILE}
    for one in (measured(), measured(blind=True)):
        summary = summary_of(one)
        pieces = tuple(replace(piece, **attack) for piece in summary.pieces)
        made = report([with_search(one, pieces=pieces, levels=tuple(replace(lv, **attack) for lv in summary.levels))])
        assert_harmless(html.page(made))
        assert_markdown_harmless(markdown.text(made))
        assert not CONTROLS.search(printed(made))
        # With colours pieces without exact values have no marks.
        assert "‹" not in printed(report([one]), colour=True, width=200)


# ---- in a browser ---------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None or AXE is None, reason="no chromium or axe-core here: no page was opened")
def test_a_page_of_a_search_is_for_everybody_and_its_tokens_choose_exact_pieces(tmp_path: Path) -> None:
    with Browser() as browser:
        for blind in (False, True):
            case = measured(blind=blind)
            file = tmp_path / "page.html"
            file.write_text(html.page(report([case])), encoding="utf-8")
            browser.open(file.as_uri())
            check_page(browser)
            why = "unseen" if blind else "screened"
            seen = f"[...document.querySelectorAll('.ctx .{why}')].map(one => one.className)"
            before = browser.run(seen)
            browser.run("document.querySelectorAll('.tokens b')[0].click()")
            assert browser.run(seen) == before
            assert not any(re.search(r"\bh\d", name) for name in before)
            assert browser.run("document.querySelectorAll('tr[data-p]').length") == len(case.pieces)
            browser.press("Escape")
            over = "new MouseEvent('mouseover', {bubbles: true})"
            browser.run(f"document.querySelector('.ctx .s').dispatchEvent({over})")
            tip = browser.run("document.getElementById('tip').textContent")
            assert "share of all pieces scored exactly" in tip or "share" not in tip
            assert browser.complaints == []
