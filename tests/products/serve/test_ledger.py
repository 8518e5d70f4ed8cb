"""The pages of a ledger: its numbers are those of `leakmeter ledger`, people have no names, and texts stay texts."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from helpers.logged_answers import ChatToy, logged
from leakmeter.engine.loading import KeptModel
from leakmeter.products.ledger.budgets import PER
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.keys import shown
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.report import BY
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book
from leakmeter.products.serve import ledger as pages
from leakmeter.report.scale import nats_text

pytestmark = pytest.mark.usefixtures("undrawn")

HOSTILE = '<img src=x onerror=alert(1)>"/../{{7*7}}\u202e</script>'
SECRET = "Ms Ana Alvi, 12 Elm Street: call 202-555-0143."
NAMES = ("Alvi", "Elm Street", "202-555-0143", "reader-")


def answers(*numbers: int) -> list[Any]:
    made = []
    for n in numbers:
        documents = {"weather-0": "It rains at the coast.", **({HOSTILE: SECRET} if n % 3 == 2 else {})}
        told = {"trace_id": f"{HOSTILE}{n}"} if n == 2 else {}
        made.append(logged(n, documents, "Ana Alvi" if n % 3 == 2 else "Rain", recipient=f"reader-{n % 2}", **told))
    return made


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger.of_user(tmp_path / "ledger")
    add(ledger, answers(*range(6)), KeptModel(ChatToy()), Measuring(keep_texts=True))
    return ledger


def links(page: str) -> set[str]:
    return {unescape(one) for one in re.findall(r'href="(/ledger[^"]*)"', page)}


def test_without_a_ledger_the_page_says_how_to_make_one(made: TestClient, tmp_path: Path) -> None:
    for address in ("/ledger", "/ledger/by/day", "/ledger/budgets?budget=3"):
        page = made.get(address)
        assert (page.status_code, str(tmp_path / "ledger") in page.text) == (200, True)
        assert "leakmeter ledger add TRACES --ledger" in page.text
    assert list(tmp_path.iterdir()) == [], "looking makes nothing, not even the key of pseudonyms"


def test_every_page_is_reached_and_has_the_numbers_of_the_ledger(ledger: Ledger, made: TestClient) -> None:
    book = Book(ledger)
    seen: dict[str, str] = {}
    todo = {"/ledger"}
    while todo - set(seen):
        address = min(todo - set(seen))
        answer = made.get(address)
        assert answer.status_code == 200, address
        seen[address] = answer.text
        if "texts" not in address:
            todo |= links(answer.text)
    kinds = {one.split("?")[0].removeprefix("/ledger/") for one in seen}
    assert kinds >= {"document", "subject", "recipient", "day", "answer", "texts", "budgets", *(f"by/{x}" for x in BY)}
    worst = book.pairs("document", by_recipient=True)[0]
    for address in ("/ledger", "/ledger/by/document"):
        assert nats_text(worst.total.largest_running_nats) in seen[address]
    for one in book.pairs("subject", by_recipient=True):
        page = seen[pages.address("subject", one.item.id)]
        assert nats_text(one.total.largest_running_nats) in page
        assert shown(one.recipient) in page
    for event in book.events:
        assert pages.address("answer", event["event"]) in seen
    for address, page in seen.items():
        if not address.startswith("/ledger/texts"):
            assert not any(name in page for name in NAMES), address
        for wrong in ("<img", "\u202e", "alert(1)>", "</script>&#34;"):
            assert wrong not in page, address


def test_heat_maps_are_of_kept_texts_only(ledger: Ledger, made: TestClient, tmp_path: Path) -> None:
    kept = pages.address("answer", Book(ledger).events[2]["event"])
    (heat_map,) = (one for one in links(made.get(kept).text) if one.startswith("/ledger/texts"))
    answer = made.get(heat_map)
    assert "Alvi" in answer.text
    assert "script-src 'self'" not in answer.headers["content-security-policy"]
    add(ledger, [logged(9, {"file-8": "The bus is late."}, "Late")], KeptModel(ChatToy()), Measuring())
    new = pages.address("answer", Book(ledger).events[-1]["event"])
    assert "/ledger/texts" not in made.get(new).text
    assert made.get(new.replace("/answer", "/texts")).status_code == 404


def test_a_change_is_seen_and_what_was_forgotten_is_gone(ledger: Ledger, made: TestClient) -> None:
    before = made.get("/ledger").text
    assert "6 answers" in before
    assert made.get("/ledger").text == before
    add(ledger, answers(6, 7), KeptModel(ChatToy()), Measuring())
    assert "8 answers" in made.get("/ledger").text
    where = pages.address("document", HOSTILE)
    assert made.get(where).status_code == 200
    forget(ledger, HOSTILE, "document")
    answer = made.get(where)
    assert (answer.status_code, "img" in answer.text) == (404, False)


def test_a_ledger_is_read_once_per_change(ledger: Ledger, made: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    made.get("/ledger")
    made.get("/ledger/by/day")
    monkeypatch.setattr(pages, "Book", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr(pages.html, "fragment", lambda *_, **__: "made again")
    assert "made again" not in made.get("/ledger").text
    assert "made again" in made.get("/ledger/by/subject").text


def test_a_person_is_found_by_name_where_names_are_kept(ledger: Ledger, made: TestClient) -> None:
    page = made.get("/ledger/subject", params={"id": "Ana Alvi"})
    assert (page.status_code, "By recipient" in page.text, "Alvi" in page.text) == (200, True, False)
    for bad in ("", "nobody", HOSTILE):
        answer = made.get("/ledger/subject", params={"id": bad})
        assert (answer.status_code, "<img" in answer.text) == (404, False)
    # The whole report is that of the command.
    answer = made.get("/ledger/report")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "The answers, ranked" in answer.text or "Answers, largest leakage first" in answer.text
    assert "<img" not in answer.text.split("<main>")[1].replace('<img src="data:', "")


def test_budgets_are_held_as_the_command_line_holds_them(ledger: Ledger, made: TestClient) -> None:
    book = Book(ledger)
    for per in PER:
        kind, by_recipient = per.split(",")[0], "recipient" in per
        told = book.pairs(kind, by_recipient=by_recipient)
        most = told[0].total.largest_running_nats
        page = made.get("/ledger/budgets", params={"budget": most * 0.999, "per": per}).text
        assert "Over the budget" in page
        assert f": 1 of {len(told)} exceeds it" in page or most == told[1].total.largest_running_nats
        assert "Over the budget" not in made.get("/ledger/budgets", params={"budget": most * 1.001, "per": per}).text
    for budget, per in (("x", PER[0]), ("-1", PER[0]), ("nan", PER[0]), ("3", "day"), ("3", "<b>")):
        answer = made.get("/ledger/budgets", params={"budget": budget, "per": per})
        assert (answer.status_code, 'role="alert"' in answer.text, "<b>'" in answer.text) == (400, True, False)


def test_what_there_is_not_is_one_line(ledger: Ledger, made: TestClient) -> None:
    paths = ("by/x", "x?id=1", "document", "document?id=../../etc/passwd", "subject?id=weather-0", "answer?id=%00")
    for path in (*paths, "day?id=2026-99-99", "recipient?id=", f"document?id={'x' * 5_000}", "texts?id=1"):
        answer = made.get(f"/ledger/{path}")
        assert (answer.status_code, answer.text.count("\n"), "passwd" in answer.text) == (404, 1, False), path


def test_a_damaged_ledger_is_said_on_the_page(ledger: Ledger, made: TestClient) -> None:
    with closing(sqlite3.connect(ledger.file)) as database, database:
        database.execute("UPDATE scores SET signed_nats = 0 WHERE number = 1")
        database.execute("UPDATE ledger SET mark = 'another'")
    answer = made.get("/ledger")
    assert (answer.status_code, "cannot be read" in answer.text, 'role="alert"' in answer.text) == (400, True, True)
    ledger.file.write_bytes(b"no database" * 100)
    assert "cannot be read" in made.get("/ledger").text


def test_a_ledger_too_large_is_not_read(ledger: Ledger, made: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS", 10)
    monkeypatch.setattr(pages, "Book", lambda *_: pytest.fail("read"))
    assert "leakmeter ledger query" in made.get("/ledger").text


def test_other_pages_answer_meanwhile(ledger: Ledger, made: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(book: Any, names: Any) -> list[Any]:
        began.set()
        assert go_on.wait(10)
        return []

    monkeypatch.setattr(pages.said, "overview", slow)
    asking = [threading.Thread(target=made.get, args=("/ledger",)) for _ in range(3)]
    for one in asking:
        one.start()
    assert began.wait(10)
    assert made.get("/").status_code == 200
    go_on.set()
    for one in asking:
        one.join(10)
