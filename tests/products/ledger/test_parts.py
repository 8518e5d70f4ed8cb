"""A guard reads of its ledger only what counts beside the answer: its verdicts are those of the whole ledger."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import leakmeter
from helpers.logged_answers import Echo, logged
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import UsageError
from leakmeter.products.ledger import store, tables
from leakmeter.products.ledger.budgets import PER
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.guard import Guard
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.parts import LedgerPartReader
from leakmeter.products.ledger.store import SUBJECTS, Ledger
from leakmeter.products.ledger.subjects import Name, read_edits, resolve
from leakmeter.products.ledger.tables import Rows
from leakmeter.products.ledger.totals import LedgerPart

TEXTS: Final = {
    "note-1": "Ms Ana Alvi came.",
    "note-2": "Dr. Ana Maria Alvi: 202-555-0143.",
    "note-3": "Mr Bo Alvi came, and Ms Ana Quill.",
    "note-4": "Call Ms A. Alvi on 202-555-0143.",
    "note-5": "It rains.",
}
READERS: Final = ("reader-1", "reader-2")
ANSWERS: Final = ("Ana Alvi", "Alvi, 202-555-0143", "Rain")
SAME: Final = "[[same]]\nsubjects = [{}]\n"


class Whole(LedgerPartReader):
    """Every answer, read anew each time."""

    def beside(self, further: Rows) -> LedgerPart:
        state, kept = Ledger(self._ledger.path, self._ledger.keys).read()
        rows = {table: [*of_table, *further.get(table, ())] for table, of_table in kept.items()}
        names = {
            row["entity"]: Name(row["entity"], row["kind"], tuple(row["words"]), tuple(row["initials"]))
            for row in rows["mentions"]
        }
        return LedgerPart(state, rows, resolve(names.values(), read_edits(self._ledger)))


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


def guard(folder: Path, per: str = "document,recipient", budget: float = 60.0) -> Guard:
    return leakmeter.Guard(leakmeter.Meter(Echo()), budget=budget, ledger=folder / "ledger", per=per)


def some(draw: random.Random) -> dict[str, Any]:
    """An answer to check."""
    names = draw.sample(sorted(TEXTS), draw.randint(1, 2))
    said = [{"id": name, "text": TEXTS[name], "readers": draw.choice([None, ["reader-1"]])} for name in names]
    return {
        "documents": [{name: value for name, value in one.items() if value is not None} for one in said],
        "query": draw.choice(["Who came?", "Did Ana Quill come?"]),
        "answer": draw.choice(ANSWERS),
        "recipient": draw.choice(READERS),
        "redact": False,
    }


def change(ledger: Ledger, draw: random.Random, number: int) -> None:
    """What another process may do to the ledger."""
    if draw.random() < 0.7:
        documents = {name: TEXTS[name] for name in draw.sample(sorted(TEXTS), 2)}
        # Some answers are shown twice, and some have an id that stands for several.
        more: dict[str, Any] = {"response_id": draw.choice([None, "same", f"id-{number % 3}"])}
        if draw.random() < 0.2:
            more["time"] = None
        answer = logged(number, documents, draw.choice(ANSWERS), recipient=draw.choice(READERS), **more)
        add(ledger, [answer], KeptModel(Echo()), Measuring())
    elif draw.random() < 0.4:
        entities = sorted({row["entity"] for row in ledger.rows("mentions")})
        if len(entities) > 1:
            pair = draw.sample(entities, 2)
            (ledger.path / SUBJECTS).write_text(SAME.format(", ".join(f'"{entity[:8]}"' for entity in pair)))
    else:
        keys = ledger.keys
        gone = [("document", draw.choice(sorted(TEXTS))), ("recipient", keys.recipient(draw.choice(READERS)))]
        gone.append(("subject", keys.entity("person", draw.choice(["ana alvi", "bo alvi", "ana maria alvi"]))))
        kind, id_ = draw.choice(gone)
        # There may be nothing of it yet.
        with suppress(UsageError):
            forget(ledger, str(id_), kind)


@pytest.mark.parametrize("per", PER)
def test_verdicts_are_those_of_the_whole_ledger_whatever_was_added_and_forgotten(tmp_path: Path, per: str) -> None:
    draw = random.Random(per)
    watch, n_earlier = guard(tmp_path, per), 0
    for number in range(24):
        for n in range(draw.randint(0, 4)):
            change(Ledger.of_user(tmp_path / "ledger"), draw, 4 * number + n)
        asked = some(draw)
        fresh = guard(tmp_path, per)
        fresh._parts = Whole(fresh.ledger, fresh.budget)
        expected = fresh.check(**asked, record=False)
        verdict = watch.check(**asked)
        assert verdict == replace(expected, recorded=expected.within)
        n_earlier += any(use.before_nats > 0 for use in verdict.uses)
        if draw.random() < 0.3:
            assert watch.record(verdict).recorded
    assert n_earlier > 3


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many rows are read or written, and how many steps SQLite takes."""
    counts = {"rows": 0, "steps": 0}
    connected, checksum = store.connected, tables.checksum

    def stepped() -> int:
        counts["steps"] += 1
        return 0

    def watched(*given: Any, **more: Any) -> Any:
        database = connected(*given, **more)
        database.set_progress_handler(stepped, 1)
        return database

    def seen(values: list[Any]) -> int:
        counts["rows"] += 1
        return checksum(values)

    with monkeypatch.context() as patch:
        patch.setattr(store, "connected", watched)
        patch.setattr(tables, "checksum", seen)
        yield counts


@pytest.mark.parametrize("per", ["document,recipient", "subject,recipient"])
def test_a_check_reads_no_more_of_a_larger_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per: str) -> None:
    """Neither other people's answers nor what theirs tell of count."""
    needed = []
    for n_others in (2, 40):
        watch = guard(tmp_path / str(n_others), per, 1e6)
        others = [
            logged(n, {"note-5": TEXTS["note-5"], "other": f"Mr Zed Pruk: {n}."}, "Zed", recipient=f"reader-{n + 2}")
            for n in range(n_others)
        ]
        add(watch.ledger, others, KeptModel(Echo()), Measuring())
        for _ in range(2):
            watch.check(TEXTS, "Who came?", "Ana Alvi", "reader-1", redact=False)
        with counted(monkeypatch) as counts:
            assert watch.check(TEXTS, "Who came?", "Ana Alvi", "reader-1", redact=False).recorded
        needed.append(counts)
    assert needed[0]["rows"] == needed[1]["rows"]
    assert needed[1]["steps"] < 1.1 * needed[0]["steps"]


def test_what_was_said_is_said_again_only_where_something_was_committed_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    beside = LedgerPartReader.beside
    monkeypatch.setattr(LedgerPartReader, "beside", lambda self, rows: said.append(self) or beside(self, rows))
    watch, other = guard(tmp_path, budget=1e6), guard(tmp_path, budget=1e6)
    assert watch.check(TEXTS, "Who came?", "Ana Alvi", "reader-1").recorded
    assert len(said) == 1
    commit = watch.ledger.commit

    def late(*rows: Any, **given: Any) -> bool:
        other.check(TEXTS, "Who came?", "Ana Alvi", "reader-1")
        return commit(*rows, **given)

    monkeypatch.setattr(watch.ledger, "commit", late)
    verdict = watch.check(TEXTS, "Who came?", "Ana Alvi", "reader-1")
    assert [one is watch._parts for one in said] == [True, True, False, True]
    assert verdict.uses[0].before_nats == pytest.approx(2 * abs(verdict.uses[0].signed_nats))
