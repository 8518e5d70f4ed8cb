"""The page of a ledger: who got what first, in numbers and colours; hashes are short, and a telephone has room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.logged_answers import Echo, logged
from helpers.report_browser import CHROMIUM, Browser
from leakmeter.engine.loading import KeptModel
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.report import LedgerNames, overview, page, summary
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book
from leakmeter.report import blocks as b
from leakmeter.report import html, scale

HASHES = [f"{number:02x}{'5e' * 31}" for number in range(4)]
TEXTS = {"weather": "It rains at the coast.", HASHES[0]: "Ms Ana Alvi, 12 Elm Street: call 202-555-0143."}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """Three answers, of which one repeats a document; traces and a document are called by hashes."""
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger", Keys(b"k" * 32))
    answers = [
        replace(logged(number, documents, answer, recipient=f"reader-{number % 2}"), trace_id=HASHES[number + 1])
        for number, (documents, answer) in enumerate(
            [(TEXTS, "Ana Alvi, 202-555-0143"), ({"weather": TEXTS["weather"]}, "Rain"), (TEXTS, "No")]
        )
    ]
    add(ledger, answers, KeptModel(Echo()), Measuring(keep_texts=True))
    return Book(ledger)


def tables(report: b.Report) -> list[b.Table]:
    return [block for block in report.blocks if isinstance(block, b.Table)]


def test_the_page_leads_with_who_got_what(book: Book) -> None:
    made = page(book)
    assert b.headline_of(made) == "Personal or secret data is disclosed in 1 of 3 answers, to 1 recipient."
    assert b.headline_of(summary(book, "day")) == b.headline_of(made)
    assert isinstance(made.blocks[0], b.Headline)
    assert made.blocks[0].verdict == "bad"
    first, disclosed, answers = tables(made)
    assert b.plain(first.caption) == "Who got what: nats of each document"
    assert b.plain(disclosed.caption).startswith("Disclosed personal data")
    assert b.plain(answers.caption).startswith("Answers, largest leakage first")
    pairs = {(pair.item.id, pair.recipient): pair for pair in book.pairs("document", by_recipient=True)}
    recipients = list(dict.fromkeys(recipient for _, recipient in pairs))
    documents = list(dict.fromkeys(document for document, _ in pairs))
    for document, row in zip(documents, first.rows, strict=True):
        for recipient, cell in zip(recipients, row.cells[1:], strict=True):
            pair = pairs.get((document, recipient))
            if pair is None:
                assert cell == ""
                continue
            total = pair.total
            assert isinstance(cell, b.Shaded)
            assert cell.cell == total.signed_nats
            assert total.signed_nats is not None
            floor = max(total.noise_nats, total.placebo_running_nats or 0.0)
            # What made answers less likely is no leak of what it says.
            assert bool(cell.heat) == (total.signed_nats > floor)
            assert cell.heat == scale.heat(total.signed_nats, floor)


def test_what_is_below_zero_has_no_colour_in_any_table(book: Book) -> None:
    below = {pair.item.id for pair in book.pairs("document", by_recipient=True) if (pair.total.signed_nats or 0) < 0}
    assert below
    walked = [block for block in b.walk(page(book).blocks) if isinstance(block, b.Table)]
    for table in walked:
        if "Sum" in headings(table):
            at = headings(table).index("Sum")
            assert all(row.quiet for row in table.rows if row.cells[at] < 0)  # type: ignore[operator]


def test_hashes_are_short_and_told_apart(book: Book) -> None:
    names = LedgerNames(book)
    assert [b.plain(names.answer(event)) for event in book.events] == [f"{name[:12]}…" for name in HASHES[1:]]
    assert {b.plain(names.document(document)) for document, _ in book.documents} == {"weather", f"{HASHES[0][:12]}…"}


def headings(table: b.Table) -> list[str]:
    return [b.plain(column.heading) for column in table.columns]


def test_what_is_the_same_everywhere_is_said_once(book: Book) -> None:
    table = tables(summary(book, "document"))[-1]
    assert b.plain(table.caption).endswith("; scored by M, no posterior")
    assert "Posterior" not in headings(table)
    answers = [block for block in overview(book, LedgerNames(book)) if isinstance(block, b.Table)][-1]
    assert headings(answers) == ["Answer", "Day", "Recipient", "Document", "Revealed"]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_telephone_has_room(book: Book, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html.page(page(book)), encoding="utf-8")
    with Browser() as browser:
        browser.open((tmp_path / "page.html").as_uri())
        for width in (390, 1280):
            browser.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
            )
            assert browser.run("document.documentElement.scrollWidth") <= width
