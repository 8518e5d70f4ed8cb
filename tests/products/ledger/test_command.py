"""`leakmeter ledger`: what the commands write, exit with and refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import leakmeter.engine.loading
from helpers import logged_traffic
from helpers.logged_answers import ChatToy, Echo
from leakmeter.backends.toy import Toy
from leakmeter.commands import progress
from leakmeter.products.ledger import measuring
from leakmeter.products.ledger.store import Ledger

Call = Callable[..., Any]
SECRET = "Ms Ana Alvi came. She said 4471."


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three invented calls to two people, the last of which cannot be measured."""
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(leakmeter.engine.loading, "load", lambda *given, **options: ChatToy())
    call = {"schema": "leakmeter-answer/1", "span_id": "1", "model": "toy", "sampling": {"temperature": 1.0}}
    call |= {"answer": "Ana Alvi", "documents": [{"id": "file-7", "text": SECRET}]}
    calls = [
        {**call, "trace_id": f"t{n}", "time": f"2026-03-0{n + 1}T08:00:00Z", "recipient": who}
        | {"messages": [{"role": "user", "content": f"{text}\n\nWho came?"}]}
        for n, (who, text) in enumerate((("anna", SECRET), ("bo", SECRET), ("bo", "Nobody was there.")))
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    return path


def test_what_has_no_number_is_named_wherever_a_budget_is_told_of(cli: Call, log: Path, tmp_path: Path) -> None:
    log.write_text(log.read_text().replace("She said 4471.", "Call 202-555-0143."), encoding="utf-8")
    assert cli("ledger", "add", log, "--model", "toy", "--search", "top:1:1").code == 0
    junit = tmp_path / "j.xml"
    told = cli("ledger", "check", "--budget", "1000", "--per", "subject", "--junit", junit)
    assert (told.code, told.out.startswith("holds")) == (1, False)
    for said in (told.out, junit.read_text()):
        assert "a search did not score some answers (2)" in said
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    found = json.loads(cli("ledger", "check", "--budget", "1000", "--per", "subject", "--json").out)
    assert (found["holds"], found["over"], len(found["unknown"])) == (False, [], 1)


def test_an_interrupted_add_tells_what_was_added(cli: Call, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, commit = list[str](), Ledger.commit

    def commit_and_end(self: Ledger, rows: Any, **options: Any) -> None:
        if self.n_rows():
            raise KeyboardInterrupt
        commit(self, rows, **options)

    monkeypatch.setattr(measuring, "BATCH", 1)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    monkeypatch.setattr(progress, "tell", lines.append)
    monkeypatch.setattr(Ledger, "commit", commit_and_end)
    ended = cli("ledger", "add", log, "--model", "toy")
    assert ended.code == 130
    assert ended.out.startswith("read 2 calls: added 1 answer, 1 of them measured; 0 were known, 0 refused, 0 left out")
    assert not any("Alvi" in line for line in lines)


def test_answers_that_share_a_response_id_are_told_of(cli: Call, log: Path) -> None:
    calls = [json.loads(line) for line in log.read_text().splitlines()[:2]]
    for n, call in enumerate(calls):
        call |= {"response_id": "r-1", "recipient": "bo", "answer": ("Ana Alvi", "4471")[n]}
    log.write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    said = "Different answers share a response id (1 id): each of them counts as a draw of its own."
    assert said in cli("ledger", "add", log, "--model", "toy").err
    assert said in " ".join(cli("ledger", "show").out.split())
    (row,) = [json.loads(line) for line in cli("ledger", "show", "--json").out.splitlines()]
    assert row["n_answers"] == 2


def test_progress_counts_each_measurement_once_and_disclosures_as_they_are_found(
    cli: Call, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[tuple[str, str]]()

    class Watched(progress.GrowingWork):
        def show(self, findings: Any) -> None:
            super().show(findings)
            shown.append((f"{self.where}{self.found}", self.left(1.0)))

    monkeypatch.setattr(progress, "GrowingWork", Watched)
    monkeypatch.setattr(leakmeter.engine.loading, "load", lambda *given, **options: Echo())
    call = json.loads(log.read_text().splitlines()[0])
    calls = [{**call, "trace_id": f"t{n}", "answer": f"Ana Alvi{'!' * n}"} for n in range(3)]
    log.write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    ended = cli("ledger", "add", log, "--model", "toy", "--json")
    assert ended.code == 0, ended.err
    added = json.loads(ended.out)
    assert added["n_disclosures"] >= 3
    line = r"measurement (\d+)/6 · (?:[023] answers|1 answer) measured · (?:1 disclosure|\d+ disclosures)$"
    numbers = [int(re.match(line, where)[1]) for where, _ in shown]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    # They are measured by documents at last, one by one.
    done = [int(where.split(" · ")[1].split()[0]) for where, _ in shown]
    assert (done[0], done[-1], sorted(done)) == (0, 3, done)
    found = [int(where.split(" · ")[2].split()[0]) for where, _ in shown]
    # Those of the first answer are shown before the last is measured.
    assert 0 < found[1] < found[-1] == added["n_disclosures"]
    shown.clear()
    monkeypatch.setattr(measuring, "BATCH", 1)
    for call in calls:
        call["answer"] += "?"
        call["trace_id"] += "again"
    log.write_text("".join(json.dumps(call) + "\n" for call in calls), encoding="utf-8")
    assert cli("ledger", "add", log, "--model", "toy").code == 0
    # How long a log is nobody knows before its end.
    assert {left for _, left in shown} == {""}
    assert shown[0][0].startswith("measurement 1/2 or more · ")
    assert shown[-1][0].startswith("measurement 6/6 or more · 3 answers measured · ")


def test_the_whole_way(cli: Call, log: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours.txt"
    ours.write_text("file_number = 44[0-9]+\n")
    ended = cli("ledger", "add", log, "--model", "toy", "--keep-texts", "--sensitive", ours)
    assert ended.code == 0, ended.err
    assert "read 3 calls: added 2 answers, 1 of them measured; 0 were known, 1 refused, 0 left out" in ended.out
    assert "refused 1: " in ended.out
    again = json.loads(cli("ledger", "add", log, "--model", "toy", "--json").out)
    assert (again["n_added"], again["n_known"]) == (0, 2)

    for by in ("document", "subject", "recipient", "day"):
        assert cli("ledger", "show", "--by", by).code == 0
        rows = [json.loads(line) for line in cli("ledger", "show", "--by", by, "--json").out.splitlines()]
        assert len(rows) == 2
    shown = cli("ledger", "show", "--subject", "Ana Alvi")
    assert ("2026-03-01" in shown.out, "Alvi" in shown.out) == (True, False)
    assert "Ana Alvi" in cli("ledger", "show", "--subject", "Ana Alvi", "--show-names").out
    told = cli("ledger", "show", "--recipient", "anna")
    assert (told.code, "anna: 1 answer" in told.out) == (0, True)
    rows = [json.loads(line) for line in cli("ledger", "show", "--recipient", "anna", "--json").out.splitlines()]
    assert len({row["recipient"] for row in rows}) == 1
    both = cli("ledger", "show", "--recipient", "anna", "--subject", "Ana Alvi")
    assert (both.code, "give one of them" in both.err) == (2, True)
    # Recipients are called by the names that are kept, the people of documents are not.
    for by in ("document", "subject"):
        named = " ".join(cli("ledger", "show", "--by", by).out.split())
        assert "2 answers, 1 document, 2 recipients" in named
        assert "anna" in named
        assert "Alvi" not in named
        # What makes the sums no posterior stays in sight; why is explained where it is asked for.
        assert "posterior, because a condition is not met or not asserted" in named
        assert "--conditions-hold was not given" not in named
        assert "add --explain" in named
    why = " ".join(cli("ledger", "show", "--explain").out.split())
    assert ("--conditions-hold was not given" in why, "add --explain" in why) == (True, False)

    junit = tmp_path / "j.xml"
    held = cli("ledger", "check", "--budget", "1000", "--junit", junit)
    assert (held.code, held.out.split()[0]) == (0, "holds")
    broken = cli("ledger", "check", "--budget", "1e-6", "--per", "document", "--junit", junit)
    assert broken.code == 1
    assert "file-7" in broken.out
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    # Others read this file: it says no id.
    assert "file-7" not in junit.read_text()

    page = tmp_path / "page.html"
    assert cli("ledger", "report", "--out", page).code == 0
    # Without texts' own heat maps a page has people by pseudonym alone; frames hold the maps of kept texts.
    assert "anna" not in page.read_text()
    answer = cli("ledger", "query", "select id, n_answers from totals where kind = 'document'", "--csv")
    assert answer.out.splitlines()[1:] == ['"file-7",1', '"file-7",1']
    assert cli("ledger", "query", "--schema", "--csv").code == 0
    assert cli("ledger", "query", "select recipient, kind, document, nats from disclosures").code == 0

    assert cli("ledger", "verify").code == 0
    gone = cli("ledger", "forget", "Ana Alvi")
    assert (gone.code, "left: " in gone.out, "Alvi" in gone.out) == (0, True, False)
    assert cli("ledger", "verify").code == 0
    assert cli("ledger", "show", "--show-names").code == 0


def test_what_is_refused(cli: Call, log: Path) -> None:
    for arguments, why in {
        ("show",): "is not a ledger",
        ("add",): "no log is given",
        ("check", "--budget", "0"): "above 0",
        ("check", "--budget", "1", "--per", "day"): "do not add up",
        ("show", "--by", "hour"): "--by is 'hour'",
        ("forget", "nobody"): "is not a ledger",
        ("query",): "give either a query",
    }.items():
        ended = cli("ledger", *arguments)
        assert (ended.code, len(ended.err.splitlines()), Path("ledger").exists()) == (2, 1, False)
        assert why in ended.err


def test_no_advice_names_an_option_that_there_is_not(cli: Call, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ChatToy()
    small.window = 60
    for model, code, said in (
        (Toy(), 2, ("model 'toy' has no chat template", "choose another model with --model")),
        (small, 0, ("fit the model's window; give a model with a larger one",)),
    ):
        monkeypatch.setattr(leakmeter.engine.loading, "load", lambda *_, of=model, **__: of)
        ended = cli("ledger", "add", log, "--model", "toy")
        assert ended.code == code
        assert all(part in ended.err for part in said)
        assert "--template" not in ended.err
        assert "--truncate" not in ended.err
    assert "added 0 answers, 0 of them measured; 0 were known, 1 refused, 2 left out" in ended.out


@pytest.mark.parametrize("name", logged_traffic.WRITERS)
def test_no_call_of_a_log_is_lost(cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Added, known, refused, left out, or of nobody: none is lost, and none counted twice."""
    small = ChatToy()
    small.window = 400
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(leakmeter.engine.loading, "load", lambda *given, **options: small)
    exchange = replace(logged_traffic.exchanges(1)[0], texts=("A boat came.",), ids=("d1",), question="What came?")
    mixed = (("A boat.", False, 2), ("A boat.", True, 1), ("A boat. " * 60, False, 3), (" ", False, 2))
    kinds = [(answer, rewrite) for answer, rewrite, n in mixed for _ in range(n)]
    traffic = [
        replace(exchange, number=number, recipient=f"user-{number}", answer=answer, rewrite=rewrite)
        for number, (answer, rewrite) in enumerate(kinds, 1)
    ]
    records = logged_traffic.records(logged_traffic.WRITERS[name], traffic)
    log = logged_traffic.write(tmp_path / "log.jsonl", [*records, "no record"])
    ended = cli("ledger", "add", log, "--model", "toy", "--json")
    assert ended.code == 0, ended.err
    done = json.loads(ended.out)
    refused = done["refused"]
    assert (done["n_added"], len(done["problems"]), done["n_known"]) == (3, 3, 0)
    assert refused == {"malformed": 1, "no-answer": 2}
    assert done["n_read"] == 3 + 3 + sum(refused.values()) == len(traffic) + 1
    assert done["n_hidden_calls"] == (name in logged_traffic.WITH_SPANS)
    again = json.loads(cli("ledger", "add", log, "--model", "toy", "--json").out)
    assert (again["n_added"], again["n_known"], len(again["problems"])) == (0, 3, 3)
    assert (again["n_read"], again["refused"]) == (done["n_read"], refused)
