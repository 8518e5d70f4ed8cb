"""Templates of the server's pages, beside those of reports: the package's own files."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.plain import visible
from leakmeter.report import html

if TYPE_CHECKING:
    from jinja2 import Environment

NAVIGATION: Final = (("/", "Live"), ("/runs", "Runs"), ("/ledger", "Ledger"), ("/doctor", "Doctor"))


@lru_cache(maxsize=1)
def environment() -> Environment:
    from jinja2 import ChoiceLoader, FunctionLoader

    of_reports = html.environment()
    loaders = [FunctionLoader(_template), of_reports.loader or FunctionLoader(lambda name: None)]
    templates = of_reports.overlay(loader=ChoiceLoader(loaders), finalize=_plain)
    templates.filters = {**of_reports.filters, "shown": lambda blocks, level=2: html.fragment(blocks, level=level)}
    return templates


def own_file(name: str) -> str:
    return resources.files("leakmeter.products.serve").joinpath("assets", name).read_text(encoding="utf-8")


def _plain(value: Any) -> Any:
    """What stands in a template's braces: a text without anything that a terminal or a line of text would obey."""
    return visible(value) if type(value) is str else value


def _template(name: str) -> str | None:
    return own_file(name) if resources.files("leakmeter.products.serve").joinpath("assets", name).is_file() else None
