"""SQL over complete runs, read-only: DuckDB reads their Parquet files (see `sql`).

The views of `results.views` have the numbers of reports; `measurements`, `cases` and `runs` what lies on the disk. A
view that is not a Parquet file is filled only where the query names it.

The query is the user's own; runs are data. File names and values reach DuckDB as values and never within a statement,
extensions are neither fetched nor loaded, no other file can be opened, one SELECT is all that is run, and it takes no
more memory and time than it may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from leakmeter.core import registry
from leakmeter.core.files import regular_file
from leakmeter.core.record import JsonObject
from leakmeter.engine.storage.catalogue import Taken, spec_of
from leakmeter.engine.storage.parts import PartReader
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.schema import SCHEMA, check_columns, stored_type
from leakmeter.errors import StoreError
from leakmeter.results.limits import DEFAULT_LIMITS, QueryLimits
from leakmeter.results.run import Run
from leakmeter.results.sql import ParquetView, SqlQuery
from leakmeter.results.views import (
    PIECES,
    QUANTITIES,
    RESULTS,
    RUN,
    TYPES,
    SqlColumn,
    filled,
    may_name_a_view,
    table_of,
    to_text,
    views,
)

STATISTICS: Final = "statistics"
_Row = JsonObject
"""Names of columns to what stands in them."""
_FIRST: Final = (RESULTS, PIECES, QUANTITIES)
"""Views that queries begin with."""
_WITHOUT_TEXTS: Final = frozenset((RESULTS, QUANTITIES, "measurements", "runs"))
_PATTERN: Final = re.compile(r"[*?\[]")
_ABOUT: Final = {
    "value": "in the unit beside it: token ids too, so name a unit or a statistic wherever values are summed",
    "statistic": "what was measured, such as 'whole'; the view statistics says what each means",
    "unit": "'nats', 'token id' of the drawn or given response (statistic 'token'), 'weight', 'count' …",
}
"""Of columns of measurements, what more than their Parquet files says who asks in SQL has to know."""


def _column(field: Any) -> SqlColumn:
    name = next(name for name, type_ in TYPES.items() if type_ == stored_type(field.type))
    return SqlColumn(field.name, name, _ABOUT.get(field.name) or field.metadata[b"about"].decode())


VIEWS: Final[Mapping[str, tuple[SqlColumn, ...]]] = {
    "measurements": (RUN, *(_column(field) for field in SCHEMA)),
    "cases": (
        RUN,
        SqlColumn("number", "INTEGER", "place of the case in its run, from 0"),
        SqlColumn("id", "VARCHAR", "what the case is called, as in measurements.item"),
        SqlColumn("query", "VARCHAR", "what was asked; null where there is no query"),
        SqlColumn("context", "VARCHAR", "the context as it was measured; null where there is none"),
        SqlColumn("response", "VARCHAR", "text of the first response; null where there is none"),
        SqlColumn("n_responses", "INTEGER", "number of responses"),
        SqlColumn("tree_tokens", "BIGINT", "tokens that were run for the case"),
        SqlColumn("naive_tokens", "BIGINT", "tokens that full passes would have run"),
        SqlColumn("seconds", "DOUBLE", "time the case took, seconds"),
        SqlColumn("out_of_memory_retries", "INTEGER", "how often memory ran out and the work was cut in halves"),
        SqlColumn("texts", "VARCHAR", "all that is kept of the case beside its measurements, as JSON"),
    ),
    "runs": (
        SqlColumn("id", "VARCHAR", "the hash of all that determines the numbers, behind the measure's name"),
        SqlColumn("measure", "VARCHAR", "name of the measure"),
        SqlColumn("model", "VARCHAR", "name or path of the model"),
        SqlColumn("weights_sha256", "VARCHAR", "hash of its weights; null of a model without files"),
        SqlColumn("dtype", "VARCHAR", "precision"),
        SqlColumn("device", "VARCHAR", "kind of device"),
        SqlColumn("version", "VARCHAR", "of leakmeter"),
        SqlColumn("parameters", "VARCHAR", "the measure's, as JSON"),
        SqlColumn("prompts", "VARCHAR", "how prompts were made, as JSON"),
        SqlColumn("environment", "VARCHAR", "versions of what computes, as JSON"),
        SqlColumn("command", "VARCHAR", "the command line; null of a run made in Python"),
        SqlColumn("name", "VARCHAR", "what the user calls the run; see --name"),
        SqlColumn(
            "data", "VARCHAR", "files that its cases came from; null where they are not known or may name people"
        ),
        SqlColumn("n_cases", "BIGINT", "number of cases"),
        SqlColumn("n_left_out", "BIGINT", "lines of the data that could not be used"),
        SqlColumn("seconds", "DOUBLE", "sum over the cases, seconds"),
    ),
    STATISTICS: (
        SqlColumn("measure", "VARCHAR", "name of the measure"),
        SqlColumn("statistic", "VARCHAR", "as in measurements; of a family, what names of its statistics begin with"),
        SqlColumn("unit", "VARCHAR", "as in measurements"),
        SqlColumn("about", "VARCHAR", "what it means"),
        SqlColumn(
            "per",
            "VARCHAR",
            "what measurements.piece names: 'piece' of a context, 'text', 'width', 'sigma'; "
            "'response' where it is empty",
        ),
        SqlColumn("over", "VARCHAR", "what measurements.position counts: 'token', 'label' …; 'number' of a single one"),
        SqlColumn("optional", "BOOLEAN", "whether a case may lack it"),
    ),
}
"""Columns, in order, of the views of what lies on the disk, and of what it means."""


def all_views() -> dict[str, tuple[SqlColumn, ...]]:
    result_views = views()
    return {**{name: result_views.pop(name) for name in _FIRST}, **VIEWS, **result_views}


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """Rows, which are computed as they are asked for."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    left_out: tuple[str, ...] = ()
    """Why runs are not in a view that the query names."""
    secrets: Callable[[], tuple[str, ...]] = tuple
    """Keys and passwords that were given away, of views that have texts."""


def ask(sql: str, runs: Sequence[Path], limits: QueryLimits = DEFAULT_LIMITS) -> SqlAnswer:
    """What a query, one SELECT over `all_views`, says of complete runs. A `UsageError` may come with later rows too."""
    query = SqlQuery(sql, limits, (*_FIRST, *VIEWS))
    query_text = sql.lower()
    tables: dict[str, pa.Table] = {}
    left_out: list[str] = []
    measurements = _measurements(runs if "measurements" in query_text else ())
    if any(name in query_text for name in ("cases", "runs")):
        tables |= _filled(runs)
    if STATISTICS in query_text:
        tables[STATISTICS] = _statistics()
    if may_name_a_view(sql):
        named_views = {name: columns for name, columns in views().items() if name in query_text}
        typed, left_out = filled([Run.read(path) for path in runs], named_views)
        tables |= typed
    columns, rows = query.answer(tables, measurements)

    def secrets() -> tuple[str, ...]:
        if not any(name in query_text for name in {*VIEWS, *views()} - _WITHOUT_TEXTS):
            return ()
        cases = (case for path in runs for case in Run.read(path).cases)
        return tuple(dict.fromkeys(secret for case in cases for secret in case.secrets))

    return SqlAnswer(columns, rows, tuple(left_out), secrets)


def ask_tables(sql: str, tables: Mapping[str, pa.Table], limits: QueryLimits = DEFAULT_LIMITS) -> SqlAnswer:
    """As `ask`, of tables in memory."""
    columns, rows = SqlQuery(sql, limits, tuple(tables)).answer(tables)
    return SqlAnswer(columns, rows)


def _measurements(runs: Sequence[Path]) -> ParquetView:
    """The view of the parts of runs, which are looked at first: DuckDB takes the columns of the first file for those of
    all, and does not say which is damaged."""
    files: list[str] = []
    for run in map(RunDirectory, runs):
        place = run.path.resolve()
        for part in run.numbers:
            if _PATTERN.search(str(place)):
                raise StoreError(
                    f"'{place.parent}' has one of * ? [ in its name, which DuckDB reads as a pattern; rename it, or "
                    "link to it"
                )
            with run.reading(part.name), regular_file(part) as file:
                check_columns(pq.read_schema(file))
            files.append(str(place / part.name))
    return ParquetView("measurements", [(column.name, column.type) for column in VIEWS["measurements"]], files)


def _statistics() -> pa.Table:
    """What the numbers of every measure mean that says so."""
    rows = [
        (name, str(statistic), statistic.unit, statistic.about, statistic.per, statistic.over, statistic.optional)
        for name in registry.instruments()
        if (statistics := registry.instrument(name).measure.statistics) is not None
        for statistic in statistics.all()
    ]
    return table_of(VIEWS[STATISTICS], rows)


def _filled(paths: Iterable[Path]) -> dict[str, pa.Table]:
    cases: list[_Row] = []
    runs: list[_Row] = []
    for path in paths:
        of_run = list(_cases(RunDirectory(path)))
        cases += of_run
        runs.append(_run(RunDirectory(path), sum(row["seconds"] for row in of_run)))
    return {
        name: table_of(VIEWS[name], [[row[column.name] for column in VIEWS[name]] for row in rows])
        for name, rows in (("cases", cases), ("runs", runs))
    }


def _cases(run: RunDirectory) -> Iterator[_Row]:
    reader, number = PartReader.of_run(run), 0
    for part in run.parts:
        for case in reader.texts(part):
            texts = case["responses"]
            first = texts[0]["text"] if texts else None
            yield {
                "run": run.path.resolve().name,
                "number": number,
                "id": case.get("id"),
                "query": case.get("query"),
                "context": case.get("context"),
                "response": first,
                "n_responses": len(texts),
                **asdict(Taken.from_cases([case])),
                "texts": to_text(case),
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
        "parameters": to_text(spec.params),
        "prompts": to_text(spec.prompts),
        "environment": to_text(spec.environment),
        "command": spec.command,
        "name": spec.name,
        "data": spec.data,
        "n_cases": len(spec.cases),
        "n_left_out": len(spec.problems),
        "seconds": seconds,
    }
