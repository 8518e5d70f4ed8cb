"""What susceptibility found: queries and contexts in order, and what else explains the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.report import fisher, susceptibility
from leakmeter.report.drawing import Bar, Drawing, inches, label, rows
from leakmeter.report.findings import Findings
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case
from leakmeter.report.small_multiples import COLOURS, MARKERS

Summary = Mapping[str, Any]
_ROWS_AT_MOST: Final = 40
_EXPLANATIONS: Final = {
    "length": ("n_query_tokens", "tokens of the query"),
    "entropy": ("entropy_nats", "entropy, nats"),
}


def of_susceptibility(cases: Sequence[Case], summary: Summary) -> Findings:
    """Queries with their intervals and contexts, both from the top."""
    headline = susceptibility.headline(summary, cases) if len(cases) > 1 else susceptibility.verdict(cases[0])
    text = {case["id"]: case["query"] for case in cases}
    queries = [
        Bar(f"{row['id']}: {text[row['id']]}", row["susceptibility_nats"], row["interval_nats"])
        for row in summary["queries"][:_ROWS_AT_MOST]
    ]
    contexts = [
        Bar(f"{row['id']}: {row['text']}", row["mean_persuasion_nats"]) for row in summary["contexts"][:_ROWS_AT_MOST]
    ]
    figures = {
        "queries": Drawing(
            "Queries by their susceptibility",
            ("queries",),
            lambda panel, _: rows(panel, queries, x_label="susceptibility, nats"),
            footer="Bars: 95 % intervals over contexts" + _first(len(queries), summary["n"]),
            panel_inches=inches(len(queries)),
        ),
        "contexts": Drawing(
            "Contexts by their persuasion",
            ("contexts",),
            lambda panel, _: rows(panel, contexts, x_label="persuasion, mean over queries, nats", colour=COLOURS[2]),
            footer=_first(len(contexts), len(summary["contexts"])).lstrip("; "),
            panel_inches=inches(len(contexts)),
        ),
    }
    return Findings(headline, summary, figures)


def of_fisher(cases: Sequence[Case], summary: Summary) -> Findings:
    """Values of each Σ against length and entropy of the query."""
    headline = fisher.headline(summary) if len(cases) > 1 else fisher.verdict(cases[0])
    panels = {
        f"{row['sigma']}, {what}": (number, what)
        for number, row in enumerate(summary["values"])
        for what in _EXPLANATIONS
    }

    def paint(panel: Any, name: str) -> None:
        number, what = panels[name]
        row, (field, x_label) = summary["values"][number], _EXPLANATIONS[what]
        values = [case["values"][number] for case in cases]
        xs, ys = [case[field] for case in cases], [value["fisher_nats"] for value in values]
        ends = [value["interval_nats"] or (y, y) for value, y in zip(values, ys, strict=True)]
        # Rounding can put the interval of equal values beside their mean.
        arms = [
            [max(y - low, 0.0) for y, (low, _) in zip(ys, ends, strict=True)],
            [max(high - y, 0.0) for y, (_, high) in zip(ys, ends, strict=True)],
        ]
        look = {"color": COLOURS[number % len(COLOURS)], "fmt": MARKERS[number % len(MARKERS)], "alpha": 0.75}
        panel.errorbar(xs, ys, yerr=arms, capsize=2, markersize=4, elinewidth=0.8, **look)
        panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
        panel.set_xlabel(x_label)
        panel.set_ylabel(f"Fisher susceptibility, {fisher.unit(row['sigma'])}")
        rank = row[f"spearman_with_{what}"]
        said = "" if rank is None else f", Spearman {nats_text(rank)}"
        panel.set_title(f"Σ {label(row['sigma'])}{said}", fontsize=9)

    figures = {
        "values": Drawing(
            "Fisher susceptibility, and what else explains it",
            list(panels),
            paint,
            footer="Bars: 95 % intervals over random directions",
        )
    }
    return Findings(headline, summary, figures)


def _first(n_shown: int, n: int) -> str:
    return f"; the first {n_shown:,} of {n:,}" if n_shown < n else ""
