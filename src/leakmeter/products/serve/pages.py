"""Pages of the server: one layout around what each page shows, all of it from the package's own files."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from leakmeter.products.serve.refusals import refusal
from leakmeter.products.serve.serving import serving_of
from leakmeter.products.serve.templates import NAVIGATION, environment, own_file
from leakmeter.report import blocks as b
from leakmeter.report import html

_OWN: Final = ("serve.css", "serve.js", "live.js", "browse.js", "doctor.js")
_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


def show(request: Request, template: str, **values: Any) -> Response:
    """A page of a template in `assets`, which extends `layout.html.j2`: texts are escaped, blocks are shown with
    `blocks | shown`. The request's path marks the entry of the navigation."""
    access = serving_of(request).access
    page = environment().get_template(template)
    return HTMLResponse(
        page.render(path=request.url.path, navigation=NAVIGATION, has_password=access.password is not None, **values)
    )


def whole_report(report: b.Report) -> Response:
    """The page of a report as it is written to a file, under the policy of its own style and script."""
    framed = [embedded.report for embedded in b.walk(report.blocks) if isinstance(embedded, b.Embedded)]
    policy = f"{html.policy(report, framed)}; frame-ancestors 'none'"
    return HTMLResponse(html.page(report), headers={"content-security-policy": policy})


async def asset(request: Request) -> Response:
    name = request.path_params["name"]
    content = _assets().get(name)
    if content is None:
        return refusal(404, "there is no such file")
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers={"cache-control": "no-cache"})


@lru_cache(maxsize=1)
def _assets() -> dict[str, str]:
    own = {name: own_file(name) for name in _OWN}
    return {"report.css": html.style(), "report.js": html.script(), **own}
