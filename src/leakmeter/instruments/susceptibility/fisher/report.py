"""Reports of Fisher susceptibility, of one query or of many: sentences and blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.instruments.susceptibility.fisher.result import (
    FEWEST_TO_CORRELATE,
    FisherResult,
    FisherSummary,
    SigmaValue,
    ValuesOfSigma,
)
from leakmeter.instruments.susceptibility.report import ID, factor_table, too_few
from leakmeter.report import blocks as b
from leakmeter.report import pictures
from leakmeter.report import words as shared_words
from leakmeter.report.scale import nats_in, nats_text
from leakmeter.stats.stats import items_for_correlation

CAVEAT: Final = (
    "Fisher susceptibility measures, from gradients at the query, how fast an answer begins to move. It does not "
    "measure the effect of actual contexts; Monte Carlo does."
)
INTERVALS: Final = (
    "In brackets: 95\u00a0% interval; of a query for other random directions (Student’s t), of a mean over queries."
)
_SCALES: Final = {
    "identity": (
        "Sigma identity is half the trace of the Fisher information, in units of squared {vectors}. It ranks the "
        "queries of one model and gives no nats for actual contexts."
    ),
    "embedding": (
        "Sigma embedding: nats, to second order, if each token were replaced by a uniformly drawn token of the "
        "vocabulary. For changes this large, second order may not hold."
    ),
    "empirical": (
        "Sigma empirical: nats, to second order, for the changes that the contexts make there. Its spread estimates "
        "the susceptibility itself, its drift the divergence of the mixture over contexts from the answer without "
        "one. For changes as large as a context makes, second order may not hold."
    ),
}
_SHORT: Final = 90
_QUERIES_LISTED: Final = 20
_EXPLAINS: Final = 0.5
EXPLAINED: Final = (
    "ranks go with the query’s length or its entropy (Spearman 0.5 or more)",
    "the ranks reveal little about contexts: compare queries of one length and form, or measure by Monte Carlo",
)
UNEXPLAINED: Final = ("ranks go with neither", "measure the top queries with actual contexts (--estimator monte-carlo)")
TOO_FEW: Final = (
    "too few queries or probes to decide",
    f"give {FEWEST_TO_CORRELATE} queries or more, with as many --probes as the report says",
)
DECISIONS: Final = (EXPLAINED, UNEXPLAINED, TOO_FEW)
_NOTES: Final = (
    ("Value", "½ (tr(I Σ) + μᵀ I μ), spread and drift together, with the Fisher information I of the next token about "
              "the vectors of a place, and covariance Σ and mean μ of how these change."),
)  # fmt: skip


def report(results: Sequence[FisherResult]) -> b.Report:
    return b.Report(
        f"How far {'this answer' if len(results) == 1 else 'these answers'} would move",
        "susceptibility",
        list(_blocks(results, FisherResult.summary(results))),
        lead="Gradients of a language model show how fast an answer begins to move when the vectors "
        "that it reads change.",
        caveat=CAVEAT,
        sections=[_section(result) for result in results] if len(results) > 1 else (),
        index=b.heads(_index(results[0])),
        index_caption="Queries, highest first",
        index_first=_QUERIES_LISTED,
        case=("query", "queries"),
        sections_left_out="that are lower",
        notes=[b.Facts(_NOTES)],
    )


# ---- sentences ------------------------------------------------------------------------------------------------------
def headline(results: Sequence[FisherResult]) -> b.Phrase:
    """Which answer begins to move fastest: the numbers rank queries, and none of them is high or low in itself."""
    if len(results) == 1:
        return "How fast this answer begins to move: compare it with those of other queries of the same run."
    fastest = max(results, key=lambda result: result.values[0].fisher_nats)
    return (
        f"Of {len(results):,} queries, the answer to “",
        b.Untrusted(fastest.query, _SHORT),
        "” begins to move fastest. These are ranks: no actual context was measured.",
    )


def numbers(results: Sequence[FisherResult], summary: FisherSummary) -> Iterator[str]:
    """The values, their intervals, and whether more random directions are needed."""
    if len(results) > 1:
        means = "; ".join(_named(nats_in(row.mean_nats, row.interval_nats), row.sigma) for row in summary.values)
        yield f"Fisher susceptibility {means}: the mean of {summary.n:,} queries."
        return
    (result,) = results
    values = "; ".join(_named(nats_in(value.fisher_nats, value.interval_nats), value.sigma) for value in result.values)
    yield f"Fisher susceptibility {values}, at place {result.place}."
    notes = (too_few(each.fisher_nats, each.interval_nats, 0.0, result.n_probes, "probes") for each in result.values)
    yield next(filter(None, notes), "")


def scales(results: Sequence[FisherResult]) -> list[str]:
    vectors = "states" if results[0].place.startswith("layer") else "embeddings"
    return [
        "0: no change of the vectors at this place moves the answer; the model ignores it.",
        *(_SCALES[sigma].format(vectors=vectors) for sigma in results[0].sigma),
    ]


def correlations(row: ValuesOfSigma) -> str | None:
    """A sentence on what else may explain a Σ's ranks; None where all queries are alike."""
    with_what = ((row.spearman_with_length, "its length"), (row.spearman_with_entropy, "the entropy of its next token"))
    phrases = [f"{nats_text(rho)} with {what}{_few(rho, row.n)}" for rho, what in with_what if rho is not None]
    if row.n < FEWEST_TO_CORRELATE or not phrases:
        return None
    return f"Spearman correlation of a query’s rank (sigma {row.sigma}): {'; '.join(phrases)}."


def _few(rho: float, n: int) -> str:
    needed = items_for_correlation(rho)
    if needed is not None and n >= needed:
        return ""
    return " (too few queries)" if needed is None else f" (too few queries: it takes {needed:,})"


def decisions(summary: FisherSummary) -> list[tuple[str, str]]:
    if summary.n < FEWEST_TO_CORRELATE:
        return [TOO_FEW]
    rhos = [rho for row in summary.values for rho in (row.spearman_with_length, row.spearman_with_entropy)]
    return [EXPLAINED if any(rho is not None and abs(rho) >= _EXPLAINS for rho in rhos) else UNEXPLAINED]


def settings(results: Sequence[FisherResult]) -> dict[str, str]:
    first = results[0]
    if first.method == "top-k":
        method = f"top-k of {first.top_k:,}"
    else:
        numbers = [result.n_probes for result in results]
        probes = " to ".join(f"{n:,}" for n in dict.fromkeys((min(numbers), max(numbers))))
        exact = f" and {first.directions:,} directions" if first.method == "deflated" else ""
        method = f"{first.method} with {probes} probes{exact}"
    costs = [result.cost for result in results]
    tokens, seconds = sum(each.tree_tokens for each in costs), sum(each.seconds for each in costs)
    return {
        **shared_words.model_facts(first),
        "Estimator": f"{first.estimator}, {method}",
        "Sigma": ", ".join(first.sigma),
        "Place": first.place,
        "Contexts": f"{first.n_contexts:,}",
        "Prompt template": first.template,
        "Seed": str(first.seed),
        "Cost": f"{tokens:,} tokens forward and backward in {seconds:.1f}\u00a0s",
    }


def _is_rank(sigma: str) -> bool:
    return sigma == "identity"


def _unit(sigma: str) -> str:
    return "half the trace" if _is_rank(sigma) else "nats"


def _named(value: str, sigma: str) -> str:
    return f"{value} (half the trace, sigma {sigma})" if _is_rank(sigma) else f"{value}\u00a0nats (sigma {sigma})"


# ---- blocks ---------------------------------------------------------------------------------------------------------
def _blocks(results: Sequence[FisherResult], summary: FisherSummary) -> Iterator[b.Block]:
    first, several = results[0], len(results) > 1
    met = decisions(summary)
    yield b.Headline(headline(results))
    yield from b.front(numbers(results, summary))
    for row in summary.values if several else ():
        if (explained := correlations(row)) is not None:
            yield b.Text(explained, detail=EXPLAINED not in met)
    yield b.Advice.from_table(DECISIONS, met)
    yield from b.warnings_of(shared_words.warnings(results))
    if several:
        yield _picture(results)
        for row in summary.values:
            caption = ("Factors, sigma ", b.Untrusted(row.sigma))
            yield from factor_table(row.factors, caption, b.Column("Mean", "nats", _unit(row.sigma)))
    else:
        yield _values(first)
        yield b.Text(b.Untrusted(first.query), "prose", heading=("Query ", b.Untrusted(first.id, ID)), detail=True)
    # Some of the numbers are no nats.
    for number, line in enumerate((*scales(results), INTERVALS)):
        yield b.Text(line, "soft", detail=not 0 < number <= len(results[0].sigma))
    yield b.Details("Settings and cost", b.facts_of(settings(results)))
    yield _chart(results, summary)


def _picture(results: Sequence[FisherResult]) -> b.Chart:
    """The queries by their rank."""
    ranked = sorted(results, key=lambda result: -result.values[0].fisher_nats)[:_QUERIES_LISTED]
    sigma = results[0].values[0].sigma
    lines = [
        pictures.PictureLine(
            b.Untrusted(result.query, 42),
            result.values[0].fisher_nats,
            nats_text(result.values[0].fisher_nats),
            ends=result.values[0].interval_nats,
        )
        for result in ranked
    ]
    left_out = f"; the first {_QUERIES_LISTED} of {len(results):,}" if len(results) > _QUERIES_LISTED else ""
    return pictures.picture(
        "queries",
        "How fast the answer to each query begins to move",
        b.Axis(("Fisher susceptibility, sigma ", b.Untrusted(sigma)), _unit(sigma)),
        lines,
        footer=f"Bars: 95\u00a0% intervals over random directions{left_out}",
    )


def _ranking(value: SigmaValue) -> b.Cell:
    # Colours stand for nats, which a trace is not.
    return b.finding(value.fisher_nats, is_finding=not _is_rank(value.sigma))


def _values(result: FisherResult) -> b.Table:
    columns: b.Columns[SigmaValue] = [
        (b.Column("Sigma"), lambda value: value.sigma),
        (b.Column("Value", "nats", shade=True), _ranking),
        (b.Column("Interval", "interval"), lambda value: b.interval(value.interval_nats)),
        (b.Column("Spread", "nats"), lambda value: value.spread_nats),
        (b.Column("Drift", "nats"), lambda value: value.drift_nats),
    ]
    return b.table_of(result.values, columns, caption="Values, nats; of identity half the trace", first=20)


def _index(first: FisherResult) -> b.Columns[FisherResult]:
    ranking, *others = [
        (
            b.Column(b.Untrusted(value.sigma), "nats", shade=not _is_rank(value.sigma)),
            lambda result, number=number: _ranking(result.values[number]),
        )
        for number, value in enumerate(first.values)
    ]
    return [
        ranking,
        (b.Column("Text"), lambda result: b.Untrusted(result.query, _SHORT)),
        (b.Column("Interval", "interval"), lambda result: b.interval(result.values[0].interval_nats)),
        *others,
        (b.Column("Entropy", "nats"), lambda result: result.entropy_nats),
        (b.Column("Tokens", "count"), lambda result: result.n_query_tokens),
    ]


def _section(result: FisherResult) -> b.Section:
    cells = b.cells(_index(result), result)
    blocks: list[b.Block] = [b.Text(b.Untrusted(result.query), "prose"), _values(result)]
    return b.Section(b.Untrusted(result.id, ID), blocks, cells, weight=result.values[0].fisher_nats)


def _chart(results: Sequence[FisherResult], summary: FisherSummary) -> b.Chart:
    lengths: list[float] = [result.n_query_tokens for result in results]
    entropies = [result.entropy_nats for result in results]
    panels = []
    for number, row in enumerate(summary.values):
        values = [result.values[number] for result in results]
        ends = [value.interval_nats or (value.fisher_nats,) * 2 for value in values]
        for xs, axis, rank in (
            (lengths, b.Axis("tokens of the query"), row.spearman_with_length),
            (entropies, b.Axis("entropy", "nats"), row.spearman_with_entropy),
        ):
            correlation = "" if rank is None else f", Spearman {nats_text(rank)}"
            series = b.ChartSeries(
                "scatter", [value.fisher_nats for value in values], xs, low=[low for low, _ in ends],
                high=[high for _, high in ends], colour=number,
            )  # fmt: skip
            value_axis = b.Axis("Fisher susceptibility", _unit(row.sigma))
            panels.append(b.Panel(axis, value_axis, (series,), title=("Σ ", b.Untrusted(row.sigma), correlation)))
    return b.Chart(
        "values",
        "Fisher susceptibility, and what else explains it",
        panels,
        footer="Bars: 95 % intervals over random directions",
        on="files",
    )
