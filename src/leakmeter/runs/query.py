"""SQL over complete runs, read-only: DuckDB reads their Parquet files, and is shut off from everything else.

The views of `runs.views` have the numbers of reports; `measurements`, `cases` and `runs` what lies on the disk. A view
that is not a Parquet file is filled only where the query names it.

The query is the user's own; runs are data. File names and values reach DuckDB as values and never within a statement,
extensions are neither fetched nor loaded, no other file can be opened, and one SELECT is all that is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa

from leakmeter.core.json_object import JsonObject
from leakmeter.errors import StoreError, UsageError
from leakmeter.runs.catalogue import Taken, spec_of
from leakmeter.runs.run import Run
from leakmeter.runs.rundir import RunDirectory
from leakmeter.runs.schema import SCHEMA
from leakmeter.runs.views import PIECES, QUANTITIES, RESULTS, RUN, TYPES, Column, filled, may_name_a_view, views

_T = TypeVar("_T")
_Row = JsonObject
"""Names of columns to what stands in them."""
_SHUT_OFF: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a name that is no table would be looked up among Python's variables
    "temp_directory": "",  # what does not fit into memory would be written beside the user's files
}
_FIRST: Final = (RESULTS, PIECES, QUANTITIES)
"""Views that queries begin with."""
_PATTERN: Final = re.compile(r"[*?\[]")
_AT_ONCE: Final = 10_000
_LOOK_SECONDS: Final = 0.1
_PART: Final = re.compile(r"[\w-]+/(?:measurements|readings)-\d+\.parquet")
# These quote the query itself; everything else that goes wrong may quote what was read.
_OF_THE_QUERY: Final = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.PermissionException,
)

_ABOUT: Final = {
    "value": "in the unit beside it: token ids too, so name a unit or a statistic wherever values are summed",
    "unit": "'nats', 'token id' of the drawn or given response (statistic 'token'), 'weight', 'count' …",
}
"""Of columns of measurements, what more than their Parquet files says who asks in SQL has to know."""


def _column(field: Any) -> Column:
    stored = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    name = next(name for name, type_ in TYPES.items() if type_ == stored)
    return Column(field.name, name, _ABOUT.get(field.name) or field.metadata[b"about"].decode())


VIEWS: Final[Mapping[str, tuple[Column, ...]]] = {
    "measurements": (RUN, *(_column(field) for field in SCHEMA)),
    "cases": (
        RUN,
        Column("number", "INTEGER", "place of the case in its run, from 0"),
        Column("id", "VARCHAR", "what the case is called, as in measurements.item"),
        Column("query", "VARCHAR", "what was asked; null where there is no query"),
        Column("context", "VARCHAR", "the context as it was measured; null where there is none"),
        Column("response", "VARCHAR", "text of the first response; null where there is none"),
        Column("n_responses", "INTEGER", "number of responses"),
        Column("tree_tokens", "BIGINT", "tokens that were run for the case"),
        Column("naive_tokens", "BIGINT", "tokens that full passes would have run"),
        Column("seconds", "DOUBLE", "time the case took, seconds"),
        Column("out_of_memory_retries", "INTEGER", "how often memory ran out and the work was cut in halves"),
        Column("texts", "VARCHAR", "all that is kept of the case beside its measurements, as JSON"),
    ),
    "runs": (
        Column("id", "VARCHAR", "the hash of all that determines the numbers, behind the measure's name"),
        Column("measure", "VARCHAR", "name of the measure"),
        Column("model", "VARCHAR", "name or path of the model"),
        Column("weights_sha256", "VARCHAR", "hash of its weights; null of a model without files"),
        Column("dtype", "VARCHAR", "precision"),
        Column("device", "VARCHAR", "kind of device"),
        Column("version", "VARCHAR", "of leakmeter"),
        Column("parameters", "VARCHAR", "the measure's, as JSON"),
        Column("prompts", "VARCHAR", "how prompts were made, as JSON"),
        Column("environment", "VARCHAR", "versions of what computes, as JSON"),
        Column("command", "VARCHAR", "the command line; null of a run made in Python"),
        Column("name", "VARCHAR", "what the user calls the run; see --name"),
        Column("data", "VARCHAR", "files that its cases came from; null where they are not known or may name people"),
        Column("n_cases", "BIGINT", "number of cases"),
        Column("n_left_out", "BIGINT", "lines of the data that could not be used"),
        Column("seconds", "DOUBLE", "sum over the cases, seconds"),
    ),
}
"""Columns, in order, of the views of what lies on the disk."""


def all_views() -> dict[str, tuple[Column, ...]]:
    """Every view's columns, in order."""
    made = views()
    return {**{name: made.pop(name) for name in _FIRST}, **VIEWS, **made}


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, which are computed as they are asked for."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    left_out: tuple[str, ...] = ()
    """Why runs are not in a view that the query names."""


def ask(
    sql: str, runs: Sequence[Path], *, memory: str | None = None, check: Callable[[], None] | None = None
) -> Answer:
    """What a query says of complete runs.

    Args:
        sql: one SELECT over `all_views`.
        runs: their directories.
        memory: that DuckDB may take, such as '1GB'; most of the machine's where None.
        check: called now and then while DuckDB works, which ends by what it raises.

    Raises:
        UsageError: a query that is no single SELECT, or that DuckDB cannot answer; rows that come later may raise it
            too.
        StoreError: a run cannot be read.
    """
    connection, statement = _opened(sql, (*_FIRST, *VIEWS), memory)
    _view_measurements(connection, runs)
    # Its name in version 0.1, for one release.
    connection.execute("CREATE VIEW readings AS SELECT * FROM measurements")
    asked = sql.lower()
    tables: dict[str, pa.Table] = {}
    left_out: list[str] = []
    if any(name in asked for name in ("cases", "runs")):
        tables |= _filled(runs)
    if may_name_a_view(sql):
        wanted = {name: columns for name, columns in views().items() if name in asked}
        typed, left_out = filled([Run.read(path) for path in runs], wanted)
        tables |= typed
    return _answer(connection, statement, tables, left_out, check)


def ask_tables(sql: str, tables: Mapping[str, pa.Table]) -> Answer:
    """What a query says of tables in memory.

    Args:
        sql: one SELECT.
        tables: by the names that it has for them.

    Raises:
        UsageError: see `ask`.
    """
    connection, statement = _opened(sql, tables)
    return _answer(connection, statement, tables)


def _opened(
    sql: str, views: Iterable[str], memory: str | None = None
) -> tuple[duckdb.DuckDBPyConnection, duckdb.Statement]:
    """A connection that is shut off, and the query's one statement."""
    connection = duckdb.connect(config=_SHUT_OFF | ({} if memory is None else {"memory_limit": memory}))
    with _as_usage_errors():
        statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = " and ".join(statement.type.name for statement in statements) or "empty"
        raise UsageError(f"the query is {kinds}; give one SELECT, over {', '.join(views)}")
    return connection, statements[0]


def _answer(
    connection: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    tables: Mapping[str, pa.Table],
    left_out: Sequence[str] = (),
    check: Callable[[], None] | None = None,
) -> Answer:
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    with _as_usage_errors():
        _interruptible(connection, partial(connection.execute, statement), check)
        columns = tuple(column[0] for column in connection.description or ())
    return Answer(columns, _rows(connection, check), tuple(left_out))


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


def _rows(connection: duckdb.DuckDBPyConnection, check: Callable[[], None] | None) -> Iterator[tuple[Any, ...]]:
    while True:
        with _as_usage_errors():
            rows = _interruptible(connection, partial(connection.fetchmany, _AT_ONCE), check)
        if not rows:
            return
        yield from rows


def _interruptible(
    connection: duckdb.DuckDBPyConnection, work: Callable[[], _T], check: Callable[[], None] | None
) -> _T:
    """What DuckDB answers; an interrupt ends its work at once, where it would otherwise be heard when all is done."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(work)
        try:
            while check is not None and not wait([answer], _LOOK_SECONDS).done:
                check()
            return answer.result()
        except BaseException:
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
            plain, *quoted = re.split("['\"]", reason, maxsplit=1)
            part = _PART.search(reason)
            reason = plain + ("…" if quoted else "") + (f" ({part.group()})" if part else "")
        raise UsageError(f"the query cannot be answered: {' '.join(reason.split())}") from None


def _filled(paths: Iterable[Path]) -> dict[str, pa.Table]:
    cases: list[_Row] = []
    runs: list[_Row] = []
    for path in paths:
        of_run = list(_cases(RunDirectory(path)))
        cases += of_run
        runs.append(_run(RunDirectory(path), sum(row["seconds"] for row in of_run)))
    return {name: _table(name, rows) for name, rows in (("cases", cases), ("runs", runs))}


def _cases(run: RunDirectory) -> Iterator[_Row]:
    number = 0
    for part in run.parts:
        for case in run.read_texts(part):
            responses = case.get("responses")
            texts = responses if isinstance(responses, list) else []
            first = texts[0].get("text") if texts and isinstance(texts[0], dict) else None
            yield {
                "run": run.path.resolve().name,
                "number": number,
                "id": case.get("id"),
                "query": case.get("query"),
                "context": case.get("context"),
                "response": first,
                "n_responses": len(texts),
                **asdict(Taken.of([case])),
                "texts": _json(case),
            }
            number += 1


def _run(run: RunDirectory, seconds: float) -> _Row:
    spec = spec_of(run)
    return {
        "id": run.path.resolve().name,
        "measure": spec.measure,
        "model": spec.model.get("name"),
        **{name: spec.model.get(name) for name in ("weights_sha256", "dtype", "device")},
        "version": spec.version,
        "parameters": _json(spec.params),
        "prompts": _json(spec.prompts),
        "environment": _json(spec.environment),
        "command": spec.command,
        "name": spec.name,
        "data": spec.data,
        "n_cases": len(spec.cases),
        "n_left_out": len(spec.problems),
        "seconds": seconds,
    }


def _table(view: str, rows: list[_Row]) -> pa.Table:
    columns = VIEWS[view]
    arrays = [pa.array([_fitting(row[c.name], c) for row in rows], type=TYPES[c.type]) for c in columns]
    return pa.Table.from_arrays(arrays, names=[c.name for c in columns])


def _fitting(value: Any, column: Column) -> Any:
    """Text where a column holds texts: a measure of another package may keep something else under the name."""
    return value if column.type != "VARCHAR" or isinstance(value, str | None) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
