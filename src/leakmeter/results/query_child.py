"""Answers one query in a process of its own, which takes no more memory than it may: run by `query_process`.

It imports DuckDB, pyarrow where tables come with the query, and nothing of leakmeter. Standard input has a line of JSON
and the tables as Arrow streams, and stays open: where it ends, whoever asked has gone. Standard output gets lines of
JSON: the columns, rows, and how it ended.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, Any, Final
from uuid import UUID

import duckdb

_SHUT_OFF: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a name that is no table would be looked up among Python's variables
    "temp_directory": "",  # what does not fit into memory would be written beside the user's files
}
_AT_ONCE: Final = 1_000
_OF_DUCKDB: Final = 0.75
"""Share of the memory that DuckDB may count for itself: its own error comes first where it does count."""
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
_PLAIN: Final = frozenset((type(None), bool, int, float, str))


class RefusedError(Exception):
    """The query is none that is answered; says why."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked is interrupted too, and ends this process
    stdin, out = sys.stdin.buffer, sys.stdout.buffer
    header = json.loads(stdin.readline())
    try:
        for message in _answered(header, stdin):
            out.write(json.dumps(message).encode() + b"\n")
            out.flush()
    except BrokenPipeError:
        os._exit(1)
    except (MemoryError, duckdb.OutOfMemoryException):
        os.write(1, b'{"memory": true}\n')
    except RefusedError as error:
        out.write(json.dumps({"refused": str(error)}).encode() + b"\n")
    except Exception:  # noqa: BLE001 - who asked tells of it as of its own
        out.write(json.dumps({"failed": traceback.format_exc()}).encode() + b"\n")
    out.flush()
    # Threads of a query that was given up are not waited for.
    os._exit(0)


def _answered(request: dict[str, Any], stdin: IO[bytes]) -> Iterator[dict[str, Any]]:
    memory = int(request["memory_bytes"] * _OF_DUCKDB)
    connection = duckdb.connect(config=_SHUT_OFF | {"memory_limit": f"{memory // 1000}kB"})
    tables = {}
    if request["tables"]:
        import pyarrow.ipc  # seldom needed, and takes as long to load as DuckDB

        tables = {name: pyarrow.ipc.open_stream(stdin.read(n_bytes)).read_all() for name, n_bytes in request["tables"]}
    threading.Thread(target=_end_with, args=(stdin,), daemon=True).start()
    _limit_memory(request["memory_bytes"])
    with _as_refusals():
        statements = connection.extract_statements(request["sql"])
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = " and ".join(statement.type.name for statement in statements) or "empty"
        raise RefusedError(f"the query is {kinds}; give one SELECT, over {', '.join(request['views'])}")
    if request["measurements"] is not None:
        _view_measurements(connection, request["measurements"], request["files"])
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    with _as_refusals():
        connection.execute(statements[0])
        yield {"columns": [column[0] for column in connection.description or ()]}
        while rows := connection.fetchmany(_AT_ONCE):
            yield {"rows": [[value if type(value) in _PLAIN else written(value) for value in row] for row in rows]}
    yield {"end": True}


def _view_measurements(connection: duckdb.DuckDBPyConnection, columns: list[list[str]], files: list[str]) -> None:
    if not files:
        typed = ", ".join(f"NULL::{type_} AS {name}" for name, type_ in columns)
        connection.execute(f"CREATE VIEW measurements AS SELECT {typed} WHERE false")
    else:
        connection.execute("SET allowed_paths = $1", [files])
        with _as_refusals():
            stored = connection.read_parquet(files, filename=True, hive_partitioning=False)
            # The name of a run's directory is its id.
            named = ["parse_path(filename)[-2] AS run", *(name for name, _ in columns[1:])]
            stored.project(", ".join(named)).create_view("measurements")


@contextmanager
def _as_refusals() -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        if not isinstance(error, _OF_THE_QUERY) and _NO_ROOM.search(str(error)):
            raise MemoryError from None
        # The place is drawn under the query's text, on lines of their own.
        reason = str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]
        if not isinstance(error, _OF_THE_QUERY):
            plain, *quoted = re.split("['\"]", reason, maxsplit=1)
            part = _PART.search(reason)
            reason = plain + ("…" if quoted else "") + (f" ({part.group()})" if part else "")
        raise RefusedError(f"the query cannot be answered: {' '.join(reason.split())}") from None


def _limit_memory(n_bytes: int) -> None:
    """Limit what this process may allocate beyond what it has, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hardest = resource.getrlimit(resource.RLIMIT_AS)
        most = _address_space() + n_bytes
        if hardest not in (-1, resource.RLIM_INFINITY):
            most = min(most, hardest)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _address_space() -> int:
    """Bytes of address space of this process; 0 where unknown."""
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as sizes:
        return int(sizes.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _end_with(stdin: IO[bytes]) -> None:
    """End this process when standard input ends."""
    while stdin.read(1):
        pass
    os._exit(1)


def written(value: Any) -> Any:
    """A value as JSON, which `query_process.read` undoes: the only key of an object names a type."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list):
        return [written(inner) for inner in value]
    if isinstance(value, tuple):
        return {"tuple": [written(inner) for inner in value]}
    if isinstance(value, dict):
        return {"dict": [[written(key), written(inner)] for key, inner in value.items()]}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, datetime | date | time):
        return {type(value).__name__: value.isoformat()}
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, Decimal | UUID):
        return {type(value).__name__: str(value)}
    return str(value)


if __name__ == "__main__":
    main()
