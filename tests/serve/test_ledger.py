"""Pages of the ledger: what commands say of it, live."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter.runs.loading
from helpers.logged_answers import ChatToy
from helpers.serving import client, serving_of

HOSTILE = "<img src=x onerror=alert(1)>"
SECRET = "Ms Ana Alvi came. She said 4471."


@pytest.fixture
def add(cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(leakmeter.runs.loading, "load_backend", lambda *given, **options: ChatToy())

    def added(day: str) -> None:
        call = {
            "schema": "leakmeter-answer/1",
            "trace_id": f"t{day}",
            "span_id": "1",
            "time": f"2026-03-{day}T08:00:00Z",
            "recipient": "anna",
            "model": "toy",
            "sampling": {"temperature": 1.0},
            "messages": [{"role": "user", "content": f"{SECRET}\n\nWho came?"}],
            "answer": "Ana Alvi",
            "documents": [{"id": f"file {HOSTILE}", "text": SECRET}],
        }
        (tmp_path / "log.jsonl").write_text(json.dumps(call) + "\n", encoding="utf-8")
        assert cli("ledger", "add", tmp_path / "log.jsonl", "--model", "toy", "--ledger", tmp_path / "ledger").code == 0

    return added


def test_it_is_read_again_where_it_changed(add: Callable[[str], None], tmp_path: Path) -> None:
    serving = serving_of(tmp_path)
    with client(serving) as made:
        assert "There is no ledger yet." in made.get("/ledger").text
        assert made.get("/ledger/report").status_code == 400
        add("04")
        page = made.get("/ledger").text
        assert "1 answer," in page
        assert HOSTILE not in page
        add("05")
        assert "2 answers," in made.get("/ledger").text


def test_every_view_says_what_the_command_does(add: Callable[[str], None], tmp_path: Path) -> None:
    add("04")
    serving = serving_of(tmp_path)
    with client(serving) as made:
        for by in ("document", "subject", "recipient", "day"):
            page = made.get(f"/ledger?by={by}").text
            assert f'href="/ledger?by={by}" aria-current="page"' in page
            assert HOSTILE not in page
            assert "Ana Alvi" not in page
        assert made.get("/ledger?by=name").status_code == 400
        report = made.get("/ledger/report")
        assert "default-src 'none'" in report.headers["content-security-policy"]
        assert HOSTILE not in report.text
        listed = [one.split('"')[0] for one in made.get("/ledger").text.split('<option value="')[1:]]
        people = [
            one for one in listed if one not in ("document", "document,recipient", "subject", "subject,recipient")
        ]
        assert people
        told = made.get("/ledger/subject", params={"id": people[0]})
        assert told.status_code == 200
        assert "Told to whom" in told.text
        for bad in ("", "nobody", HOSTILE):
            answer = made.get("/ledger/subject", params={"id": bad})
            assert answer.status_code == 400
            assert HOSTILE not in answer.text


def test_a_budget_is_held_against_what_was_told(add: Callable[[str], None], tmp_path: Path) -> None:
    add("04")
    with client(serving_of(tmp_path)) as made:
        broken = made.get("/ledger/check", params={"budget": "0.01", "per": "document,recipient"}).text
        held = made.get("/ledger/check", params={"budget": "10000", "per": "document,recipient"}).text
        assert "which 1 of 1 are over" in broken
        assert "the budget is" in held
        assert "are over" not in held
        assert HOSTILE not in broken
        for bad in ({"budget": "-1"}, {"budget": "x"}, {"budget": "nan"}, {"budget": "5", "per": "moon"}):
            assert made.get("/ledger/check", params=bad).status_code == 400


def test_a_ledger_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "ledger.json").write_text("{")
    with client(serving_of(tmp_path)) as made:
        answer = made.get("/ledger")
        assert answer.status_code == 400
        assert "cannot be read" in answer.text
