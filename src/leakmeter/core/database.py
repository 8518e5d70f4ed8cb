"""SQLite files of mode 0600: made, opened, changed in transactions, with errors in one line."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from leakmeter.core.files import open_private, store_errors
from leakmeter.errors import StoreError

WAIT_SECONDS = 60.0
"""For another process or thread that uses the file."""
_making: Final = threading.Lock()


def make_file(path: Path) -> None:
    """Make an empty file of mode 0600 where there is none."""
    # A file that is there is not opened beside SQLite, whose locks go with the first handle that is closed.
    with _making:
        if not path.exists():
            os.close(open_private(path, os.O_RDWR))


def connected(path: Path | None, *pragmas: str, wait_seconds: float | None = None) -> sqlite3.Connection:
    """Connect to an existing file, or to a database in memory; statements outside of `transaction` commit one by one.
    Pragmas are such as "synchronous = EXTRA"."""
    address = ":memory:" if path is None else f"{path.absolute().as_uri()}?mode=rw"
    # Closing may be left to whichever thread the garbage collector runs in.
    wait = WAIT_SECONDS if wait_seconds is None else wait_seconds
    database = sqlite3.connect(address, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        for pragma in pragmas:
            database.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def transaction(database: sqlite3.Connection, *, writes: bool = True) -> Iterator[None]:
    """Commit what is done within, or roll it back on an exception. With `writes` the lock is taken at once: a
    transaction that begins by reading may fail when it comes to write."""
    database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        # SQLite itself has rolled back where the disk was full.
        if database.in_transaction:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
        raise


@contextmanager
def database_errors(failed: str) -> Iterator[None]:
    """Errors of SQLite or the operating system in one line: 'FAILED: why'."""
    try:
        with store_errors(failed):
            yield
    except sqlite3.Error as error:
        is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        why = f"another process has used it for over {WAIT_SECONDS:.0f} seconds; try again" if is_busy else error
        raise StoreError(f"{failed}: {why}") from None
