"""Servers that answer under a bound in forked children, each of which kills itself at a step of its only answer.

    python -m helpers.killed_server FOLDER N_KILLS

Steps are what changes the folder, statements of its database, what is told of the answer, and the ends of these. Once
without and once with a stream, the document of each request is another, and so is its server; all spend from one file.
Prints a JSON list of the requests: whether the answer was a stream, the document, the steps of its server, null where
that was killed, and what was received.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final

import uvicorn

from helpers.killed import forked, run_module, spread, watched
from helpers.serving import serving_of
from leakmeter.products.serve import bounded as bounded_module
from leakmeter.products.serve.app import make_app, settings
from leakmeter.products.serve.bounded import BoundedCompletions, routes
from leakmeter.products.serve.queue import Job
from leakmeter.products.serve.spent import Spent

EPSILON: Final = 0.5
MAX_TOKENS: Final = 4
N_CHOICES: Final = 2
KEY: Final = "a key of the tests"


def bounded_in(folder: Path) -> BoundedCompletions:
    """What may be spent on a document is one whole request."""
    return BoundedCompletions.kept_in(folder / "spent", EPSILON, EPSILON * MAX_TOKENS * N_CHOICES)


def asked(folder: Path, n_kills: int) -> list[dict[str, Any]]:
    """What the module prints."""
    found: list[dict[str, Any]] = run_module("helpers.killed_server", str(folder), str(n_kills))
    return found


def main(folder: Path, n_kills: int) -> list[dict[str, Any]]:
    out = []
    for is_streamed in (False, True):
        calm = _ask(folder, is_streamed, 0)
        out += [calm, *(_ask(folder, is_streamed, last) for last in spread(calm["n_steps"], n_kills))]
    return out


def _ask(folder: Path, is_streamed: bool, last: int) -> dict[str, Any]:
    """What becomes of a request to a child, which is killed at a step, or at none where that is 0."""
    document = f"Note {last} of the {'streams' if is_streamed else 'answers'}."
    fields = {"model": "toy", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": MAX_TOKENS}
    fields |= {"n": N_CHOICES, "documents": [document], "stream": is_streamed}
    body = json.dumps(fields).encode()
    received = b""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {KEY}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            # It waits in the socket's queue until the child is there to take it.
            client.sendall(head.encode() + body)
            n_steps = forked(lambda: _serve(folder, bound, client, last), folder / "done.json")
            with suppress(ConnectionResetError):
                while chunk := client.recv(2**16):
                    received += chunk
    told = {"is_streamed": is_streamed, "document": document, "n_steps": n_steps}
    return {**told, "received": received.decode(errors="replace")}


def _serve(folder: Path, bound: socket.socket, client: socket.socket, last: int) -> None:
    client.close()
    # Opened before anybody counts.
    bounded = bounded_in(folder)
    serving = serving_of(folder, port=bound.getsockname()[1], key=KEY, models=("toy",))
    server = uvicorn.Server(settings(make_app(serving, more=routes(bounded))))
    step = watched(folder, last)

    def stepping(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def stepped(*given: Any, **more: Any) -> Any:
            step()
            found = function(*given, **more)
            step()
            return found

        return stepped

    for holder, name in ((Spent, "charge"), (Spent, "give_back"), (Job, "tell"), (bounded_module, "write_whole")):
        setattr(holder, name, stepping(getattr(holder, name)))
    ended = Job.end

    def end(job: Job, *given: Any, **more: Any) -> None:
        ended(job, *given, **more)
        server.should_exit = True

    Job.end = end  # type: ignore[method-assign]
    server.run(sockets=[bound])


if __name__ == "__main__":
    os.fsync = lambda handle: None
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
