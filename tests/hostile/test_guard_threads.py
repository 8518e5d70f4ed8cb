"""Twenty threads at one guard, or at one ledger: no answer is lost or counted twice, and no budget is overrun."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any, Final

import pytest

import leakmeter
from helpers.examples import few
from helpers.logged_answers import Echo
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.guard import Guard, GuardVerdict
from leakmeter.products.ledger.measuring import Measuring
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.ledger.totals import Book

N: Final = 20
DOCUMENTS: Final = {"file-7": "Ms Ana Quill came.", "weather": "It rains."}
ASKED: Final = ("Who came?", "Ana Quill")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a ledger with a key of its own."""
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    return tmp_path / "ledger"


def guard(folder: Path, budget: float = 1e6, **how: Any) -> Guard:
    return leakmeter.Guard(leakmeter.Meter(Echo()), budget=budget, ledger=folder, **how)


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What twenty threads come to that begin together; the first error is raised."""
    barrier = Barrier(N)

    def begun(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(N) as pool:
        return list(pool.map(begun, range(N)))


def check_whole(ledger: Ledger, n_answers: int) -> Book:
    """A book of so many answers with all of their numbers, each of which stands there once."""
    book = Book(ledger)
    assert len(book.events) == len({event["event"] for event in book.events}) == n_answers
    for event in book.events:
        assert {row["document"] for row in book.looks_by_event[event["event"]]} == set(DOCUMENTS)
        assert len(list(book.looks_of(event, "document"))) == len(book.looks_by_event[event["event"]]) == len(DOCUMENTS)
    for table in ("scores", "measured", "mentions"):
        rows = [*map(repr, ledger.rows(table))]
        assert len(rows) == len({*rows}), table
    assert ledger.verify()[1] == []
    return book


OWN = "the application's"
ASKING = [(1, None, 1), (1, OWN, 1), (1, None, 4), (N, None, 1), (1, None, N), (N, OWN, 1), (N, None, 4), (N, None, N)]


@pytest.mark.parametrize(("n_guards", "trace_id", "recipients"), few(ASKING, 4))
def test_no_budget_is_overrun(folder: Path, n_guards: int, trace_id: str | None, recipients: int) -> None:
    nats = guard(folder).check(DOCUMENTS, *ASKED, "somebody", record=False).uses[0].signed_nats
    guards = [guard(folder, budget=3.5 * nats) for _ in range(n_guards)]

    def check(number: int) -> GuardVerdict:
        who = f"reader-{number % recipients}"
        return guards[number % n_guards].check(DOCUMENTS, *ASKED, who, trace_id=trace_id, redact=False)

    verdicts = at_once(check)
    n_each = min(3, N // recipients)
    assert sum(verdict.within for verdict in verdicts) == n_each * recipients
    assert all(verdict.within == verdict.recorded for verdict in verdicts)
    book = check_whole(guards[0].ledger, n_each * recipients)
    totals = [one.total for one in book.pairs("document", by_recipient=True) if one.item.id == "file-7"]
    assert [one.n_answers for one in totals] == [n_each] * recipients
    assert [one.largest_running_nats for one in totals] == pytest.approx([n_each * nats] * recipients)
    # Each answer was checked against all that were counted before it.
    before = sorted(verdict.uses[0].before_nats for verdict in verdicts if verdict.within)
    assert before == pytest.approx(sorted([n * nats for n in range(n_each)] * recipients))


def test_a_verdict_that_is_recorded_by_many_counts_once_and_is_read_meanwhile(folder: Path) -> None:
    watch = guard(folder, budget=1e-6)
    verdicts = [watch.check(DOCUMENTS, *ASKED, f"reader-{n}", redact=False) for n in range(2)]
    assert not any(verdict.within for verdict in verdicts)

    def work(number: int) -> bool:
        if number % 4 == 3:
            return Book(watch.ledger).pairs("document", by_recipient=False) is not None
        return watch.record(verdicts[number % 2]).recorded

    assert all(at_once(work))
    check_whole(watch.ledger, 2)


def test_answers_are_counted_with_their_numbers_while_others_forget(folder: Path) -> None:
    watch = guard(folder)
    watch.check(DOCUMENTS, *ASKED, "reader-0", redact=False)
    other = Ledger.of_user(folder)

    def work(number: int) -> int:
        if number % 4 == 0:
            try:
                return forget(other, "reader-0", "recipient").n_events
            except LeakmeterError:
                return 0  # another was first
        return -len([watch.check(DOCUMENTS, *ASKED, f"reader-{number % 2}", redact=False)])

    done = at_once(work)
    check_whole(watch.ledger, 1 - sum(done))


def test_what_is_forgotten_before_an_answer_is_counted_is_counted_with_it(folder: Path) -> None:
    watch = guard(folder)
    watch.check(DOCUMENTS, *ASKED, "reader-0", redact=False)
    # The ledger has the numbers of this answer already, until it has not.
    verdict = watch.check(DOCUMENTS, *ASKED, "reader-1", redact=False, record=False)
    forget(Ledger.of_user(folder), "file-7")
    watch.record(verdict)
    told = Book(watch.ledger).pairs("document", by_recipient=True)
    (found,) = (one for one in told if one.item.id == "file-7")
    assert (found.recipient, found.total.n_answers) == (watch.ledger.keys.recipient("reader-1"), 1)
    assert found.total.signed_nats == pytest.approx(verdict.uses[0].signed_nats)


def check_texts(ledger: Ledger) -> None:
    """What is said to be kept is there, and nothing else."""
    assert {score for score, told in ledger.texts().items() if told is not None} == Book(ledger).kept


def test_texts_that_are_gone_when_an_answer_is_counted_are_not_said_to_be_kept(folder: Path) -> None:
    watch = guard(folder, how=Measuring(keep_texts=True))
    watch.check(DOCUMENTS, *ASKED, "reader-0", redact=False)
    verdict = watch.check(DOCUMENTS, "And who?", "Ana Quill", "reader-1", redact=False, record=False)
    forget(Ledger.of_user(folder), "reader-0")
    watch.record(verdict)
    check_texts(watch.ledger)
    check_whole(watch.ledger, 1)


def test_forgetting_at_once_with_checks_that_keep_texts(folder: Path) -> None:
    watch = guard(folder, how=Measuring(keep_texts=True))
    watch.check(DOCUMENTS, *ASKED, "reader-0", redact=False)
    other = Ledger.of_user(folder)

    def work(number: int) -> object:
        if number % 2:
            return watch.check(DOCUMENTS, *ASKED, f"reader-{number % 4}", redact=False)
        with suppress(UsageError):  # nothing of it is there now
            return forget(other, "file-7" if number % 4 else "reader-1")
        return None

    at_once(work)
    check_texts(watch.ledger)
    book = Book(watch.ledger)
    for event in book.events:
        assert len(list(book.looks_of(event, "document"))) == len(book.looks_by_event[event["event"]]) > 0
