"""A server that sends whatever bytes a test gives it, and counts who came and what was taken."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Script = Callable[[threading.Event], Iterable[bytes]]
"""What is sent to whoever connects; the event is set when the test is over."""


def whole(content: bytes, *headers: bytes, status: bytes = b"200 OK") -> Script:
    """An answer with a length."""
    head = b"\r\n".join((b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(content), b"", b""))
    return lambda ended: [head + content]


def flood(first: bytes, again: bytes) -> Script:
    """The same without end."""

    def script(ended: threading.Event) -> Iterable[bytes]:
        yield first
        while not ended.is_set():
            yield again

    return script


def drip(first: bytes, again: bytes, times: int = 500) -> Script:
    """The same now and then, sooner than any time-out between two reads; not for ever, or a failure would hang."""

    def script(ended: threading.Event) -> Iterable[bytes]:
        yield first
        for _ in range(times):
            if ended.wait(0.01):
                return
            yield again

    return script


class RawServer:
    """`with` starts and stops it; without a script it sends nothing, and closes."""

    def __init__(self, script: Script | None = None) -> None:
        self._script = script or (lambda ended: ())
        self._ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.n_connections = 0
        self.n_taken = 0
        """Bytes that the others took, or that wait for them in the system."""

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> RawServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with suppress(OSError):
            # To close it does not wake who waits for a connection.
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                opened, _ = self._listening.accept()
                self.n_connections += 1
                threading.Thread(target=self._send, args=(opened,), daemon=True).start()

    def _send(self, opened: socket.socket) -> None:
        with suppress(OSError), opened:
            opened.recv(65_536)
            for part in self._script(self._ended):
                opened.sendall(part)
                self.n_taken += len(part)
            # To close while something waits to be read would cut off what was sent.
            opened.shutdown(socket.SHUT_WR)
            while opened.recv(65_536):
                pass
