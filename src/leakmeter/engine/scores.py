"""Arrays kept from one run to the next, in a SQLite file that may be deleted at any time.

What is found there is what was put there, or nothing: names are keyed hashes, so that nobody without the secret can ask
whether a text was scored, and every entry carries a keyed checksum over its name and content. Whatever goes wrong with
the file costs time and never a run.

scores/                  mode 0700; another that the user names is refused where others can write to it
  scores-1.sqlite        mode 0600; so are SQLite's files beside it
  scores-1.sqlite.lock   held while the file is opened or replaced
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from leakmeter.core.database import connected, transaction
from leakmeter.core.files import make_private, open_private
from leakmeter.errors import StoreError

FILE_NAME: Final = "scores-1.sqlite"
"""Another layout gets another name: two versions of leakmeter then leave each other's file alone."""
MAX_BYTES: Final = 2 * 2**30

Array = npt.NDArray[Any]
T = TypeVar("T")

PAGE_BYTES: Final = 2**14
"""Entries of a few kilobytes and of many megabytes both fill pages of this size well."""

_FOLDER: Final = "scores"  # where nobody names another
_APPLICATION: Final = 0x6C6B6D73  # SQLite's mark of whose file it is
_WAIT_SECONDS: Final = 10.0  # for another process, which at worst empties the file
_SCHEMA: Final = (
    """CREATE TABLE entries (
        name BLOB NOT NULL UNIQUE, used INTEGER NOT NULL, n_bytes INTEGER NOT NULL,
        dtype TEXT NOT NULL, shape TEXT NOT NULL, checksum BLOB NOT NULL, value BLOB NOT NULL)""",
    "CREATE INDEX entries_by_use ON entries (used, n_bytes)",
)
_LARGEST_BYTES: Final = 10**9 - 2**20  # SQLite refuses larger values, unless built otherwise
_OVERHEAD_BYTES: Final = 8 * PAGE_BYTES  # an empty file, and an entry's part of the last pages
_MOST_PENDING: Final = 256


class ScoreCache:
    """Arrays by key; the least recently used go first. Several threads and processes may use one file. Entries of
    another secret (at most 64 bytes) are not found. If the file cannot be used, nothing is found or kept from then
    on."""

    def __init__(
        self,
        path: Path,
        secret: bytes,
        max_bytes: int = MAX_BYTES,
        *,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._secret = secret
        self._notify = notify
        self._is_off = False
        self._lock = threading.RLock()
        self._file = ScoresFile(path)
        weakref.finalize(self, self._file.close)

    @property
    def n_bytes(self) -> int:
        """Bytes of disk that the entries take, indices included."""
        return self._do(bytes_taken, 0) if self.path.exists() else 0

    @property
    def n_entries(self) -> int:
        if not self.path.exists():
            return 0
        return self._do(lambda connection: int(connection.execute("SELECT count(*) FROM entries").fetchone()[0]), 0)

    def get(self, key: bytes) -> Array | None:
        """The array put under a key, read-only; None if there is none or it is damaged."""
        name = self._hash(b"name", key)
        query = "SELECT dtype, shape, checksum, value FROM entries WHERE name = ?"
        row: Any = self._do(lambda connection: connection.execute(query, (name,)).fetchone(), None)
        if row is None:
            return None
        dtype, shape, checksum, value = row
        # Nothing of an entry is looked into before it is known to be one that was written here.
        is_whole = all(isinstance(part, bytes) for part in row)
        if not is_whole or checksum != self._hash(b"value", name, dtype, shape, value):
            self._do(lambda connection: connection.execute("DELETE FROM entries WHERE name = ?", (name,)), None)
            return None
        with self._lock:
            self._file.used[name] = time.time_ns()
            if len(self._file.used) >= _MOST_PENDING:
                self._do(lambda connection: self._file.mark_used(), None)
        return np.frombuffer(value, dtype=np.dtype(dtype.decode())).reshape(json.loads(shape))

    def put(self, key: bytes, array: Array) -> None:
        """Keep an array of numbers under a key; what is there already stays."""
        if array.dtype.kind not in "biufc":
            raise TypeError(f"an array of dtype {array.dtype} cannot be kept; give one of numbers")
        n_bytes = array.nbytes + _OVERHEAD_BYTES
        if n_bytes > min(self.max_bytes, _LARGEST_BYTES):
            return
        name = self._hash(b"name", key)
        dtype, shape = array.dtype.str, json.dumps(array.shape)
        value = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        checksum = self._hash(b"value", name, dtype.encode(), shape.encode(), value)

        def insert(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                self._file.mark_used()
                if connection.execute("SELECT 1 FROM entries WHERE name = ?", (name,)).fetchone() is None:
                    make_room(connection, n_bytes, self.max_bytes)
                    row = (name, time.time_ns(), array.nbytes, dtype, shape, checksum, value)
                    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)

        self._do(insert, None)

    def remove(self, key: bytes) -> None:
        """Forget the array under a key, if there is one."""
        name = self._hash(b"name", key)

        def delete(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute("DELETE FROM entries WHERE name = ?", (name,))

        self._do(delete, None)

    def clear(self) -> None:
        """Remove every entry, overwrite what it held, and give the disk its space back."""
        with self._lock:
            if not self.path.exists():
                return
            try:
                self._on_file(empty)
            except (OSError, sqlite3.Error, NotImplementedError) as error:
                message = f"the score cache '{self.path}' cannot be cleared: {_reason(error)}; delete it by hand"
                raise StoreError(message) from error
            self._is_off = False

    def close(self) -> None:
        """Write down what is pending and close the file; it is opened again when it is next used."""
        with self._lock:
            self._file.close()

    def _do(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        with self._lock:
            if self._is_off:
                return otherwise
            try:
                return self._on_file(work)
            except (OSError, sqlite3.Error, NotImplementedError) as error:
                self._is_off = True
                self._file.close()
                self._notify(f"continuing without the score cache '{self.path}': {_reason(error)}")
                return otherwise

    def _on_file(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._file.connect())
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return work(self._file.replace())

    def _hash(self, purpose: bytes, *parts: bytes | memoryview) -> bytes:
        digest = hashlib.blake2b(digest_size=32, key=self._secret, person=purpose)
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class ForeignDatabaseError(sqlite3.DatabaseError):
    """A database that another program has made."""


class ScoresFile:
    """One connection, and the marks of use that are not written down yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.used: dict[bytes, int] = {}
        """When entries were last used, in nanoseconds, by name."""
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def connect(self) -> sqlite3.Connection:
        """The connection, made if need be; a file that cannot be one of ours is removed first."""
        if self._connection is None:
            make_private(self.path.parent, named=self.path.parent.name != _FOLDER)
            with self._locked():
                return self._opened()
        return self._connection

    def replace(self) -> sqlite3.Connection:
        """The connection to a new file instead of a damaged one, unless another process has replaced it already."""
        damaged = self._inode
        self.used.clear()
        self.close()
        with self._locked():
            with suppress(FileNotFoundError):
                if self.path.stat().st_ino == damaged:
                    self._remove()
            return self._opened()

    def mark_used(self) -> None:
        """Write down which entries were used; as part of the transaction, or as one."""
        if self._connection is None or not self.used:
            return
        marks = [(when, name) for name, when in self.used.items()]
        self.used.clear()
        with nullcontext() if self._connection.in_transaction else transaction(self._connection):
            self._connection.executemany("UPDATE entries SET used = ? WHERE name = ?", marks)

    def close(self) -> None:
        connection = self._connection
        if connection is None:
            return
        with suppress(sqlite3.Error):
            self.mark_used()
        self._connection = None
        with suppress(sqlite3.Error):
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        try:
            connection = _open(self.path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._remove()
            connection = _open(self.path)
        self._connection, self._inode = connection, self.path.stat().st_ino
        return connection

    def _locked(self) -> FileLock:
        return FileLock(f"{self.path}.lock", timeout=_WAIT_SECONDS, mode=0o600)

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    # SQLite gives the files beside it the same mode.
    os.close(open_private(path, os.O_RDWR))
    connection = connected(
        *(path, f"page_size = {PAGE_BYTES}", "journal_mode = WAL"),
        # A power failure may damage the file; it is disposable, and checksums tell.
        *("synchronous = OFF", f"journal_size_limit = {64 * 2**20}"),
        wait_seconds=_WAIT_SECONDS,
    )
    # Text of a damaged entry need not be text.
    connection.text_factory = bytes
    try:
        with transaction(connection):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if n_tables and application != _APPLICATION:
                raise ForeignDatabaseError("the file belongs to another program")
            if not n_tables:
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                for statement in _SCHEMA:
                    connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def bytes_taken(connection: sqlite3.Connection) -> int:
    """Bytes of the pages in use; freed pages are filled again before the file grows."""
    (n_pages,), (n_free,), (page_bytes,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
    )
    return int(n_pages - n_free) * int(page_bytes)


def make_room(connection: sqlite3.Connection, n_bytes: int, max_bytes: int) -> None:
    """Delete the entries that were used least recently until `n_bytes` more stay within `max_bytes`."""
    while (excess := bytes_taken(connection) + n_bytes - max_bytes) > 0:
        oldest: list[tuple[int]] = []
        for rowid, freed in connection.execute("SELECT rowid, n_bytes FROM entries ORDER BY used, rowid"):
            oldest.append((rowid,))
            excess -= freed
            if excess <= 0:
                break
        if not oldest:
            return
        connection.executemany("DELETE FROM entries WHERE rowid = ?", oldest)


def empty(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    with transaction(connection):
        connection.execute("DROP TABLE entries")
        for statement in _SCHEMA:
            connection.execute(statement)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("PRAGMA secure_delete = OFF").fetchall()


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether an error says that the file is broken or not ours, so that only a new one helps."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, ForeignDatabaseError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
