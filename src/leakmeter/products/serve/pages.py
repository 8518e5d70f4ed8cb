"""Pages of the server: one layout around what each page shows, all of it from the package's own files."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from leakmeter.core.plain import visible
from leakmeter.products.serve.access import refusal
from leakmeter.products.serve.serving import serving_of
from leakmeter.report import blocks as b
from leakmeter.report import html

if TYPE_CHECKING:
    from jinja2 import Environment

NAVIGATION: Final = (("/", "Live"), ("/runs", "Runs"), ("/ledger", "Ledger"), ("/doctor", "Doctor"))
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
    own = {name: _file(name) for name in _OWN}
    return {"report.css": html.style(), "report.js": html.script(), **own}


@lru_cache(maxsize=1)
def environment() -> Environment:
    from jinja2 import ChoiceLoader, FunctionLoader

    of_reports = html.environment()
    loaders = [FunctionLoader(_template), of_reports.loader or FunctionLoader(lambda name: None)]
    templates = of_reports.overlay(loader=ChoiceLoader(loaders), finalize=_plain)
    templates.filters = {**of_reports.filters, "shown": lambda blocks, level=2: html.fragment(blocks, level=level)}
    return templates


def _plain(value: Any) -> Any:
    """What stands in a template's braces: a text without anything that a terminal or a line of text would obey."""
    return visible(value) if type(value) is str else value


def _template(name: str) -> str | None:
    return _file(name) if resources.files("leakmeter.products.serve").joinpath("assets", name).is_file() else None


def _file(name: str) -> str:
    return resources.files("leakmeter.products.serve").joinpath("assets", name).read_text(encoding="utf-8")
