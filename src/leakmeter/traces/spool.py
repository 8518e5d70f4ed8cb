"""Spans by their traces, on disk: spans of a trace may stand anywhere in a log of any size.

They are in a temporary database of SQLite without a name: a few megabytes are in memory, the rest in a file that is
unlinked as soon as it is opened, readable by nobody else, and gone when the program ends, however it ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from leakmeter.errors import StoreError
from leakmeter.traces.span import Span

MOST_SPANS: Final = 10_000
"""Of a trace that is read."""
MOST_BYTES: Final = 2**26
"""Of the spans of a trace that is read."""
_CACHE_KB = 2**16
_TABLES = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE traces (number INTEGER PRIMARY KEY, id BLOB UNIQUE, n_spans INTEGER, n_bytes INTEGER);
    CREATE TABLE spans (trace INTEGER, packed BLOB);
"""

_COUNTED = """
    UPDATE traces SET n_spans = n_spans + 1, n_bytes = n_bytes + ? WHERE number = ? RETURNING n_spans, n_bytes
"""


class Spool:
    def __init__(self) -> None:
        self._held: sqlite3.Connection | None = None
        self._recent: dict[str, int] = {}

    @property
    def is_empty(self) -> bool:
        return self._held is None

    def add(self, span: Span) -> None:
        packed = span.packed()
        try:
            number = self._number(span.trace_id)
            ((n_spans, n_bytes),) = self._database.execute(_COUNTED, (len(packed), number))
            # Of what is too large, nothing more is needed.
            if n_spans <= MOST_SPANS and n_bytes <= MOST_BYTES:
                self._database.execute("INSERT INTO spans VALUES (?, ?)", (number, packed))
            elif n_spans == 1:
                # Where it stands, without what it says.
                head = Span(span.trace_id, span.span_id, span.where, span.kind).packed()
                self._database.execute("INSERT INTO spans VALUES (?, ?)", (number, head))
        except sqlite3.Error as error:
            raise _full(error) from None

    def traces(self) -> Iterator[tuple[list[Span], bool]]:
        """Spans of each trace, in the order of first spans; and whether all of them were kept."""
        if self._held is None:
            return
        try:
            self._database.execute("CREATE INDEX by_trace ON spans (trace)")
            rows = self._database.execute("SELECT number, n_spans, n_bytes FROM traces ORDER BY number")
            for number, n_spans, n_bytes in rows:
                packed_rows = self._database.execute(
                    "SELECT packed FROM spans WHERE trace = ? ORDER BY rowid", (number,)
                )
                is_whole = n_spans <= MOST_SPANS and n_bytes <= MOST_BYTES
                yield (
                    [Span.unpacked(packed) for (packed,) in (packed_rows if is_whole else packed_rows.fetchmany(1))],
                    is_whole,
                )
        except sqlite3.Error as error:
            raise _full(error) from None

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    @property
    def _database(self) -> sqlite3.Connection:
        if self._held is None:
            self._held = sqlite3.connect("", check_same_thread=False, isolation_level=None)
            self._held.executescript(f"PRAGMA cache_size = -{_CACHE_KB}; {_TABLES} BEGIN;")
        return self._held

    def _number(self, trace_id: str) -> int:
        if (recent := self._recent.get(trace_id)) is not None:
            return recent
        # Half a surrogate pair is no text for the database.
        id_ = trace_id.encode(errors="surrogatepass")
        row = self._database.execute("SELECT number FROM traces WHERE id = ?", (id_,)).fetchone()
        if row is None:
            inserted = self._database.execute("INSERT INTO traces (id, n_spans, n_bytes) VALUES (?, 0, 0)", (id_,))
            number = int(inserted.lastrowid or 0)
        else:
            number = int(row[0])
        if len(self._recent) >= 4096:
            self._recent.clear()
        self._recent[trace_id] = number
        return number


def _full(error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"spans could not be kept on disk: {error}; is the disk for temporary files full? TMPDIR names it"
    )
