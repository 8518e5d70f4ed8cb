"""`leakmeter ledger`: what the commands write, exit with and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import leakmeter.runs.loading
from helpers.logged_answers import ChatToy

Call = Callable[..., Any]
SECRET = "Ms Ana Alvi came. She said 4471."


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three invented calls to two people, the last of which cannot be measured."""
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(leakmeter.runs.loading, "load_backend", lambda *given, **options: ChatToy())
    calls = [
        {
            "schema": "leakmeter-answer/1",
            "trace_id": f"t{n}",
            "span_id": "1",
            "time": f"2026-03-0{n + 1}T08:00:00Z",
            "recipient": who,
            "model": "toy",
            "sampling": {"temperature": 1.0},
            "messages": [{"role": "user", "content": f"{text}\n\nWho came?"}],
            "answer": "Ana Alvi",
            "documents": [{"id": "file-7", "text": SECRET}],
        }
        for n, (who, text) in enumerate((("anna", SECRET), ("bo", SECRET), ("bo", "Nobody was there.")))
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    return path


def test_what_has_no_number_is_named_wherever_a_budget_is_told_of(cli: Call, log: Path, tmp_path: Path) -> None:
    log.write_text(log.read_text().replace("She said 4471.", "Call 202-555-0143."), encoding="utf-8")
    assert cli("ledger", "add", log, "--model", "toy", "--search", "top:1:1").code == 0
    junit, sarif = tmp_path / "j.xml", tmp_path / "s.json"
    told = cli("ledger", "check", "--budget", "1000", "--per", "subject", "--junit", junit, "--sarif", sarif)
    assert told.code == 1
    assert not told.out.startswith("holds")
    for said in (told.out, junit.read_text(), sarif.read_text()):
        assert "a search left answers without a number (2)" in said
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    assert json.loads(sarif.read_text())["runs"][0]["results"]
    found = json.loads(cli("ledger", "check", "--budget", "1000", "--per", "subject", "--json").out)
    assert (found["holds"], found["over"], len(found["unknown"])) == (False, [], 1)


def test_the_whole_way(cli: Call, log: Path, tmp_path: Path) -> None:
    ended = cli("ledger", "add", log, "--model", "toy", "--keep-texts")
    assert ended.code == 0, ended.err
    assert "added 2 answers, 1 of them measured; 0 were known" in ended.out
    assert "refused 1: " in ended.out
    again = json.loads(cli("ledger", "add", log, "--model", "toy", "--json").out)
    assert (again["n_added"], again["n_known"]) == (0, 2)

    for by in ("document", "subject", "recipient", "day"):
        assert cli("ledger", "show", "--by", by).code == 0
        rows = [json.loads(line) for line in cli("ledger", "show", "--by", by, "--json").out.splitlines()]
        assert len(rows) == 2
    shown = cli("ledger", "show", "--subject", "Ana Alvi")
    assert "2026-03-01" in shown.out
    assert "Alvi" not in shown.out
    assert "Ana Alvi" in cli("ledger", "show", "--subject", "Ana Alvi", "--show-names").out

    junit, sarif = tmp_path / "j.xml", tmp_path / "s.json"
    held = cli("ledger", "check", "--budget", "1000", "--junit", junit, "--sarif", sarif)
    assert (held.code, held.out.split()[0]) == (0, "holds")
    broken = cli("ledger", "check", "--budget", "1e-6", "--per", "document", "--junit", junit, "--sarif", sarif)
    assert broken.code == 1
    assert "file-7" in broken.out
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    assert json.loads(sarif.read_text())["runs"][0]["results"][0]["level"] == "error"
    # Others read these files: they say no id.
    assert not any("file-7" in path.read_text() for path in (junit, sarif))

    page = tmp_path / "page.html"
    assert cli("ledger", "report", "--out", page).code == 0
    # Without texts' own heat maps a page has people by pseudonym alone; frames hold the maps of kept texts.
    assert "anna" not in page.read_text()
    answer = cli("ledger", "query", "select id, n_answers from totals where kind = 'document'", "--csv")
    assert answer.out.splitlines()[1:] == ['"file-7",1', '"file-7",1']
    assert cli("ledger", "query", "--schema", "--csv").code == 0

    assert cli("ledger", "verify").code == 0
    gone = cli("ledger", "forget", "Ana Alvi")
    assert gone.code == 0
    assert "left: " in gone.out
    assert "Alvi" not in gone.out
    assert cli("ledger", "verify").code == 0
    assert cli("ledger", "show", "--show-names").code == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("show",), "holds no ledger"),
        (("add",), "no log is given"),
        (("check", "--budget", "0"), "above 0"),
        (("check", "--budget", "1", "--per", "day"), "do not add up"),
        (("show", "--by", "hour"), "--by is 'hour'"),
        (("forget", "nobody"), "holds no ledger"),
        (("query",), "give either a query"),
    ],
)
def test_what_is_refused(cli: Call, log: Path, arguments: tuple[str, ...], why: str) -> None:
    ended = cli("ledger", *arguments)
    assert ended.code == 2
    assert why in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not Path("ledger").exists()
