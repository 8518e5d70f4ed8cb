"""The pages of a ledger: what `leakmeter ledger` shows, over the directory as it is at the moment.

The directory is only read. Pages are made one at a time in a thread, and kept until the ledger changes; requests that
wait for one hold no thread. People are called by their pseudonyms.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import anyio
from anyio import to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from leakmeter.core.record import JsonObject
from leakmeter.errors import LeakmeterError, StoreError, UsageError
from leakmeter.products.ledger import budgets
from leakmeter.products.ledger import report as said
from leakmeter.products.ledger.budgets import Budget
from leakmeter.products.ledger.forget import find
from leakmeter.products.ledger.keys import RECIPIENT
from leakmeter.products.ledger.store import FILES, SUBJECTS, Ledger, LedgerState
from leakmeter.products.ledger.totals import DOCUMENT, SUBJECT, Book, LedgerEvent
from leakmeter.products.serve.bodies import without_paths
from leakmeter.products.serve.pages import show, whole_report
from leakmeter.products.serve.refusals import refusal
from leakmeter.products.serve.serving import Remembered, Serving, serving_of, stamp
from leakmeter.report import blocks as b
from leakmeter.report import html

T = TypeVar("T")
MOST_ROWS: Final = 100_000
"""Rows of a ledger that is shown, of all its tables."""
MOST_ID: Final = 2_000
_VIEWS: Final = (
    ("/ledger", "Overview"),
    *((f"/ledger/by/{by}", f"By {by}") for by in said.BY),
    ("/ledger/budgets", "Budgets"),
)
_OPENED: Final = (*said.BY, said.ANSWER)
_BUDGET_NATS: Final = "5"


class NotFoundError(UsageError):
    """The ledger does not have what an address names."""


@dataclass(eq=False)
class Reader:
    """A ledger's directory, which need not be there, read again when it has changed."""

    path: Path
    _state: object = None
    _book: Book | None = None
    _pages: Remembered = field(default_factory=lambda: Remembered(32))
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    async def cached(self, key: object, make: Callable[[Book], T]) -> T | None:
        """What is made of the whole ledger, once for each key, in a thread; None without a ledger."""

        def cached() -> T | None:
            book = self._present()
            return None if book is None else self._pages.cached(key, lambda: make(book))

        return await to_thread.run_sync(cached, limiter=self._limiter)

    def _present(self) -> Book | None:
        # Of a directory without a ledger not even the key of pseudonyms is made.
        ledger = Ledger.of_user(self.path) if any((self.path / name).exists() for name in FILES) else None
        state = (LedgerState() if ledger is None else ledger.state(), stamp(self.path / SUBJECTS))
        if state == self._state:
            return self._book
        # What was read is let go before what is there now is read.
        self._state, self._book = None, None
        self._pages.clear()
        if ledger is not None:
            if ledger.n_rows() > MOST_ROWS:  # which would take too much memory
                raise StoreError(
                    f"the ledger has more than the {MOST_ROWS:,} rows that pages can show; use `leakmeter ledger query`"
                )
            book = Book(ledger)
            self._book = book if book.events else None
        self._state = state
        return self._book


def reader_of(serving: Serving) -> Reader:
    reader: Reader = serving.extras.setdefault("ledger", Reader(serving.ledger))
    return reader


def address(kind: str, id_: str) -> str:
    return f"/ledger/{kind}?{urlencode({'id': id_})}"


async def _page(
    request: Request,
    title: str,
    key: object,
    make: Callable[[Book, said.LedgerNames], tuple[Sequence[b.Block], str]],
    **more: Any,
) -> Response:
    """A page made of the ledger, or how to make a ledger. `make` returns blocks and where their texts are, or ""."""
    serving = serving_of(request)
    problem, status = "", 200

    def made(book: Book) -> tuple[Markup, str]:
        blocks, texts = make(book, said.LedgerNames(book, address=address))
        held_by = "see all with leakmeter ledger show and query"
        return html.fragment(blocks, held_by=held_by) if blocks else Markup(""), texts

    try:
        content = await reader_of(serving).cached(key, made)
    except NotFoundError as error:
        return refusal(404, str(error))
    except LeakmeterError as error:
        problem, status, content = without_paths(str(error)), 400, (Markup(""), "")
    context: JsonObject = {"blocks": "", "texts": "", "per": "", "budget": "", "pers": (), **more}
    if content is not None:
        context |= {"blocks": content[0], "texts": content[1]}
    folder, model = str(serving.ledger), serving.models.names[0]
    page = show(
        request,
        "ledger.html.j2",
        title=title,
        views=_VIEWS,
        problem=problem,
        is_there=content is not None,
        folder=folder,
        command=f"leakmeter ledger add TRACES --ledger {shlex.quote(folder)} --model {shlex.quote(model)}",
        **context,
    )
    page.status_code = status
    return page


async def page(request: Request) -> Response:
    return await _page(request, "Ledger", "overview", lambda book, names: (said.overview(book, names), ""))


async def by(request: Request) -> Response:
    grouping = request.path_params["by"]
    if grouping not in said.BY:
        return refusal(404, f"a ledger is shown by {', '.join(said.BY)}")
    return await _page(
        request,
        f"Ledger by {grouping}",
        ("by", grouping),
        lambda book, names: ([said.rows_table(book, grouping, names)], ""),
    )


async def opened(request: Request) -> Response:
    kind, id_ = request.path_params["kind"], request.query_params.get("id", "")
    if kind not in _OPENED or len(id_) > MOST_ID:
        return refusal(404, "the ledger has no such page")
    title = f"Ledger: one {kind}"
    return await _page(request, title, (kind, id_), lambda book, names: _opened(book, names, kind, id_))


def _opened(book: Book, names: said.LedgerNames, kind: str, id_: str) -> tuple[list[b.Block], str]:
    if kind == DOCUMENT and any(id_ == known_id for known_id, _ in book.documents):
        return said.document_blocks(book, id_, names), ""
    if kind == SUBJECT:
        return said.subject_blocks(book, _subject(book, id_.strip()), names), ""
    if kind == RECIPIENT and (events := [event for event in book.events if event["recipient"] == (id_ or None)]):
        return said.events_blocks(book, names.phrase(id_ or None), events, names), ""
    if kind == "day" and (events := [event for event in book.events if str(event["day"] or "") == id_]):
        return said.events_blocks(book, id_ or "No day is logged", events, names), ""
    if kind == said.ANSWER:
        event = _event(book, id_)
        texts = f"/ledger/texts?{urlencode({'id': id_})}" if event["by_document"] in book.kept else ""
        return said.answer_blocks(book, event, names), texts
    raise NotFoundError(f"the ledger has no such {kind}; find the others through its pages")


def _subject(book: Book, id_: str) -> str:
    """A subject by its pseudonym, the first digits of it, or a name; names are known where texts are kept."""
    try:
        return find(book, id_, SUBJECT)[1]
    except UsageError:
        raise NotFoundError("the ledger has no such subject, or several; give a pseudonym of its table") from None


def _event(book: Book, id_: str) -> LedgerEvent:
    for event in book.events:
        if event["event"] == id_:
            return event
    raise NotFoundError("the ledger has no such answer; find the others through its pages")


async def report(request: Request) -> Response:
    """The page that `leakmeter ledger report` writes."""
    response = await reader_of(serving_of(request)).cached("report", lambda book: whole_report(said.page(book)))
    return response or refusal(404, "there is no ledger; `leakmeter ledger add` makes one")


async def texts(request: Request) -> Response:
    id_ = request.query_params.get("id", "")

    def make(book: Book) -> Response:
        score = _event(book, id_)["by_document"]
        if score not in book.kept:
            raise NotFoundError("the texts of this answer are not kept; `leakmeter ledger add --keep-texts` keeps them")
        return whole_report(said.heat_map(book, score))

    try:
        response = await reader_of(serving_of(request)).cached(("texts", id_), make)
    except NotFoundError as error:
        return refusal(404, str(error))
    return response or refusal(404, "there is no ledger")


async def checked(request: Request) -> Response:
    typed, per = request.query_params.get("budget", "")[:40], request.query_params.get("per", "")[:40]
    fields = {"budget": typed or _BUDGET_NATS, "per": per or budgets.PER[1], "pers": budgets.PER}

    def make(book: Book, names: said.LedgerNames) -> tuple[Sequence[b.Block], str]:
        if not typed and not per:
            return (), ""
        limit = Budget(_number(typed), per or budgets.PER[1])
        over, unknown, check = budgets.check(book, limit)
        unknown = [group for group in unknown if group not in over]
        blocks = [
            b.Headline(check.explained, "good" if check.holds else "bad"),
            *said.over_blocks(book, over, unknown, names, by_recipient=limit.by_recipient),
            b.Text(check.about, "soft"),
        ]
        return blocks, ""

    return await _page(request, "Budgets", ("budget", typed, per), make, **fields)


def _number(typed: str) -> float:
    try:
        return float(typed)
    except ValueError:
        return math.nan


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/ledger", page),
    Route("/ledger/by/{by}", by),
    Route("/ledger/budgets", checked),
    Route("/ledger/texts", texts),
    Route("/ledger/report", report),
    Route("/ledger/{kind}", opened),
)
