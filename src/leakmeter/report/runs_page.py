"""Several runs as one HTML file (see `frame`): what each found, how far those of one measure differ, and their pages.

Each run's page lies whole within this one, in a frame of its own that may run the page's script and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.core.check import Number
from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import frame
from leakmeter.report.check_words import interval_text
from leakmeter.report.comparison_terminal import setting_line
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import excerpt
from leakmeter.report.view import View

_NAME: Final = 80
_HEADLINE: Final = 600
_SELF_BYTES: Final = 60_000
"""Kept for what is around the pages."""


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as the page shows it."""

    directory: str
    measure: str
    model: str
    n_cases: int
    headline: str
    quantities: Mapping[str, Number]
    """By QUANTITY.AGGREGATE."""
    about: Mapping[str, str]
    """By the same names, one sentence of what each means."""
    draw: Callable[[], str]
    """Makes its page."""


@dataclass(frozen=True, slots=True)
class ShownComparison:
    """How far a run differs from the first of its measure; both by their numbers, from 0."""

    first: int
    second: int
    told: Mapping[str, Any]
    """See `runs.compare.comparison_object`."""


def render_runs(runs: Sequence[ShownRun], comparisons: Sequence[ShownComparison] = ()) -> str:
    """The page as text; equal input gives equal bytes. Of pages that can be cut, each gets its share of the room.

    Args:
        runs: two or more, in the order in which they are shown.
        comparisons: of runs of one measure.

    Raises:
        UsageError: there is no run.
    """
    if not runs:
        raise UsageError("no run to show: give at least one")
    pages = _pages(runs)
    return frame.render(
        "runs.html.j2",
        styles=("page.css", "runs.css"),
        framed=pages,
        title=f"{len(runs):,} runs",
        runs=[_run(number, run, page) for number, (run, page) in enumerate(zip(runs, pages, strict=True), 1)],
        measures=_measures(runs),
        comparisons=[_comparison(one) for one in comparisons],
    )


def _pages(runs: Sequence[ShownRun]) -> list[str]:
    """What one does not need is left to those behind it."""
    pages: list[str] = []
    room = frame.PAGE_BYTES - _SELF_BYTES
    for number, run in enumerate(runs):
        # An address takes four bytes for three.
        with frame.within(room // (len(runs) - number) * 3 // 4):
            pages.append(run.draw())
        room -= len(frame.address(pages[-1]))
    return pages


def _run(number: int, run: ShownRun, page: str) -> View:
    return {
        "number": number,
        "directory": excerpt(run.directory, _NAME),
        "measure": visible(run.measure),
        "model": excerpt(run.model, _NAME),
        "n_cases": f"{run.n_cases:,}",
        "headline": excerpt(run.headline, _HEADLINE) or "–",
        "address": frame.address(page),
    }


def _measures(runs: Sequence[ShownRun]) -> list[View]:
    """Of each measure its quantities, a column a run."""
    out = []
    for measure in dict.fromkeys(run.measure for run in runs):
        of_measure = [(number, run) for number, run in enumerate(runs, 1) if run.measure == measure]
        names = dict.fromkeys(name for _, run in of_measure for name in run.quantities)
        out.append(
            {
                "name": visible(measure),
                "numbers": [number for number, _ in of_measure],
                "rows": [_row(name, [run for _, run in of_measure]) for name in names],
            }
        )
    return out


def _row(name: str, runs: Sequence[ShownRun]) -> View:
    found = [run.quantities.get(name) for run in runs]
    return {
        "name": name,
        "about": next(run.about[name] for run in runs if name in run.about),
        "unit": next(number.unit for number in found if number is not None),
        "cells": [
            ("–", "") if one is None else (f"{nats_text(one.value)}{interval_text(one.interval)}", f"{one.n:,}")
            for one in found
        ],
    }


def _comparison(one: ShownComparison) -> View:
    told = one.told
    return {
        "first": one.first + 1,
        "second": one.second + 1,
        "n_pairs": told["n_pairs"],
        "n_other_texts": told["n_other_texts"],
        "settings": [setting_line(of["name"], of["first"], of["second"]) for of in told["settings"]],
        "rows": [
            {
                "name": row["quantity"],
                "unit": row["unit"],
                "values": [nats_text(row[which]) for which in ("first", "second")],
                "difference": f"{nats_text(row['difference'])}{interval_text(row['interval'])}",
                "p": _p(row["holm_p_value"]),
                "n": f"{row['n_pairs']:,}",
                "verdict": row["verdict"] or "–",
            }
            for row in told["quantities"]
        ],
    }


def _p(p: float | None) -> str:
    return "–" if p is None or math.isnan(p) else f"{p:.2g}"
