"""A ledger's directory: one SQLite file with all that is committed.

    ledger/              mode 0700; files have mode 0600
      ledger.sqlite      tables of numbers; tombstones; the scoring model; with --keep-texts, texts of each score
      runs/              measurements under way; removed when their numbers are committed
      subjects.toml      the user's: which people are one, and which are not

A commit is one transaction: a kill leaves the state before or the state after. Any number of readers and writers may
work at once: commits wait for each other, and readers see one whole state. What is deleted is written over.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from leakmeter.core.database import connected, database_errors, make_file, transaction
from leakmeter.core.json_object import JsonObject
from leakmeter.core.plain import one_line
from leakmeter.core.written import PARTIAL, check_outside_runs, make_private, store_errors
from leakmeter.errors import StoreError
from leakmeter.ledger.keys import Keys
from leakmeter.ledger.tables import (
    COLUMNS,
    INSERTED,
    TABLES,
    TEXTS,
    Rows,
    from_stored,
    insertion,
    made_tables,
    to_stored,
)
from leakmeter.runs.schema import from_table, to_table

if TYPE_CHECKING:
    from leakmeter.runs.result import Part

FILE: Final = "ledger.sqlite"
SUBJECTS: Final = "subjects.toml"
_VERSION: Final = 2
_EARLIER: Final = "ledger.json"
"""Of a ledger of version 1, which was a list of Parquet files."""
_MEASURING: Final = ".measuring.lock"
_PRAGMAS: Final = (
    "secure_delete = ON",
    # Waits for the directory too: no lost power supply brings back what was forgotten.
    "synchronous = EXTRA",
    # Nothing lies outside of the directory while the file is written anew.
    "temp_store = MEMORY",
)
NEW_MARK: Final = "mark = hex(randomblob(8))"
_UNREADABLE: Final = (ValueError, TypeError, RecursionError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """That something was forgotten, without what it was."""

    kind: str
    """'document', 'subject', 'recipient' or 'trace'."""
    day: str
    n_rows: int
    """Rows that were removed."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Drawn at random."""


@dataclass(frozen=True, slots=True)
class State:
    """What a ledger says of itself."""

    model: JsonObject | None = None
    """What scores; None of an empty ledger."""
    tombstones: tuple[Tombstone, ...] = ()
    mark: str = ""
    """Drawn at random with each change."""


class Ledger:
    """A ledger's directory.

    Args:
        path: the directory; it is made by the first commit.
        keys: of the user; see `ledger.keys`.
    """

    def __init__(self, path: Path, keys: Keys) -> None:
        self.path = path
        self.keys = keys

    @classmethod
    def of_user(cls, path: Path) -> Ledger:
        """A ledger under the user's own key.

        Raises:
            StoreError: the key can neither be read nor written.
        """
        from leakmeter.models import config_dir
        from leakmeter.runs.pseudonym import subject_key

        return cls(path, Keys(subject_key(config_dir())))

    @property
    def file(self) -> Path:
        """Of all that is committed."""
        return self.path / FILE

    @property
    def runs(self) -> Path:
        """Directory of the measurements under way."""
        return self.path / "runs"

    @property
    def is_begun(self) -> bool:
        """Whether anything was ever committed, or measured to be."""
        return self.exists or self.runs.exists()

    @property
    def exists(self) -> bool:
        """Whether anything was ever committed.

        Raises:
            StoreError: see `state`.
        """
        with self._reading() as database:
            return database is not None

    def state(self) -> State:
        """The present state; of a directory without a ledger an empty one.

        Raises:
            StoreError: it cannot be read, or was made under another key or by another version.
        """
        with self._reading() as database:
            return State() if database is None else self._state(database)

    def rows(self, table: str) -> list[JsonObject]:
        """All rows of a table, in the order they were added.

        Raises:
            StoreError: see `state`; or a row is not the one that was written.
        """
        return self.read(table)[1][table]

    def read(self, *tables: str) -> tuple[State, dict[str, list[JsonObject]]]:
        """One whole state, and the rows of tables; all of them where none is named.

        Raises:
            StoreError: see `rows`.
        """
        with self._reading() as database:
            if database is None:
                return State(), {table: [] for table in tables or TABLES}
            return self._state(database), {table: list(self._rows(database, table)) for table in tables or TABLES}

    def n_rows(self) -> int:
        """Rows of all tables.

        Raises:
            StoreError: see `state`.
        """
        with self._reading() as database:
            counts = [] if database is None else [database.execute(f"SELECT count(*) FROM {of}") for of in TABLES]
            return sum(count for of in counts for (count,) in of)

    def verify(self) -> tuple[int, list[str]]:
        """Read every row again: how many there are, and what is wrong."""
        n_rows, findings = 0, list[str]()
        try:
            with self._reading() as database:
                checks = [] if database is None else database.execute("PRAGMA integrity_check").fetchall()
            findings += [f"{FILE}: {one_line(check)}" for (check,) in checks if check != "ok"]
            for table in TABLES:
                n_rows += len(self.rows(table))
        except StoreError as error:
            findings.append(str(error))
        return n_rows, findings

    def texts(self) -> dict[str, JsonObject | None]:
        """Each score with its kept texts; None where they cannot be read.

        Raises:
            StoreError: see `state`.
        """
        with self._reading() as database:
            asked = f"SELECT score, texts FROM {TEXTS} ORDER BY score"
            return {} if database is None else {score: _parsed(texts) for score, texts in database.execute(asked)}

    def part(self, score: str) -> tuple[Part, JsonObject]:
        """The kept texts and measurements of one score, and the parameters of the measure.

        Raises:
            StoreError: they are not kept, or cannot be read.
        """
        with self._reading() as database:
            asked = f"SELECT texts, params, measurements FROM {TEXTS} WHERE score = ?"
            rows = [] if database is None else database.execute(asked, (score,)).fetchall()
        try:
            ((texts, params, measurements),) = rows
            return (json.loads(texts), from_table(pq.read_table(pa.BufferReader(measurements)))), json.loads(params)
        except _UNREADABLE as error:
            raise StoreError(f"kept texts of '{score}' in '{self.file}' cannot be read: {one_line(error)}") from None

    def strangers(self) -> list[str]:
        """Names of what is in the directory and no part of the ledger."""
        own = {FILE, f"{FILE}-journal", SUBJECTS, _MEASURING, self.runs.name}
        return sorted(path.name for path in self.path.iterdir() if path.name not in own)

    @contextmanager
    def measuring(self, notify: Callable[[str], None] = lambda line: None) -> Iterator[None]:
        """Hold the right to measure: what two would measure at once is measured by one, and found by the other."""
        self._make_directory()
        with self._errors("written"):
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
        """Remove the texts of measurements, finished or left by a kill; for who may measure. Whether there were any.

        Raises:
            StoreError: a file cannot be removed.
        """
        if not self.runs.exists():
            return False
        with store_errors(f"measurements in '{self.runs}' cannot be removed"):
            shutil.rmtree(self.runs)
        return True

    def commit(
        self, rows: Rows, *, model: JsonObject | None = None, provided: Callable[[], bool] = lambda: True
    ) -> bool:
        """Add rows that are not there yet; all of them, or none where it is interrupted.

        Args:
            rows: by table. What others added since they were made is not added again.
            model: what scored them.
            provided: asked while nobody else can commit; where it says no, nothing is added.

        Returns:
            Whether they are there.

        Raises:
            StoreError: the ledger cannot be written, or is of another model.
        """
        with self.writing() as database:
            state = self._state(database)
            if model is not None and state.model not in (None, model):
                raise other_model(self.path, state.model or {}, model)
            if not provided():
                return False
            if not _version(database):
                self._make(database)
            for table in INSERTED:
                database.executemany(insertion(table), [self._stored(table, row) for row in rows.get(table, ())])
            database.execute(f"UPDATE ledger SET model = ?, {NEW_MARK}", (json.dumps(state.model or model),))
        return True

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction beside which nobody else writes; others read the state before.

        Raises:
            StoreError: the ledger cannot be written.
        """
        self._make_directory()
        with self._errors("written"):
            make_file(self.file)
            with closing(connected(self.file, *_PRAGMAS)) as database, transaction(database):
                yield database

    def vacuum(self) -> None:
        """Write the file anew, so that no byte of what was deleted is left; and remove what was half written.

        Raises:
            StoreError: the ledger cannot be written.
        """
        with self._errors("written"):
            if self.file.exists():
                with closing(connected(self.file, *_PRAGMAS)) as database:
                    database.execute("VACUUM")
            for path in self.path.glob(f"{SUBJECTS}.*{PARTIAL}"):
                path.unlink(missing_ok=True)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A transaction that reads; None where nothing was ever committed."""
        self._check_layout()
        if not self.file.exists():
            yield None
            return
        with (
            database_errors(f"'{self.file}' of the ledger cannot be read"),
            closing(connected(self.file, *_PRAGMAS)) as database,
            transaction(database, writes=False),
        ):
            # Errors of SQLite repeat a text that is none.
            database.text_factory = bytes.decode
            try:
                yield database if _version(database) else None
            except _UNREADABLE as error:
                raise StoreError(
                    f"'{self.file}' of the ledger cannot be read: {one_line(error)}; restore it from a copy, or make a "
                    "new ledger from the logs"
                ) from None

    def _state(self, database: sqlite3.Connection) -> State:
        version = _version(database)
        if not version:
            return State()
        if version != _VERSION:
            raise self._another_version()
        ((key_check, model, mark),) = database.execute("SELECT key_check, model, mark FROM ledger")
        if key_check != self.keys.check:
            raise StoreError(
                f"ledger '{self.path}' was made under another key, so that its pseudonyms cannot be compared; "
                "name the directory with its subjects.secret in LEAKMETER_CONFIG"
            )
        stones = database.execute("SELECT kind, day, n_rows, id FROM tombstones ORDER BY rowid")
        read = json.loads(model)
        if not isinstance(read, (dict, type(None))):
            raise ValueError("its model is of another kind")
        return State(read, tuple(Tombstone(*stone) for stone in stones), mark)

    def _rows(self, database: sqlite3.Connection, table: str) -> Iterator[JsonObject]:
        for *values, checksum in database.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table} ORDER BY number"):
            if checksum != self.keys.row(table, values):
                raise ValueError(f"a row of {table} was changed after it was written")
            yield from_stored(table, values)

    def _stored(self, table: str, row: JsonObject) -> JsonObject:
        if table == TEXTS:
            return row
        values = to_stored(table, row)
        return {**values, "checksum": self.keys.row(table, values.values())}

    def _make(self, database: sqlite3.Connection) -> None:
        for statement in made_tables():
            database.execute(statement)
        database.execute("CREATE TABLE tombstones (kind, day, n_rows, id)")
        database.execute("CREATE TABLE ledger (key_check, model, mark)")
        database.execute("INSERT INTO ledger VALUES (?, 'null', '')", (self.keys.check,))
        database.execute(f"PRAGMA user_version = {_VERSION}")

    def _make_directory(self) -> None:
        self._check_layout()
        with self._errors("written"):
            if not self.file.exists():
                check_outside_runs(self.path, "ledger")
            make_private(self.path)

    def _check_layout(self) -> None:
        if (self.path / _EARLIER).exists():
            raise self._another_version()

    def _another_version(self) -> StoreError:
        return StoreError(
            f"ledger '{self.path}' was written by another version of leakmeter; use that version, or make a new ledger "
            "from the logs"
        )

    def _errors(self, what: str) -> Any:
        return database_errors(f"ledger '{self.path}' cannot be {what}")


def has_files(path: Path) -> bool:
    """Whether a directory has files of a ledger, of this version or an earlier one."""
    return any((path / name).exists() for name in (FILE, _EARLIER))


def kept_texts(score: str, part: Part, params: Mapping[str, Any]) -> JsonObject:
    """The row of the texts and measurements of one score.

    Args:
        score: its name.
        part: what was measured.
        params: of the measure.
    """
    texts, measurements = part
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(measurements), sink, compression="zstd")
    return {
        "score": score,
        "texts": json.dumps(texts, ensure_ascii=False),
        "params": json.dumps(dict(params)),
        "measurements": sink.getvalue().to_pybytes(),
    }


def other_model(path: Path, first: Mapping[str, Any], second: Mapping[str, Any]) -> StoreError:
    """Nats of two models do not add up."""
    names = [str(model.get("name")) for model in (first, second)]
    return StoreError(
        f"ledger '{path}' has numbers of {names[0]}, and nats of another model ({names[1]}, or other weights or "
        "another tokenizer of that name) do not add to them; give that model, or another ledger"
    )


def _version(database: sqlite3.Connection) -> int:
    ((version,),) = database.execute("PRAGMA user_version")
    return int(version)


def _parsed(texts: Any) -> JsonObject | None:
    try:
        return dict(json.loads(texts))
    except _UNREADABLE:
        return None
