"""The influence of a whole run as one HTML file (see `frame`). Without scripts it keeps its shading and its numbers.

It shows as many cases as fit, those that owe most to their contexts, in their order. Measured: a case of three
sentences and eight tokens takes 2.5 kB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import frame, scale, words
from leakmeter.report.shade import Case
from leakmeter.report.view import case_view, origin_view, shared_settings

CASES_A_SCREEN = 20


def render_page(
    cases: Sequence[Case],
    *,
    title: str | None = None,
    command: str | None = None,
    run: Mapping[str, Any] | None = None,
) -> str:
    """The page as text: one section a case, with an index when there are several; equal input gives equal bytes."""
    if not cases:
        raise UsageError("no case to show: a page needs at least one, as `leakmeter influence --json` prints them")
    shared = shared_settings(cases)
    views = [case_view(case, number, shared) for number, case in enumerate(cases, 1)]
    order = sorted(range(len(cases)), key=lambda i: -cases[i]["whole_nats"])

    def page(n: int) -> str:
        return frame.render(
            "page.html.j2",
            script="page.js",
            title=visible(title or "What this response owes to its context"),
            cases=[views[i] for i in sorted(order[:n])],
            n_left_out=len(views) - n,
            cases_a_screen=CASES_A_SCREEN,
            shared=shared,
            **origin_view(command, run),
            knee=scale.KNEE_NATS,
            caveat=words.CAVEAT,
        )

    return frame.fitting(len(views), page)
