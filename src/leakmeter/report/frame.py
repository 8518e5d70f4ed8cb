"""What every page has: one file that asks nothing of the network and trusts nothing it shows.

Text enters a page in one way only, through Jinja's escaping after `shade.visible`. The content security policy names
the hashes of our own style sheet and script, so a piece of text that somehow became markup could still neither run, nor
load, nor restyle anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import resources
from typing import Any, Final

from leakmeter.report import scale
from leakmeter.report.result import noted_now
from leakmeter.stats.stats import posterior_from_even_odds

PAGE_BYTES: Final = 1_900_000
"""Size of a page up to which its items are shown."""
_OWN_POLICY: Final = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_DIGEST: Final = re.compile(r"sha256-[A-Za-z0-9+/=]{44}")
_room: ContextVar[int | None] = ContextVar("room", default=None)


def render(
    template: str,
    *,
    styles: Sequence[str] = ("page.css",),
    script: str | None = None,
    framed: Sequence[str] = (),
    **values: Any,
) -> str:
    """A page as text; equal input gives equal bytes.

    Args:
        template: a file of this package that extends `frame.html.j2`.
        styles: style sheets of this package; the colours of the scale are added.
        script: a script of this package; None for a page without any.
        framed: pages of this package that are shown within, at their `address`.
        values: what the template shows, texts made `shade.visible`.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, code = _style(styles), None if script is None else asset(script)
    page = environment.get_template(template).render(
        # Safe to pass unescaped: both are this package's own files.
        style=Markup(style),
        script=None if code is None else Markup(code),
        policy=_policy(style, code, framed),
        scales={
            "posteriors": [
                (
                    f"{nats:+g}".replace("-", "−"),
                    scale.percent(posterior_from_even_odds(nats)),
                    scale.heat(abs(nats), 0.0),
                )
                for nats in scale.POSTERIOR_STEPS_NATS
            ],
            "ticks": [(f"{tick:g}", scale.percent_of_axis(tick)) for tick in scale.TICKS_NATS],
            "bins": scale.BINS,
            "top": f"{scale.TOP_NATS:g}",
        },
        Markup=Markup,
        note=noted_now(),
        **values,
    )
    return page + "\n"


def fitting(n: int, draw: Callable[[int], str]) -> str:
    """The page of as many items, from the first, as fit into `PAGE_BYTES`, or `within` less, and of at least one.

    Args:
        n: items there are, one or more.
        draw: makes the page of the first so many.
    """
    room = _room.get() or PAGE_BYTES
    page = draw(n)
    while n > 1 and (size := len(page.encode(errors="replace"))) > room:
        n = max(1, min(n - 1, n * room // size))
        page = draw(n)
    return page


@contextmanager
def within(n_bytes: int) -> Iterator[None]:
    """Pages that are made meanwhile have so much room, which is less than `PAGE_BYTES`."""
    token = _room.set(max(1, n_bytes))
    try:
        yield
    finally:
        _room.reset(token)


def address(page: str) -> str:
    """A page as an address that holds it, a third longer: no letter of it can end the attribute it stands in.

    Links within the page work, as they would not in `srcdoc`, where they lead to the page around it.
    """
    return "data:text/html;charset=utf-8;base64," + base64.b64encode(page.encode(errors="replace")).decode()


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


def _policy(style: str, script: str | None, framed: Sequence[str]) -> str:
    """What the page may do. A page shown within is under this policy as well as its own."""
    styles, scripts = {_digest(style): None}, {} if script is None else {_digest(script): None}
    for page in framed:
        own = _OWN_POLICY.search(page)
        told = dict(part.split(" ", 1) for part in html.unescape(own[1]).split("; ")) if own else {}
        for known, name in ((styles, "style-src"), (scripts, "script-src")):
            known.update(dict.fromkeys(_DIGEST.findall(told.get(name, ""))))
    return (
        f"default-src 'none'; style-src {_sources(styles)}; script-src {_sources(scripts)}; "
        f"{'frame-src data:; ' if framed else ''}img-src data:; base-uri 'none'; form-action 'none'"
    )


def _sources(digests: Iterable[str]) -> str:
    return " ".join(f"'{digest}'" for digest in digests) or "'none'"


def _digest(inline: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
