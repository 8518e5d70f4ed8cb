"""ICL influence for the terminal: one query and its exemplars, or what many queries say together; 80 columns do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from leakmeter.core.plain import visible
from leakmeter.report import icl, queries, scale, words
from leakmeter.report.icl import Summary
from leakmeter.report.paint import Composed, Paint, compact_table, facts, heading
from leakmeter.report.shade import Case, excerpt

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_QUERIES_SHOWN: Final = 8
_LABEL_CHARACTERS: Final = 14


def icl_view(case: Case, *, width: int | None = None) -> RenderableType:
    """One query: what it owes, its answer with and without the worst exemplar, and every exemplar's loss."""
    return Composed(lambda paint, columns: _of_query(case, paint, columns), width)


def icl_overview(cases: Sequence[Case], summary: Summary, *, width: int | None = None) -> RenderableType:
    """Many queries: ICLInf and accuracy, positions, labels, the exemplars that leak most, and where.

    Args:
        cases: see `instruments.icl.result.case_object`; one or more.
        summary: theirs, see `instruments.icl.result.summary`.
        width: columns at most.
    """
    return Composed(lambda paint, columns: _of_all(cases, summary, paint, columns), width)


def _of_query(case: Case, paint: Paint, columns: int) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(icl.verdict(case), style="bold")
    yield Text(icl.posterior(case))
    for warning in queries.warnings([case]):
        yield Text(f"! {warning}", style="bold")
    yield Text()
    yield heading(f"Query {visible(case['id'])}")
    yield Text(visible(case["query"]))
    yield Text()
    yield heading("Answer")
    yield Text(icl.answer(case))
    yield _probabilities(case)
    yield Text()
    yield heading("Exemplars, by what the answer owes to each, nats")
    yield _exemplars(case, paint, columns)
    yield Text()
    yield Text(icl.READING, style="dim")
    floor = scale.nats_text(case["noise_floor_nats"])
    yield facts({**icl.settings(case), "Noise floor": f"{floor}\u00a0nats", "Cost": queries.cost([case])})


def _probabilities(case: Case) -> Table:
    from rich.text import Text

    without = icl.worst_exemplar(case)["name"]
    table = compact_table(("label", "with all", f"without {visible(without)}", "nats", ""), left=(0, 4))
    rows, n_more = icl.label_rows(case)
    for row in rows:
        table.add_row(
            Text(excerpt(row.label, 24), style="bold" if row.is_prediction else ""),
            icl.probability(row.probability),
            icl.probability(row.without),
            scale.signed_cell(row.signed_nats),
            "right" if row.is_gold else "",
        )
    if n_more:
        table.add_row(f"and {n_more} more")
    return table


def _exemplars(case: Case, paint: Paint, columns: int) -> Table:
    from rich.text import Text

    bar_columns = 10 if columns >= 72 else 0
    heads = ("#", "id", "label", "text", "nats", "changes most", *([""] if bar_columns else []), "posterior")
    table = compact_table(heads, left=(1, 2, 3, 5, len(heads) - 2), wide=3)
    for one in case["exemplars"]:
        nats = queries.infinite(one["loss_nats"])
        heat = scale.heat(nats, case["noise_floor_nats"])
        table.add_row(
            str(one["position"]),
            Text(excerpt(one["id"] or one["name"], 12)),
            Text(excerpt(one["label"] or "", _LABEL_CHARACTERS)),
            Text(excerpt(one["text"], 60)),
            Text(scale.nats_cell(nats), style=paint.style(heat)),
            Text(excerpt(icl.changed(one), _LABEL_CHARACTERS)),
            *([paint.bar(nats, heat, bar_columns)] if bar_columns else []),
            words.posterior_cell(one),
        )
    return table


def _of_all(cases: Sequence[Case], summary: Summary, paint: Paint, columns: int) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(icl.headline(summary, cases), style="bold")
    yield Text(icl.accuracy(summary), style="bold")
    yield Text(icl.meaning(summary))
    told = icl.vocabulary(cases)
    if told is not None:
        yield Text(told)
    for warning in queries.warnings(cases):
        yield Text(f"! {warning}", style="bold")
    if summary["exemplars"]:
        yield Text()
        yield heading("Exemplars, by what the answers owe to each, mean nats")
        yield _fixed(summary, paint)
    elif len(summary["positions"]) > 1:
        yield Text()
        yield heading("Positions: what the answers owe to the exemplar there, mean nats")
        yield _positions(summary, paint, columns)
    yield Text()
    yield heading("Labels")
    yield _labels(cases, summary)
    yield Text()
    yield heading("Queries with the largest losses")
    yield _queries(cases, paint)
    yield Text()
    yield Text(icl.INTERVALS, style="dim")
    yield Text(icl.READING, style="dim")
    yield Text(icl.noise(summary, cases), style="dim")
    yield facts({**icl.settings(cases[0]), "Cost": queries.cost(cases)})
    yield Text(icl.CAVEAT, style="dim")


def _positions(summary: Summary, paint: Paint, columns: int) -> Table:
    from rich.text import Text

    table = compact_table(("position", "mean [interval]", "std", ""), left=(1, 3))
    for row in summary["positions"]:
        mean = queries.infinite(row["mean_nats"])
        std = scale.NOT_MEASURED if row["std_nats"] is None else scale.nats_text(row["std_nats"])
        bar = paint.bar(mean, scale.heat(mean, 0.0), max(10, min(40, columns - 44)))
        table.add_row(str(row["position"]), Text(icl.mean_text(row)), std, bar)
    return table


def _fixed(summary: Summary, paint: Paint) -> Table:
    from rich.text import Text

    table = compact_table(
        ("#", "id", "label", "text", "mean [interval]", "most", "worst in"), left=(1, 2, 3, 4), wide=3
    )
    for row in sorted(summary["exemplars"], key=lambda row: -queries.infinite(row["mean_nats"])):
        mean = queries.infinite(row["mean_nats"])
        table.add_row(
            str(row["position"]),
            Text(excerpt(row["id"] or row["name"], 12)),
            Text(excerpt(row["label"] or "", _LABEL_CHARACTERS)),
            Text(excerpt(row["text"], 60)),
            Text(icl.mean_text(row), style=paint.style(scale.heat(mean, 0.0))),
            scale.nats_text(queries.infinite(row["max_nats"])),
            f"{100 * row['worst_share']:.0f}\u00a0%",
        )
    return table


def _labels(cases: Sequence[Case], summary: Summary) -> Table:
    """How each label is answered, how far it moves, and what exemplars that have it do."""
    from rich.text import Text

    own = icl.by_own_label(cases)
    knows = bool(summary["n_with_label"])
    heads = ("label", *(("right", "F1") if knows else ()), "predicted", "moves by", "exemplars with it")
    table = compact_table(heads, left=(0,))
    for row in summary["labels"]:
        label = row["label"]
        f1 = scale.NOT_MEASURED if row["f1"] is None else f"{row['f1']:.2f}"
        table.add_row(
            Text(excerpt(label, 24)),
            *((f"{row['n_right_label']:,}", f1) if knows else ()),
            f"{row['n_predicted']:,}",
            scale.nats_text(queries.infinite(row["mean_nats"])),
            scale.nats_text(own[label]) if label in own else scale.NOT_MEASURED,
        )
    return table


def _queries(cases: Sequence[Case], paint: Paint) -> Table:
    from rich.text import Text

    table = compact_table(("query", "text", "answer", "right", "nats", "by", "posterior"), left=(0, 1, 2, 3, 5), wide=1)
    for case in icl.by_loss(cases)[:_QUERIES_SHOWN]:
        nats, worst = queries.infinite(case["loss_nats"]), icl.worst_exemplar(case)
        table.add_row(
            Text(excerpt(case["id"], 12)),
            Text(excerpt(case["query"], 60)),
            Text(excerpt(case["prediction"], _LABEL_CHARACTERS)),
            Text(excerpt(case["gold"] or "", _LABEL_CHARACTERS)),
            Text(scale.nats_cell(nats), style=paint.style(scale.heat(nats, case["noise_floor_nats"]))),
            Text(excerpt(f"{worst['position']}: {worst['id'] or worst['name']}", 12)),
            words.posterior_cell(case),
        )
    return table
