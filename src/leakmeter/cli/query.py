"""`leakmeter runs query`: SQL over finished runs."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.core.plain import csv_writer, excerpt, visible
from leakmeter.errors import StoreError, UsageError
from leakmeter.results.query_process import DEFAULT_LIMITS, Limits

LimitOptions = Annotated[Limits, Parameter(name="*")]
SCHEMA_COLUMNS: Final = ("view", "column", "type", "about")
_SHOWN_ROWS: Final = 100
_WIDEST: Final = 80


def query(
    sql: str | None = None,
    /,
    *,
    runs: Path = Path("runs"),
    schema: Flag = False,
    json: Flag = False,
    csv: Flag = False,
    limits: LimitOptions = DEFAULT_LIMITS,
) -> None:
    """Query finished runs in SQL.

    The numbers of reports are in results (one row per case), pieces (one row per piece of a context or exemplar) and
    quantities (one row per number of a run, with its interval). For example: "select item, piece, nats, posterior from
    pieces order by nats desc", or "select quantity, value, low, high, unit from quantities". Each measure's own
    results, and their parts, are views too. Settings are in runs, texts in cases. The raw values of all response tokens
    are in measurements, which holds token ids as well as nats; its columns unit and statistic distinguish them. DuckDB
    answers the query; it reads only the runs and changes nothing.

    Parameters
    ----------
    sql
        One SELECT.
    runs
        Directory of runs, or one run; or its URL in an object store.
    schema
        Show the columns of all views, their types and units instead.
    json
        Write one JSON object a row; null is missing, and an infinite number the text "Infinity".
    csv
        Write comma-separated values, with a line of names first.
    """
    check_options(sql, schema=schema, json=json, csv=csv)
    if sql is not None:
        columns, rows = _answer(sql, runs, limits)
        write_rows(columns, rows, json=json, csv=csv)
        return
    from leakmeter.results.query import all_views

    about = (
        (view, column.name, column.type, column.about) for view, columns in all_views().items() for column in columns
    )
    if json or csv:
        write_rows(SCHEMA_COLUMNS, about, json=json, csv=csv)
    else:
        _show_schema(about)


def check_options(sql: str | None, *, schema: bool, json: bool, csv: bool) -> None:
    if json and csv:
        raise UsageError("--json and --csv do not go together; give one of them")
    if schema == (sql is not None):
        raise UsageError("give either a query, in quotation marks, or --schema")


def write_rows(columns: Sequence[str], rows: Iterator[Sequence[Any]], *, json: bool, csv: bool) -> None:
    """Rows on standard output: as objects, as fields with commas between them, or as a table of the first ones."""
    if json:
        _write_json(columns, rows)
    elif csv:
        _write_csv(columns, rows)
    else:
        _write_table(columns, rows)


def _show_schema(rows: Iterable[Sequence[Any]]) -> None:
    from rich.table import Table

    for view, view_rows in groupby(rows, key=itemgetter(0)):
        table = Table(box=None, pad_edge=False, show_header=False, title=view, title_justify="left", title_style="bold")
        for fixed in (True, True, False):
            table.add_column(no_wrap=fixed)
        for _, *cells in view_rows:
            table.add_row(*cells)
        output.console().print(table)


def _answer(sql: str, root: Path, limits: Limits) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    from leakmeter.results.query import ask
    from leakmeter.storage.catalogue import complete_runs

    run_paths, problems = complete_runs(root)
    if problems:
        n = len(problems)
        output.tell(f"left out {n} damaged run{'s' if n > 1 else ''}; the first: {problems[0]}")
    if not run_paths:
        raise StoreError(f"no finished run under '{root}'; name their directory with --runs")
    answer = ask(sql, run_paths, limits)
    for problem in answer.left_out:
        output.tell(f"left out {problem}")
    return answer.columns, answer.rows


def _write_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    if again := next((name for i, name in enumerate(columns) if name in columns[:i]), None):
        raise UsageError(f"two columns have the name '{again}', which a JSON object cannot hold; rename one with AS")
    for row in rows:
        output.print_json({name: _plain(value) for name, value in zip(columns, row, strict=True)})


def _write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv_writer(sys.stdout)
    writer.writerow(columns)
    is_terminal = sys.stdout.isatty()
    for row in rows:
        cells = map(_cell, row)
        writer.writerow([visible(cell) if is_terminal and isinstance(cell, str) else cell for cell in cells])


def _write_table(columns: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    first = list(islice(rows, _SHOWN_ROWS))
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = bool(first) and all(isinstance(row[number], (int, float, Decimal, type(None))) for row in first)
        table.add_column(Text(excerpt(name, _WIDEST)), justify="right" if numeric else "left", no_wrap=True)
    for row in first:
        table.add_row(*(Text(_shown(value)) for value in row))
    output.console().print(table)
    if next(rows, None) is not None:
        output.tell(f"the first {_SHOWN_ROWS} rows; --json or --csv writes all")


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else excerpt(str(value), _WIDEST)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value.hex() if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> Any:
    """A value as a field of a CSV file; nothing where there is none."""
    if value is None:
        return ""
    if isinstance(value, (bool, list, tuple, dict, bytes)):
        return json_format.dumps(_plain(value), ensure_ascii=False)
    return float(value) if isinstance(value, Decimal) else value if isinstance(value, (int, float)) else str(value)
