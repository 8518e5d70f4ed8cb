"""Fisher susceptibility for the terminal: one query, or many queries ranked for each Σ; 80 columns do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.plain import visible
from leakmeter.report import fisher as words
from leakmeter.report import queries, scale
from leakmeter.report import susceptibility as shared
from leakmeter.report.fisher import Summary
from leakmeter.report.paint import Composed, Paint, compact_table, heading
from leakmeter.report.shade import Case, excerpt

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_QUERIES_SHOWN: Final = 20


def fisher_view(case: Case, *, width: int | None = None) -> RenderableType:
    """One query: its values, and what they mean."""
    return Composed(lambda paint, columns: _of_query(case, paint), width)


def fisher_overview(cases: Sequence[Case], summary: Summary, *, width: int | None = None) -> RenderableType:
    """Many queries: of each Σ the mean, the queries ranked, what else explains the ranks, and factors.

    Args:
        cases: see `instruments.susceptibility.fisher.result.case_object`; one or more.
        summary: theirs, see `instruments.susceptibility.fisher.result.summary`.
        width: columns at most.
    """
    return Composed(lambda paint, columns: _of_all(cases, summary, paint), width)


def _of_query(case: Case, paint: Paint) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(words.verdict(case), style="bold")
    yield Text(words.told(case))
    yield from _remarks([case])
    yield Text()
    yield heading(f"Query {visible(case['id'])}")
    yield Text(visible(case["query"]))
    yield Text()
    yield heading("Values, nats; of identity half the trace")
    yield _values(case, paint)
    yield Text()
    yield from _foot([case])


def _values(case: Case, paint: Paint) -> Table:
    from rich.text import Text

    table = compact_table(("sigma", "value", "interval", "spread", "drift"), left=(0, 2))
    for value in case["values"]:
        nats = value["fisher_nats"]
        table.add_row(
            value["sigma"],
            Text(scale.nats_cell(nats), style=paint.style(words.shade(value["sigma"], nats))),
            Text(queries.interval_text(value), style="dim"),
            scale.nats_cell(value["spread_nats"]),
            scale.nats_cell(value["drift_nats"]),
        )
    return table


def _of_all(cases: Sequence[Case], summary: Summary, paint: Paint) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(words.headline(summary), style="bold")
    yield from _remarks(cases)
    for number, row in enumerate(summary["values"]):
        yield Text()
        yield heading(f"Queries, sigma {row['sigma']}, {words.unit(row['sigma'])}")
        yield _queries(cases, number, paint)
        explained = words.correlations(row)
        if explained is not None:
            yield Text(explained)
        if any(True for _ in shared.factor_rows(row)):
            yield Text()
            yield heading(f"Factors, mean of sigma {row['sigma']}, {words.unit(row['sigma'])}")
            yield _factors(row)
    yield Text()
    yield from _foot(cases)


def _queries(cases: Sequence[Case], number: int, paint: Paint) -> Table:
    from rich.text import Text

    table = compact_table(("#", "query", "text", "value", "interval", "entropy", "tokens"), left=(1, 2, 4), wide=2)
    for rank, case in enumerate(words.by_value(cases, number)[:_QUERIES_SHOWN], 1):
        value = case["values"][number]
        nats = value["fisher_nats"]
        table.add_row(
            str(rank),
            Text(excerpt(case["id"], 16)),
            Text(excerpt(case["query"], 80)),
            Text(scale.nats_cell(nats), style=paint.style(words.shade(value["sigma"], nats))),
            Text(queries.interval_text(value), style="dim"),
            scale.nats_cell(case["entropy_nats"]),
            f"{case['n_query_tokens']:,}",
        )
    if len(cases) > _QUERIES_SHOWN:
        table.add_row("", "", f"and {len(cases) - _QUERIES_SHOWN:,} more")
    return table


def _factors(row: Mapping[str, Any]) -> Table:
    from rich.text import Text

    table = compact_table(("factor", "level", "queries", "mean [interval]"), left=(0, 1, 3))
    before = None
    for name, level in shared.factor_rows(row):
        shown = excerpt(name, 16) if name != before else ""
        table.add_row(Text(shown), Text(excerpt(level["level"], 20)), f"{level['n']:,}", Text(words.mean_text(level)))
        before = name
    return table


def _remarks(cases: Sequence[Case]) -> Iterator[RenderableType]:
    from rich.text import Text

    for warning in queries.warnings(cases):
        yield Text(f"! {warning}", style="bold")


def _foot(cases: Sequence[Case]) -> Iterator[RenderableType]:
    from rich.text import Text

    shown = {name: value for name, value in words.settings(cases).items() if name != "Weights (SHA-256)"}
    shown["Cost"] = words.cost(cases)
    facts = " · ".join(f"{name.lower()} {value}" for name, value in shown.items())
    for line in (*words.readings(cases), words.INTERVALS, facts, words.CAVEAT):
        yield Text(line, style="dim")
