"""One host, patiently: what is sent, to whom, how often; and what is said of it."""

from __future__ import annotations

import logging
import random
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.model_server import VLLM, ModelServer, RefusedError, Routes
from helpers.places import ROOT
from helpers.served_requests import SECRET, asked
from leakmeter.backends.served import connection
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.connection import Connection, StatusError, is_loopback, key_for, split
from leakmeter.backends.served.in_order import waited
from leakmeter.errors import ModelError, UsageError

Load = Callable[..., ServedBackend]
KEY = "sk-91c2-not-a-key"


def answers(*given: RefusedError | dict[str, str], path: str = "/ask") -> Routes:
    """A server that answers so, one request after another, and then as the last time."""
    left = list(given)

    def answer(*_: object) -> dict[str, str]:
        one = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(one, RefusedError):
            raise one
        return one

    return Routes("any", post={path: answer})


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that are waited for; hardly any of them pass."""
    found: list[float] = []

    def wait(seconds: float) -> bool:
        found.append(seconds)
        return waited(min(seconds, 0.02))

    monkeypatch.setattr(connection, "waited", wait)
    return found


def test_what_may_pass_is_asked_again_and_a_refusal_is_final() -> None:
    for status in (429, 500, 502, 503, 504):
        with ModelServer(answers(RefusedError(status), {"a": "b"})) as server:
            asks = Connection(server.url)
            assert asks.post("ask", {}) == {"a": "b"}
            assert asks.n_requests == len(server.calls) == 2
    for status in (300, 307, 400, 401, 403, 404, 413, 422):
        with ModelServer(answers(RefusedError(status))) as server:
            with pytest.raises(StatusError, match=f"asked for /ask, answers with status {status}; ") as caught:
                Connection(server.url, key=KEY).post("ask", {"prompt": SECRET})
            assert len(server.calls) == 1
        assert caught.value.status == status
        assert not [text for text in (SECRET, KEY) if text in str(caught.value)]


@pytest.mark.parametrize(
    ("error", "words", "n_calls"),
    [
        (RefusedError(500), "status 500; check that it runs", 4),
        (RefusedError(429, headers={"Retry-After": "3600"}), "status 429; lower --concurrency", 1),
    ],
)
def test_how_often_a_server_is_asked(error: RefusedError, words: str, n_calls: int, waits: list[float]) -> None:
    with ModelServer(answers(error)) as server, pytest.raises(StatusError, match=words):
        Connection(server.url).post("ask", {})
    assert (len(server.calls), len(waits)) == (n_calls, n_calls - 1)


def test_retry_after_is_waited_for(waits: list[float]) -> None:
    with ModelServer(answers(RefusedError(429, headers={"Retry-After": "20"}), {})) as server:
        Connection(server.url).post("ask", {})
    assert [20.0 <= wait < 21.0 for wait in waits] == [True]


def test_patience_has_an_end(waits: list[float]) -> None:
    routes = answers(RefusedError(503, headers={"Retry-After": "0"}))
    with ModelServer(routes) as server, pytest.raises(StatusError, match=r"status 503 \(\d+ tries\)"):
        Connection(server.url, patience=100.0).post("ask", {})
    assert 50 < sum(waits) <= 100
    assert len(waits) < 20


def test_retry_after_as_seconds_and_as_a_date() -> None:
    known = {"2": 2.0, "0.5": 0.5, "-3": 0.0, "nan": None, "inf": None, "soon": None, None: None}
    for header, seconds in known.items():
        assert connection._seconds_asked(header) == seconds
    assert connection._seconds_asked("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert (connection._seconds_asked("Wed, 21 Oct 2065 07:28:00 GMT") or 0.0) > 1e8


def test_waits_grow_and_differ_and_leave_what_is_drawn_with_a_seed_as_it_is() -> None:
    state = random.getstate()
    for tries in range(1, 12):
        some = [connection._wait(tries, None) for _ in range(50)]
        step = min(0.5 * 2 ** (tries - 1), 30.0)
        assert step / 2 <= min(some) < max(some) <= step
    assert random.getstate() == state


def test_a_redirection_is_not_followed() -> None:
    with ModelServer(answers({})) as other:
        moved = RefusedError(307, headers={"Location": f"{other.url}/ask"})
        words = "status 307; it redirects, and redirects are not followed"
        with ModelServer(answers(moved)) as server, pytest.raises(StatusError, match=words):
            Connection(server.url, key=KEY).post("ask", {"prompt": SECRET})
        assert other.calls == []


def test_no_proxy_and_no_password_file_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ana password pw\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with ModelServer(answers({"a": "b"})) as server:
        assert Connection(server.url).post("ask", {}) == {"a": "b"}
        assert "Authorization" not in server.calls[0].headers


def test_the_key_goes_to_the_server_and_nowhere_else(
    served: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("LEAKMETER_API_KEY", KEY)
    with ModelServer(VLLM, key=KEY) as server:
        backend = served(server.model)
        backend.score(asked())
        identity = repr(backend.identity)
    assert {call.headers["Authorization"] for call in server.calls} == {f"Bearer {KEY}"}
    said = [*capfd.readouterr(), caplog.text, repr(backend.connection), str(vars(backend)), identity]
    for hidden in (KEY, SECRET):
        assert not [text for text in said if hidden in text]


def test_a_missing_key(served: Load) -> None:
    with ModelServer(VLLM, key=KEY) as server, pytest.raises(ModelError, match=r"status 401; set .* LEAKMETER_API_KEY"):
        served(server.model)


NOT_OPENAI = ("https://llm.example", "http://api.openai", "https://api.openai.com.example")


@pytest.mark.parametrize(
    ("url", "environment", "key"),
    [
        ("http://127.0.0.1", {}, None),
        ("http://127.0.0.1", {"LEAKMETER_API_KEY": " a \n"}, "a"),
        *((f"{host}.com", {"OPENAI_API_KEY": "b"}, None) for host in NOT_OPENAI),
        ("https://api.openai.com", {"OPENAI_API_KEY": "b"}, "b"),
        ("https://api.openai.com", {"OPENAI_API_KEY": "b", "LEAKMETER_API_KEY": "a"}, "a"),
    ],
)
def test_whose_key_goes_where(
    url: str, environment: dict[str, str], key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEAKMETER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert key_for(split(url)) == key


def test_a_key_that_no_header_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("a\nb", "schlüssel"):
        monkeypatch.setenv("LEAKMETER_API_KEY", key)
        with pytest.raises(UsageError, match="set it again") as caught:
            key_for(split("http://127.0.0.1"))
        assert key not in str(caught.value)


def test_what_is_this_machine() -> None:
    here = ("127.0.0.1:8000", "127.8.9.1", "[::1]:8000", "localhost:8000", "LOCALHOST.")
    others = ("0.0.0.0:8000", "10.0.0.1", "127.0.0.1.example.com", "localhost.example.com", "2130706433")
    assert [is_loopback(split(f"http://{host}")) for host in (*here, *others)] == [True] * 5 + [False] * 5


def test_what_is_no_address_or_holds_a_secret() -> None:
    invalid = ("", "127.0.0.1:8000", "ftp://a", "http://", "http://a:x", "http://[::1", "http:/a")
    secret = ("http://ana:pw@127.0.0.1", "http://ana@127.0.0.1", "http://127.0.0.1/?key=pw")
    for url in (*invalid, *secret):
        with pytest.raises(
            UsageError, match="LEAKMETER_API_KEY" if url in secret else "address is not valid"
        ) as caught:
            split(url)
        assert "pw" not in str(caught.value)


def test_a_path_before_the_servers_own() -> None:
    with ModelServer(answers({"a": "b"}, path="/below/v1/ask")) as server:
        assert Connection(f"{server.url}/below/").post("v1/ask", {}) == {"a": "b"}


def test_nobody_there(waits: list[float]) -> None:
    with ModelServer(answers({})) as server:
        pass
    with pytest.raises(StatusError, match=r"cannot be reached \(2 tries\); check that it runs") as caught:
        Connection(server.url).post("ask", {})
    assert caught.value.status == 0
    assert len(waits) == 1


def test_a_server_that_has_answered_may_start_again() -> None:
    told: list[str] = []
    with ModelServer(answers({"a": "b"})) as server:
        asks = Connection(server.url, notify=told.append)
        asks.post("ask", {})
        server.stop()
        later = threading.Timer(0.2, server.start)
        later.start()
        assert asks.post("ask", {}) == {"a": "b"}
        later.join()


def test_certificates_are_checked(tmp_path: Path) -> None:
    what = "req -x509 -newkey ed25519 -nodes -subj /CN=localhost -days 2 -addext subjectAltName=DNS:localhost"
    where = ("-keyout", tmp_path / "key", "-out", tmp_path / "certificate")
    made = subprocess.run(["openssl", *what.split(), *where], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("openssl makes no certificate here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    with ModelServer(answers({"a": "b"}), tls=context) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        with pytest.raises(StatusError, match="a certificate that is not trusted"):
            Connection(url).post("ask", {"prompt": SECRET})
        assert server.calls == []
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
            assert Connection(url).post("ask", {}) == {"a": "b"}


def test_only_one_module_speaks_http() -> None:
    speakers = ("import httpx", "import requests", "import urllib.request", "import http.client", "from urllib.request")
    found = {
        path.name
        for path in (ROOT / "src/leakmeter/backends/served").rglob("*.py")
        if any(line.strip().startswith(speakers) for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert found == {"connection.py"}
