"""What a ledger keeps of disclosures: spans, numbers and documents, who was told what, and no words."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.logged_answers import Echo, logged
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import StoreError
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.products.ledger.keys import Keys, shown
from leakmeter.products.ledger.measuring import Measuring, _place, add
from leakmeter.products.ledger.query import ask, columns
from leakmeter.products.ledger.report import page, summary
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book
from leakmeter.report import blocks as b

KEYS = Keys(b"k" * 32)
SECRET = "Ms Ana Alvi, 12 Elm Street: call 202-555-0143."
COPY = f"{SECRET} Filed."
WEATHER = "It rains at the coast."
LEAK = "Ana Alvi, 202-555-0143"
READERS = {name: KEYS.recipient(name) or "" for name in ("reader-1", "reader-2")}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", KEYS)


def added(ledger: Ledger, *answers: Any, **how: Any) -> None:
    done = add(ledger, answers, KeptModel(Echo()), Measuring(**how))
    assert (done.n_added, done.problems) == (len(answers), [])


def leaking(number: int, recipient: str = "reader-1", **fields: Any) -> Any:
    return logged(number, {"weather-0": WEATHER, "file-7": SECRET}, LEAK, recipient=recipient, **fields)


def test_they_are_those_of_the_measurement(ledger: Ledger) -> None:
    added(ledger, leaking(1), keep_texts=True)
    (event,) = ledger.rows("events")
    part, params = ledger.part(event["by_document"])
    (result,) = InfluenceResult.from_run([part], params)
    sources = [(one, source.document) for one in result.disclosed for source in one.sources]
    expected = {
        (one.text, one.kind, one.relation, one.evidence, round(one.nats, 9), one.posterior, of) for one, of in sources
    }
    names = {KEYS.content(one.content_hash): f"d{n}" for n, one in enumerate(leaking(1).documents, 1)}
    rows = ledger.rows("disclosures")
    assert len(rows) == len(expected) > 1
    for row in rows:
        words = LEAK[row["first_character"] : row["last_character"] + 1]
        stored = [row[name] for name in ("kind", "relation", "evidence")]
        assert (words, *stored, round(row["nats"], 9), row["posterior"], names[row["content"]]) in expected
    assert {row["kind"]: row["entities"] for row in rows if row["kind"] != "other"} == {
        "person": [KEYS.entity("person", "ana alvi")],
        "phone": [KEYS.entity("phone", "+12025550143")],
    }


def test_who_was_told_what_is_a_table_with_personal_things_first(ledger: Ledger) -> None:
    plain = [logged(n, {"weather-0": WEATHER}, "rains at the coast", recipient="reader-2") for n in (5, 6, 7)]
    cached = [leaking(n, response_id="r-1") for n in (1, 2)]
    added(ledger, *plain, *cached, leaking(3), leaking(4, "reader-2"))
    book = Book(ledger)
    blocks = (summary(book, "document").blocks, page(book).blocks)
    captions = "Disclosed personal data and other content, by recipient"
    tables = [next(block for block in of if isinstance(block, b.Table) and block.caption == captions) for of in blocks]
    for table in tables:
        assert table.caption == "Disclosed personal data and other content, by recipient"
        assert [column.heading for column in table.columns] == ["Recipient", "Kind", "Document", "Answers", "Most"]
        kinds = [b.plain(row.cells[1]) for row in table.rows]  # type: ignore[arg-type]
        assert kinds == sorted(kinds, key=lambda kind: kind == "other")
        assert "other" in kinds
        assert [row.quiet for row in table.rows] == [kind == "other" for kind in kinds]
        # A draw that a cache showed twice is one answer.
        found = {tuple(map(b.plain, row.cells[:3])): row.cells[3] for row in table.rows}  # type: ignore[arg-type]
        assert found[shown(READERS["reader-1"]), "phone", "file-7"] == 2
        assert found[shown(READERS["reader-2"]), "phone", "file-7"] == 1
    nats = [row["nats"] for row in ledger.rows("disclosures") if row["kind"] == "phone"]
    assert tables[0].rows[0].cells[4] == max(nats)


def test_sql_joins_them_with_recipients_and_documents(ledger: Ledger) -> None:
    added(ledger, leaking(1), leaking(2, "reader-2"))  # the second was scored before, and is told of too
    sql = "select recipient, document, kind, first_character, last_character from disclosures where kind = 'phone'"
    told = [(reader, "file-7", "phone", LEAK.index("202"), len(LEAK) - 1) for reader in READERS.values()]
    assert sorted(ask(sql, ledger).rows) == sorted(told)
    names = [name for view, name, _, _ in columns() if view == "disclosures"]
    assert names == list(ask("select * from disclosures", ledger).columns)


def test_what_two_documents_say_is_told_of_both(ledger: Ledger) -> None:
    added(ledger, logged(1, {"file-7": SECRET, "file-8": COPY}, LEAK))
    (event,) = Book(ledger).events
    told = {(one.document, one.kind) for one in Book(ledger).disclosed([event]) if one.is_sensitive}
    assert told == {(document, kind) for document in ("file-7", "file-8") for kind in ("person", "phone")}


def test_a_list_of_the_users_names_kinds_and_is_no_other_model(ledger: Ledger, tmp_path: Path) -> None:
    added(ledger, leaking(1))
    path = tmp_path / "ours.csv"
    path.write_text("hotline\n202-555-0143\n")
    added(ledger, leaking(2, query="And now?"), sensitive=str(path))
    kinds = {row["kind"] for row in ledger.rows("disclosures")}
    assert {"phone", "hotline"} <= kinds


@pytest.mark.parametrize(
    ("answer", "words", "start", "place"),
    [
        ("a phone, a phone", "phone", 11, (11, 16)),
        (" a phone", "phone", 2, (3, 8)),
        ("a.b and axb", "axb", 0, (8, 11)),
        ("a  phone", "a phone", 0, (0, 8)),
    ],
)
def test_a_span_has_its_place_in_the_logged_answer(answer: str, words: str, start: int, place: tuple[int, int]) -> None:
    one: Any = SimpleNamespace(text=words, start=start)
    assert _place(one, answer) == place


def test_a_ledger_of_the_layout_without_them_is_refused(ledger: Ledger) -> None:
    added(ledger, leaking(1))
    with closing(sqlite3.connect(ledger.file)) as opened, opened:
        opened.execute("DROP TABLE disclosures")
        opened.execute("PRAGMA user_version = 2")
    before = ledger.file.read_bytes()
    with pytest.raises(StoreError, match="by another version of leakmeter; use that version, or make a new ledger"):
        Ledger(ledger.path, KEYS).state()
    assert ledger.file.read_bytes() == before
