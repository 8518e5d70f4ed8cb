"""`leakmeter runs query`: SQL over finished runs."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import FlagOption
from leakmeter.commands.rows import print_rows
from leakmeter.core.plain import csv_writer, excerpt, visible
from leakmeter.errors import StoreError, UsageError
from leakmeter.results.limits import DEFAULT_LIMITS, QueryLimits
from leakmeter.text.entities.secrets import find, hidden

if TYPE_CHECKING:
    from leakmeter.results.query import SqlAnswer

LimitOptions = Annotated[QueryLimits, Parameter(name="*")]
SCHEMA_COLUMNS: Final = ("view", "column", "type", "about")
_SHOWN_ROWS: Final = 100
_WIDEST: Final = 80
_SEARCHED: Final = 4000
"""Characters of a value that are searched for secrets: more than those of which some are shown."""


def query(
    sql: str | None = None,
    /,
    *,
    runs: Path = Path("runs"),
    schema: FlagOption = False,
    json: FlagOption = False,
    csv: FlagOption = False,
    show_secrets: FlagOption = False,
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
    show_secrets
        Write keys and passwords whole into a table; otherwise it has their first characters alone.
    """
    check_options(sql, schema=schema, json=json, csv=csv)
    if sql is not None:
        answer = _answer(sql, runs, limits)
        # JSON and CSV are data, and have keys and passwords whole, as the run has.
        secrets = None if json or csv or show_secrets else answer.secrets()
        write_rows(answer.columns, answer.rows, json=json, csv=csv, secrets=secrets)
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


def write_rows(
    columns: Sequence[str], rows: Iterator[Sequence[Any]], *, json: bool, csv: bool, secrets: Sequence[str] | None = ()
) -> None:
    """Rows on standard output: as objects, as fields with commas between them, or as a table of the first ones in which
    these secrets, and all that looks like one, are not to be read; None shows them."""
    if json:
        _write_json(columns, rows)
    elif csv:
        _write_csv(columns, rows)
    else:
        _write_table(columns, rows, secrets)


def _show_schema(rows: Iterable[Sequence[Any]]) -> None:
    from rich.table import Table

    for view, view_rows in groupby(rows, key=itemgetter(0)):
        table = Table(box=None, pad_edge=False, show_header=False, title=view, title_justify="left", title_style="bold")
        for fixed in (True, True, False):
            table.add_column(no_wrap=fixed)
        for _, *cells in view_rows:
            table.add_row(*cells)
        output.console().print(table)


def _answer(sql: str, root: Path, limits: QueryLimits) -> SqlAnswer:
    from leakmeter.engine.storage.catalogue import complete_runs
    from leakmeter.results.query import ask

    run_paths, problems = complete_runs(root)
    if problems:
        n = len(problems)
        output.tell(f"left out {n} damaged run{'s' if n > 1 else ''}; the first: {next(iter(problems.values()))}")
    if not run_paths:
        raise StoreError(f"no finished run under '{root}'; name their directory with --runs")
    answer = ask(sql, run_paths, limits)
    for problem in answer.left_out:
        output.tell(f"left out {problem}")
    return answer


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


def _write_table(columns: Sequence[str], rows: Iterator[Sequence[Any]], secrets: Sequence[str] | None) -> None:
    first = list(islice(rows, _SHOWN_ROWS))
    secrets = () if secrets is None else (*secrets, *_secrets(first))
    names = [excerpt(name, _WIDEST) for name in columns]
    cells = [[_shown(value, secrets) for value in row] for row in first]
    numeric = [
        bool(first) and all(isinstance(row[number], (int, float, Decimal, type(None))) for row in first)
        for number in range(len(columns))
    ]
    print_rows(names, cells, numeric)
    if next(rows, None) is not None:
        output.tell(f"the first {_SHOWN_ROWS} rows; --json or --csv writes all")


def _secrets(rows: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    texts = [value[:_SEARCHED] for row in rows for value in row if isinstance(value, str)]
    # What is one word may be an id, and look like a key.
    found = find("\n".join(text for text in texts if " " in text), by_shape=True)
    return (*found, *find("\n".join(text for text in texts if " " not in text), by_shape=False))


def _shown(value: Any, secrets: Sequence[str]) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    # Before the excerpt, which may cut a secret in two.
    return excerpt(hidden(str(value), secrets) if secrets else str(value), _WIDEST)


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
