"""What is left of somebody who was forgotten, in any byte of a ledger's directory."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.examples import few
from helpers.killed import KEYS, LEAK, SECRET, WEATHER, all_rows, day, forget_it, killed, ledger_in, quoting
from helpers.logged_answers import Echo, logged
from leakmeter.data.traces import LoggedAnswer
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import UsageError
from leakmeter.products.ledger.forget import forget
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.store import FILE, SUBJECTS, Ledger
from leakmeter.products.ledger.totals import Book

Call = Callable[..., Any]
PHONE: Final = "202-555-0143"
ANA: Final = KEYS.entity("person", "ana quill")
NUMBER: Final = KEYS.entity("phone", "+12025550143")


def added(ledger: Ledger, answers: Sequence[LoggedAnswer], **how: Any) -> None:
    add(ledger, answers, KeptModel(Echo()), Measuring(keep_texts=True, **how))


def everything(folder: Path) -> str:
    """Names, bytes, and packed columns with what is written about them, in one case and with single spaces."""
    said = []
    for path in sorted(folder.rglob("*")):
        said.append(str(path.relative_to(folder)).casefold())
        if path.is_file():
            said.append(said_in(path.read_bytes()))
        if path.name == FILE:
            # What a page's end cuts in two, and what is packed within.
            with closing(sqlite3.connect(path)) as database:
                tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                cells = [cell for name in tables for row in database.execute(f"SELECT * FROM {name}") for cell in row]
            said += [said_in(cell if isinstance(cell, bytes) else str(cell).encode()) for cell in cells]
    return " ".join(said)


@cache
def said_in(content: bytes) -> str:
    said = [content.decode(errors="replace")]
    if content[:2] == b"\x1f\x8b":
        said.append(gzip.decompress(content).decode(errors="replace"))
    if content[:4] == b"PAR1" and content[-4:] == b"PAR1":
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            said += [str(file.read().to_pylist()), str(file.schema_arrow.metadata)]
            groups = (file.metadata.row_group(n) for n in range(file.num_row_groups))
            said += [str(group.column(n).statistics) for group in groups for n in range(group.num_columns)]
    return " ".join(" ".join(said).casefold().split())


def left_in(folder: Path, *values: str) -> set[str]:
    content = everything(folder)
    return {value for value in values if " ".join(value.casefold().split()) in content}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the ledger of a day, with texts; not to be written to."""
    folder = tmp_path_factory.mktemp("day")
    added(ledger_in(folder), [*day(), quoting()])
    return folder


@pytest.fixture
def ledger(whole: Path, tmp_path: Path) -> Ledger:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return ledger_in(tmp_path)


@pytest.fixture
def empty(tmp_path: Path) -> Ledger:
    return ledger_in(tmp_path)


def test_what_looks_for_values_finds_them(ledger: Ledger) -> None:
    there = ("Ana Quill", PHONE, "file-7", "Did ANA QUILL call?", ANA)
    assert left_in(ledger.path, *there, "nobody at all") == {*there}


@pytest.mark.parametrize(
    ("id_", "gone", "stays"),
    [
        # In a question of an answer that had none of her documents, too.
        ("Ana Quill", ("Ana Quill", "Quill", ANA), ("file-7", WEATHER)),
        (ANA[:12], ("Ana Quill", "Quill", ANA), ("file-7", WEATHER)),
        (PHONE, (PHONE, NUMBER), ("Ana Quill", "file-7")),
        # In a question of another answer, too.
        ("file-7", ("file-7", SECRET, PHONE), (WEATHER,)),
        ("reader-1", ("reader-1", KEYS.recipient("reader-1") or ""), ("reader-0", WEATHER)),
        ("trace-001", ("trace-001",), ("trace-003", WEATHER)),
    ],
)
def test_nothing_is_left_in_any_byte(ledger: Ledger, id_: str, gone: tuple[str, ...], stays: tuple[str, ...]) -> None:
    book = Book(ledger)
    n_events, contents = len(book.events), [content for document, content in book.documents if document == id_]
    assert left_in(ledger.path, *gone, *stays) == {*gone, *stays}
    done = forget(ledger, id_)
    assert left_in(ledger.path, *gone, *stays, *contents) == set(stays)
    assert ledger.verify()[1] == []
    (stone,) = ledger.state().tombstones
    assert (stone.kind, id_ in repr(stone)) == (done.kind, False)
    book = Book(ledger)
    assert len(book.events) == n_events - done.n_events
    assert all(one.looks for one in book.pairs("document", by_recipient=True))
    # Answers that are known stay known.
    log = [one for one in (*day(), quoting()) if id_ not in (one.trace_id, one.recipient)]
    assert add(ledger, log, KeptModel(Echo()), Measuring(keep_texts=True)).n_added == 0


@pytest.mark.parametrize("spelling", ["JOSÉ  RUIZ", unicodedata.normalize("NFD", "José Ruiz"), "Mr José Ruiz"])
def test_a_name_is_forgotten_however_it_is_spelled(empty: Ledger, spelling: str) -> None:
    texts = [unicodedata.normalize(form, "Mr José Ruiz came.") for form in ("NFC", "NFD")]
    added(empty, [logged(n, {f"file-{n}": text}, "José") for n, text in enumerate(texts)])
    forget(empty, spelling)
    assert "ruiz" not in everything(empty.path)


@pytest.mark.parametrize(
    "said",
    few(
        ["what did quill order?", "Qu\u200bill", "Ｑｕｉｌｌ", "write to ana.quill@example.org", "Quíll's car",
         "Ana left at nine.", "QUILL ANA", "What did Ms Quill order?"],
        4,
    ),
)  # fmt: skip
@pytest.mark.parametrize("is_answer", [True, False])
def test_a_part_of_a_name_goes_from_the_texts_of_others(empty: Ledger, said: str, is_answer: bool) -> None:
    query, answer = ("What?", said) if is_answer else (said, "Rain")
    added(empty, [*day(), logged(20, {"weather-0": WEATHER}, answer, query=query)])
    assert left_in(empty.path, said) == {said}
    forget(empty, "Ana Quill")
    assert left_in(empty.path, said, "quill", "Ana ") == set()
    assert len(empty.rows("events")) == 5
    assert left_in(empty.path, WEATHER) == {WEATHER}


@pytest.mark.parametrize("name", ["山田 花子", "김 민수"])
def test_a_part_of_a_name_in_a_script_without_capitals_goes_too(empty: Ledger, name: str) -> None:
    texts = [f"姓名: {name}", "It rains."]
    said = f"昨日{name.split()[1]}さんは来ましたか"
    added(empty, [logged(1, {"file-7": texts[0]}, "Rain"), logged(2, {"weather-0": texts[1]}, "Rain", query=said)])
    assert left_in(empty.path, name.split()[1])
    forget(empty, name)
    assert left_in(empty.path, *name.split()) == set()


def test_words_that_may_mean_something_else_stay_and_are_told_of(empty: Ledger) -> None:
    asked = (
        "Ms Bo Will: 202-555-0143.",
        "will it rain?",
        "it will rain",
        "when will it?",
        "Will called.",
        "is bo ill?",
    )
    texts = [logged(0, {"file-7": asked[0]}, "Rain")]
    texts += [logged(n, {"weather-0": WEATHER}, "Rain", query=query) for n, query in enumerate(asked[1:], 1)]
    added(empty, texts)
    left = forget(empty, "Bo Will").left
    assert left_in(empty.path, *asked) == set(asked[1:4]) | {asked[5]}
    (sentence,) = [line for line in left if line.startswith("Kept texts of ")]
    assert sentence.startswith("Kept texts of 4 traces contain a short or common word of the name")
    assert all(f"trace-00{n}" in sentence for n in (1, 2, 3, 5))
    assert not any("Bo" in line.split() or "Will" in line for line in left)


def test_a_short_recipient_and_a_part_of_one_are_told_of(empty: Ledger) -> None:
    added(empty, [logged(0, {"weather-0": WEATHER}, "Rain", recipient=who) for who in ("Al",)])
    added(empty, [logged(1, {"weather-0": WEATHER}, "Rain", query="Did Al call?", recipient="Zoe Quist")])
    added(empty, [logged(2, {"weather-0": WEATHER}, "Rain", query="Did Quist call?", recipient="reader-0")])
    left = forget(empty, "Al").left
    assert any(line.startswith("Kept texts of 1 trace contain a short") and "trace-001" in line for line in left)
    left = forget(empty, "Zoe Quist").left
    assert any(line.startswith("Kept texts of 1 trace contain a short") and "trace-002" in line for line in left)


def test_ids_and_names_of_others_with_a_part_of_the_name_are_told_of(empty: Ledger) -> None:
    others = logged(9, {"quill-car": "Mr Tom Quill called."}, "Rain", recipient="Rosa Quill")
    added(empty, [*day()[:2], others])
    left = forget(empty, "Ana Quill").left
    assert any(line.startswith("A word of the name is in 1 remaining id of documents") for line in left)
    assert "2 kept names of other people or recipients contain a word of the name." in left


def test_texts_that_cannot_be_read_go_too(ledger: Ledger) -> None:
    texts = ((score, json.dumps(kept)) for score, kept in ledger.texts().items())
    score = next(score for score, text in texts if WEATHER in text and "Quill" not in text)
    with closing(sqlite3.connect(ledger.file)) as database, database:
        database.execute("UPDATE texts SET kept = ? WHERE score = ?", (f'{{"texts": "{LEAK}', score))
    forget(ledger, "Ana Quill")
    assert left_in(ledger.path, "Ana Quill") == set()


def test_what_a_killed_addition_left_is_removed_though_the_ledger_never_knew_of_it(empty: Ledger) -> None:
    with pytest.raises(KeyboardInterrupt):
        add(empty, [day()[1]], KeptModel(Echo(n_rounds=4)), Measuring(keep_texts=True))
    assert not empty.exists
    assert left_in(empty.path, "Quill", PHONE) == {"Quill", PHONE}
    with pytest.raises(UsageError, match=r"killed command, which may have contained it, were removed$"):
        forget(empty, "Ana Quill")
    assert left_in(empty.path, "Quill", PHONE) == set()
    added(empty, day()[:2])
    assert len(empty.rows("events")) == 2


def test_the_command_reaches_what_was_never_committed(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    runs = tmp_path / "ledger" / "runs"
    runs.mkdir(parents=True)
    (runs / "measurements-00000.parquet").write_text(SECRET)
    ended = cli("ledger", "forget", "Ana Quill", "--ledger", tmp_path / "ledger")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
    assert "Quill" not in ended.err
    assert not runs.exists()
    nowhere = cli("ledger", "forget", "Ana Quill", "--ledger", tmp_path / "none")
    assert nowhere.code == 2
    assert not (tmp_path / "none").exists()


# The number is hers by `subjects.toml`, which names both.
_PERSON: Final = ("Ana Quill", ANA, NUMBER, PHONE, "Ana Quill's number")


@pytest.mark.parametrize(
    ("id_", "gone", "n_kills"),
    few([
        ("Ana Quill", _PERSON, 10), ("Ana Quill", _PERSON, 10**6), ("file-7", ("file-7", SECRET), 10**6),
        ("reader-1", ("reader-1",), 10**6), ("trace-001", ("trace-001",), 10**6),
    ]),
)  # fmt: skip
def test_forgetting_that_is_killed_at_any_step_is_done_by_the_same_command(
    whole: Path, tmp_path: Path, id_: str, gone: tuple[str, ...], n_kills: int
) -> None:
    """Killed at its steps, forgetting goes on when it is asked for again, and ends as if nothing had happened."""
    before = ledger_in(tmp_path / "before")
    shutil.copytree(whole, tmp_path / "before")
    corrected = f"[[same]]  # Ana Quill's number\nsubjects = {json.dumps([ANA, NUMBER])}\n"
    (before.path / "subjects.toml").write_text(corrected)
    calm, places = killed(f"forget:{id_}", tmp_path, n_kills)
    assert left_in(tmp_path / "before", *gone) == set(gone)
    stones = [stone.kind for stone in ledger_in(calm).state().tombstones]
    for place in (calm, *places):
        forget_it(place, id_)
        assert left_in(place, *gone) == set(), place.name
        ledger = ledger_in(place)
        assert all_rows(ledger) == all_rows(ledger_in(calm))
        assert ([stone.kind for stone in ledger.state().tombstones], ledger.verify()[1]) == (stones, [])
        assert not list(place.rglob("*.partial"))


def test_what_is_half_written_goes_whoever_has_its_writers_number_now(ledger: Ledger) -> None:
    (ledger.path / f"{SUBJECTS}.{os.getpid()}.{'0' * 16}.partial").write_text(LEAK)
    (ledger.path / "film.partial").write_text("no file of ours")
    forget(ledger, "Ana Quill")
    assert left_in(ledger.path, "Ana Quill") == set()
    assert (ledger.path / "film.partial").exists()


def test_what_was_forgotten_and_is_added_again_counts_as_in_a_new_ledger(ledger: Ledger, tmp_path: Path) -> None:
    fresh = Ledger(tmp_path / "fresh", KEYS)
    log = [*day(), quoting()]
    for id_, n_back in (("reader-1", 3), ("trace-001", 1), ("Ana Quill", 0), ("file-7", 0)):
        forget(ledger, id_)
        before = len(ledger.rows("events"))
        added(ledger, log)
        assert len(ledger.rows("events")) - before == n_back
    # Answers that stayed are known, and do not bring back what is forgotten of them.
    assert left_in(ledger.path, "Ana Quill", "file-7", SECRET) == set()
    further = [replace(one, trace_id=f"{one.trace_id}-again") for one in day()]
    added(ledger, further)
    added(fresh, further)

    def totals(of: Ledger) -> dict[Any, Any]:
        pairs = (one for kind in ("document", "subject") for one in Book(of).pairs(kind, by_recipient=True))
        return {(one.item, one.recipient): one.total for one in pairs if one.item.id in ("file-7", ANA, NUMBER)}

    again, new = totals(ledger), totals(fresh)
    assert new.keys() == again.keys()
    assert len(new) == 6
    for (thing, recipient), total in new.items():
        if thing.id == "file-7":
            assert again[thing, recipient].signed_nats == pytest.approx(total.signed_nats)
            assert again[thing, recipient].n_answers == total.n_answers
        # Answers that are equal share their scores, and those that stayed told of her too.
        assert again[thing, recipient].largest_running_nats >= total.largest_running_nats - 1e-9
    assert ledger.verify()[1] == []


def test_what_forgetting_does_not_reach_is_said_or_refused(
    cli: Call, empty: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(empty, [replace(one, trace_id=f"ana-quill-{one.trace_id}") for one in day()[:2]])
    (empty.path / "notes.txt").write_text("Ana Quill called.")
    left = forget(empty, "Ana Quill").left
    assert "The name is in 2 remaining ids of documents, traces or spans; forget those too." in left
    assert "1 files in its directory are not the ledger's: notes.txt." in left
    assert not any("Quill" in sentence for sentence in left)
    monkeypatch.setattr(Ledger, "of_user", classmethod(lambda cls, path: cls(path, KEYS)))
    for words in (("report", "--out"), ("check", "--budget", "1", "--junit")):
        refused = cli("ledger", *words, empty.path / "page", "--ledger", empty.path)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert "give another place" in refused.err
        assert not (empty.path / "page").exists()


def test_a_copy_without_the_key_tells_nothing(empty: Ledger) -> None:
    add(empty, day(), KeptModel(Echo()), Measuring())
    assert empty.rows("disclosures")
    texts = ("Ana Quill", "Quill", PHONE, "2025550143", WEATHER, "reader-0", "What is new", SECRET)
    assert left_in(empty.path, *texts) == set()
    other = Keys(b"x" * 32)
    assert left_in(empty.path, other.entity("person", "ana quill"), other.recipient("reader-0") or "") == set()


def disclosing() -> LoggedAnswer:
    documents = {"file-7": SECRET, "file-8": "Ms Zoe Quist: 415-555-0199."}
    return logged(20, documents, f"Ana Quill, {PHONE}; Zoe Quist, 415-555-0199")


@pytest.mark.parametrize(
    ("id_", "left"),
    [
        ("Ana Quill", {("phone", "file-7"), ("person", "file-8"), ("phone", "file-8")}),
        (PHONE, {("person", "file-7"), ("person", "file-8"), ("phone", "file-8")}),
        ("file-7", {("person", "file-8"), ("phone", "file-8")}),
        ("reader-1", set()),
        ("trace-020", set()),
    ],
)
def test_disclosures_of_what_is_forgotten_go_and_those_of_others_stay(
    empty: Ledger, id_: str, left: set[tuple[str, str]]
) -> None:
    def told(last: int = 99) -> set[tuple[str, str]]:
        book = Book(empty)
        return {(one.kind, one.document) for one in book.disclosed(book.events[-last:]) if one.is_sensitive}

    added(empty, [disclosing()])
    everything = {(kind, document) for kind in ("person", "phone") for document in ("file-7", "file-8")}
    assert told() == everything
    row = next(row for row in empty.rows("disclosures") if ANA in row["entities"])
    gone = {"Ana Quill": [ANA], PHONE: [NUMBER], "file-7": [row["content"]]}.get(id_, [row["score"], row["content"]])
    assert left_in(empty.path, *gone) == set(gone)
    forget(empty, id_)
    assert told() == left
    assert left_in(empty.path, *gone) == set()
    assert empty.verify()[1] == []
    # What is added again is there again, once.
    added(empty, [replace(disclosing(), trace_id="trace-021")])
    rows = [repr(row) for row in empty.rows("disclosures")]
    assert len(rows) == len(set(rows))
    assert told(1) == everything


def test_a_span_that_no_document_says_goes_with_anybody_in_its_document(empty: Ledger) -> None:
    added(empty, [logged(20, {"file-7": SECRET, "weather-0": WEATHER}, "Quill-Ana 0143-555")])
    rows = [row for row in empty.rows("disclosures") if row["relation"] != "copied"]
    content = next(one["content"] for one in empty.rows("looks") if one["document"] == "file-7")
    assert rows
    assert all({*row["entities"]} == {ANA, NUMBER} for row in rows if row["content"] == content)
    forget(empty, "Ana Quill")
    assert not [row for row in empty.rows("disclosures") if row["content"] == content]
