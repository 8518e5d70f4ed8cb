"""What recipients may know, in a ledger: no budget counts it, a guard lets it through, and `forget` removes it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.logged_answers import Echo, logged
from leakmeter.core.case import Recipient
from leakmeter.data.traces import TraceReader
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import DataError, UsageError
from leakmeter.products.ledger.budgets import Budget, check
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.query import ask, columns
from leakmeter.products.ledger.report import page
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book
from leakmeter.report import blocks as b

KEYS = Keys(b"k" * 32)
SECRET = "Ms Ana Alvi, 12 Elm Street: call 202-555-0143."
LEAK = "Ana Alvi, 202-555-0143"
POLICY = """
[[recipient]]
recipient = "reader-1"
tenant = "acme"
[[recipient]]
recipient = "reader-2"
tenant = "zeta"
[[document]]
document = "file-*"
tenant = "acme"
[[allow]]
of = "tenant"
[[allow]]
document = "weather*"
[[allow]]
recipient = "reader-3"
kind = "phone"
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.toml"
    file.write_text(POLICY, encoding="utf-8")
    return str(file)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", KEYS)


def leaking(number: int, recipient: str, **fields: Any) -> Any:
    documents = {"weather-0": "It rains at the coast.", "file-7": SECRET}
    return logged(number, documents, LEAK, recipient=recipient, known=Recipient(recipient), **fields)


def added(ledger: Ledger, *answers: Any, **how: Any) -> None:
    done = add(ledger, answers, KeptModel(Echo()), Measuring(**how))
    assert (done.n_added, done.problems) == (len(answers), [])


def told(ledger: Ledger) -> set[tuple[str | None, str, str | None]]:
    names = {KEYS.recipient(f"reader-{n}"): f"reader-{n}" for n in range(1, 4)}
    book = Book(ledger)
    found = [one for one in book.disclosed(book.events) if one.document == "file-7" and one.is_sensitive]
    return {(names.get(one.event["recipient"]), one.kind, one.allowed) for one in found}


def test_it_is_decided_of_each_answer_when_it_is_added(ledger: Ledger, policy: str) -> None:
    added(ledger, leaking(1, "reader-1"), leaking(2, "reader-2"), leaking(3, "reader-3"), allowed=policy)
    # The second and the third answer were scored with the first.
    assert len({row["score"] for row in ledger.rows("disclosures")}) == 1
    assert told(ledger) == {
        ("reader-1", "person", "yes"), ("reader-1", "phone", "yes"),
        ("reader-2", "person", "no"), ("reader-2", "phone", "no"),
        ("reader-3", "person", "unknown"), ("reader-3", "phone", "yes"),
    }  # fmt: skip
    rows = ask("select document, allowed from permissions where event = (select min(event) from events)", ledger).rows
    assert {document for document, _ in rows} == {"weather-0", "file-7"}
    sql = "select distinct allowed from disclosures where kind = 'person' and document = 'file-7' order by 1"
    assert [allowed for (allowed,) in ask(sql, ledger).rows] == ["no", "unknown", "yes"]
    assert [name for view, name, _, _ in columns() if view == "permissions"] == [
        "event", "document", "content", "allowed", "kinds",
    ]  # fmt: skip


def test_what_recipients_may_know_is_no_all_clear(ledger: Ledger, policy: str) -> None:
    added(ledger, leaking(1, "reader-1"), allowed=policy)
    may = "Personal or secret data is disclosed in 1 of 1 answer, only to recipients who may know it."
    assert b.headline_of(page(Book(ledger))) == may
    added(ledger, leaking(2, "reader-2"), allowed=policy)
    not_all = "Personal or secret data is disclosed in 1 of 2 answers, to 1 recipient."
    assert b.headline_of(page(Book(ledger))) == not_all


def test_no_budget_counts_what_a_recipient_may_know(ledger: Ledger, policy: str) -> None:
    added(ledger, *(leaking(n, "reader-1") for n in (1, 2, 3)), leaking(4, "reader-2"), allowed=policy)
    book = Book(ledger)
    for per in ("document,recipient", "subject,recipient"):
        kind = per.partition(",")[0]
        every = book.pairs(kind, by_recipient=True)
        counted = book.pairs(kind, by_recipient=True, only_withheld=True)
        assert {pair.recipient for pair in every} == {KEYS.recipient("reader-1"), KEYS.recipient("reader-2")}
        assert {pair.recipient for pair in counted} == {KEYS.recipient("reader-2")}
    over, _, found = check(book, Budget(1.0, "document,recipient"))
    assert [pair.recipient for pair in over] == [KEYS.recipient("reader-2")]
    assert "Not counted, as its recipient may know it" in found.explained


def test_a_budget_of_which_nothing_counts_holds(ledger: Ledger, policy: str) -> None:
    added(ledger, leaking(1, "reader-1"), allowed=policy)
    over, unknown, found = check(Book(ledger), Budget(1.0, "document"))
    assert (over, unknown, found.holds, found.found.value) == ([], [], True, 0.0)


def test_without_a_policy_everything_counts(ledger: Ledger) -> None:
    added(ledger, leaking(1, "reader-1"))
    book = Book(ledger)
    assert book.pairs("document", by_recipient=True) == book.pairs("document", by_recipient=True, only_withheld=True)
    assert {allowed for _, _, allowed in told(ledger)} == {None}
    assert "Not counted" not in check(book, Budget(1e6, "document"))[2].explained


def test_a_page_says_who_may_know(ledger: Ledger, policy: str) -> None:
    added(ledger, leaking(1, "reader-1"), leaking(2, "reader-2"), allowed=policy)
    tables = [block for block in page(Book(ledger)).blocks if isinstance(block, b.Table)]
    table = next(table for table in tables if "May know" in [column.heading for column in table.columns])
    at = [column.heading for column in table.columns].index("May know")
    assert {row.cells[at] for row in table.rows} == {"yes", "no"}
    assert all(row.quiet for row in table.rows if row.cells[at] == "yes")


def test_a_ledger_without_the_table_is_read_and_gets_it(ledger: Ledger, policy: str) -> None:
    added(ledger, leaking(1, "reader-1"))
    with closing(sqlite3.connect(ledger.file)) as database:
        database.execute("DROP TABLE permissions")
        database.commit()
    older = Ledger(ledger.path, KEYS)
    assert older.rows("permissions") == []
    assert older.verify()[1] == []
    assert len(Book(older).events) == 1
    added(older, leaking(2, "reader-2"), allowed=policy)
    assert {row["allowed"] for row in Ledger(ledger.path, KEYS).rows("permissions")} == {"no", "yes"}


@pytest.mark.parametrize(("id_", "kind"), [("file-7", "document"), ("trace-001", "trace"), ("reader-1", "recipient")])
def test_forgetting_removes_it_too(ledger: Ledger, policy: str, id_: str, kind: str) -> None:
    added(ledger, leaking(1, "reader-1"), allowed=policy)
    assert len(ledger.rows("permissions")) == 2
    forget(ledger, id_, kind)
    left = {row["document"] for row in ledger.rows("permissions")}
    assert left == ({"weather-0"} if kind == "document" else set())


@pytest.fixture
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


DOCUMENTS = {"file-7": SECRET, "weather": "It rains."}


@pytest.mark.usefixtures("own_key")
def test_a_guard_holds_what_the_recipient_is_not_known_to_be_allowed(tmp_path: Path, policy: str) -> None:
    meter = leakmeter.Meter(Echo())
    guard = leakmeter.Guard(meter, budget=1.0, ledger=tmp_path / "guarded", allowed=policy)
    Path(policy).unlink()  # it was read already

    def held(recipient: Any) -> tuple[bool, list[str]]:
        verdict = guard.check(DOCUMENTS, "Who came?", LEAK, recipient, redact=False)
        return verdict.within, [span.kind for span in verdict.held_spans]

    assert held("reader-1") == (True, [])
    assert held("reader-2") == (False, ["person", "phone"])
    assert held("reader-3") == (False, ["person"])
    # Nobody knows whose reader-4 is; who says it is believed.
    assert held("reader-4") == (False, ["person", "phone"])
    assert held({"id": "reader-4", "tenant": "acme"}) == (True, [])
    with pytest.raises(UsageError, match="no 'id'"):
        held({"tenant": "acme"})
    with pytest.raises(DataError, match="not known"):
        held({"id": "a", "name": "b"})


@pytest.mark.usefixtures("own_key")
def test_what_two_documents_say_is_known_from_one(tmp_path: Path, policy: str) -> None:
    guard = leakmeter.Guard(leakmeter.Meter(Echo()), budget=1e6, ledger=tmp_path / "guarded", allowed=policy)
    documents = {"weather-desk": SECRET, "file-7": f"{SECRET} Filed."}
    assert guard.check(documents, "Who came?", LEAK, "reader-2").held_spans == ()


@pytest.mark.usefixtures("own_key")
def test_a_tool_is_no_person(tmp_path: Path, policy: str) -> None:
    guard = leakmeter.Guard(leakmeter.Meter(Echo()), budget=1e6, ledger=tmp_path / "guarded", allowed=policy)
    verdict = guard.check(DOCUMENTS, "Who came?", LEAK, "reader-1", tool="web.search")
    assert [span.kind for span in verdict.held_spans] == ["person", "phone"]


# --- the log's own fields, without a policy ---------------------------------------------------------------------------


def row(number: int, **fields: Any) -> dict[str, Any]:
    documents = [
        {"id": "weather-0", "text": "It rains at the coast."},
        {"id": "file-7", "text": SECRET, "tenant": "acme", "readers": ["reader-3", "nurse", "acme"]},
    ]
    told: dict[str, Any] = {
        "messages": [{"role": "user", "content": "\n\n".join(part["text"] for part in documents) + "\n\nWho?"}],
        "documents": documents, "answer": LEAK, "id": f"trace-{number}",
    }  # fmt: skip
    return told | fields


def read(path: Path, *rows: dict[str, Any]) -> list[Any]:
    path.write_text("\n".join(json.dumps(each) for each in rows), encoding="utf-8")
    return list(TraceReader(path))


ROWS = (
    row(1, recipient={"id": "reader-1", "tenant": "acme"}),
    row(2, recipient={"id": "reader-2", "tenant": "zeta", "role": "clerk"}),
    row(3, recipient="reader-3"),
)


def test_fields_of_the_log_decide_without_a_policy(ledger: Ledger, tmp_path: Path) -> None:
    added(ledger, *read(tmp_path / "log.jsonl", *ROWS))
    assert {(recipient, allowed) for recipient, _, allowed in told(ledger)} == {
        ("reader-1", "yes"), ("reader-2", "no"), ("reader-3", "yes"),
    }  # fmt: skip
    counted = Book(ledger).pairs("document", by_recipient=True, only_withheld=True)
    # Of the weather the log says nothing: it counts for all.
    assert {(pair.item.id, pair.recipient) for pair in counted} == {
        ("file-7", KEYS.recipient("reader-2")), *(("weather-0", KEYS.recipient(f"reader-{n}")) for n in (1, 2, 3)),
    }  # fmt: skip


def test_the_case_of_a_logged_answer_is_decided_alike(tmp_path: Path) -> None:
    from leakmeter.data.traces import as_case
    from leakmeter.text.permissions import permissions_of

    found = [permissions_of(as_case(answer, by_id=True), None) for answer in read(tmp_path / "log.jsonl", *ROWS)]
    assert [each and each.may("file-7", kind="person").allowed for each in found] == ["yes", "no", "yes"]
    assert [each and each.may("weather-0", kind="person").allowed for each in found] == ["unknown"] * 3


def test_a_policy_decides_of_fields_of_the_log(ledger: Ledger, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[allow]]\nof = "reader"\n[[allow]]\ndocument = "weather*"\n', encoding="utf-8")
    added(ledger, *read(tmp_path / "log.jsonl", *ROWS), allowed=str(policy))
    assert {(recipient, allowed) for recipient, _, allowed in told(ledger)} == {
        ("reader-1", "yes"), ("reader-2", "no"), ("reader-3", "yes"),
    }  # fmt: skip
    counted = Book(ledger).pairs("document", by_recipient=True, only_withheld=True)
    assert {(pair.item.id, pair.recipient) for pair in counted} == {("file-7", KEYS.recipient("reader-2"))}


def test_a_text_of_several_documents_may_be_known_from_any(ledger: Ledger, tmp_path: Path) -> None:
    mine = {"id": "copy-1", "text": SECRET, "tenant": "zeta"}
    other = {"id": "file-7", "text": SECRET, "tenant": "acme"}
    answers = (
        row(n, documents=[mine, other], recipient={"id": f"reader-{n}", "tenant": tenant})
        for n, tenant in ((1, "zeta"), (2, "beta"))
    )
    added(ledger, *read(tmp_path / "log.jsonl", *answers))
    assert {(recipient, allowed) for recipient, _, allowed in told(ledger)} == {("reader-1", "yes"), ("reader-2", "no")}


def test_documents_of_one_name_have_their_own_facts(ledger: Ledger, tmp_path: Path) -> None:
    texts = [("acme", "It rains at the coast."), ("zeta", SECRET)]
    documents = [{"text": text, "metadata": {"source": "notes", "tenant": tenant}} for tenant, text in texts]
    added(ledger, *read(tmp_path / "log.jsonl", row(1, documents=documents, recipient={"id": "a", "tenant": "acme"})))
    book = Book(ledger)
    assert {(one.kind, one.allowed) for one in book.disclosed(book.events) if one.is_sensitive} == {
        ("person", "no"), ("phone", "no"),
    }  # fmt: skip


@pytest.mark.usefixtures("own_key")
def test_a_guard_holds_what_the_log_does_not_allow(tmp_path: Path) -> None:
    guard = leakmeter.Guard(leakmeter.Meter(Echo()), budget=1e6, ledger=tmp_path / "guarded")
    documents = {"file-7": {"text": SECRET, "tenant": "acme"}, "weather": "It rains."}

    def held(recipient: Any) -> list[str]:
        return [span.kind for span in guard.check(documents, "Who came?", LEAK, recipient, redact=False).held_spans]

    assert held({"id": "reader-1", "tenant": "acme"}) == []
    assert held({"id": "reader-2", "tenant": "zeta"}) == ["person", "phone"]
    # Nobody knows whose reader-4 is.
    assert held("reader-4") == ["person", "phone"]
    listed = [{"id": "file-7", "text": SECRET, "metadata": {"readers": "reader-4"}}]
    assert guard.check(listed, "Who came?", LEAK, "reader-4", redact=False).held_spans == ()
    with pytest.raises(UsageError, match="no text"):
        guard.check([{"id": "file-7"}], "Who came?", LEAK, "reader-4")
