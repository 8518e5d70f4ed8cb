"""Reports of Monte Carlo susceptibility, of one query or of many: sentences and blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leakmeter.core import self_check
from leakmeter.instruments.susceptibility.result import (
    ContextSusceptibility,
    FactorLevel,
    Memorisation,
    MemorisationOfAll,
    RankedContext,
    SusceptibilityResult,
    SusceptibilitySummary,
)
from leakmeter.report import blocks as b
from leakmeter.report import words as shared_words
from leakmeter.report.scale import interval_text, nats_in, nats_text, share_in
from leakmeter.stats.stats import items_for_distance, items_for_share, share_told_apart

CAVEAT: Final = (
    "Susceptibility holds for these contexts and their weights. It measures how much an answer depends on which of "
    "them was given, not whether the answer is right, nor whether the model believes a context or is only distracted "
    "by it."
)
INTERVALS: Final = (
    "In brackets: 95\u00a0% interval; of a query, for other contexts that might have been drawn; of a mean, over "
    "queries."
)
ID: Final = 40
_TEXT: Final = 130
_ENOUGH_CONTEXTS: Final = 128
"""From which on the interval of a query covers as it says."""
_QUERIES_LISTED: Final = 20
_DRAWN: Final = 40
_OF_CONTEXTS: Final[Mapping[str, Any]] = {"rest": ("context", "contexts"), "first": 12, "numbered": True}
"""Options of tables of contexts."""
_NOTES: Final = (
    (
        "Persuasion",
        "of a context: KL(p(A | c, q) ‖ p̂(A | q)), where p̂ is the mixture of the answers’ distributions after all "
        "contexts.",
    ),
    ("From bare", "KL(p(A | c, q) ‖ p(A | q))."),
    ("Of most", "share of the entropy of the contexts’ weights, the logarithm of their number where all come as "
                "often."),
)  # fmt: skip
MOST: Final = 0.5
"""Share of the ceiling from which on an answer tells most of what there is to tell."""
UNMOVED: Final = (
    "nothing above the noise floor",
    "the contexts do not change the answers: check the prompt (--separator, --template) before you conclude that "
    "the model ignores contexts",
)
DOUBTFUL: Final = (
    "numbers too uncertain to show that the contexts do nothing",
    "give --dtype float32, or another model, and measure again; leakmeter doctor says what moves the numbers",
)
TOO_FEW: Final = (
    "the interval reaches down to the noise floor",
    "too little data to decide: add queries and contexts, as many as the report says",
)
TELLS_MOST: Final = (
    "half of the ceiling or more",
    "an answer nearly identifies its context: put nothing private there, or bound the leakage (leakmeter decode "
    "--epsilon)",
)
TELLS_SOME: Final = (
    "above the noise floor, below half of the ceiling",
    "answers depend on the context: look at the top queries, and find the responsible part of a context with "
    "leakmeter influence",
)
BELIEVES: Final = (
    "memorisation ratio below 50 %",
    "the model follows its context: accept contexts only from people you trust",
)
KEEPS: Final = (
    "memorisation ratio above 50 %",
    "the model prefers its own knowledge: do not expect it to use a retrieved correction",
)
DECISIONS: Final = (UNMOVED, DOUBTFUL, TOO_FEW, TELLS_MOST, TELLS_SOME, BELIEVES, KEEPS)


def report(results: Sequence[SusceptibilityResult]) -> b.Report:
    summary = SusceptibilityResult.summary(results)
    several = len(results) > 1
    n = "a query" if not several else f"{len(results):,} queries"
    return b.Report(
        f"How far contexts move {'these answers' if several else 'this answer'}",
        "susceptibility",
        [*_blocks(results, summary), *_charts(results, summary)],
        lead=f"A language model was asked {n}, after many contexts in turn. The distribution of its answers after "
        "each was compared with the mixture over all of them, in nats.",
        caveat=CAVEAT,
        sections=[_section(result) for result in sorted(results, key=lambda result: -result.susceptibility_nats)]
        if several
        else (),
        index=b.heads(_INDEX),
        index_caption="Queries, most susceptible first",
        index_first=_QUERIES_LISTED,
        case=("query", "queries"),
        sections_left_out="that are less susceptible",
        notes=[b.Facts(_NOTES)],
    )


# ---- sentences ------------------------------------------------------------------------------------------------------
def headline(summary: SusceptibilitySummary, results: Sequence[SusceptibilityResult]) -> str:
    numbers = sorted({result.n_contexts for result in results})
    behind = f"each with {numbers[0]:,}" if len(numbers) == 1 else f"with {numbers[0]:,} to {numbers[-1]:,}"
    floor = max(result.noise_floor_nats for result in results)
    mean, ends, n = summary.mean_nats, summary.interval_nats, summary.n
    instead = ""
    if ends is None:
        instead = shared_words.instead_of_interval([result.susceptibility_nats for result in results])
    sentence = f"Susceptibility {nats_in(mean, ends)}\u00a0nats{instead}, the mean of {n:,} queries, {behind} contexts."
    return f"{sentence}{too_few(mean, ends, floor, n, 'queries')}"


def meaning(summary: SusceptibilitySummary, results: Sequence[SusceptibilityResult]) -> str:
    ceiling = max(result.ceiling_nats for result in results)
    low, high = (summary.quantiles_nats[level] for level in ("0.05", "0.95"))
    share = summary.mean_nats / ceiling if ceiling else 0.0
    text = (
        f"On average, an answer reveals this much of which context was given: {100 * share:.1f}\u00a0% of the "
        f"{nats_text(ceiling)}\u00a0nats possible. Nine queries in ten lie between {nats_text(low)} and "
        f"{nats_text(high)}."
    )
    if not math.isfinite(summary.mean_from_bare_nats):
        return text
    return (
        f"{text} Compared with the same queries without any context, the answers move by "
        f"{nats_text(summary.mean_from_bare_nats)}\u00a0nats; the rest is common to all contexts."
    )


def scale_of(results: Sequence[SusceptibilityResult]) -> str:
    ceiling = max(result.ceiling_nats for result in results)
    return (
        "0\u00a0nats: the model ignores the contexts; its answer reveals nothing of which one was given. "
        "ln\u00a02 = 0.69\u00a0nats: the answer reveals as much as one fair yes-or-no question about which context was "
        f"given. More than {nats_text(ceiling)}\u00a0nats is impossible: an answer at this value always identifies "
        "the context."
    )


def noise(summary: SusceptibilitySummary, results: Sequence[SusceptibilityResult]) -> str:
    highest = max(result.noise_floor_nats for result in results)
    n_below = round(summary.share_below_noise_floor * summary.n)
    below = f"{n_below or 'no'} {'queries are below their' if n_below > 1 else 'query is below its'} own noise floor"
    return f"other ways of computing the same number differ by {nats_text(highest)}\u00a0nats at most; {below}"


def verdict(result: SusceptibilityResult) -> str:
    why = self_check.doubt(result.noise_floor_nats, result.self_check)
    if result.below_noise_floor and why is not None:
        return f"Whether the {result.n_contexts:,} contexts move this answer cannot be said: {why}."
    if result.below_noise_floor:
        return f"The {result.n_contexts:,} contexts do not move this answer measurably."
    value, ends, n = result.susceptibility_nats, result.interval_nats, result.n_contexts
    return (
        f"This query has a susceptibility of {nats_text(value)}\u00a0nats{interval_text(ends)}, with {n:,} contexts."
        f"{too_few(value, ends, result.noise_floor_nats, n, 'contexts')}"
    )


def explanation(result: SusceptibilityResult) -> str:
    out = []
    if result.share_of_ceiling is not None:
        out.append(
            "On average, its answer reveals this much of which context was given: "
            f"{100 * result.share_of_ceiling:.1f}\u00a0% of the {nats_text(result.ceiling_nats)}\u00a0nats "
            "possible."
        )
    from_bare, shared = result.from_bare_nats, result.mixture_from_bare_nats
    if math.isfinite(from_bare) and math.isfinite(shared):
        out.append(
            f"Compared with the query alone, the contexts move it by {nats_text(from_bare)}\u00a0nats; "
            f"{nats_text(shared)} of these are common to all contexts."
        )
    out.append(
        f"Entropy of the answer: {nats_text(result.bare_entropy_nats)}\u00a0nats without a context, "
        f"{nats_text(result.mixture_entropy_nats)} for the mixture over all of them."
    )
    return " ".join(out)


def memorisation(counts: Memorisation | MemorisationOfAll) -> str:
    n_knows, of_queries = int(counts.knows) if isinstance(counts, Memorisation) else counts.n_knows, ""
    if isinstance(counts, MemorisationOfAll):
        of_queries = f" of {counts.n:,} queries"
    if not n_knows:
        statement = f"to none{of_queries} the right answer is given" if of_queries else "the right answer is not given"
        return f"Memorisation: {statement} without a context, so that there is no ratio."
    kept = f"{counts.n_original:,} original, {counts.n_context:,} of the context, {counts.n_neither:,} neither"
    if counts.ratio is None or counts.ratio_interval is None:
        return f"Memorisation: no answer is the original or the context’s ({kept}); there is no ratio."
    where = f" in the {n_knows:,}{of_queries} that are answered right without a context" if of_queries else ""
    n = counts.n_original + counts.n_context
    few = ""
    if share_told_apart(counts.n_original, n, 0.5) is None:
        needed = items_for_share(counts.ratio, 0.5, beyond=n)
        takes = "" if needed is None else f": it takes {needed:,} that give either, if the ratio stays the same"
        few = f" Too few answers to decide whether it mostly keeps to what it knew{takes}."
    return (
        f"Memorisation ratio {share_in(counts.ratio, counts.ratio_interval)}: greedy answers after contexts that "
        f"state another{where} are {kept}.{few}"
    )


def settings(results: Sequence[SusceptibilityResult]) -> dict[str, str]:
    first, kinds = results[0], {bool(result.answers) for result in results}
    answers = " or ".join(
        name for kind, name in ((False, "any next token"), (True, "its own and the rest")) if kind in kinds
    )
    return {
        **shared_words.model_facts(first),
        "Estimator": first.estimator,
        "Prompt template": first.template,
        "Separator": repr(first.separator),
        "Answers of a query": answers,
        "Temperature": f"{first.temperature:g}",
    }


def decisions(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> list[tuple[str, str]]:
    floor = max(result.noise_floor_nats for result in results)
    ceiling = max(result.ceiling_nats for result in results)
    ends = summary.interval_nats if len(results) > 1 else results[0].interval_nats
    if summary.mean_nats <= floor:
        doubts = (self_check.doubt(result.noise_floor_nats, result.self_check) for result in results)
        met = [UNMOVED if all(why is None for why in doubts) else DOUBTFUL]
    elif ends is not None and ends[0] <= floor:
        met = [TOO_FEW]
    else:
        met = [TELLS_MOST if ceiling and summary.mean_nats >= MOST * ceiling else TELLS_SOME]
    counts = summary.memorisation
    if counts is not None and counts.ratio is not None:
        keeps = share_told_apart(counts.n_original, counts.n_original + counts.n_context, 0.5)
        met += [] if keeps is None else [KEEPS if keeps else BELIEVES]
    return met


# ---- of both estimators ---------------------------------------------------------------------------------------------
def too_few(value: float, ends: tuple[float, float] | None, floor: float, n: int, noun: str) -> str:
    """A sentence where an interval over `n` of `noun` reaches down to a floor, with how many would lift it above."""
    if ends is None or ends[0] > floor:
        return ""
    # An interval that is cut at 0 is as wide below as above.
    reach = max(value - ends[0], ends[1] - value if ends[0] <= 0 else 0.0)
    needed = items_for_distance(n, value - floor, reach)
    takes = "" if needed is None or needed <= n else f": it takes {needed:,} if they are like these"
    return f" Too few {noun} to distinguish it from {'noise' if floor else '0'}{takes}."


def factor_table(factors: Mapping[str, Sequence[FactorLevel]], caption: b.Phrase, mean: b.Column) -> Iterator[b.Table]:
    """Each factor's levels, without factors of one level or of too many to be read."""
    rows = [(name, level) for name, levels in factors.items() if 1 < len(levels) <= 12 for level in levels]
    columns: b.Columns[tuple[str, FactorLevel]] = [
        (b.Column("Factor"), lambda row: b.Untrusted(row[0], ID)),
        (b.Column("Level"), lambda row: b.Untrusted(row[1].level, ID)),
        (b.Column("Queries", "count"), lambda row: row[1].n),
        (mean, lambda row: row[1].mean_nats),
        (b.Column("Interval", "interval"), lambda row: b.interval(row[1].interval_nats)),
    ]
    if rows:
        yield b.table_of(rows, columns, caption, rest=("level", "levels"))


# ---- blocks ---------------------------------------------------------------------------------------------------------
def _blocks(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> Iterator[b.Block]:
    first, several = results[0], len(results) > 1
    yield b.Headline(headline(summary, results) if several else verdict(first))
    yield b.Text(meaning(summary, results) if several else explanation(first))
    yield b.Advice.from_table(DECISIONS, decisions(results, summary))
    counts = summary.memorisation if several else first.memorisation
    if counts is not None:
        yield b.Text(memorisation(counts))
    for line in (scale_of(results), INTERVALS):
        yield b.Text(line, "soft")
    fewest = min(result.n_contexts for result in results)
    if 2 < fewest < _ENOUGH_CONTEXTS and any(result.interval_nats for result in results):
        yield b.Warning(
            f"With {fewest:,} contexts, the interval of a query may be too narrow. In simulations, 95\u00a0% intervals "
            "cover the value over all contexts in 91\u00a0% of draws with 8 contexts, in 94\u00a0% with 32, and in "
            f"95\u00a0% with {_ENOUGH_CONTEXTS}; if one context in 32 does most, in 22, 68 and 98\u00a0%."
        )
    yield from b.warnings_of(shared_words.warnings(results))
    if several:
        mean = b.Column("Mean", "nats", "nats", shade=True)
        yield from factor_table(summary.factors, "Factors, mean susceptibility", mean)
        yield _contexts_of_all(summary)
        noise_facts = {"Noise": noise(summary, results)}
    else:
        yield b.Text(b.Untrusted(first.query), "prose", heading=("Query ", b.Untrusted(first.id, ID)), detail=True)
        yield _contexts(first)
        noise_facts = {"Noise floor": f"{nats_text(first.noise_floor_nats)}\u00a0nats"}
    facts = settings(results) | noise_facts | {"Cost": shared_words.cost(results)}
    yield b.Details("Settings, noise and cost", b.facts_of(facts))


def _contexts_of_all(summary: SusceptibilitySummary) -> b.Table:
    columns: b.Columns[RankedContext] = [
        (b.Column("Context"), lambda row: b.Untrusted(row.id, ID)),
        (b.Column("Text"), lambda row: b.Untrusted(row.text, _TEXT)),
        (b.Column("Queries", "count"), lambda row: row.n),
        (b.Column("Persuasion", "nats", shade=True), lambda row: row.mean_persuasion_nats),
        (b.Column("From bare", "nats"), lambda row: row.mean_from_bare_nats),
    ]
    caption = "Contexts, by mean persuasion, nats"
    return b.table_of(summary.contexts, columns, caption, first_on_pages=100, **_OF_CONTEXTS)


_INDEX: Final[b.Columns[SusceptibilityResult]] = [
    (
        b.Column("Nats", "nats", shade=True),
        lambda result: b.finding(result.susceptibility_nats, is_finding=not result.below_noise_floor),
    ),
    (b.Column("Text"), lambda result: b.Untrusted(result.query, 90)),
    (b.Column("Interval", "interval"), lambda result: b.interval(result.interval_nats)),
    (b.Column("Of most", "share"), lambda result: result.share_of_ceiling),
]


def _section(result: SusceptibilityResult) -> b.Section:
    blocks: list[b.Block] = [b.Text(b.Untrusted(result.query), "prose"), b.Text(explanation(result))]
    if result.memorisation is not None:
        blocks.append(b.Text(memorisation(result.memorisation)))
    blocks.append(_contexts(result, shown_on_pages=20))
    cells = b.cells(_INDEX, result)
    return b.Section(b.Untrusted(result.id, ID), blocks, cells, weight=result.susceptibility_nats)


def _contexts(result: SusceptibilityResult, *, shown_on_pages: int = 1000) -> b.Table:
    columns: b.Columns[ContextSusceptibility] = [
        (b.Column("Context"), lambda context: b.Untrusted(context.id, ID)),
        (b.Column("Text"), lambda context: b.Untrusted(context.text, _TEXT)),
        (b.Column("Persuasion", "nats", shade=True), lambda context: context.persuasion_nats),
        (b.Column("From bare", "nats"), lambda context: context.persuasion_from_bare_nats),
    ]
    if any(context.greedy_answer is not None for context in result.contexts):
        greedy = b.Column("Greedy answer", on="pages")
        columns.append((greedy, lambda context: b.Untrusted(context.greedy_answer or "", ID)))
    return b.table_of(
        sorted(result.contexts, key=lambda context: context.rank),
        columns,
        "Contexts, by persuasion, nats",
        quiet=lambda context: context.below_noise_floor,
        first_on_pages=shown_on_pages,
        **_OF_CONTEXTS,
    )


# ---- figures --------------------------------------------------------------------------------------------------------
def _charts(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> Iterator[b.Chart]:
    text = {result.id: result.query for result in results}
    shown = summary.queries[:_DRAWN]
    values = [row.susceptibility_nats for row in shown]
    ends = [row.interval_nats or (row.susceptibility_nats,) * 2 for row in shown]
    yield b.chart_of_rows(
        "queries",
        "Queries by their susceptibility",
        "susceptibility",
        [b.Untrusted(f"{row.id}: {text[row.id]}", 48) for row in shown],
        b.ChartSeries("rows", values, low=[low for low, _ in ends], high=[high for _, high in ends]),
        "Bars: 95 % intervals over contexts" + _first(len(shown), len(summary.queries)),
    )
    contexts = summary.contexts[:_DRAWN]
    yield b.chart_of_rows(
        "contexts",
        "Contexts by their persuasion",
        "persuasion, mean over queries",
        [b.Untrusted(f"{row.id}: {row.text}", 48) for row in contexts],
        b.ChartSeries("rows", [row.mean_persuasion_nats for row in contexts], colour=2),
        _first(len(contexts), len(summary.contexts)).lstrip("; "),
    )


def _first(n_shown: int, n: int) -> str:
    return f"; the first {n_shown:,} of {n:,}" if n_shown < n else ""
