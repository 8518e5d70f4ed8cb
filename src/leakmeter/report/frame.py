"""What every page has: one file that asks nothing of the network and trusts nothing it shows.

Text enters a page in one way only, through Jinja's escaping after `shade.visible`. The content security policy names
the hashes of our own style sheet and script, so a piece of text that somehow became markup could still neither run, nor
load, nor restyle anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, Final

from leakmeter.report import scale

PAGE_BYTES: Final = 1_900_000
"""Size of a page up to which its items are shown."""


def render(template: str, *, styles: Sequence[str] = ("page.css",), script: str | None = None, **values: Any) -> str:
    """A page as text; equal input gives equal bytes.

    Args:
        template: a file of this package that extends `frame.html.j2`.
        styles: style sheets of this package; the colours of the scale are added.
        script: a script of this package; None for a page without any.
        values: what the template shows, texts made `shade.visible`.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, code = _style(styles), None if script is None else asset(script)
    html = environment.get_template(template).render(
        # Safe to pass unescaped: both are this package's own files.
        style=Markup(style),
        script=None if code is None else Markup(code),
        policy=_policy(style, code),
        scales={
            "beliefs": [
                (f"{nats:g}", scale.percent(scale.posterior(nats)), scale.heat(nats, 0.0))
                for nats in scale.BELIEF_STEPS_NATS
            ],
            "ticks": [(f"{tick:g}", scale.percent_of_axis(tick)) for tick in scale.TICKS_NATS],
            "bins": scale.BINS,
            "top": f"{scale.TOP_NATS:g}",
        },
        Markup=Markup,
        **values,
    )
    return html + "\n"


def fitting(n: int, draw: Callable[[int], str]) -> str:
    """The page of as many items, from the first, as fit into `PAGE_BYTES`, and of at least one.

    Args:
        n: items there are, one or more.
        draw: makes the page of the first so many.
    """
    page = draw(n)
    while n > 1 and (size := len(page.encode())) > PAGE_BYTES:
        n = max(1, min(n - 1, n * PAGE_BYTES // size))
        page = draw(n)
    return page


def asset(name: str) -> str:
    """A text file of this package."""
    return resources.files("leakmeter.report").joinpath(name).read_text(encoding="utf-8")


def _style(names: Sequence[str]) -> str:
    """The style sheets with the colours of the scale and the lengths of the bars written out as classes."""
    light = "".join(f".h{i}{{background:{s.paper};color:{s.ink}}}" for i, s in enumerate(scale.ramp(dark=False), 1))
    dark = "".join(f".h{i}{{background:{s.paper};color:{s.ink}}}" for i, s in enumerate(scale.ramp(dark=True), 1))
    lengths = "".join(f".w{i}{{--w:{i}%}}.f{i}{{--f:{i}%}}.p{i}{{--p:{i}%}}" for i in range(101))
    # Dark is for screens only: a page printed from a dark desktop comes out on white paper.
    ticks = "".join(
        f".axis::{side}{{content:'{tick:g}';left:calc({scale.percent_of_axis(tick)}%*.86)}}"
        for side, tick in (("before", 1.0), ("after", 10.0))
    )
    sheets = "".join(map(asset, names))
    return f"{sheets}{light}{ticks}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n{lengths}\n"


def _policy(style: str, script: str | None) -> str:
    scripts = "'none'" if script is None else f"'{_digest(script)}'"
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src {scripts}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(inline: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
