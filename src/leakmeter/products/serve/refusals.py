"""What is refused: one line for programs and scripts, a page with a way home for a browser that goes somewhere."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from leakmeter.overriding import override
from leakmeter.products.serve.bodies import error_of, without_paths
from leakmeter.products.serve.templates import NAVIGATION, environment

API: Final = "/v1/"
_TITLES: Final = {401: "You are not signed in here", 404: "There is no such page"}
_PLAIN: Final = (403, 413, 421)
"""Of pages of others, and of what is too large: there is no way home to offer."""


def refusal(status: int, why: str, path: str = "") -> Response:
    """One line, as JSON for programs; a page where a browser goes there."""
    why = without_paths(why)
    if path.startswith(API):
        return JSONResponse(error_of(status, why), status)
    return _Refusal(f"leakmeter: {why}\n", status)


class _Refusal(PlainTextResponse):
    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.status_code in _PLAIN or not _goes_there(Headers(scope=scope)):
            await super().__call__(scope, receive, send)
            return
        why = bytes(self.body).decode().removeprefix("leakmeter: ").strip()
        page = environment().get_template("refused.html.j2")
        shown = page.render(
            title=_TITLES.get(self.status_code, "This cannot be shown"),
            why=f"{why[:1].upper()}{why[1:]}{'' if why.endswith('.') else '.'}",
            path="",
            is_signed_in=bool(scope.get("state", {}).get("session")),
            navigation=NAVIGATION,
        )
        await HTMLResponse(shown, self.status_code)(scope, receive, send)


def _goes_there(headers: Headers) -> bool:
    """Whether a browser is to show the answer, which a script is not."""
    return headers.get("sec-fetch-mode") == "navigate" and "text/html" in headers.get("accept", "")
