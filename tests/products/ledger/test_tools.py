"""Traffic of agents in a ledger: tools are recipients of their own, and results of tools are documents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakmeter.engine.loading
from helpers.logged_agents import AGENTS, FOUND
from helpers.logged_answers import ChatToy, Echo, logged
from helpers.logged_traffic import write
from leakmeter.core.case import Message, ToolCall
from leakmeter.data.traces import LoggedAnswer, LoggedMessage, TraceReader
from leakmeter.data.traces.answer import ReadText
from leakmeter.data.traces.places import Retrieved, find, hash_of, normalised
from leakmeter.engine.loading import KeptModel
from leakmeter.products.ledger import budgets
from leakmeter.products.ledger import report as said
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.measuring import Measuring, Setup, add
from leakmeter.products.ledger.query import ask
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book
from leakmeter.report import blocks as b

KEYS = Keys(b"k" * 32)
USER, TOOL = KEYS.recipient("reader-1"), "tool:calendar.create"


def added(path: Path, answers: Any, **how: Any) -> Ledger:
    ledger = Ledger(path / "ledger", KEYS)
    add(ledger, answers, KeptModel(Echo()), Measuring(**how))
    return ledger


def agent(path: Path) -> list[LoggedAnswer]:
    reader = TraceReader(write(path / "log.jsonl", AGENTS["langsmith"]()))
    return [one for one in reader if isinstance(one, LoggedAnswer)]


def read(number: int, *results: str, answer: str = "So it is.", **fields: Any) -> LoggedAnswer:
    """An answer to results of one tool."""
    messages = [
        LoggedMessage("user", "Who?"),
        LoggedMessage("assistant", "", (ToolCall("search", "{}"),) * len(results)),
    ]
    for n, text in enumerate(results, 1):
        messages.append(LoggedMessage("tool", text, read=(ReadText(f"search#{n}", 0, len(text)),), tool="search"))
    found = find([], messages)
    return replace(logged(number, {}, answer), messages=tuple(messages), documents=found.documents, **fields)


def test_agents_of_a_benchmark_are_recipients_as_in_other_logs(tmp_path: Path) -> None:
    """A format that is no trace is added like one."""
    record = {"name": "Ines Varga", "phone": "555-010-2231"}
    prompt = f"USER DATA: {json.dumps(record)}"
    told = "Ines Varga is on 555-010-2231."
    trace = {
        "trace_id": "t1", "input": {"vault": record}, "user": "desk 4",
        "llm_calls": [{"call_id": "c1", "system_prompt": prompt, "user_prompt": "Whom do I call?", "response": told}],
        "channel_messages": [
            {"channel": channel, "source": "a", "target": target, "content": told, "llm_call_id": "c1"}
            for channel, target in (("C2", "worker"), ("C5", "memory"), ("C1", "user"))
        ],
    }  # fmt: skip
    reader = TraceReader(write(tmp_path / "log.jsonl", [trace]))
    ledger = added(tmp_path, reader)
    whom = {KEYS.recipient("desk 4"), "agent:worker", "memory:memory"}
    assert {row["recipient"] for row in ledger.rows("events")} == whom
    assert {row["recipient"] for row in ledger.rows("events") if "no time" in row["flags"]} == whom
    assert len(ledger.rows("events")) == 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """An agent's run, with texts; not to be written to."""
    path = tmp_path_factory.mktemp("agent")
    return added(path, agent(path), keep_texts=True, conditions_hold=True)


def test_a_tool_is_a_recipient_of_its_own_and_sums_do_not_mix(whole: Ledger) -> None:
    book = Book(whole)
    assert [(event["recipient"], event["span"]) for event in book.events] == [
        (USER, f"{3:016x}"), (TOOL, f"{3:016x} calendar.create"), (USER, f"{5:016x}")
    ]  # fmt: skip
    scores = {(row["score"], row["target"]): row["signed_nats"] for row in whole.rows("scores")}
    for pair in book.pairs("document", by_recipient=True):
        each = [scores[look.event["by_document"], pair.item.content] for look in pair.looks]
        assert {look.event["recipient"] for look in pair.looks} == {pair.recipient}
        assert pair.total.signed_nats == pytest.approx(sum(each))
    answers = {
        (pair.recipient, book.called(pair.item.id)): pair.total.n_answers
        for pair in book.pairs("document", by_recipient=True)
    }
    assert answers == {
        (USER, "boats.md"): 2, (USER, "hours.md"): 2, (USER, "calendar.create#1"): 1,
        (TOOL, "boats.md"): 1, (TOOL, "hours.md"): 1,
    }  # fmt: skip
    # The tool was told the number, and the user was not.
    told = [pair for pair in book.pairs("document", by_recipient=True) if book.called(pair.item.id) == "boats.md"]
    most = {pair.recipient: pair.total.largest_running_nats for pair in told}
    assert most[TOOL] > most[USER]
    phone = KEYS.entity("phone", "+15550107788")
    assert {
        disclosed.event["recipient"] for disclosed in book.disclosed(book.events) if phone in disclosed.row["entities"]
    } <= {TOOL}
    # Over all recipients it is one sum, as if they compared what they were told.
    (both,) = (pair for pair in book.pairs("document", by_recipient=False) if book.called(pair.item.id) == "boats.md")
    assert both.total.n_answers == 3
    # Names are kept of people alone.
    assert [row["name"] for row in whole.rows("names") if row["kind"] == "recipient"] == ["reader-1"]


def test_sql_and_tables_say_the_channel_and_readable_names(whole: Ledger) -> None:
    found = ask("SELECT recipient, channel FROM events WHERE channel <> 'answer'", whole)
    assert [tuple(row) for row in found.rows] == [(TOOL, "tool")]
    book = Book(whole)
    names = said.LedgerNames(book)
    assert b.plain(names.phrase(TOOL)) == TOOL
    assert {b.plain(names.document(document)) for document, _ in book.documents} == {
        "boats.md", "hours.md", "calendar.create#1"
    }  # fmt: skip
    over, _, _ = budgets.check(book, budgets.Budget(1e-6, "document,recipient"))
    lines = budgets.lines(over, book)
    assert any(f"document boats.md, recipient {TOOL}" in line for line in lines)
    assert not any("sha256" in line or "text-" in line for line in lines)
    # A recipient who is called like a tool is a person, and a name that is none is not repeated.
    assert KEYS.recipient(TOOL) != KEYS.recipient(TOOL, "tool") == TOOL
    evil = str(KEYS.recipient("tool:Ana\x1b[2J Alvi", "tool"))
    assert evil.startswith("tool:")
    assert "Ana" not in evil


def test_a_document_is_the_same_in_a_result_and_in_a_prompt(tmp_path: Path) -> None:
    text = str(FOUND[0]["text"])
    records = [json.dumps([{**FOUND[0], "score": score}, FOUND[1]]) for score in (0.1, 0.2)]
    plain = logged(1, {"boats": text}, "So it is.")
    assert plain.documents[0].content_hash == hash_of(normalised(text))
    reader = []
    for number, written in enumerate(records, 2):
        span = AGENTS["langfuse"]()[-1]
        span["input"][3]["content"] = written
        span |= {"traceId": f"t{number}", "output": {"role": "assistant", "content": "So it is."}}
        reader += list(TraceReader(write(tmp_path / f"{number}.jsonl", [span])))
    ledger = added(tmp_path, [plain, *reader])
    book = Book(ledger)
    of_text = [
        pair
        for pair in book.pairs("document", by_recipient=False)
        if pair.item.content == KEYS.content(hash_of(normalised(text)))
    ]
    # It has an id of its own where it was retrieved, and one sum under each.
    assert {book.called(pair.item.id): pair.total.n_answers for pair in of_text} == {"boats": 1, "boats.md": 2}


def test_documents_of_one_name_are_told_apart(tmp_path: Path) -> None:
    ledger = added(tmp_path, [read(1, "Anna sang."), read(2, "Bo ate.")])
    called = [Book(ledger).called(document) for document, _ in Book(ledger).documents]
    assert len(set(called)) == 2
    assert all(name.startswith("search#1 (") for name in called)
    assert forget(ledger, called[0]).kind == "document"
    assert [Book(ledger).called(document) for document, _ in Book(ledger).documents] == ["search#1"]


def test_forgetting_reaches_results_of_tools(tmp_path: Path) -> None:
    told = replace(logged(9, {"log-1": "Somebody wrote down: " + str(FOUND[0]["text"])}, "Yes."), recipient="reader-2")
    ledger = added(tmp_path, [*agent(tmp_path), told], keep_texts=True)
    before = b"".join(path.read_bytes() for path in ledger.path.rglob("*") if path.is_file())
    assert b"Orla Vane" in before
    gone = forget(ledger, "boats.md")
    assert (gone.kind, gone.n_events) == ("document", 0)
    book = Book(ledger)
    assert "boats.md" not in {book.called(document) for document, _ in book.documents}
    assert {row["name"] for row in ledger.rows("names") if row["kind"] == "document"} == {
        "hours.md",
        "calendar.create#1",
    }
    # Kept texts go with it: of calls that repeat it in a result, and of a prompt that quotes it.
    assert not ledger.texts()
    assert len(book.events) == len(agent(tmp_path)) + 1
    assert forget(ledger, TOOL).n_events == 1
    assert TOOL not in Book(ledger).recipients


def test_what_stands_around_documents_is_measured_mentioned_and_forgotten(tmp_path: Path) -> None:
    text = "Ms Ana Alvi asked. Anna sang. Call 202-555-0143."
    message = LoggedMessage("tool", text, read=(ReadText("search#1", 0, len(text)),), tool="search")
    messages = (LoggedMessage("user", "Who?"), message)
    found = find([Retrieved("a", "Anna sang.")], messages)
    around = found.documents[1]
    assert (around.text, len(around.places)) == ("Ms Ana Alvi asked.  Call 202-555-0143.", 2)
    answer = replace(logged(1, {}, "Ana Alvi, 202-555-0143"), messages=messages, documents=found.documents)
    ledger = added(tmp_path, [answer], keep_texts=True)
    mentions = {row["kind"] for row in ledger.rows("mentions") if row["content"] == KEYS.content(around.content_hash)}
    assert mentions == {"person", "phone"}
    assert forget(ledger, "search#1").n_texts == 2
    assert not ledger.texts()


def test_numbers_of_answers_without_tools_keep_their_names() -> None:
    one = logged(1, {"a": "Anna sang."}, "Anna.")
    places = {one.documents[0].content_hash: [[1, 0, 10]]}
    written = json.dumps(
        [[["system", "Be brief."], ["user", "Anna sang.\n\nWhat is new?"]], places, "Anna."], sort_keys=True
    )
    setup = Setup("document", None, None, "x")  # type: ignore[arg-type]
    ledger = Ledger(Path("none"), KEYS)
    assert setup.key(ledger, one) == KEYS._hash("scored", "x", written)
    # What was called before, and what the turn began with, are a part of what is measured.
    called = replace(one, messages=(*one.messages[:1], replace(one.messages[1], calls=(ToolCall("f", "{}"),))))
    begun = replace(one, begun=Message("assistant", "", (), calls=(ToolCall("f", ""),)))
    other = replace(one, begun=Message("assistant", "", (), calls=(ToolCall("g", ""),)))
    assert len({setup.key(ledger, each) for each in (one, called, begun, other)}) == 4


def test_what_an_agent_emitted_before_it_read_anything_is_told(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(leakmeter.engine.loading, "load", lambda *given, **options: ChatToy())
    log = write(tmp_path / "log.jsonl", AGENTS["langfuse"]())
    ended = cli("ledger", "add", log, "--model", "toy")
    assert ended.code == 0, ended.err
    assert "read 3 calls: added 3 answers, 3 of them measured" in ended.out
    assert "not counted: 1 emission before which nothing was read" in ended.out
    again = json.loads(cli("ledger", "add", log, "--model", "toy", "--json").out)
    assert (again["n_known"], again["n_before_reading"], again["n_hidden_calls"]) == (3, 1, 0)
    shown = cli("ledger", "show").out
    assert "tool:calendar.create" in shown
    assert "boats.md" in shown
