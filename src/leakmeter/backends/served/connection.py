"""The one place that speaks HTTP: requests to the host that was named, and to no other.

Texts and keys leave this machine here, so this module puts neither into a message: errors name the host, what was asked
for and the status. What a server writes into an error page is not repeated, since it may echo what it was sent.

Sockets keep a deadline: a server that sends a byte now and then makes no pause that a time-out would end. Headers,
notes of progress (1xx) and chunks without content may all come without end before anything is handed on.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import random
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ssl import SSLContext
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import httpcore2
import httpx2

from leakmeter.backends.served.in_order import in_order, waited
from leakmeter.core.plain import visible
from leakmeter.errors import ModelError, ScoreError, UsageError
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


T = TypeVar("T")
R = TypeVar("R")

KEY: Final = "LEAKMETER_API_KEY"
"""Environment variable of the key that a server is given."""
OPENAI_KEY: Final = "OPENAI_API_KEY"
"""Environment variable of the key that OpenAI's own host is given where the other is not set."""
OPENAI_HOST: Final = "api.openai.com"
DEFAULT_CONCURRENCY: Final = 8
MOST_CONCURRENCY: Final = 256
_LEAST_BYTES: Final = 1 << 22  # that any answer may take; what JSON says takes up to 20 times as much memory
_VALUE_BYTES: Final = 256  # and for each log-probability, with what stands beside it: its token's text and bytes
_MOST_BYTES: Final = 1 << 30
_MAY_COME_BACK: Final = frozenset({429, 502, 503, 504})  # a server that is busy, or starting again
_FEW_TRIES: Final = 4
CUTS: Final = "cuts the connection"
SLOW: Final = "does not answer in time"
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 30.0
_chance: Final = random.Random()  # of its own: what others draw with a seed stays as it is


class StatusError(ModelError):
    def __init__(self, status: int, line: str, fault: str = "") -> None:
        super().__init__(line)
        self.status = status
        """Of HTTP; 0 where no answer came."""
        self.may_pass = status in _MAY_COME_BACK or not 0 < status < 500
        self.fault = fault
        """What the server did, as `Connection.faults` counts it."""


class Connection:
    """A pool of connections to one server, whose address may have a path. An answer may take `seconds` to its last
    byte. All tries of a request together wait `patience` seconds for a server that has answered before, since it may be
    starting again."""

    def __init__(
        self,
        url: str,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        key: str | None = None,
        seconds: float = 600.0,
        patience: float = 300.0,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        parts = split(url)
        self.host = visible(parts.netloc)
        """Host and port, as messages name them."""
        self.concurrency = concurrency
        self.n_requests = 0
        """Requests sent so far, repeated ones counted each time."""
        self.on_request: Callable[[], None] = lambda: None
        """Called before each try of a request, in its thread; what it raises ends the request."""
        self.faults: Counter[str] = Counter()
        """What requests had to be repeated for, how often."""
        self._seconds, self._patience, self.notify = seconds, patience, notify
        self._has_answered = self._has_notified = False
        self._lock = threading.Lock()
        self._client = httpx2.Client(
            base_url=f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/",
            # A few bytes that are compressed may be gigabytes.
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {}),
            # To read the certificates takes longer than a request, and an address without TLS has none to check.
            transport=PunctualTransport(httpx2.create_ssl_context(verify=parts.scheme == "https"), concurrency),
            # Neither a proxy nor a password file of the environment: texts go to the host that was named.
            trust_env=False,
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=httpx2.Timeout(seconds, connect=min(10.0, seconds), pool=None),
        )
        # Sockets are closed with what holds them.
        weakref.finalize(self, self._client.close)

    @override
    def __repr__(self) -> str:
        return f"Connection({self.host!r})"

    def get(self, path: str) -> Any:
        return self._checked(path, *self._tried("GET", path, None, 0))

    def post(self, path: str, body: Mapping[str, object], n_values: int = 0) -> Any:
        """The JSON that answers a body. `n_values`, the number of log-probabilities and token ids asked for, bounds the
        length of the answer. `StatusError` where the server refuses, or does not answer; `ScoreError` where the answer
        is not JSON, or longer."""
        return self._checked(path, *self._tried("POST", path, body, n_values))

    def post_or_refusal(self, path: str, body: Mapping[str, object], n_values: int = 0) -> tuple[int, Any]:
        """As `post`, with the status, of an answer that may be a refusal (4xx). A dialect reads more from it, but never
        puts that into a message. None stands for what is not JSON."""
        status, content = self._tried("POST", path, body, n_values)
        if status != 200 and not 400 <= status < 500:
            self._checked(path, status, content)
        with suppress(ValueError, RecursionError):
            return status, json.loads(content)
        return status, None

    def in_order(self, work: Callable[[T], R], todo: Sequence[T], after: Sequence[int] | None = None) -> list[R]:
        return in_order(work, todo, after, n_threads=self.concurrency)

    def close(self) -> None:
        self._client.close()

    def _checked(self, path: str, status: int, content: bytes) -> Any:
        if status != 200:
            raise self._error(path, status, f"answers with status {status}")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise ScoreError(f"the server {self.host} answers /{path} with text that is not JSON") from None

    def _tried(self, method: str, path: str, body: Mapping[str, object] | None, n_values: int) -> tuple[int, bytes]:
        """Status and content of the last answer, after as many tries as are worth it."""
        n_seconds, tries = 0.0, 0
        while True:
            tries += 1
            self.on_request()
            retry_after: float | None = None
            try:
                status, content, retry_after = self._once(method, path, body, n_values)
            except httpx2.TransportError as error:
                status, content, fault = 0, b"", _fault(error)
                # What an address that was never good says, or what has taken its time and perhaps its price.
                is_final = not self._has_answered or isinstance(error, (httpx2.ReadTimeout, httpx2.WriteTimeout))
                may_retry = tries < 2 or not is_final
            except httpx2.HTTPError:
                raise self._error(path, 0, "sends an answer that cannot be read") from None
            else:
                self._has_answered |= status == 200
                fault = f"answers with status {status}"
                may_retry = status in _MAY_COME_BACK or (status >= 500 and tries < _FEW_TRIES)
                if not may_retry:
                    return status, content
            wait = _wait(tries, retry_after)
            n_seconds += wait
            if not may_retry or n_seconds > self._patience:
                raise self._error(path, status, fault, tries)
            with self._lock:
                self.faults[fault] += 1
                tells = wait >= 1.0 and not self._has_notified
                self._has_notified |= tells
            if tells:
                self.notify(f"the server {self.host} {fault}; waiting for it")
            if not waited(wait):
                raise self._error(path, status, fault)

    def _once(
        self, method: str, path: str, body: Mapping[str, object] | None, n_values: int
    ) -> tuple[int, bytes, float | None]:
        """Status, content, and for how many seconds the server asks to wait."""
        most = min(_LEAST_BYTES + _VALUE_BYTES * n_values, _MOST_BYTES)
        with self._lock:
            self.n_requests += 1
        with within(self._seconds), self._client.stream(method, path, json=body) as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise ScoreError(
                    f"the server {self.host} answers /{path} compressed, although the request forbids it; turn "
                    "compression off"
                )
            content = bytearray()
            for part in response.iter_raw():
                content += part
                if len(content) > most:
                    raise ScoreError(
                        f"the server {self.host} answers /{path} with more than {most:,} bytes, more than was requested"
                    )
            return response.status_code, bytes(content), _seconds_asked(response.headers.get("Retry-After"))

    def _error(self, path: str, status: int, fault: str, tries: int = 1) -> StatusError:
        did = f"{fault} ({tries} tries)" if tries > 1 else fault
        line = f"the server {self.host}, asked for /{path}, {did}; {_advice(status)}"
        return StatusError(status, line, fault)


def split(url: str) -> SplitResult:
    """The parts of a server's address; refused where it holds a name and password."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise UsageError("the server's address is not valid; write it as in vllm:http://127.0.0.1:8000#NAME")
    if parts.username is not None or parts.password is not None or parts.query:
        raise UsageError(
            f"the server's address holds a name, a password or a query; give a key by {KEY} in the environment"
        )
    return parts


def is_loopback(parts: SplitResult) -> bool:
    host = (parts.hostname or "").rstrip(".")
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def key_for(parts: SplitResult) -> str | None:
    """The key of the environment for a server; OpenAI's own goes to OpenAI's own host, encrypted, and nowhere else."""
    is_openai = parts.hostname == OPENAI_HOST and parts.scheme == "https"
    for name in (KEY, OPENAI_KEY) if is_openai else (KEY,):
        if key := os.environ.get(name, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise UsageError(f"the key in {name} has characters that keys cannot have; set it again")
            return key
    return None


def _wait(tries: int, retry_after: float | None) -> float:
    """Seconds until the next try; at random in part, so that threads do not come back all at once."""
    step = min(_FIRST_WAIT * 2.0 ** (tries - 1), _LONGEST_WAIT)
    return max(retry_after or 0.0, step / 2) + _chance.uniform(0.0, step / 2)


def _seconds_asked(header: str | None) -> float | None:
    if header is None:
        return None
    with suppress(ValueError):
        seconds = float(header)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    with suppress(ValueError, OverflowError):
        return max(parsedate_to_datetime(header).timestamp() - time.time(), 0.0)
    return None


def _fault(error: httpx2.TransportError) -> str:
    match error:
        case httpx2.ConnectTimeout():
            return "does not accept a connection in time"
        case httpx2.TimeoutException():
            return SLOW
        case httpx2.ConnectError():
            certificate = "certificate" in str(error).lower()
            return "has a certificate that is not trusted" if certificate else "cannot be reached"
        case _:
            return CUTS


def _advice(status: int) -> str:
    if status in (401, 403):
        return f"set the server's key in the environment, as {KEY}"
    if status == 404:
        return "check the address, and the model's name after '#'"
    if status in (400, 413, 422):
        return "it does not accept this request, or its length"
    if 300 <= status < 400:
        return "it redirects, and redirects are not followed; give the new address instead"
    if status == 429:
        return "lower --concurrency, or try again later"
    return "check that it runs, and read its log"
