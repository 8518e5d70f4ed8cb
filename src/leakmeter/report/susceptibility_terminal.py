"""Susceptibility for the terminal: one query and its contexts, or many queries ranked; 80 columns do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from leakmeter.core.plain import visible
from leakmeter.report import queries, scale
from leakmeter.report import susceptibility as words
from leakmeter.report.paint import Composed, Paint, compact_table, facts, heading
from leakmeter.report.shade import Case, excerpt
from leakmeter.report.susceptibility import Summary

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_CONTEXTS_SHOWN: Final = 12
_QUERIES_SHOWN: Final = 20
_WIDE_COLUMNS: Final = 72


def susceptibility_view(case: Case, *, width: int | None = None) -> RenderableType:
    """One query: how far contexts move it, what that means, and its contexts by persuasion."""
    return Composed(lambda paint, columns: _of_query(case, paint, columns), width)


def susceptibility_overview(cases: Sequence[Case], summary: Summary, *, width: int | None = None) -> RenderableType:
    """Many queries: the mean, queries by susceptibility, contexts by persuasion, factors.

    Args:
        cases: see `instruments.susceptibility.result.case_object`; one or more.
        summary: theirs, see `instruments.susceptibility.result.summary`.
        width: columns at most.
    """
    return Composed(lambda paint, columns: _of_all(cases, summary, paint, columns), width)


def _of_query(case: Case, paint: Paint, columns: int) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(words.verdict(case), style="bold")
    yield Text(words.told(case))
    yield from _remarks([case], words.memorisation(case["memorisation"]))
    yield Text()
    yield heading(f"Query {visible(case['id'])}")
    yield Text(visible(case["query"]))
    yield Text()
    yield heading("Contexts, by persuasion, nats")
    yield _contexts(case, paint, columns)
    yield Text()
    yield Text(words.reading([case]), style="dim")
    floor = scale.nats_text(case["noise_floor_nats"])
    yield facts({**words.settings([case]), "Noise floor": f"{floor}\u00a0nats", "Cost": queries.cost([case])})


def _contexts(case: Case, paint: Paint, columns: int) -> Table:
    from rich.text import Text

    floor = queries.infinite(case["noise_floor_nats"])
    ranked = words.by_persuasion(case)
    table = compact_table(("#", "id", "text", "nats", "", "from bare"), left=(1, 2, 4), wide=2)
    for context in ranked[:_CONTEXTS_SHOWN]:
        nats = context["persuasion_nats"]
        heat = scale.heat(nats, floor)
        table.add_row(
            str(context["rank"]),
            Text(excerpt(context["id"], 16)),
            Text(excerpt(context["text"], 80)),
            Text(scale.nats_cell(nats), style=paint.style(heat)),
            paint.bar(nats, heat, 8 if columns >= _WIDE_COLUMNS else 0),
            scale.nats_cell(queries.infinite(context["persuasion_from_bare_nats"])),
        )
    if len(ranked) > _CONTEXTS_SHOWN:
        table.add_row("", "", f"and {len(ranked) - _CONTEXTS_SHOWN:,} more")
    return table


def _of_all(cases: Sequence[Case], summary: Summary, paint: Paint, columns: int) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(words.headline(summary, cases), style="bold")
    yield Text(words.meaning(summary, cases))
    yield from _remarks(cases, words.memorisation(summary["memorisation"]))
    yield Text()
    yield heading("Queries, by susceptibility, nats")
    yield _queries(cases, paint, columns)
    yield Text()
    yield heading("Contexts, by mean persuasion, nats")
    yield _persuasive(summary, paint)
    if any(True for _ in words.factor_rows(summary)):
        yield Text()
        yield heading("Factors, mean susceptibility, nats")
        yield _factors(summary, paint, columns)
    yield Text()
    yield Text(words.reading(cases), style="dim")
    yield Text(words.INTERVALS, style="dim")
    yield Text(words.noise(summary, cases), style="dim")
    yield facts({**words.settings(cases), "Cost": queries.cost(cases)})
    yield Text(words.CAVEAT, style="dim")


def _remarks(cases: Sequence[Case], memorisation: str | None) -> Iterator[RenderableType]:
    from rich.text import Text

    if memorisation is not None:
        yield Text(memorisation)
    for warning in queries.warnings(cases):
        yield Text(f"! {warning}", style="bold")


def _queries(cases: Sequence[Case], paint: Paint, columns: int) -> Table:
    from rich.text import Text

    table = compact_table(("#", "query", "text", "nats", "interval", "", "of most"), left=(1, 2, 4, 5), wide=2)
    for rank, case in enumerate(words.by_susceptibility(cases)[:_QUERIES_SHOWN], 1):
        nats = case["susceptibility_nats"]
        heat = scale.heat(nats, queries.infinite(case["noise_floor_nats"]))
        share = case["share_of_ceiling"]
        table.add_row(
            str(rank),
            Text(excerpt(case["id"], 16)),
            Text(excerpt(case["query"], 80)),
            Text(scale.nats_cell(nats), style=paint.style(heat)),
            Text(queries.interval_text(case), style="dim"),
            paint.bar(nats, heat, 6 if columns >= _WIDE_COLUMNS else 0),
            scale.NOT_MEASURED if share is None else f"{100 * share:.0f}\u00a0%",
        )
    if len(cases) > _QUERIES_SHOWN:
        table.add_row("", "", f"and {len(cases) - _QUERIES_SHOWN:,} more")
    return table


def _persuasive(summary: Summary, paint: Paint) -> Table:
    from rich.text import Text

    table = compact_table(("#", "context", "text", "queries", "nats", "from bare"), left=(1, 2), wide=2)
    rows = summary["contexts"]
    for rank, row in enumerate(rows[:_CONTEXTS_SHOWN], 1):
        nats = row["mean_persuasion_nats"]
        table.add_row(
            str(rank),
            Text(excerpt(row["id"], 16)),
            Text(excerpt(row["text"], 80)),
            f"{row['n']:,}",
            Text(scale.nats_cell(nats), style=paint.style(scale.heat(nats, 0.0))),
            scale.nats_cell(queries.infinite(row["mean_from_bare_nats"])),
        )
    if len(rows) > _CONTEXTS_SHOWN:
        table.add_row("", "", f"and {len(rows) - _CONTEXTS_SHOWN:,} more")
    return table


def _factors(summary: Summary, paint: Paint, columns: int) -> Table:
    from rich.text import Text

    table = compact_table(("factor", "level", "queries", "mean [interval]", ""), left=(0, 1, 3, 4))
    before = None
    for name, row in words.factor_rows(summary):
        mean = row["mean_nats"]
        bar = paint.bar(mean, scale.heat(mean, 0.0), max(6, min(30, columns - 56)))
        shown = excerpt(name, 16) if name != before else ""
        table.add_row(Text(shown), Text(excerpt(row["level"], 20)), f"{row['n']:,}", Text(words.mean_text(row)), bar)
        before = name
    return table
