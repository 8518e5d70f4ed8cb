"""One SELECT over tables in memory and Parquet files, which DuckDB answers in this process.

The query opens nothing but those files, neither fetches nor loads extensions, writes nothing, and takes no more memory
and time than it may. DuckDB's own limit of memory is for its buffers, and leaves out what a function allocates for a
text or a list; so on Linux the process as a whole is held to a limit too while the query runs. DuckDB looks between
two chunks of rows whether it is interrupted, and one call of a function may take long; so the query runs in a thread,
which is left behind where it does not end soon.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa

from leakmeter.errors import UsageError
from leakmeter.results.limits import THREAD, QueryLimits

_Result = TypeVar("_Result")
_SHUT_OFF: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a name that is no table would be looked up among Python's variables
    "temp_directory": "",  # what does not fit into memory would be written beside the user's files
}
_AT_ONCE: Final = 1_000
"""Rows that are fetched together."""
_OF_DUCKDB: Final = 0.75
"""Share of the memory that DuckDB may count for itself: its own error comes first where it does count."""
_PER_THREAD: Final = 128 * 2**20
"""Bytes that DuckDB wants for a thread, at the least."""
_LOOKED_AFTER: Final = 0.2
"""Seconds after which a wait begins again: some systems tell of Ctrl-C only between two."""
_ENDED_WITHIN: Final = 1.0
"""Seconds that an interrupted query has to end, before it is left behind."""
_INTERRUPTIONS: Final = 20
_MOST_CHARACTERS: Final = 200_000
"""Of a query. DuckDB holds Python's lock while it parses, some 40 microseconds a character at worst: until then neither
limits nor Ctrl-C end it."""
_PART: Final = re.compile(r"[\w-]+/measurements-\d+\.parquet")
# These quote the query itself; everything else that goes wrong may quote what was read.
_OF_THE_QUERY: Final = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.PermissionException,
)
_NO_ROOM: Final = re.compile(
    r"bad_alloc|allocat|out of memory|cannot create thread|resource.*unavailable", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ParquetView:
    """A view of Parquet files of the same columns, behind the name of the directory that each lies in."""

    name: str
    columns: Sequence[tuple[str, str]]
    """Names, and types as DuckDB calls them; the directory's comes first."""
    files: Sequence[str]


class SqlQuery:
    """A SELECT, and a connection of its own that answers it once."""

    def __init__(self, sql: str, limits: QueryLimits, views: Sequence[str]) -> None:
        """`views` are named where `sql` is no SELECT."""
        try:
            sql.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"the query is no valid Unicode (half a surrogate pair, or a byte that is no UTF-8) at character "
                f"{error.start:,}"
            ) from None
        if len(sql) > _MOST_CHARACTERS:
            raise UsageError(f"the query has {len(sql):,} characters; give {_MOST_CHARACTERS:,} at most")
        self._limits = limits
        self._left_seconds = limits.max_seconds
        memory = int(limits.memory_bytes * _OF_DUCKDB)
        threads = max(1, min(os.cpu_count() or 1, limits.memory_bytes // _PER_THREAD))
        config = _SHUT_OFF | {"memory_limit": f"{memory // 1000}kB", "threads": threads}
        try:
            with _ONE_AT_A_TIME, _CEILING.over(limits.memory_bytes):
                self._connection = duckdb.connect(config=config)
            # A bar would stand among the rows.
            self._connection.execute("SET enable_progress_bar = false")
        except duckdb.Error as error:
            raise self._refusal(error) from None
        except MemoryError:
            raise self._needs_more() from None
        statements = self._waited(lambda: self._connection.extract_statements(sql))
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            kinds = " and ".join(statement.type.name for statement in statements) or "empty"
            raise UsageError(f"the query is {kinds}; give one SELECT, over {', '.join(views)}")
        self._statement = statements[0]

    def answer(
        self, tables: Mapping[str, pa.Table], stored: ParquetView | None = None
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]:
        """Names of the columns, and the rows, which come as they are asked for, and may raise `UsageError` too."""
        columns = self._waited(lambda: self._begun(tables, stored))
        return columns, self._rows()

    def _begun(self, tables: Mapping[str, pa.Table], stored: ParquetView | None) -> tuple[str, ...]:
        if stored is not None:
            _view(self._connection, stored)
        for name, table in tables.items():
            self._connection.register(name, table)
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._connection.execute(self._statement)
        return tuple(column[0] for column in self._connection.description or ())

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        while rows := self._waited(lambda: self._connection.fetchmany(_AT_ONCE)):
            yield from rows

    def _waited(self, work: Callable[[], _Result]) -> _Result:
        """What that returns, within the limits. Only the time in which it is waited for counts, and not what is done
        with the rows."""
        with _ONE_AT_A_TIME:
            started = monotonic()
            future: Future[_Result] = Future()
            try:
                _in_thread(future, work, self._limits.memory_bytes)
                while not wait([future], min(_LOOKED_AFTER, max(0.0, self._left_seconds - monotonic() + started))).done:
                    if monotonic() - started >= self._left_seconds:
                        took = f"took over {self._limits.max_seconds:g} seconds"
                        raise UsageError(f"the query {took}; ask for less, or give more with --max-seconds")
                return future.result()
            except duckdb.Error as error:
                raise self._refusal(error) from None
            except MemoryError:
                raise self._needs_more() from None
            finally:
                self._left_seconds -= monotonic() - started
                self._end(future)

    def _end(self, future: Future[Any]) -> None:
        """Interrupt what still runs; again and again, since an interruption before it began is forgotten."""
        for _ in range(_INTERRUPTIONS):
            if future.done():
                return
            self._connection.interrupt()
            wait([future], _ENDED_WITHIN / _INTERRUPTIONS)

    def _refusal(self, error: duckdb.Error) -> UsageError:
        if isinstance(error, duckdb.OutOfMemoryException):
            return self._needs_more()
        # The place is drawn under the query's text, on lines of their own.
        reason = str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]
        if not isinstance(error, _OF_THE_QUERY):
            plain, *quoted = re.split("['\"]", reason, maxsplit=1)
            if _NO_ROOM.search(plain):
                return self._needs_more()
            part = _PART.search(reason)
            reason = plain + ("…" if quoted else "") + (f" ({part.group()})" if part else "")
        return UsageError(f"the query cannot be answered: {' '.join(reason.split())}")

    def _needs_more(self) -> UsageError:
        needs = f"needs more than {self._limits.memory} of memory"
        return UsageError(f"the query {needs}; ask for less, or give more with --memory")


def _view(connection: duckdb.DuckDBPyConnection, view: ParquetView) -> None:
    if not view.files:
        typed = ", ".join(f"NULL::{type_} AS {name}" for name, type_ in view.columns)
        connection.execute(f"CREATE VIEW {view.name} AS SELECT {typed} WHERE false")
        return
    connection.execute("SET allowed_paths = $1", [list(view.files)])
    stored = connection.read_parquet(list(view.files), filename=True, hive_partitioning=False)
    (directory, _), *others = view.columns
    stored.project(", ".join([f"parse_path(filename)[-2] AS {directory}", *(name for name, _ in others)])).create_view(
        view.name
    )


def _in_thread(future: Future[_Result], work: Callable[[], _Result], memory_bytes: int) -> None:
    """Fill the future by a thread that nobody waits for when the process ends, within that memory."""
    ceiling = ExitStack()
    # Before the thread begins: its stack has to have room under what a query that was left behind was given.
    ceiling.enter_context(_CEILING.over(memory_bytes))

    def working() -> None:
        try:
            with ceiling:
                result = work()
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            future.set_exception(error)
        else:
            future.set_result(result)

    try:
        threading.Thread(target=working, daemon=True, name=THREAD).start()
    except RuntimeError:
        ceiling.close()
        future.cancel()
        raise MemoryError from None


_BESIDE_BYTES: Final = 32 * 2**20
"""What other threads of the process may take while a query runs: its own memory is limited by DuckDB before."""


class _Ceiling:
    """Holds the process to what it has and what running queries may take, where the system can."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[int] = []
        self._had_bytes = 0
        self._limit_before = 0

    @contextmanager
    def over(self, n_bytes: int) -> Iterator[None]:
        """What runs here may take so much."""
        had_bytes = _data_bytes()
        if had_bytes is None:
            yield
            return
        import resource

        with self._lock:
            if not self._running:
                self._had_bytes, (self._limit_before, _) = 0, resource.getrlimit(resource.RLIMIT_DATA)
            # What queries that were left behind took since they began is had by now.
            self._had_bytes = max(self._had_bytes, had_bytes)
            self._running.append(n_bytes)
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(n_bytes)
                self._set()

    def _set(self) -> None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limits = [self._limit_before, hard]
        if self._running:
            limits.append(self._had_bytes + sum(self._running) + _BESIDE_BYTES)
        finite = [limit for limit in limits if limit != resource.RLIM_INFINITY]
        # Where a sandbox forbids it, DuckDB's own limit remains.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (min(finite, default=resource.RLIM_INFINITY), hard))


_CEILING: Final = _Ceiling()
_ONE_AT_A_TIME: Final = threading.Lock()
"""Held while something waits for DuckDB: what one query may take is the process's, and must not refuse another one its
connection or its thread."""


def _data_bytes() -> int | None:
    """Bytes that this process has for itself, and may write to; None where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
