"""Sockets that keep a deadline: a server that sends a byte now and then makes no pause that a time-out would end.

Headers, notes of progress (1xx) and chunks without content may all come without end before anything is handed on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

import httpcore2
import httpx2

from leakmeter.overriding import override

_mine = threading.local()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Meanwhile whatever this thread reads and writes through a `PunctualTransport` ends after so many seconds."""
    _mine.ends = time.monotonic() + seconds
    try:
        yield
    finally:
        del _mine.ends


class PunctualTransport(httpx2.HTTPTransport):
    """A pool of connections whose reads and writes end with the time that `within` has set."""

    def __init__(self, verify: SSLContext, most: int) -> None:
        super().__init__(verify=verify, trust_env=False)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=verify,
            max_connections=most,
            max_keepalive_connections=most,
            keepalive_expiry=httpx2.Limits().keepalive_expiry,
            network_backend=_Network(),
        )


class _Network(httpcore2.NetworkBackend):
    def __init__(self) -> None:
        self._plain = httpcore2.SyncBackend()

    @override
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        return _Stream(self._plain.connect_tcp(host, port, _left(timeout), local_address, socket_options))


class _Stream(httpcore2.NetworkStream):
    def __init__(self, plain: httpcore2.NetworkStream) -> None:
        self._plain = plain

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._plain.read(max_bytes, _left(timeout))

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._plain.write(buffer, _left(timeout))

    @override
    def close(self) -> None:
        self._plain.close()

    @override
    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Stream(self._plain.start_tls(ssl_context, server_hostname, _left(timeout)))

    @override
    def get_extra_info(self, info: str) -> Any:
        return self._plain.get_extra_info(info)


def _left(seconds: float | None) -> float | None:
    """A time-out, or what is left until the deadline if that is less."""
    ends: float | None = getattr(_mine, "ends", None)
    if ends is None:
        return seconds
    left = ends - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("slow")
    return left if seconds is None else min(seconds, left)
