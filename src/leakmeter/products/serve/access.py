"""Who may use the server: one browser a link, from this address alone, and no other page of that browser.

A request passes if its Host is the server's (a name that was made to point here does not), if it comes from no other
origin, and if it has a session's cookie. What changes something also has a header that a form of another page cannot
send. Programs use `/v1/` with a key instead of a cookie. The link's token is spent by its first use.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leakmeter.products.serve.refusals import API, refusal

MOST_BYTES: Final = 2_000_000
"""Of the body of a request."""
_TOO_LARGE: Final = f"at most {MOST_BYTES:,} bytes are taken at a time"
MOST_REQUESTS: Final = 256
"""Of those who may use the server, at a time; streams are among them, and connections without a request are not."""
MOST_SESSIONS: Final = 64
MOST_TOKENS: Final = 8
"""Links that are not used yet."""
TRIES: Final = 5
"""Wrong passwords, of all browsers, in `TRY_SECONDS`."""
TRY_SECONDS: Final = 60.0
SCRIPT_HEADER: Final = "x-leakmeter"
"""What the page's own script sends with everything that it posts."""
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?")
_SAFE: Final = ("GET", "HEAD")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Access:
    """Without a password, a link's token opens a session; with one, the password does, and no link is made. `key` is
    that of programs that use `/v1/`."""

    def __init__(self, host: str, port: int, *, password: str | None = None, key: str | None = None) -> None:
        self.port = port
        self.host = host
        self.password = password
        self.key = key
        self.cookie = f"leakmeter-{port}"  # cookies of all ports of a host are one jar
        self._lock = threading.Lock()
        self._tokens: deque[str] = deque(maxlen=MOST_TOKENS)
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._tries: deque[float] = deque()
        self._names = frozenset(_names(host))

    def new_link(self) -> str:
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens.append(token)
        return f"{self.origin}/?token={token}"

    @property
    def origin(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def spend(self, token: str) -> bool:
        with self._lock:
            matches = [
                kept_token
                for kept_token in self._tokens
                if hmac.compare_digest(kept_token.encode(), token.encode(errors="replace"))
            ]
            for kept_token in matches:
                self._tokens.remove(kept_token)
        return bool(matches)

    def is_password(self, password: str) -> bool | None:
        """Whether it is the password; None where too many wrong ones were tried."""
        now_s = time.monotonic()
        with self._lock:
            while self._tries and now_s - self._tries[0] > TRY_SECONDS:
                self._tries.popleft()
            if len(self._tries) >= TRIES:
                return None
            good = self.password is not None and hmac.compare_digest(
                self.password.encode(), password.encode(errors="replace")
            )
            if not good:
                self._tries.append(now_s)
        return good

    def new_session(self) -> str:
        """The cookie's value; the session that was used least recently goes where there are too many."""
        session = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[session] = None
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def end_session(self, session: str) -> None:
        with self._lock:
            self._sessions.pop(session, None)

    def session_of(self, headers: Headers) -> str | None:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return None
        with self._lock:
            if morsel is None or morsel.value not in self._sessions:
                return None
            self._sessions.move_to_end(morsel.value)
        return morsel.value

    def is_key(self, headers: Headers) -> bool:
        scheme, _, sent_key = headers.get("authorization", "").partition(" ")
        return (
            self.key is not None
            and scheme.lower() == "bearer"
            and hmac.compare_digest(self.key.encode(), sent_key.strip().encode(errors="replace"))
        )

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        match = _HOST.fullmatch(host)
        if match is None or int(match[2] or 80) != self.port:
            return False
        name = match[1].strip("[]").lower()
        if name in self._names:
            return True
        # Bound to all addresses: any address will do, and no other name, which might be made to point here.
        return self.host in ("0.0.0.0", "::") and _address(name) is not None

    def signed_in(self, response: Response) -> Response:
        response.set_cookie(self.cookie, self.new_session(), httponly=True, samesite="strict", path="/")
        return response


def _names(host: str) -> Iterable[str]:
    yield host.lower()
    if is_loopback(host):
        # `localhost` is no name that others could make point here.
        yield from ("localhost", "127.0.0.1") if host != "::1" else ("localhost", "::1")
    elif host in ("0.0.0.0", "::"):
        yield from ("localhost", socket.gethostname().lower())


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


class AccessGuard:
    """The middleware that passes a request on, or answers it. `request.state.session` is "" on `/v1/`."""

    def __init__(self, app: ASGIApp, access: Access, sign_in: str = "/sign-in") -> None:
        self.app, self.access, self.sign_in = app, access, sign_in
        self._n_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        n_bytes, is_answered = 0, False

        async def bounded() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > MOST_BYTES:
                raise BodyTooLargeError
            return message

        async def guarded(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            if message["type"] == "http.response.start":
                response_headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    response_headers.setdefault(name, value)
            await send(message)

        response = self._refused(scope, headers)
        if response is None and self._n_requests >= MOST_REQUESTS:
            response = refusal(503, "too many requests at a time; try again in a moment", scope["path"])
        if response is None:
            self._n_requests += 1
            try:
                await self.app(scope, bounded, guarded)
            except BodyTooLargeError:
                response = refusal(413, _TOO_LARGE, scope["path"])
            finally:
                self._n_requests -= 1
        if response is not None and not is_answered:
            await response(scope, receive, guarded)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        method, path = scope["method"], scope["path"]
        if len(headers.getlist("host")) != 1 or not self.access.is_ours(headers.get("host", "")):
            return refusal(421, "this server answers only at its own address; use the link that it printed", path)
        fetched = headers.get("sec-fetch-site")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers['host']}":
            return refusal(403, "a page of another origin made this request", path)
        is_page = method in _SAFE and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if fetched not in (None, "same-origin", "none") and not is_page:
            return refusal(403, "a page of another site made this request", path)
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > MOST_BYTES:
            return refusal(413, _TOO_LARGE, path)
        state = scope.setdefault("state", {})
        state["session"] = ""
        if path.startswith("/assets/"):  # the package's own files, which anybody may have
            return None
        if path.startswith(API):
            if not self.access.is_key(headers):
                return refusal(401, "give the key that `leakmeter serve` printed, as 'Authorization: Bearer KEY'", path)
            return None
        session = self.access.session_of(headers)
        if session is None:
            return self._unknown(scope, headers, path)
        if method not in _SAFE and headers.get(SCRIPT_HEADER) is None and path != self.sign_in:
            return refusal(403, f"only the page's own script may request this (with the header {SCRIPT_HEADER})", path)
        state["session"] = session
        if method == "GET" and path == "/" and (token := _token(scope)):
            self.access.spend(token)  # the address of a browser that is signed in already is to keep no token
            return RedirectResponse("/", 303)
        return None

    def _unknown(self, scope: Scope, headers: Headers, path: str) -> Response | None:
        if path == self.sign_in and self.access.password is not None:
            return None
        if scope["method"] == "GET" and path == "/":
            token = _token(scope)
            if token and self.access.password is None and self.access.spend(token):
                return self.access.signed_in(RedirectResponse("/", 303))
            if self.access.password is not None:
                return RedirectResponse(self.sign_in, 303)
            if headers.get("sec-fetch-site") == "cross-site" and not token:
                # A link in another page does not carry our cookie: the browser is to ask once more by itself.
                return PlainTextResponse("", headers={"refresh": "0"})
        return refusal(
            401, "the link was used already or belongs to another server; `leakmeter serve` prints a new one", path
        )


def _token(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


class BodyTooLargeError(Exception):
    """A body is larger than is taken."""
