"""The application: the routes of all pages behind the guard."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from leakmeter.core.plain import visible
from leakmeter.errors import LeakmeterError
from leakmeter.products.serve import browse, connections, doctor, ledger, live
from leakmeter.products.serve.access import AccessGuard, BodyTooLargeError
from leakmeter.products.serve.bodies import unforeseen
from leakmeter.products.serve.pages import asset, show
from leakmeter.products.serve.queue import BusyError
from leakmeter.products.serve.refusals import refusal
from leakmeter.products.serve.serving import Serving, serving_of, session_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def make_app(serving: Serving, more: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The application of a server; `more` are routes beside those of the pages, such as `/v1/`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        serving.queue.close()

    routes = [
        Route("/assets/{name}", asset),
        Route("/sign-in", sign_in, methods=["GET", "POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Route("/link", link, methods=["POST"]),
        *live.ROUTES,
        *browse.ROUTES,
        *ledger.ROUTES,
        *doctor.ROUTES,
        *more,
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            LeakmeterError: _refused,
            HTTPException: _http,
            ClientDisconnect: _gone,
            Exception: _unforeseen,
        },
    )
    app.state.serving = serving
    return AccessGuard(app, serving.access)


async def sign_in(request: Request) -> Response:
    access = serving_of(request).access
    if access.password is None:
        return refusal(404, "open this server with the link that it printed")
    if request.method == "GET":
        return show(request, "sign_in.html.j2", wrong="")
    password = parse_qs((await request.body()).decode(errors="replace")).get("password", [""])[0]
    good = access.is_password(password)
    if good:
        return access.signed_in(RedirectResponse("/", 303))
    why = "Too many attempts; wait a minute." if good is None else "Wrong password."
    page = show(request, "sign_in.html.j2", wrong=why)
    page.status_code = 429 if good is None else 403
    return page


async def sign_out(request: Request) -> Response:
    serving_of(request).access.end_session(session_of(request))
    return JSONResponse({})


async def link(request: Request) -> Response:
    access = serving_of(request).access
    if access.password is not None:
        return refusal(404, "with a password, browsers sign in with it")
    return JSONResponse({"link": access.new_link()})


async def _refused(request: Request, error: Exception) -> Response:
    # It may repeat what was sent, in which half of a surrogate pair may stand: no answer can hold that.
    return refusal(503 if isinstance(error, BusyError) else 400, visible(str(error)), request.url.path)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    why = "nothing is at this address" if error.status_code == 404 else error.detail.lower()
    return refusal(error.status_code, why, request.url.path)


async def _gone(request: Request, error: Exception) -> Response:
    """Of a client that left while it sent its request: nobody reads this."""
    return refusal(400, "the request was not sent to its end", request.url.path)


async def _unforeseen(request: Request, error: Exception) -> Response:
    if isinstance(error, BodyTooLargeError):
        raise error
    return refusal(500, unforeseen(error), request.url.path)


def run(app: ASGIApp, listening: socket.socket) -> None:
    server = uvicorn.Server(settings(app))
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def settings(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn runs: addresses hold tokens, and errors texts, so that nothing is logged."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        http=connections.of_server(),
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=65_536,
    )
