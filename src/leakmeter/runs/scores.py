"""Arrays kept from one run to the next, in a SQLite file that may be deleted at any time.

What is found there is what was put there, or nothing: names are keyed hashes, so that nobody without the secret can ask
whether a text was scored, and every entry carries a keyed checksum over its name and content. Whatever goes wrong with
the file costs time and never a run.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from leakmeter.errors import StoreError
from leakmeter.runs.scores_file import PAGE_BYTES, ScoresFile, bytes_taken, empty, is_damage, make_room, transaction

FILE_NAME: Final = "scores-1.sqlite"
"""Another layout gets another name: two versions of leakmeter then leave each other's file alone."""
MAX_BYTES: Final = 2 * 2**30

Array = npt.NDArray[Any]
T = TypeVar("T")

_LARGEST_BYTES: Final = 10**9 - 2**20  # SQLite refuses larger values, unless built otherwise
_OVERHEAD_BYTES: Final = 8 * PAGE_BYTES  # an empty file, and an entry's part of the last pages
_MOST_PENDING: Final = 256


class ScoreCache:
    """Arrays by key; the least recently used go first. Several threads and processes may use one file at once.

    Args:
        path: the file; it and its directory are made on first use.
        secret: at most 64 bytes; entries made under another secret are not found.
        max_bytes: most the file may take. An array that is larger is not kept.
        notify: told in one line when the file cannot be used; from then on nothing is found and nothing kept.
    """

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
        """Number of arrays kept."""

        def count(connection: sqlite3.Connection) -> int:
            return int(connection.execute("SELECT count(*) FROM entries").fetchone()[0])

        return self._do(count, 0) if self.path.exists() else 0

    def get(self, key: bytes) -> Array | None:
        """The array put under a key, read-only; None if there is none or it is damaged."""
        name = self._hash(b"name", key)

        def find(connection: sqlite3.Connection) -> Any:
            asked = "SELECT dtype, shape, checksum, value FROM entries WHERE name = ?"
            return connection.execute(asked, (name,)).fetchone()

        row = self._do(find, None)
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
        """Keep an array of numbers under a key; what is there already stays.

        Raises:
            TypeError: the array does not hold plain numbers.
        """
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

    def clear(self) -> None:
        """Remove every entry, overwrite what it held, and give the disk its space back.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._lock:
            if not self.path.exists():
                return
            try:
                try:
                    empty(self._file.connect())
                except sqlite3.DatabaseError as error:
                    if not is_damage(error):
                        raise
                    self._file.replace()
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
                try:
                    return work(self._file.connect())
                except sqlite3.DatabaseError as error:
                    if not is_damage(error):
                        raise
                    return work(self._file.replace())
            except (OSError, sqlite3.Error, NotImplementedError) as error:
                self._is_off = True
                self._file.close()
                self._notify(f"going on without the score cache '{self.path}': {_reason(error)}")
                return otherwise

    def _hash(self, purpose: bytes, *parts: bytes | memoryview) -> bytes:
        digest = hashlib.blake2b(digest_size=32, key=self._secret, person=purpose)
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
