"""The SQLite file of the score cache: opened, cut to size, emptied, and replaced when it is damaged.

scores/                  mode 0700; another that the user names is refused where others can write to it
  scores-1.sqlite        mode 0600; so are SQLite's files beside it
  scores-1.sqlite.lock   held while the file is opened or replaced
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock

from leakmeter.core.written import make_private, open_private

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


class ForeignFileError(sqlite3.DatabaseError):
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
        """Write down what is pending and close."""
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
    # Closing may be left to whichever thread the garbage collector runs in.
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    # Text of a damaged entry need not be text.
    connection.text_factory = bytes
    try:
        for pragma in (
            f"page_size = {PAGE_BYTES}",
            "journal_mode = WAL",
            # A power failure may damage the file; it is disposable, and checksums tell.
            "synchronous = OFF",
            f"journal_size_limit = {64 * 2**20}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        with transaction(connection):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if n_tables and application != _APPLICATION:
                raise ForeignFileError("the file belongs to another program")
            if not n_tables:
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                for statement in _SCHEMA:
                    connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of what is written within, or, when it is left by an exception, nothing."""
    # A transaction that begins by reading may find, when it comes to write, that another process was faster.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite itself has rolled back where the disk was full.
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


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
    """Delete every entry, overwrite what it held, and give the disk its space back."""
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
    return isinstance(error, ForeignFileError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
