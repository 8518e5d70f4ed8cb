"""What ICL influence found: losses by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.report import icl
from leakmeter.report.drawing import Bar, Drawing, columns, inches, rows
from leakmeter.report.findings import Findings
from leakmeter.report.shade import Case

Summary = Mapping[str, Any]
_EXEMPLARS_AT_MOST: Final = 40


def of_icl(cases: Sequence[Case], summary: Summary) -> Findings:
    """Loss by place of the exemplar, and of each exemplar where all queries have the same."""
    headline = icl.headline(summary, cases) if len(cases) > 1 else icl.verdict(cases[0])
    figures = {}
    places = [
        Bar(str(row["position"]), row["mean_nats"], row["interval_nats"]) for row in _finite(summary["positions"])
    ]
    about = f"Means over {len(cases):,} queries with 95 % bootstrap intervals" if len(cases) > 1 else ""
    if places:
        figures["positions"] = Drawing(
            "Loss by the place of the exemplar",
            ("positions",),
            lambda panel, _: columns(panel, places, x_label="place of the exemplar", y_label="loss without it, nats"),
            footer=about,
            panel_inches=(max(4.8, 1.2 + 0.34 * len(places)), 3.6),
        )
    shown = sorted(_finite(summary["exemplars"] or []), key=lambda row: -row["mean_nats"])[:_EXEMPLARS_AT_MOST]
    if shown:
        bars = [Bar(f"{row['position']}: {row['text']}", row["mean_nats"], row["interval_nats"]) for row in shown]
        figures["exemplars"] = Drawing(
            "Loss of each exemplar, largest first",
            ("exemplars",),
            lambda panel, _: rows(panel, bars, x_label="loss without it, nats"),
            footer=about,
            panel_inches=inches(len(bars)),
        )
    return Findings(headline, summary, figures)


def _finite(found: Sequence[Summary]) -> list[Summary]:
    return [row for row in found if row["mean_nats"] is not None]
