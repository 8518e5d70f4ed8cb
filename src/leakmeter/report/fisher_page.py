"""Fisher susceptibility of many queries as one HTML file without any script (see `frame`).

Of each Σ the queries highest first, `QUERIES_SHOWN` of them; beyond that the page says how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.report import fisher as words
from leakmeter.report import frame, queries, scale
from leakmeter.report import susceptibility as shared
from leakmeter.report.fisher import Summary
from leakmeter.report.shade import Case, excerpt
from leakmeter.report.view import View, origin_view

QUERIES_SHOWN: Final = 1000
_CHARACTERS: Final = 300


def render_fisher(
    cases: Sequence[Case], summary: Summary, *, command: str | None = None, run: Mapping[str, Any] | None = None
) -> str:
    """The page as text; equal input gives equal bytes.

    Args:
        cases: as `leakmeter susceptibility --estimator fisher --json` prints them, one or more.
        summary: theirs, see `instruments.susceptibility.fisher.result.summary`.
        command: the command line they came from.
        run: what is said of the run they lie in, by name.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError(
            "no query to show: a page needs at least one, as `leakmeter susceptibility --json` prints them"
        )
    several = len(cases) > 1
    return frame.render(
        "fisher.html.j2",
        styles=("page.css", "receipts.css", "icl.css"),
        title="How far these answers would move",
        headline=words.headline(summary) if several else words.verdict(cases[0]),
        told=None if several else words.told(cases[0]),
        readings=[*words.readings(cases), words.INTERVALS],
        caveat=words.CAVEAT,
        warnings=queries.warnings(cases),
        sigmas=[_sigma(cases, number, row) for number, row in enumerate(summary["values"])],
        settings={**words.settings(cases), "Cost": words.cost(cases)},
        n_queries=len(cases),
        n_left_out=max(0, len(cases) - QUERIES_SHOWN),
        **origin_view(command, run),
    )


def _sigma(cases: Sequence[Case], number: int, row: Mapping[str, Any]) -> View:
    ranked = words.by_value(cases, number)[:QUERIES_SHOWN]
    return {
        "name": row["sigma"],
        "unit": words.unit(row["sigma"]),
        "correlations": words.correlations(row),
        "queries": [_query(rank, case, case["values"][number]) for rank, case in enumerate(ranked, 1)],
        "factors": [
            {
                "factor": excerpt(name, 40),
                "level": excerpt(level["level"], 40),
                "n": f"{level['n']:,}",
                "mean": scale.nats_cell(level["mean_nats"]),
                "interval": queries.interval_text(level),
            }
            for name, level in shared.factor_rows(row)
        ],
    }


def _query(rank: int, case: Case, value: Mapping[str, Any]) -> View:
    return {
        "rank": rank,
        "id": excerpt(case["id"], 40),
        "text": excerpt(case["query"], _CHARACTERS),
        "value": scale.nats_cell(value["fisher_nats"]),
        "heat": words.shade(value["sigma"], value["fisher_nats"]),
        "interval": queries.interval_text(value),
        "spread": scale.nats_cell(value["spread_nats"]),
        "drift": scale.nats_cell(value["drift_nats"]),
        "entropy": scale.nats_cell(case["entropy_nats"]),
        "n_tokens": f"{case['n_query_tokens']:,}",
    }
