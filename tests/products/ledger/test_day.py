"""A small day of invented answers: planted leaks on top, killed and resumed, added again, forgotten, kept private."""

from __future__ import annotations

import itertools
import json
import sqlite3
import stat
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.examples import few
from helpers.killed import all_rows
from helpers.logged_answers import Echo, logged
from leakmeter.backends.toy import Toy
from leakmeter.core import database
from leakmeter.core.case import Recipient
from leakmeter.data.traces import (
    AbsentDocument,
    DocumentPlace,
    LoggedAnswer,
    LoggedMessage,
    Reason,
    Refused,
    Sampling,
    TraceReader,
)  # fmt: skip
from leakmeter.data.traces.answer import Whose
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import StoreError, UsageError
from leakmeter.products.ledger import measuring, store
from leakmeter.products.ledger.budgets import Budget, check
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.measuring import Added, Measuring, add
from leakmeter.products.ledger.query import ask
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book
from leakmeter.text.build import PromptSettings

KEYS = Keys(b"k" * 32)
SECRET = "Ms Ana Alvi, 12 Elm Street: call 202-555-0143."
LEAK = "Ana Alvi, 202-555-0143"
PLAIN = {"weather-0": "It rains at the coast."}


KEPT: dict[str, Any] = {"keep_texts": True, "conditions_hold": True}


def day() -> list[LoggedAnswer]:
    """Eight answers to three recipients; the third and the sixth repeat the secret document."""
    documents = [PLAIN | ({"file-7": SECRET} if n in (2, 5, 6) else {}) for n in range(8)]
    said = [LEAK if n in (2, 5) else "Rain there" for n in range(8)]
    return [logged(n, documents[n], said[n], recipient=f"reader-{n % 3}") for n in range(8)]


def added(ledger: Ledger, answers: Iterable[Any], backend: Any = None, **how: Any) -> Added:
    return add(ledger, answers, KeptModel(Echo() if backend is None else backend), Measuring(**how))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """The day's ledger, with texts; not to be written to."""
    ledger = Ledger(tmp_path_factory.mktemp("day") / "ledger", KEYS)
    added(ledger, day(), **KEPT)
    return ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", KEYS)


def told_of(ledger: Ledger, *answers: Any, **how: Any) -> list[Any]:
    """Documents and those who were told of them, largest first, after some answers were added."""
    added(ledger, answers, **how)
    return Book(ledger).pairs("document", by_recipient=True)


def leak(n: int, **fields: Any) -> LoggedAnswer:
    """An answer that repeats the only document."""
    return logged(n, {"file-7": SECRET}, LEAK, **fields)


def test_planted_leaks_stand_on_top_of_sums_of_what_was_scored(whole: Ledger) -> None:
    told = Book(whole).pairs("document", by_recipient=True)
    first, *others = told
    assert (first.item.id, first.recipient) == ("file-7", KEYS.recipient("reader-2"))
    assert first.total.largest_running_nats > 2 * max(one.total.largest_running_nats for one in others)
    assert first.total.largest_running_nats > (first.total.placebo_running_nats or 0.0) > 0
    said = {one.item.id: one.total.n_answers for one in Book(whole).pairs("subject", by_recipient=False)}
    assert said[KEYS.entity("person", "ana alvi")] == 3
    rows = {(row["score"], row["target"]): row["signed_nats"] for row in whole.rows("scores")}
    for one in told:
        each = [rows[look.event["by_document"], one.item.content] for look in one.looks]
        assert one.total.signed_nats == pytest.approx(sum(each))
        assert one.total.largest_running_nats == pytest.approx(max(map(abs, itertools.accumulate(each))))
        assert one.total.n_answers == len(each)


def test_budgets_fire_where_the_arithmetic_says(whole: Ledger) -> None:
    book = Book(whole)
    most = book.pairs("document", by_recipient=True)[0].total.largest_running_nats
    for budget, holds in ((most, True), (most * (1 - 1e-9), False)):
        over, _, found = check(book, Budget(budget, "document,recipient"))
        assert (found.holds, len(over)) == (holds, 0 if holds else 1)
    together = book.pairs("document", by_recipient=False)[0]
    assert together.total.n_answers == 3
    *_, found = check(book, Budget(most, "document"))
    assert found.found.value == together.total.largest_running_nats
    with pytest.raises(UsageError, match="do not add up"):
        Budget(1.0, "recipient")


def test_a_posterior_needs_every_condition(whole: Ledger, ledger: Ledger) -> None:
    assert (Book(whole).pairs("document", by_recipient=True)[0].posterior.probability or 0.0) > 0.99
    hidden = logged(3, {"weather-0": "Rain."}, "Rain", recipient="reader-2", n_hidden_calls=1)
    first, *_ = told_of(ledger, day()[2], hidden, conditions_hold=True)
    # The hidden call was in another answer to the same recipient.
    assert first.item.id == "file-7"
    assert first.posterior.probability is None
    assert first.flags == {"hidden calls": 1}


def test_adding_the_same_log_again_changes_nothing(whole: Ledger) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in whole.path.rglob("*") if path.is_file() and "lock" not in path.name}

    before = files()
    done = added(whole, day(), keep_texts=True)
    assert (done.n_added, done.n_known, done.n_measured) == (0, 8, 0)
    assert files() == before


def test_what_was_scored_before_costs_nothing(ledger: Ledger) -> None:
    backend = Echo()
    added(ledger, [day()[2]], backend)
    n = backend.n_rounds
    again = logged(11, {**PLAIN, "file-7": SECRET}, LEAK, recipient="reader-2")
    done = added(ledger, [again], backend)
    assert (done.n_added, done.n_measured, backend.n_rounds) == (1, 0, n)
    first = Book(ledger).pairs("document", by_recipient=True)[0]
    assert first.total.n_answers == 2
    assert first.total.signed_nats == pytest.approx(2 * (first.looks[0].signed_nats or 0.0))


def test_a_cached_answer_counts_once_for_each_who_saw_it(ledger: Ledger) -> None:
    shown = [leak(n, recipient=f"reader-{who}", response_id="r-1") for n, who in enumerate((1, 1, 2))]
    by_reader = told_of(ledger, *shown)
    assert sorted((one.total.n_answers, one.total.n_repeats) for one in by_reader) == [(1, 0), (1, 1)]
    (together,) = Book(ledger).pairs("document", by_recipient=False)
    assert (together.total.n_answers, together.total.n_repeats) == (1, 2)


def test_answers_that_differ_are_never_one_draw_whatever_their_response_ids(ledger: Ledger, tmp_path: Path) -> None:
    said = ("Ana Alvi", "202-555-0143", "12 Elm Street")
    own = [logged(n, {"file-7": SECRET}, text, response_id=f"r-{n}") for n, text in enumerate(said)]
    (apart,) = told_of(Ledger(tmp_path / "own", KEYS), *own)
    (shared,) = told_of(ledger, *(replace(one, response_id="r-0") for one in own))
    assert (shared.total.n_answers, shared.total.n_repeats) == (3, 0)
    assert shared.total.largest_running_nats == pytest.approx(apart.total.largest_running_nats)
    assert Book(ledger).n_shared_draws == 1
    # The same answer again is a repeat; to another question it is none, since the id tells nothing.
    again = replace(own[0], trace_id="again", response_id="r-0")
    other = logged(9, {"file-7": SECRET}, said[0], query="And who came?", response_id="r-0")
    (told,) = told_of(ledger, again, other)
    assert (told.total.n_answers, told.total.n_repeats) == (4, 1)
    assert "cached for another prompt" not in told.flags


def test_what_a_self_check_found_holds_for_all_answers_that_are_measured_together(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = measuring._in_runs

    def checked(*given: Any) -> Any:
        for number, (texts, measurements) in enumerate(real(*given)):
            found = {"self_check": {"passes": "shared", "rows": 1, "nats": 1e3, "largest_nats": 1e3}}
            yield {**texts, **(found if number == 0 else {})}, measurements

    monkeypatch.setattr(measuring, "_in_runs", checked)
    added(ledger, day())
    n_tokens = {row["score"]: row["n_tokens"] for row in ledger.rows("measured")}
    assert len(n_tokens) > 2
    for row in ledger.rows("scores"):
        assert row["noise_nats"] >= 2e3 * n_tokens[row["score"]] * (1 - 1e-9)
    # What such numbers show is no disclosure, either.
    assert {row["evidence"] for row in ledger.rows("disclosures")} == {"words"}


def test_a_document_that_was_not_in_the_prompt_adds_nothing(ledger: Ledger) -> None:
    told = told_of(ledger, logged(1, PLAIN, "Rain", absent=(AbsentDocument("file-7", "0" * 64),)))
    assert {one.item.id for one in told} == {"weather-0"}
    assert ("file-7", KEYS.content("0" * 64)) in Book(ledger).documents


def test_refused_calls_are_counted_and_bad_answers_left_out_each_time_they_come(ledger: Ledger) -> None:
    refused = Refused(Reason.NO_DOCUMENTS, "log.jsonl, line 9", "t", "1")
    empty, good = logged(1, {"weather-0": "Rain."}, " "), day()[0]
    done = added(ledger, [refused, empty, good, empty, good])
    assert done.refused == {"no-documents": 1}
    assert (done.n_read, done.n_added, done.n_known, len(done.problems)) == (5, 1, 1, 2)
    assert done.problems[0].startswith("log.jsonl, line 2: ")
    assert done.problems[1] == "log.jsonl, line 2: the same answer was left out before"


def test_answers_are_scored_at_their_own_temperature(ledger: Ledger) -> None:
    warm = [leak(n, recipient=f"reader-{n}", sampling=Sampling(temperature=t)) for n, t in enumerate((0.5, 2.0, 0.0))]
    told = {one.recipient: one for one in told_of(ledger, *warm, conditions_hold=True)}
    sums = [told[KEYS.recipient(f"reader-{n}")].total.signed_nats for n in range(3)]
    assert (sums[0] or 0) > (sums[2] or 0) > (sums[1] or 0)
    assert told[KEYS.recipient("reader-2")].flags == {"greedy": 1}


@pytest.mark.parametrize("n_rounds", few([9, 0, 17]))
def test_killed_anywhere_it_goes_on_to_the_same_numbers(
    ledger: Ledger, whole: Ledger, monkeypatch: pytest.MonkeyPatch, n_rounds: int
) -> None:
    monkeypatch.setattr(measuring, "BATCH", 3)
    with pytest.raises(KeyboardInterrupt):
        added(ledger, day(), Echo(n_rounds), **KEPT)
    backend = Echo()
    added(ledger, day(), backend, **KEPT)
    assert all_rows(ledger) == all_rows(whole)
    assert not ledger.runs.exists()
    # What was finished is not measured again: no more is lost than the rounds of one answer.
    full = Echo()
    added(Ledger(ledger.path.parent / "other", KEYS), day(), full)
    assert backend.n_rounds <= full.n_rounds - n_rounds + 7


def test_what_a_stop_of_the_machine_damaged_is_measured_again(ledger: Ledger, whole: Ledger) -> None:
    with pytest.raises(KeyboardInterrupt):
        added(ledger, day(), Echo(9), **KEPT)
    damaged = list(ledger.runs.rglob("*.parquet"))
    assert damaged
    for path in damaged:
        path.write_bytes(b"")
    added(ledger, day(), **KEPT)
    assert all_rows(ledger) == all_rows(whole)
    assert not ledger.runs.exists()


def test_an_answer_is_prepared_once_and_waits_for_no_file(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, waits = [], []
    prepare = PromptSettings.prepare
    monkeypatch.setattr(PromptSettings, "prepare", lambda *given: (prepared.append(given), prepare(*given))[1])
    monkeypatch.setattr("os.fsync", waits.append)
    done = added(ledger, day())
    assert done.n_measured > 1
    assert len(prepared) == len(measuring.UNITS) * done.n_measured
    assert not waits


def test_a_kill_within_a_commit_leaves_the_state_before(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    added(ledger, day()[:1])
    before = all_rows(ledger)
    with monkeypatch.context() as killed:
        killed.setattr(
            "leakmeter.products.ledger.tables._written", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            added(ledger, day()[1:])
    assert all_rows(ledger) == before
    assert not ledger.verify()[1]
    assert added(ledger, day()).n_added == 7


def test_every_file_is_its_owners_alone(whole: Ledger) -> None:
    for path in (whole.path, *whole.path.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_another_key_and_another_model_are_refused(ledger: Ledger) -> None:
    added(ledger, day()[:1])
    with pytest.raises(StoreError, match="with another key"):
        Ledger(ledger.path, Keys(b"x" * 32)).state()
    # One line, whatever number of tables there is.
    assert len(Ledger(ledger.path, Keys(b"x" * 32)).verify()[1]) == 1
    other = Echo()
    other.weights_sha256 = "1" * 64
    with pytest.raises(StoreError, match="another model"):
        added(ledger, day(), other)
    before = ledger.state()
    with pytest.raises(UsageError, match="no document, subject, recipient or trace"):
        forget(ledger, "Bo Ek")
    assert (ledger.state(), len(ledger.rows("events"))) == (before, 1)


@pytest.mark.parametrize("page", [None, 0, 3, -1])
def test_a_changed_row_and_a_damaged_file_are_found(ledger: Ledger, page: int | None) -> None:
    added(ledger, day()[:2])
    if page is None:
        with closing(sqlite3.connect(ledger.file)) as opened, opened:
            opened.execute("UPDATE scores SET signed_nats = signed_nats + 1 WHERE number = 1")
    else:
        content = bytearray(ledger.file.read_bytes())
        start = page * 4096 % len(content)
        content[start : start + 4096] = b"x" * 4096
        ledger.file.write_bytes(content)
    (finding, *_) = ledger.verify()[1]
    assert len(finding.splitlines()) == 1
    assert page is not None or "a row of scores was changed" in finding
    with pytest.raises(StoreError, match="changed after it was written" if page is None else "cannot be read"):
        Book(Ledger(ledger.path, KEYS))


def test_a_ledger_of_an_earlier_version_is_refused_and_left_as_it_is(ledger: Ledger) -> None:
    ledger.path.mkdir()
    (ledger.path / "ledger.json").write_text('{"schema": "leakmeter-ledger/1"}')
    for use in (ledger.state, lambda: added(ledger, day()[:1]), lambda: forget(ledger, "file-7")):
        with pytest.raises(StoreError, match="by another version of leakmeter; use that version, or make a new ledger"):
            use()
    assert [path.name for path in ledger.path.iterdir()] == ["ledger.json"]


def test_a_file_of_another_program_is_left_as_it_is(ledger: Ledger) -> None:
    ledger.path.mkdir()
    with closing(sqlite3.connect(ledger.file)) as opened, opened:
        opened.execute("CREATE TABLE notes (text)")
    before = ledger.file.read_bytes()
    with pytest.raises(StoreError, match="is another program's file; give another directory"):
        added(ledger, day()[:1])
    assert ledger.file.read_bytes() == before


def test_what_is_refused_at_once_leaves_nothing_behind(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="has no chat template"):
        added(ledger, day()[:1], Toy())
    assert not ledger.path.exists()


def test_a_full_disk_and_a_ledger_in_use_for_too_long_are_one_line(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(ledger, day()[:1])
    before = all_rows(ledger)
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.0)
    with ledger.writing(), pytest.raises(StoreError, match="another process has used it for over 0 seconds; try again"):
        Ledger(ledger.path, KEYS).commit({})
    n_pages = ledger.file.stat().st_size // 4096
    monkeypatch.setattr(store, "_PRAGMAS", (*store._PRAGMAS, f"max_page_count = {n_pages}"))
    with pytest.raises(StoreError, match=r"^ledger '.*' cannot be written: database or disk is full$"):
        added(ledger, [logged(n, PLAIN, LEAK * 9) for n in range(10, 60)])
    assert all_rows(ledger) == before


def test_several_writers_at_once(ledger: Ledger) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(added, Ledger(ledger.path, KEYS), day()[a:b]) for a, b in ((0, 5), (3, 8), (0, 8))]
        done = [job.result() for job in jobs]
    assert sum(one.n_added for one in done) == 8
    assert len({row["event"] for row in ledger.rows("events")}) == 8
    assert not ledger.verify()[1]


def test_sql(whole: Ledger) -> None:
    sql = "select id, n_answers, (select count(*) from events) from totals where kind = 'document'"
    answer = ask(f"{sql} order by largest_running_nats desc", whole)
    assert next(answer.rows) == ("file-7", 2, 8)
    assert len(list(ask("select * from events order by time", whole).rows)) == 8
    for refused in ("drop table events", "select * from read_csv('/etc/passwd')"):
        with pytest.raises(UsageError):
            list(ask(refused, whole).rows)


def test_what_a_search_leaves_without_a_number_is_in_no_sum(ledger: Ledger) -> None:
    added(ledger, [day()[2]], search="top:1:1", conditions_hold=True)
    told = Book(ledger).pairs("subject", by_recipient=True)
    scored = [one for one in told if not one.n_unscored]
    assert 0 < len(scored) < len(told)
    left = next(one for one in told if one.n_unscored)
    assert (left.total.signed_nats, left.total.n_answers, left.posterior.probability) == (0.0, 0, None)
    assert not left.is_exact
    # Nobody knows whether it is within a budget.
    assert not check(Book(ledger), Budget(1e6, "subject"))[2].holds


def test_a_limit_that_is_not_logged_is_not_off_unless_somebody_says_so(tmp_path: Path) -> None:
    one = leak(1, sampling=Sampling(temperature=1.0, top_p=1.0))
    for states, flags in ((False, {"decoding not logged": 1}), (True, {})):
        (told,) = told_of(Ledger(tmp_path / str(states), KEYS), one, conditions_hold=True, plain_draws=states)
        assert told.flags == flags
        assert (told.posterior.probability is not None) is states


def test_values_that_were_scored_one_by_one_are_within_no_budget(ledger: Ledger) -> None:
    added(ledger, [day()[2]])
    people = {one.item.id for one in Book(ledger).pairs("subject", by_recipient=True)}
    assert len(people) > 1
    assert check(Book(ledger), Budget(1e6, "subject"))[2].holds
    (ledger.path / "subjects.toml").write_text(f"[[same]]\nsubjects = {json.dumps(sorted(people))}\n")
    over, _, found = check(Book(ledger), Budget(1e6, "subject"))
    assert (over, found.holds, found.n_missing) == ([], False, 1)
    assert "not a bound" in found.explained


def test_a_draw_shown_for_another_prompt_is_flagged(ledger: Ledger) -> None:
    draws = ("Who?", "r-1"), ("Who came?", "r-1"), ("Who?", "r-2"), ("Who?", "r-2")
    shown = [leak(n, query=query, response_id=draw) for n, (query, draw) in enumerate(draws)]
    (told,) = told_of(ledger, *shown, conditions_hold=True)
    assert told.flags == {"cached for another prompt": 2}
    assert (told.total.n_answers, told.total.n_repeats) == (2, 2)


def chat() -> tuple[LoggedAnswer, LoggedAnswer]:
    """Two turns: the prompt of the second repeats the first, whose document is not retrieved again."""
    first, text = logged(1, {"file-7": SECRET}, "Somebody came."), PLAIN["weather-0"]
    more = (LoggedMessage("assistant", "Somebody came."), LoggedMessage("user", f"{text}\n\nWho?"))
    weather = replace(logged(2, PLAIN, "").documents[0], places=(DocumentPlace(3, 0, len(text)),))
    return first, replace(logged(2, {}, LEAK), messages=(*first.messages, *more), documents=(weather,))


def test_a_document_of_an_earlier_turn_is_measured_where_it_still_stands(ledger: Ledger) -> None:
    first, second = chat()
    found = {one.item.id: one.total.n_answers for one in told_of(ledger, first, second)}
    assert found == {"file-7": 2, "weather-0": 1}
    # The same log again: nothing is new.
    assert added(ledger, [first, second]).n_added == 0


@pytest.mark.parametrize("logs", [[[1, 0]], [[0], [1]], [[0, 1], [1]]], ids=["later first", "two logs", "again"])
def test_turns_of_a_chat_have_the_same_sums_in_any_logs(ledger: Ledger, tmp_path: Path, logs: list[list[int]]) -> None:
    turns = chat()
    for log in logs:
        assert not added(ledger, [turns[number] for number in log]).problems
    added(one := Ledger(tmp_path / "one", KEYS), turns)
    assert all_rows(ledger) == all_rows(one)
    assert {row["kind"] for row in ledger.rows("disclosures")} >= {"person", "phone"}


@pytest.mark.parametrize("is_read_once", [False, True])
def test_a_log_with_later_turns_first_is_looked_over_unless_it_is_read_once(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read_once: bool
) -> None:
    rows = []
    for turn in reversed(chat()):
        messages = [{"role": message.role, "content": message.content} for message in turn.messages]
        documents = [{"id": part.id, "text": part.text} for part in turn.documents]
        named = {"schema": "leakmeter-answer/1", "trace_id": turn.trace_id, "span_id": "1", "recipient": "reader-1"}
        rows.append(json.dumps({**named, "messages": messages, "answer": turn.answer, "documents": documents}))
    (log := tmp_path / "log.jsonl").write_text("\n".join(rows))
    monkeypatch.setattr(measuring, "BATCH", 1)
    reader = TraceReader(log)
    done = added(ledger, iter(list(reader)) if is_read_once else reader)
    assert (done.n_added, len(done.problems)) == ((1, 1) if is_read_once else (2, 0))
    found = {one.item.id: one.total.n_answers for one in Book(ledger).pairs("document", by_recipient=True)}
    assert found == ({"weather-0": 1} if is_read_once else {"file-7": 2, "weather-0": 1})


def test_a_document_without_an_id_keeps_its_name_from_turn_to_turn(ledger: Ledger) -> None:
    for turn in chat():
        unnamed = (replace(part, id=f"sha256:{part.content_hash[:32]}", name=part.id) for part in turn.documents)
        added(ledger, [replace(turn, documents=tuple(unnamed))])
    found = Book(ledger)
    pairs = found.pairs("document", by_recipient=True)
    assert {found.called(one.item.id): one.total.n_answers for one in pairs} == {"file-7": 2, "weather-0": 1}


def test_what_a_recipient_may_know_stays_known_from_turn_to_turn(ledger: Ledger) -> None:
    readers = (Whose(readers=("reader-1",)),)
    for turn in chat():
        part = tuple(replace(part, whose=readers if part.id == "file-7" else ()) for part in turn.documents)
        added(ledger, [replace(turn, documents=part, known=Recipient("reader-1"))])
    assert [row["allowed"] for row in ledger.rows("permissions") if row["document"] == "file-7"] == ["yes", "yes"]


def test_a_turn_that_comes_after_a_later_one_is_left_out_with_the_reason(ledger: Ledger) -> None:
    first, second = chat()
    added(ledger, [second])
    for _ in range(2):
        done = added(ledger, [first])
        assert (done.n_added, done.n_known, len(done.problems)) == (0, 0, 1)
        assert done.problems[0].startswith("log.jsonl, line 2: the ledger has a later turn of this chat, measured ")
    forget(ledger, second.trace_id)
    assert added(ledger, [first, second]).n_added == 2


@pytest.mark.parametrize("of", ["document", "trace"])
@pytest.mark.parametrize("n_logs", [1, 2])
def test_what_is_forgotten_is_recognised_in_later_turns_of_its_own_log_alone(
    ledger: Ledger, of: str, n_logs: int
) -> None:
    first, second = chat()
    added(ledger, [first])
    told = forget(ledger, {"document": "file-7", "trace": first.trace_id}[of])
    assert ledger.rows("turns") == []
    assert any(sentence.startswith("Later turns that repeat a document") for sentence in told.left)
    added(ledger, [first, second] if n_logs == 1 else [second])
    assert ("file-7" in {document for document, _ in Book(ledger).documents}) == (n_logs == 1)


def test_a_ledger_without_turns_goes_on(ledger: Ledger) -> None:
    first, second = chat()
    added(ledger, [first])
    with closing(sqlite3.connect(ledger.file)) as opened, opened:
        opened.execute("DROP TABLE turns")
    assert Ledger(ledger.path, KEYS).verify() == (ledger.n_rows(), [])
    # Its log beside the next one tells what the ledger does not.
    assert added(Ledger(ledger.path, KEYS), [first, second]).n_added == 1
    assert {one.item.id for one in Book(ledger).pairs("document", by_recipient=True)} == {"file-7", "weather-0"}
