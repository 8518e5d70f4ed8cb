"""SQL over complete runs, read-only: DuckDB reads their Parquet files, and is shut off from everything else.

The query is the user's own; runs are data. File names and values reach DuckDB as values and never within a statement,
extensions are neither fetched nor loaded, no other file can be opened, and one SELECT is all that is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb

from leakmeter.errors import StoreError, UsageError
from leakmeter.runs.rundir import RunDirectory
from leakmeter.runs.views import VIEWS, filled

_T = TypeVar("_T")
_SHUT_OFF: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a name that is no table would be looked up among Python's variables
    "temp_directory": "",  # what does not fit into memory would be written beside the user's files
}
_PATTERN: Final = re.compile(r"[*?\[]")
_AT_ONCE: Final = 10_000
_PART: Final = re.compile(r"[\w-]+/(?:measurements|readings)-\d+\.parquet")
# These quote the query itself; everything else that goes wrong may quote what was read.
_OF_THE_QUERY: Final = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.PermissionException,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, which are computed as they are asked for."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def ask(sql: str, runs: Sequence[Path]) -> Answer:
    """What a query says of complete runs.

    Args:
        sql: one SELECT over the views of `runs.views`.
        runs: their directories.

    Raises:
        UsageError: a query that is no single SELECT, or that DuckDB cannot answer; rows that come later may raise it
            too.
        StoreError: a run cannot be read.
    """
    connection = duckdb.connect(config=_SHUT_OFF)
    with _as_usage_errors():
        statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = " and ".join(statement.type.name for statement in statements) or "empty"
        raise UsageError(f"the query is {kinds}; give one SELECT, over {', '.join(VIEWS)}")
    _view_measurements(connection, runs)
    # Its name in version 0.1, for one release.
    connection.execute("CREATE VIEW readings AS SELECT * FROM measurements")
    if any(name in sql.lower() for name in ("cases", "runs")):
        for name, table in filled(runs).items():
            connection.register(name, table)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    with _as_usage_errors():
        _interruptible(connection, partial(connection.execute, statements[0]))
        columns = tuple(column[0] for column in connection.description or ())
    return Answer(columns, _rows(connection))


def _view_measurements(connection: duckdb.DuckDBPyConnection, runs: Sequence[Path]) -> None:
    columns = VIEWS["measurements"]
    files = [str(part) for run in runs for part in RunDirectory(run.resolve()).numbers]
    if not files:
        typed = ", ".join(f"NULL::{column.type} AS {column.name}" for column in columns)
        connection.execute(f"CREATE VIEW measurements AS SELECT {typed} WHERE false")
        return
    if where := next((run.resolve().parent for run in runs if _PATTERN.search(str(run.resolve()))), None):
        raise StoreError(f"'{where}' has one of * ? [ in its name, which DuckDB reads as a pattern; rename or link it")
    connection.execute("SET allowed_paths = $1", [files])
    with _as_usage_errors():
        stored = connection.read_parquet(files, filename=True, hive_partitioning=False)
        # The name of a run's directory is its id.
        named = ["parse_path(filename)[-2] AS run", *(column.name for column in columns[1:])]
        stored.project(", ".join(named)).create_view("measurements")


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while True:
        with _as_usage_errors():
            rows = _interruptible(connection, partial(connection.fetchmany, _AT_ONCE))
        if not rows:
            return
        yield from rows


def _interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], _T]) -> _T:
    """What DuckDB answers; an interrupt ends its work at once, where it would otherwise be heard when all is done."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(work)
        try:
            return answer.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        # The place is drawn under the query's text, on lines of their own.
        reason = str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]
        if not isinstance(error, _OF_THE_QUERY):
            told, *quoted = re.split("['\"]", reason, maxsplit=1)
            part = _PART.search(reason)
            reason = told + ("…" if quoted else "") + (f" ({part.group()})" if part else "")
        raise UsageError(f"the query cannot be answered: {' '.join(reason.split())}") from None
