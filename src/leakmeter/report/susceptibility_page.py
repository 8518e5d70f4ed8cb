"""Susceptibility of many queries as one HTML file without any script (see `frame`).

Queries open one by one, most susceptible first. What does not fit into `frame.PAGE_BYTES` is left out, and the page
says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import frame, queries, scale
from leakmeter.report import susceptibility as words
from leakmeter.report.shade import Case, excerpt
from leakmeter.report.susceptibility import Summary
from leakmeter.report.view import View, origin_view

_CONTEXTS_OF_ALL: Final = 100
_CONTEXTS_OF_QUERY: Final = 20
_CHARACTERS: Final = 130


def render_susceptibility(
    cases: Sequence[Case], summary: Summary, *, command: str | None = None, run: Mapping[str, Any] | None = None
) -> str:
    """The page as text: what all queries say, and as many of them as fit; equal input gives equal bytes.

    Args:
        cases: as `leakmeter susceptibility --json` prints them, one or more.
        summary: theirs, see `instruments.susceptibility.result.summary`.
        command: the command line they came from.
        run: what is said of the run they lie in, by name.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError(
            "no query to show: a page needs at least one, as `leakmeter susceptibility --json` prints them"
        )
    shared = {**_summary(cases, summary), **origin_view(command, run)}
    views = [_query(rank, case) for rank, case in enumerate(words.by_susceptibility(cases), 1)]
    return frame.fitting(len(views), lambda n: _page(views[:n], {**shared, "n_left_out": len(views) - n}))


def _page(views: Sequence[View], shared: View) -> str:
    styles = ("page.css", "receipts.css", "icl.css")
    return frame.render("susceptibility.html.j2", styles=styles, queries=views, **shared)


def _summary(cases: Sequence[Case], summary: Summary) -> View:
    several = len(cases) > 1
    counts = summary["memorisation"] if several else cases[0]["memorisation"]
    contexts = summary["contexts"]
    return {
        "title": "How far contexts move these answers",
        "headline": words.headline(summary, cases) if several else words.verdict(cases[0]),
        "meaning": words.meaning(summary, cases) if several else words.told(cases[0]),
        "memorisation": words.memorisation(counts),
        "reading": words.reading(cases),
        "intervals": words.INTERVALS,
        "caveat": words.CAVEAT,
        "noise": words.noise(summary, cases),
        "warnings": queries.warnings(cases),
        "factors": [_factor_row(name, row) for name, row in words.factor_rows(summary)],
        "contexts": [_context_row(row) for row in contexts[:_CONTEXTS_OF_ALL]] if several else [],
        "n_more_contexts": max(0, len(contexts) - _CONTEXTS_OF_ALL),
        "settings": {**words.settings(cases), "Cost": queries.cost(cases)},
        "n_queries": len(cases),
        "n_left_out": 0,
    }


def _factor_row(name: str, row: Mapping[str, Any]) -> View:
    return {
        "factor": excerpt(name, 40),
        "level": excerpt(row["level"], 40),
        "n": f"{row['n']:,}",
        "mean": scale.nats_cell(row["mean_nats"]),
        "heat": scale.heat(row["mean_nats"], 0.0),
        "interval": queries.interval_text(row),
    }


def _context_row(row: Mapping[str, Any]) -> View:
    return {
        "id": excerpt(row["id"], 40),
        "text": excerpt(row["text"], _CHARACTERS),
        "n": f"{row['n']:,}",
        "nats": scale.nats_cell(row["mean_persuasion_nats"]),
        "heat": scale.heat(row["mean_persuasion_nats"], 0.0),
        "from_bare": scale.nats_cell(queries.infinite(row["mean_from_bare_nats"])),
    }


def _query(rank: int, case: Case) -> View:
    floor, contexts = queries.infinite(case["noise_floor_nats"]), words.by_persuasion(case)
    share = case["share_of_ceiling"]
    return {
        "rank": rank,
        "id": excerpt(case["id"], 40),
        "line": excerpt(case["query"], 90),
        "text": visible(case["query"]),
        "told": words.told(case),
        "memorisation": words.memorisation(case["memorisation"]),
        "nats": scale.nats_cell(case["susceptibility_nats"]),
        "heat": scale.heat(case["susceptibility_nats"], floor),
        "interval": queries.interval_text(case),
        "share": "" if share is None else f"{100 * share:.0f}\u00a0% of most",
        "contexts": [
            {
                "id": excerpt(context["id"], 24),
                "text": excerpt(context["text"], _CHARACTERS),
                "nats": scale.nats_cell(context["persuasion_nats"]),
                "heat": scale.heat(context["persuasion_nats"], floor),
                "from_bare": scale.nats_cell(queries.infinite(context["persuasion_from_bare_nats"])),
                "greedy": excerpt(context["greedy_answer"] or "", 40),
            }
            for context in contexts[:_CONTEXTS_OF_QUERY]
        ],
        "has_greedy": any(context["greedy_answer"] is not None for context in contexts),
        "n_more": max(0, len(contexts) - _CONTEXTS_OF_QUERY),
    }
