"""What Fisher susceptibility says of one query or of many, as blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility import words as shared
from leakmeter.instruments.susceptibility.fisher import words
from leakmeter.instruments.susceptibility.fisher.words import Summary
from leakmeter.report import blocks as b
from leakmeter.report import words as shared_words
from leakmeter.report.scale import nats_cell, nats_text
from leakmeter.report.shade import Case

_ID: Final = 40
_TEXT: Final = 300
_EXPLANATIONS: Final = {
    "length": ("n_query_tokens", b.Axis("tokens of the query")),
    "entropy": ("entropy_nats", b.Axis("entropy", "nats")),
}
_NOTES: Final = (
    ("Value", "½ (tr(I Σ) + μᵀ I μ), with the Fisher information I of the next token about the vectors of a place, and "
              "covariance Σ and mean μ of how these change."),
    ("Spread", "its first term, to second order the mutual information of context and answer."),
    ("Drift", "its second term, to second order the divergence of the answer without context from the mixture over "
              "contexts."),
)  # fmt: skip


def report(
    cases: Sequence[Case],
    summary: Summary,
    *,
    command: str | None = None,
    provenance: b.Provenance = b.Provenance(),  # noqa: B008 (frozen)
) -> b.Report:
    """One query with its values, or many queries: of each Σ the queries ranked, what explains the ranks, and factors.

    Args:
        cases: see `instruments.susceptibility.fisher.result.case_object`; one or more.
        summary: theirs, see `instruments.susceptibility.fisher.result.summary`.
        command: the command line they came from.
        provenance: of the run they lie in.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError(
            "no query to show: a report needs at least one, as `leakmeter susceptibility --json` prints it"
        )
    several = len(cases) > 1
    settings = {**words.settings(cases), "Cost": words.cost(cases)}
    measurements = [*words.measurements(cases), words.INTERVALS]
    found: list[b.Block] = [b.Headline(_headline(cases, summary))]
    if not several:
        found.append(b.Text(words.told(cases[0])))
    found += [b.Text(line, "soft") for line in measurements]
    found.append(b.Details("Settings and cost", b.facts_of(settings)))
    found += [b.Warning(b.Untrusted(warning)) for warning in shared_words.warnings(cases)]
    if not several:
        name = b.Untrusted(cases[0]["id"], _ID)
        found.append(b.Text(b.Untrusted(cases[0]["query"]), "prose", heading=("Query ", name)))
        found.append(_values(cases[0]))
    else:
        for number, row in enumerate(summary["values"]):
            found.append(b.Part(("Sigma ", b.Untrusted(row["sigma"])), _sigma(cases, number, row)))
    found.append(_chart(cases, summary))
    n = "a query" if not several else f"each of {len(cases):,} queries"
    return b.Report(
        "How far these answers would move",
        "susceptibility",
        found,
        lead=f"From gradients of a language model: how fast its answer to {n} begins to move when the vectors it reads "
        "change.",
        caveat=words.CAVEAT,
        notes=[b.Facts(_NOTES)],
        provenance=provenance,
        command=None if command is None else b.Command(b.Untrusted(command)),
    )


def _headline(cases: Sequence[Case], summary: Summary) -> str:
    return words.headline(summary) if len(cases) > 1 else words.verdict(cases[0])


def _values(case: Case) -> b.Table:
    columns = (
        b.Column("Sigma"),
        b.Column("Value", "nats", shade=True),
        b.Column("Interval", "interval"),
        b.Column("Spread", "nats"),
        b.Column("Drift", "nats"),
    )
    rows = [
        b.Row((
            value["sigma"],
            # Colours stand for nats, which a trace is not.
            nats_cell(value["fisher_nats"]) if words.is_rank(value["sigma"]) else value["fisher_nats"],
            _interval(value),
            value["spread_nats"],
            value["drift_nats"],
        ))
        for value in case["values"]
    ]  # fmt: skip
    return b.Table(columns, rows, caption="Values, nats; of identity half the trace")


def _sigma(cases: Sequence[Case], number: int, row: Mapping[str, Any]) -> list[b.Block]:
    unit, is_rank = words.unit(row["sigma"]), words.is_rank(row["sigma"])
    columns = (
        b.Column("Query"),
        b.Column("Text"),
        b.Column("Value", "nats", shade=not is_rank),
        b.Column("Interval", "interval"),
        b.Column("Spread", "nats", on="pages"),
        b.Column("Drift", "nats", on="pages"),
        b.Column("Entropy", "nats"),
        b.Column("Tokens", "count"),
    )
    ranked = [(case, case["values"][number]) for case in words.by_value(cases, number)]
    rows = [
        b.Row((
            b.Untrusted(case["id"], _ID), b.Untrusted(case["query"], _TEXT), value["fisher_nats"], _interval(value),
            value["spread_nats"], value["drift_nats"], case["entropy_nats"], case["n_query_tokens"],
        ))
        for case, value in ranked
    ]  # fmt: skip
    queries_said = ("query", "queries")
    caption = f"Queries, highest first; value: {unit}, entropy: nats"
    found: list[b.Block] = [b.Table(columns, rows, caption=caption, rest=queries_said, numbered=True)]
    explained = words.correlations(row)
    if explained is not None:
        found.insert(0, b.Text(explained))
    factors = [
        b.Row((b.Untrusted(name, _ID), b.Untrusted(level["level"], _ID), level["n"], level["mean_nats"],
               _interval(level)))
        for name, level in shared.factor_rows(row)
    ]  # fmt: skip
    if factors:
        heads = (
            b.Column("Factor"), b.Column("Level"), b.Column("Queries", "count"), b.Column("Mean", "nats", unit),
            b.Column("Interval", "interval"),
        )  # fmt: skip
        found.append(b.Table(heads, factors, caption="Factors", first=len(factors), rest=("level", "levels")))
    return found


def _chart(cases: Sequence[Case], summary: Summary) -> b.Chart:
    """Values of each Σ against length and entropy of the query."""
    panels = []
    for number, row in enumerate(summary["values"]):
        values = [case["values"][number] for case in cases]
        ys = [value["fisher_nats"] for value in values]
        ends = [value["interval_nats"] or (y, y) for value, y in zip(values, ys, strict=True)]
        for what, (name, axis) in _EXPLANATIONS.items():
            rank = row[f"spearman_with_{what}"]
            said = "" if rank is None else f", Spearman {nats_text(rank)}"
            series = b.Series(
                "scatter", ys, [case[name] for case in cases], low=[low for low, _ in ends],
                high=[high for _, high in ends], colour=number,
            )  # fmt: skip
            value_axis = b.Axis("Fisher susceptibility", words.unit(row["sigma"]))
            panels.append(b.Panel(axis, value_axis, (series,), title=("Σ ", b.Untrusted(row["sigma"]), said)))
    return b.Chart(
        "values",
        "Fisher susceptibility, and what else explains it",
        panels,
        footer="Bars: 95 % intervals over random directions",
        on="files",
    )


def _interval(row: Mapping[str, Any]) -> b.Interval | None:
    ends = row["interval_nats"]
    return None if ends is None else b.Interval(*ends)
