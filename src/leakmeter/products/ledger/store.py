"""A ledger's directory: one SQLite file with all that is committed.

    ledger/              mode 0700; files have mode 0600
      ledger.sqlite      numbers, tombstones, the scoring model; with --keep-texts, texts of each score
      runs/              measurements under way; removed when their numbers are committed
      subjects.toml      the user's: which people are one, and which are not

A commit is one transaction: a kill leaves the state before or the state after. Any number of readers and writers may
work at once: commits wait for each other, and readers see one whole state.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from filelock import FileLock, Timeout

from leakmeter.core.database import connected, database_errors, make_file, transaction
from leakmeter.core.files import PARTIAL, check_outside_runs, make_private, store_errors
from leakmeter.core.measure import Measurement, Params
from leakmeter.core.plain import one_line
from leakmeter.core.record import JsonObject
from leakmeter.errors import StoreError
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.tables import TABLES, TEXTS, Rows, insert, make, make_missing, select

if TYPE_CHECKING:
    from leakmeter.results.result import PartContent

FILE: Final = "ledger.sqlite"
FILES: Final = (FILE, "ledger.json")
"""Of a ledger, and of one of version 1, which was a list of Parquet files."""
SUBJECTS: Final = "subjects.toml"
_VERSION: Final = 3
_MEASURING: Final = ".measuring.lock"
_PRAGMAS: Final = (
    "secure_delete = ON",
    # Waits for the directory too: no lost power supply brings back what was forgotten.
    "synchronous = EXTRA",
    # Nothing lies outside of the directory while the file is written anew.
    "temp_store = MEMORY",
)
_UNREADABLE: Final = (ValueError, TypeError, KeyError, RecursionError)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """That something was forgotten, without what it was."""

    kind: str
    """'document', 'subject', 'recipient' or 'trace'."""
    day: str
    n_rows: int


@dataclass(frozen=True, slots=True)
class LedgerState:
    model: JsonObject | None = None
    """What scores; None of an empty ledger."""
    tombstones: tuple[Tombstone, ...] = ()
    mark: str = ""
    """Drawn at random when the ledger is made, and whenever something is forgotten."""
    n_commits: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """One whole state of a ledger, while it is read."""

    state: LedgerState
    _database: sqlite3.Connection = field(repr=False)

    def rows(self, table: str, where: str, *given: str | int | Collection[str] | None) -> list[JsonObject]:
        """Rows of which a condition holds, in the order they were added; what is given for each '?' of it, a collection
        for each `LISTED`."""
        values = [one if isinstance(one, str | int | None) else json.dumps(list(one)) for one in given]
        return list(select(self._database, table, where=where, given=values))

    def last_number(self, table: str) -> int:
        """Number of the row that was added last; 0 where there is none."""
        ((number,),) = self._database.execute(f"SELECT coalesce(max(number), 0) FROM {table}")
        return int(number)


class Ledger:
    """A ledger's directory, which the first commit makes. All methods raise `StoreError` where it cannot be read or
    written, is of another version or key, or has a row that is not what was written."""

    def __init__(self, path: Path, keys: Keys) -> None:
        self.path = path
        self.keys = keys
        self.file = path / FILE
        self.runs = path / "runs"
        self._held: tuple[LedgerState, dict[str, list[JsonObject]]] = LedgerState(), {}

    @classmethod
    def of_user(cls, path: Path) -> Ledger:
        from leakmeter.engine.storage.pseudonym import subject_key
        from leakmeter.models import config_dir

        return cls(path, Keys(subject_key(config_dir())))

    @property
    def exists(self) -> bool:
        with self._reading() as database:
            return _version(database) > 0

    def state(self) -> LedgerState:
        """The present state; of a directory without a ledger an empty one."""
        with self._reading() as database:
            return self._state(database)

    def rows(self, table: str) -> list[JsonObject]:
        return self.read(table)[1][table]

    def read(self, *tables: str) -> tuple[LedgerState, dict[str, list[JsonObject]]]:
        """One whole state, and the rows of tables; all of them where none is named."""
        with self._reading() as database:
            state = self._state(database)
            # Another thread may hold others; what was forgotten, or is of a file that was replaced, is held no longer.
            before, held = self._held
            rows = dict(held) if before.mark == state.mark and before.n_commits <= state.n_commits else {}
            for table in tables or TABLES:
                old_rows = rows.get(table, [])
                rows[table] = [*old_rows, *select(database, table, len(old_rows))]
            self._held = state, rows
            return state, {table: rows[table] for table in tables or TABLES}

    @contextmanager
    def reading(self) -> Iterator[View]:
        """One whole state, of which single rows are read."""
        with self._reading() as database:
            yield View(self._state(database), database)

    def n_rows(self) -> int:
        with self._reading() as database:
            return sum(n for name in TABLES for (n,) in database.execute(f"SELECT count(*) FROM {name}"))

    def verify(self) -> tuple[int, list[str]]:
        """Read everything again: how many rows there are, and what is wrong, a line each."""
        try:
            # Another version or key is wrong once, whatever number of tables there is.
            self.state()
            with self._reading() as database:
                checks = database.execute("PRAGMA integrity_check").fetchall()
            n_rows = self.n_rows()
        except StoreError as error:
            return 0, [str(error)]
        findings = [f"{FILE}: {one_line(check)}" for (check,) in checks if check != "ok"]
        for table in TABLES:
            try:
                Ledger(self.path, self.keys).rows(table)
            except StoreError as error:
                findings.append(str(error))
        return n_rows, findings

    def texts(self) -> dict[str, JsonObject | None]:
        """Kept texts by score; None where they cannot be read."""
        with self._reading() as database:
            kept = database.execute(f"SELECT score, kept FROM {TEXTS}").fetchall()
        texts: dict[str, JsonObject | None] = dict.fromkeys(score for score, _ in kept)
        for score, content in kept:
            with suppress(*_UNREADABLE):
                texts[score] = dict(json.loads(content)["texts"])
        return texts

    def part(self, score: str) -> tuple[PartContent, JsonObject]:
        with self._reading() as database:
            ((content,),) = database.execute(f"SELECT kept FROM {TEXTS} WHERE score = ?", (score,)).fetchall()
            kept = json.loads(content)
            measurements = [
                Measurement(**{**measurement, "values": np.array(measurement["values"])})
                for measurement in kept["measurements"]
            ]
            return (kept["texts"], measurements), kept["params"]

    def strangers(self) -> list[str]:
        own = {FILE, f"{FILE}-journal", SUBJECTS, _MEASURING, self.runs.name}
        return sorted(path.name for path in self.path.iterdir() if path.name not in own)

    @contextmanager
    def measuring(self, notify: Callable[[str], None] = lambda line: None) -> Iterator[None]:
        """Hold the right to measure: what two would measure at once is measured by one, and found by the other."""
        with self._errors():
            self._make_directory()
            lock = FileLock(self.path / _MEASURING, mode=0o600)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                notify(f"waiting for another process that writes to ledger '{self.path}'")
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def remove_runs(self) -> bool:
        """Remove measurements, finished or left by a kill; for who may measure. Whether there were any."""
        if not self.runs.exists():
            return False
        with store_errors(f"measurements in '{self.runs}' cannot be removed"):
            shutil.rmtree(self.runs)
        return True

    def commit(
        self, rows: Rows, *, model: JsonObject | None = None, provided: Callable[[], bool] = lambda: True
    ) -> bool:
        """Add the rows that are not there yet, all or none; returns whether they are there. `provided` is asked while
        nobody else can commit; if it returns False, nothing is added."""
        with self.writing() as database:
            state = self._state(database)
            if model is not None and state.model not in (None, model):
                raise other_model(self.path, state.model or {}, model)
            if not provided():
                return False
            if not _version(database):
                if database.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
                    raise StoreError(f"'{self.file}' is another program's file; give another directory with --ledger")
                make(database)
                make_missing(database)
                database.execute("CREATE TABLE tombstones (kind, day, n_rows)")
                database.execute("CREATE TABLE ledger (key_check, model, mark, n_commits)")
                database.execute("INSERT INTO ledger VALUES (?, NULL, hex(randomblob(8)), 0)", (self.keys.check,))
                database.execute(f"PRAGMA user_version = {_VERSION}")
            insert(database, rows)
            model = state.model or model
            database.execute("UPDATE ledger SET model = ?, n_commits = n_commits + 1", (json.dumps(model),))
        return True

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction beside which nobody else writes; others read the state before."""
        with self._errors():
            self._make_directory()
            make_file(self.file)
            with closing(connected(self.file, *_PRAGMAS)) as database:
                # Beforehand: an index of many rows may lock out those who read, such as who asks within this.
                with transaction(database):
                    if _version(database) == _VERSION:
                        make_missing(database)
                with transaction(database):
                    yield database

    def vacuum(self) -> None:
        """Write the file anew, so that no byte of what was deleted is left; remove what is half written."""
        with self._errors():
            if self.file.exists():
                with closing(connected(self.file, *_PRAGMAS)) as database:
                    database.execute("VACUUM")
            for path in self.path.glob(f"{SUBJECTS}.*{PARTIAL}"):
                path.unlink(missing_ok=True)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that reads; of empty tables where nothing was ever committed."""
        self._check_layout()
        failed = f"'{self.file}' of the ledger cannot be read"
        with (
            database_errors(failed),
            closing(connected(self.file if self.file.exists() else None, *_PRAGMAS)) as database,
            transaction(database, writes=False),
        ):
            # Errors of SQLite repeat a text that is none.
            database.text_factory = bytes.decode
            try:
                version = _version(database)
                if not version:
                    make(database, temporary=True)
                elif version == _VERSION:
                    make_missing(database, temporary=True)
                yield database
            except _UNREADABLE as error:
                advice = "restore it from a copy, or make a new ledger from the logs"
                raise StoreError(f"{failed}: {one_line(error)}; {advice}") from None

    def _state(self, database: sqlite3.Connection) -> LedgerState:
        version = _version(database)
        if not version:
            return LedgerState()
        if version != _VERSION:
            raise self._another_version()
        ((key_check, model, *changes),) = database.execute("SELECT key_check, model, mark, n_commits FROM ledger")
        if key_check != self.keys.check:
            raise StoreError(
                f"ledger '{self.path}' was made with another key, so its pseudonyms cannot be compared; set "
                "LEAKMETER_CONFIG to the directory with its subjects.secret"
            )
        stones = database.execute("SELECT kind, day, n_rows FROM tombstones ORDER BY rowid")
        read = json.loads(model)
        return LedgerState(read and dict(read), tuple(Tombstone(*stone) for stone in stones), *changes)

    def _make_directory(self) -> None:
        self._check_layout()
        if not self.file.exists():
            check_outside_runs(self.path, "ledger")
        make_private(self.path)

    def _check_layout(self) -> None:
        if (self.path / FILES[1]).exists():
            raise self._another_version()

    def _another_version(self) -> StoreError:
        advice = "use that version, or make a new ledger from the logs"
        return StoreError(f"ledger '{self.path}' was written by another version of leakmeter; {advice}")

    def _errors(self) -> Any:
        return database_errors(f"ledger '{self.path}' cannot be written")


def kept_texts(score: str, part: PartContent, params: Params) -> JsonObject:
    texts, measurements = part
    numbers = [{**asdict(measurement), "values": measurement.values.tolist()} for measurement in measurements]
    kept = {"texts": texts, "params": dict(params), "measurements": numbers}
    return {"score": score, "kept": json.dumps(kept, ensure_ascii=False)}


def other_model(path: Path, first: JsonObject, second: JsonObject) -> StoreError:
    """Nats of two models do not add up."""
    names = [str(model.get("name")) for model in (first, second)]
    return StoreError(
        f"ledger '{path}' has numbers of {names[0]}, and nats of another model ({names[1]}, or other weights or "
        "another tokenizer of that name) cannot be added; give that model, or another ledger"
    )


def _version(database: sqlite3.Connection) -> int:
    ((version,),) = database.execute("PRAGMA user_version")
    return int(version)
