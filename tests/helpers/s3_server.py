"""An S3 API on this machine, with faults on demand."""

from __future__ import annotations

import logging
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

Answer = Callable[..., Any]


class Faults:
    """What goes wrong with requests: a fault is taken by the first request that it is for."""

    def __init__(self, app: Answer) -> None:
        self._app = app
        self._faults: list[tuple[str, str, str]] = []
        self.requests: list[tuple[str, str]] = []
        """Method and path of each that came."""

    def add(self, method: str, ending: str, kind: str, times: int = 1) -> None:
        """Let requests of this method and ending of the path fail.

        Kinds are 'half', whose body is read half-way before the server fails; 'lost', which is done and whose answer is
        lost; 'denied'.
        """
        self._faults += [(method, ending, kind)] * times

    def clear(self) -> None:
        self._faults.clear()
        self.requests.clear()

    def __call__(self, environ: dict[str, Any], start: Answer) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        fault = next((one for one in self._faults if one[0] == method and path.endswith(one[1])), None)
        if fault is None:
            answer: Iterable[bytes] = self._app(environ, start)
            return answer
        self._faults.remove(fault)
        if fault[2] == "half":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0) // 2)
        elif fault[2] == "lost":
            list(self._app(environ, lambda *_: None))
        start("403 Forbidden" if fault[2] == "denied" else "500 Internal Server Error", [("Content-Length", "0")])
        return []


@contextmanager
def s3_server() -> Iterator[tuple[str, Faults]]:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    faults = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faults, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", faults
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_bucket(address: str, name: str) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{address}/{name}", method="PUT")).close()


def environment(address: str) -> dict[str, str]:
    """Variables with which obstore reaches the server."""
    keys = {"AWS_ACCESS_KEY_ID": "invented", "AWS_SECRET_ACCESS_KEY": "invented-secret", "AWS_REGION": "us-east-1"}
    return {**keys, "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true"}
