"""A server over the toy model, in this process or behind a socket, and requests as its page sends them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.routing import BaseRoute
from starlette.testclient import TestClient

from leakmeter.engine.options import ModelOptions
from leakmeter.products.serve.access import Access
from leakmeter.products.serve.app import make_app, settings
from leakmeter.products.serve.queue import Queue
from leakmeter.products.serve.serving import Models, Serving

HEADERS = {"x-leakmeter": "1", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
"""Of a request of the page's own script."""
CASE = {
    "context": "Ana is 41. She sings. Call 555-010-2231.",
    "query": "How can I reach Ana?",
    "response": "555-010-2231",
}


def serving_of(folder: Path, *, port: int = 8000, models: tuple[str, ...] = ("toy",), **access: Any) -> Serving:
    address = Access(access.pop("host", "127.0.0.1"), port, **access)
    return Serving(address, Models(models, ModelOptions(cache=False)), Queue(), folder / "runs", folder / "ledger")


@contextmanager
def client(serving: Serving, *, signed_in: bool = True, more: Sequence[BaseRoute] = ()) -> Iterator[TestClient]:
    with TestClient(make_app(serving, more), base_url=serving.access.origin, follow_redirects=False) as made:
        if signed_in:
            made.get(serving.access.new_link())
        yield made


def events(answer: Any) -> list[tuple[str, dict[str, Any]]]:
    blocks = [one.splitlines() for one in answer.text.split("\n\n") if one.startswith("event: ")]
    return [(lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))) for lines in blocks]


def asked(made: TestClient, what: str, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
    """The events of one request of the Live page, of the sample case."""
    return events(made.post(f"/live/{what}", json={**CASE, **fields}, headers=HEADERS))


@contextmanager
def listening(folder: Path, **how: Any) -> Iterator[Serving]:
    """A server behind a socket of this machine."""
    bound = socket.create_server(("127.0.0.1", 0))
    serving = serving_of(folder, port=bound.getsockname()[1], **how)
    server = uvicorn.Server(settings(make_app(serving)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield serving
    finally:
        server.should_exit = True
        thread.join(10)
