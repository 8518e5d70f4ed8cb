"""The page that asks the runs in SQL: one SELECT, shut off from everything but their numbers and texts."""

from __future__ import annotations

import asyncio
import csv
import io
import threading
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from leakmeter.errors import UsageError
from leakmeter.report import blocks as b
from leakmeter.report import html
from leakmeter.serve.bodies import json_object
from leakmeter.serve.pages import environment, show
from leakmeter.serve.serving import serving_of

ROWS: Final = 500
"""Shown of a table."""
_CSV_ROWS: Final = 1_000_000
_SECONDS: Final = 60.0
_MEMORY: Final = "1GB"
_AT_ONCE: Final = threading.Semaphore(2)
"""Queries that are answered at a time."""
_WIDEST: Final = 400
_ONCE: Final = threading.Lock()
_EXAMPLES: Final = (
    "select item, piece, nats, posterior from pieces order by nats desc limit 20",
    "select run, quantity, value, low, high, unit from quantities order by run",
    "select id, name, measure, model, n_cases, seconds from runs",
)
_Rows = list[tuple[Any, ...]]


async def page(request: Request) -> Response:
    """The page, with a query that the address may hold."""
    given = request.query_params.get("sql", "")[:10_000]
    columns = await run_in_threadpool(views)
    return show(request, "sql.html.j2", sql=given or _EXAMPLES[0], examples=_EXAMPLES, views=columns, n_rows=ROWS)


def views() -> Markup:
    """The columns of all views, as the page has them; made once, which imports every instrument."""
    with _ONCE:
        return _views_once()


@lru_cache(maxsize=1)
def _views_once() -> Markup:
    from leakmeter.runs.query import all_views

    return Markup(environment().get_template("views.html.j2").render(views=all_views()))


async def rows(request: Request) -> Response:
    """The first rows of what a query says."""
    columns, found, left_out = await _answered(request, ROWS + 1)
    shown = found[:ROWS]
    said = f"{len(shown):,} row{'' if len(shown) == 1 else 's'}"
    if len(found) > ROWS:
        said = f"The first {ROWS:,} rows; the file has all."
    table = b.Table(
        [b.Column(b.Untrusted(name), _kind(shown, at)) for at, name in enumerate(columns)],
        [b.Row([_cell(value) for value in row]) for row in shown],
        first=ROWS,
        first_on_pages=ROWS,
        open_on_pages=ROWS,
        rest=("row", "rows"),
    )
    problems = [b.Warning(("Left out: ", b.Untrusted(one, 300))) for one in left_out]
    return JSONResponse({"html": html.fragment([*problems, table]) if columns else "", "said": said})


async def as_csv(request: Request) -> Response:
    """All rows as comma-separated values."""
    columns, found, _ = await _answered(request, _CSV_ROWS + 1)
    if len(found) > _CSV_ROWS:
        raise UsageError(f"the answer has more than {_CSV_ROWS:,} rows; add a LIMIT, or ask with `leakmeter query`")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    writer.writerows(found)
    return Response(
        text.getvalue().encode(errors="replace"),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": 'attachment; filename="rows.csv"'},
    )


def _kind(rows: _Rows, at: int) -> b.Kind:
    numeric = all(isinstance(row[at], int | float | Decimal | None) for row in rows)
    return "number" if rows and numeric else "text"


def _cell(value: object) -> b.Cell:
    if value is None:
        return ""
    return b.Untrusted(f"{value:.6g}" if isinstance(value, float) else str(value), _WIDEST)


async def _answered(request: Request, most: int) -> tuple[Sequence[str], _Rows, Sequence[str]]:
    """What a query says; it is given up when its browser goes, and after a minute.

    Raises:
        LeakmeterError: the query cannot be answered.
    """
    sql = (await json_object(request)).get("sql")
    if not isinstance(sql, str) or not sql.strip():
        raise UsageError("sql has to be a query")
    gone, ends = threading.Event(), time.monotonic() + _SECONDS

    def check() -> None:
        if gone.is_set():
            raise UsageError("the query was given up")
        if time.monotonic() > ends:
            raise UsageError(f"the query took over {_SECONDS:.0f} seconds; ask for less, or with `leakmeter query`")

    runs = serving_of(request).runs
    work = asyncio.ensure_future(run_in_threadpool(_ask, sql, runs, most, check))
    try:
        while not (await asyncio.wait({work}, timeout=0.5))[0]:
            if await request.is_disconnected():
                gone.set()
    finally:
        gone.set()
    return work.result()


def _ask(sql: str, runs: Path, most: int, check: Callable[[], None]) -> tuple[Sequence[str], _Rows, Sequence[str]]:
    from leakmeter.runs.catalogue import complete_runs
    from leakmeter.runs.query import ask

    while not _AT_ONCE.acquire(timeout=0.2):
        check()
    try:
        found, problems = complete_runs(runs) if runs.is_dir() else ([], [])
        answer = ask(sql, found, memory=_MEMORY, check=check)
        return answer.columns, list(islice(answer.rows, most)), (*problems, *answer.left_out)
    finally:
        _AT_ONCE.release()


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/sql", page),
    Route("/sql/rows", rows, methods=["POST"]),
    Route("/sql/csv", as_csv, methods=["POST"]),
)
