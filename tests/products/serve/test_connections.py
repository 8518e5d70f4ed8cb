"""Connections that ask for nothing, and clients that leave: over real sockets, nobody else is held up."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx2 as httpx
import pytest

from helpers.serving import CASE, HEADERS, listening
from leakmeter.products.serve import access, connections
from leakmeter.products.serve.serving import Serving


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 0.3)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with listening(tmp_path) as made:
        yield made


def connected(serving: Serving, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", serving.access.port), timeout=20)
    made.sendall(sent)
    return made


def is_closed(made: socket.socket) -> bool:
    """Whether the other side ends the connection, without waiting long for what it does not do."""
    try:
        return made.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


HEAD = b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"


def test_a_connection_has_ten_seconds() -> None:
    assert connections.SECONDS == 10.0


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"\x16\x03\x01"])
def test_a_connection_without_a_whole_head_is_closed(serving: Serving, sent: bytes) -> None:
    with closing(connected(serving, sent)) as made:
        while not is_closed(made):
            pass


@pytest.mark.usefixtures("impatient")
def test_a_byte_now_and_then_does_not_keep_a_connection(serving: Serving) -> None:
    with closing(connected(serving, b"GET / HTTP/1.1\r\nX: ")) as made:
        made.settimeout(0.05)
        for _ in range(200):
            try:
                made.sendall(b"y")
                if made.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    raise AssertionError("the connection was not closed")


def test_half_of_a_second_request_is_closed_and_a_whole_one_answered(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = HEAD % serving.access.port
    with closing(connected(serving)) as made:
        answer = b""
        for n in (1, 2):
            made.sendall(head + b"\r\n")
            while answer.count(b"HTTP/1.1 401") < n or not answer.endswith(b"\n"):
                part = made.recv(1 << 16)
                assert part
                answer += part
            # From the second answer on the connection has less time: other requests may take theirs.
            monkeypatch.setattr(connections, "SECONDS", 0.3)
        # The request's head never ends.
        made.sendall(head)
        while not is_closed(made):
            pass


def test_a_thousand_silent_connections_lock_nobody_out(serving: Serving) -> None:
    with ExitStack() as opened:
        for n in range(1_000):
            sent = (b"", HEAD % serving.access.port)[n % 2]
            opened.enter_context(closing(connected(serving, sent)))
        # Before any of them has had its ten seconds.
        answer = httpx.get(serving.access.new_link(), timeout=8)
        assert answer.status_code == 303


def test_requests_at_a_time_are_limited_and_silence_is_none(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_REQUESTS", 2)
    with httpx.Client(base_url=serving.access.origin, follow_redirects=False, timeout=20) as client:
        client.get(serving.access.new_link())
        cookie = f"{serving.access.cookie}={client.cookies[serving.access.cookie]}".encode()
        head = b"POST /live/measure HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Leakmeter: 1\r\nContent-Length: 99\r\nCookie: "
        with ExitStack() as opened:
            statuses = [client.get("/runs").status_code]
            while statuses[-1] != 503 and len(statuses) < 100:
                # The answer is here before the request for it has ended.
                time.sleep(0.05)
                # Half of a body: the request goes on. One that comes beside that for a page may be refused itself.
                opened.enter_context(closing(connected(serving, head % serving.access.port + cookie + b"\r\n\r\n{")))
                statuses.append(client.get("/runs").status_code)
            assert (statuses[0], statuses[-1]) == (200, 503)
        while client.get("/runs").status_code == 503:
            time.sleep(0.02)


def test_a_client_that_leaves_within_a_body_is_no_internal_error(
    serving: Serving, capfd: pytest.CaptureFixture[str]
) -> None:
    with httpx.Client(base_url=serving.access.origin, follow_redirects=False, timeout=20) as client:
        client.get(serving.access.new_link())
        cookie = f"{serving.access.cookie}={client.cookies[serving.access.cookie]}".encode()
        for path in (b"/live/measure", b"/live/redact", b"/doctor/run"):
            head = (
                b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Leakmeter: 1\r\nContent-Length: 99\r\nCookie: %s\r\n\r\n{"
            )
            with closing(connected(serving, head % (path, serving.access.port, cookie))):
                time.sleep(0.05)
        answer = client.post("/live/measure", json={**CASE, "model": "toy"}, headers=HEADERS)
        assert answer.status_code == 200
    assert "internal error" not in capfd.readouterr().err
