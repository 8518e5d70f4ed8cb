"""Pages of the ledger, read again where it has changed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.ledger import budgets
from leakmeter.ledger import report as shown
from leakmeter.ledger.budgets import PER, Budget
from leakmeter.ledger.forget import find
from leakmeter.ledger.store import INDEX, Ledger
from leakmeter.ledger.totals import Book
from leakmeter.report import blocks as b
from leakmeter.serve.pages import show, whole_report
from leakmeter.serve.serving import Serving, serving_of

_SUBJECTS: Final = 500
"""Offered in a list; any other can be typed."""
_BUDGET: Final = 20.0
_EDITED: Final = ("subjects.toml",)


class Shelved:
    """The ledger's book as it was read last.

    Args:
        serving: whose ledger it is.
    """

    def __init__(self, serving: Serving) -> None:
        self._path = serving.ledger
        self._lock = threading.Lock()
        self._state: object = None
        self._book: Book | None = None

    def book(self) -> Book | None:
        """The book; None where there is no ledger.

        Raises:
            LeakmeterError: it cannot be read.
        """
        with self._lock:
            state = tuple(_stamp(self._path / name) for name in (INDEX, *_EDITED))
            if self._book is None or state != self._state:
                ledger = Ledger.of_user(self._path)
                self._book = Book(ledger) if ledger.exists else None
                self._state = state
            return self._book


def _stamp(path: Any) -> tuple[int, int, int]:
    try:
        there = path.stat()
    except OSError:
        return (0, 0, 0)
    return there.st_mtime_ns, there.st_ino, there.st_size


def _shelved(serving: Serving) -> Shelved:
    made: Shelved = serving.extras.setdefault("ledger", Shelved(serving))
    return made


async def _shown(request: Request, blocks: Callable[[Book], list[b.Block]], **what: Any) -> Response:
    shelved = _shelved(serving_of(request))

    def work() -> tuple[list[b.Block] | None, list[str], str]:
        try:
            book = shelved.book()
            if book is None:
                return None, [], ""
            return blocks(book), sorted(book.kinds)[:_SUBJECTS], ""
        except LeakmeterError as error:
            return [], [], str(error)

    found, subjects, problem = await run_in_threadpool(work)
    given = {"by": "", "budget": f"{_BUDGET:g}", "per": PER[1], "subject": "", **what}
    page = show(
        request,
        "ledger.html.j2",
        blocks=found,
        subjects=subjects,
        problem=problem,
        all_by=shown.BY,
        all_per=PER,
        **given,
    )
    page.status_code = 400 if problem else 200
    return page


async def overview(request: Request) -> Response:
    """Documents and recipients, a timeline, and what was told by document, subject, recipient or day."""
    by = request.query_params.get("by", "")
    if by not in ("", *shown.BY):
        raise UsageError(f"by has to be {', '.join(shown.BY)}")

    def blocks(book: Book) -> list[b.Block]:
        if by:
            return list(shown.summary(book, by).blocks)
        made = shown.page(book)
        return [*(one for one in made.blocks if not isinstance(one, b.Embedded)), *made.notes]

    return await _shown(request, blocks, by=by)


async def subject(request: Request) -> Response:
    """All that was said about one person or value."""
    given = request.query_params.get("id", "").strip()[:400]

    def blocks(book: Book) -> list[b.Block]:
        if not given:
            raise UsageError("give a pseudonym of the ledger, as its table of subjects has it")
        _, found = find(book, given, "subject")
        return list(shown.of_subject(book, found).blocks)

    return await _shown(request, blocks, subject=given)


async def check(request: Request) -> Response:
    """What was told, held against a budget."""
    given, per = request.query_params.get("budget", ""), request.query_params.get("per", PER[1])

    def blocks(book: Book) -> list[b.Block]:
        budget = Budget(_nats(given), per)
        over, held = budgets.check(book, budget)
        missing = [one for one in budgets.unknown(book, budget) if one not in over]
        lines = [*budgets.lines(over), *budgets.lines(missing)]
        headline = b.Headline(b.Untrusted(held.explained), "good" if held.holds else "bad")
        rows = [b.Row((b.Untrusted(line.strip(), 300),)) for line in lines]
        return [headline, *([b.Table([b.Column("Over the budget, or not known")], rows)] if rows else [])]

    return await _shown(request, blocks, budget=given, per=per if per in PER else PER[1])


def _nats(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        return math.nan


async def report(request: Request) -> Response:
    """The page that `leakmeter ledger report` writes."""
    shelved = _shelved(serving_of(request))

    def made() -> b.Report:
        book = shelved.book()
        if book is None:
            raise UsageError("there is no ledger yet; `leakmeter ledger add` makes one")
        return shown.page(book)

    return whole_report(await run_in_threadpool(made))


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/ledger", overview),
    Route("/ledger/subject", subject),
    Route("/ledger/check", check),
    Route("/ledger/report", report),
)
