"""The server's process: uvicorn on a socket that listens already, which writes no log."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp


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
        limit_concurrency=256,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=65_536,
    )
