"""A whole run as one HTML file that asks nothing of the network and trusts nothing it shows.

Text of the cases enters the file in one way only, through Jinja's escaping after `shade.visible`. The content
security policy names the hashes of our own style sheet and script, so a piece of context that somehow became markup
could still neither run, nor load, nor restyle anything. Without scripts the page keeps its shading and all its numbers.

Measured: a thousand cases of three sentences and eight tokens make 2.5 MB (2.5 kB a case) in half a second.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from leakmeter.errors import UsageError
from leakmeter.report import scale, words
from leakmeter.report.shade import Case, visible
from leakmeter.report.view import case_view, shared_settings

CASES_A_SCREEN = 20


def render_page(
    cases: Sequence[Case],
    *,
    title: str | None = None,
    command: str | None = None,
    run: Mapping[str, Any] | None = None,
) -> str:
    """The page as text: one section a case, with an index when there are several; equal input gives equal bytes."""
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup

    if not cases:
        raise UsageError("no case to show: a page needs at least one, as `leakmeter influence --json` prints them")
    shared = shared_settings(cases)
    environment = Environment(
        loader=DictLoader({"page": _asset("page.html.j2")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _style(), _asset("page.js")
    html = environment.get_template("page").render(
        title=visible(title or "What this response owes to its context"),
        # Safe to pass unescaped: both are this package's own files.
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        cases=[case_view(case, number, shared) for number, case in enumerate(cases, 1)],
        cases_a_screen=CASES_A_SCREEN,
        shared=shared,
        command=None if command is None else visible(command),
        run={visible(str(name)): visible(str(value)) for name, value in (run or {}).items()},
        beliefs=[(f"{nats:g}", scale.percent(scale.posterior(nats)), _bin(nats)) for nats in scale.BELIEF_STEPS_NATS],
        ticks=[(f"{tick:g}", scale.percent_of_axis(tick)) for tick in scale.TICKS_NATS],
        bins=scale.BINS,
        knee=scale.KNEE_NATS,
        top=scale.TOP_NATS,
        caveat=words.CAVEAT,
        Markup=Markup,
    )
    return html + "\n"


def _bin(nats: float) -> int:
    return scale.heat(nats, 0.0)


def _asset(name: str) -> str:
    return resources.files("leakmeter.report").joinpath(name).read_text(encoding="utf-8")


def _style() -> str:
    """The style sheet with the colours of the scale and the lengths of the bars written out as classes."""
    light = "".join(f".h{i}{{background:{s.paper};color:{s.ink}}}" for i, s in enumerate(scale.ramp(dark=False), 1))
    dark = "".join(f".h{i}{{background:{s.paper};color:{s.ink}}}" for i, s in enumerate(scale.ramp(dark=True), 1))
    lengths = "".join(f".w{i}{{--w:{i}%}}.f{i}{{--f:{i}%}}.p{i}{{--p:{i}%}}" for i in range(101))
    # Dark is for screens only: a page printed from a dark desktop comes out on white paper.
    ticks = "".join(
        f".axis::{side}{{content:'{tick:g}';left:calc({scale.percent_of_axis(tick)}%*.86)}}"
        for side, tick in (("before", 1.0), ("after", 10.0))
    )
    return f"{_asset('page.css')}{light}{ticks}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n{lengths}\n"


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(inline: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
