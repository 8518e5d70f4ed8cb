"""Reports of Monte Carlo susceptibility, of one query or of many: sentences and blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

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
from leakmeter.report import pictures
from leakmeter.report import words as shared_words
from leakmeter.report.scale import nats_in, nats_text, share_in, share_text
from leakmeter.stats.stats import items_for_distance, items_for_share, share_told_apart

ID: Final = 40
_TEXT: Final = 130
_ENOUGH_CONTEXTS: Final = 128
"""From which on the interval of a query covers as it says."""
_QUERIES_LISTED: Final = 20
_QUERY: Final = 42
"""Characters of a query above its line."""
_DRAWN: Final = 20
"""Queries, or contexts, in a picture."""
_OF_CONTEXTS: Final[Mapping[str, Any]] = {"rest": ("context", "contexts"), "first": 12, "numbered": True}
"""Options of tables of contexts."""
MOST: Final = 0.5
"""Share of the ceiling from which on an answer tells most of what there is to tell."""
LITTLE: Final = 0.1
"""Share of the ceiling below which an answer tells little: less than if one in ten told its context."""


# ---- what a report says, by what was found --------------------------------------------------------------------------
FINDINGS: Final[Mapping[str, tuple[str, tuple[str, str]]]] = {
    "unmoved": (
        "The contexts do not change the answers measurably.",
        ("nothing above the noise floor",
         "check that the model was shown the contexts as you meant (`--separator`, `--template`), before you conclude "
         "that it ignores them"),
    ),
    "doubtful": (
        "Whether the contexts change the answers cannot be said: {why}.",
        ("numbers too uncertain to show that the contexts do nothing",
         "measure again with more exact numbers (`--dtype float32`), or with another model; `leakmeter doctor` says "
         "what moves the numbers"),
    ),
    "too few": (
        "Too little data to say whether the contexts change the answers.",
        ("the interval reaches down to the noise floor",
         "too little data to decide: add queries and contexts, as many as the report says"),
    ),
    "most": (
        "An answer nearly gives its context away: on average, it reveals {share} of all there is to reveal.",
        ("half of the ceiling or more",
         "put nothing private into such contexts, or limit what an answer may reveal (`leakmeter decode --epsilon`)"),
    ),
    "much": (
        "An answer reveals much of which context was given: on average {share} of all there is to reveal.",
        ("a tenth of the ceiling or more, below half",
         "look at the queries whose answers reveal most, and find the part of a context that they come from "
         "(`leakmeter influence`), before you put anything private into such contexts"),
    ),
    "little": (
        "An answer reveals little of which context was given: on average {share} of all there is to reveal.",
        ("above the noise floor, below a tenth of the ceiling",
         "look at the queries whose answers reveal most: one may reveal more than the average; find the part of a "
         "context that it comes from (`leakmeter influence`)"),
    ),
}  # fmt: skip
"""Headline, and row of the decision table; {share} is that of the ceiling, {why} the reason for a doubt."""
_OF_ONE_QUERY: Final[Mapping[str, str]] = {
    "much": "find the part of a context that it comes from (`leakmeter influence`), before you put anything private "
    "into such contexts",
    "little": "find the part of a context that it comes from (`leakmeter influence`)",
}
"""What to do where there is no other query to look at."""
BELIEVES: Final = (
    "memorisation ratio below 50 %",
    "the model follows its context: accept contexts only from people you trust",
)
KEEPS: Final = (
    "memorisation ratio above 50 %",
    "the model prefers its own knowledge: do not expect it to use a retrieved correction",
)
_NUMBERS: Final = {
    False: "Susceptibility {nats}\u00a0nats{instead} of {most} possible, with {contexts} contexts.",
    True: "Susceptibility {nats}\u00a0nats{instead} of {most} possible, the mean of {n:,} queries, each with "
    "{contexts} contexts.",
}
_DATA: Final = {False: "contexts", True: "queries"}
"""By whether there are several queries."""
_TOO_FEW: Final = {
    True: "Too few {noun} to distinguish it from noise{takes}.",
    False: "Too few {noun} to distinguish it from 0{takes}.",
}
"""By whether there is a noise floor."""
CAVEAT: Final = (
    "Susceptibility holds for these contexts and their weights. It measures how much an answer depends on which of "
    "them was given, not whether the answer is right, nor whether the model believes a context or is only distracted "
    "by it."
)
_EXPLAINED: Final = (
    "0\u00a0nats: the model ignores the contexts; its answer reveals nothing of which one was given. "
    "ln\u00a02 = 0.69\u00a0nats: the answer reveals as much as one fair yes-or-no question about which context was "
    "given. The ceiling is the most that is possible: an answer at it always identifies the context.",
    "Brackets hold a 95\u00a0% interval. That of a query covers other contexts that might have been drawn; that of a "
    "mean covers other queries.",
    "In simulations, 95\u00a0% intervals of a query cover the value over all contexts in 91\u00a0% of draws with 8 "
    f"contexts, in 94\u00a0% with 32, and in 95\u00a0% with {_ENOUGH_CONTEXTS}; if one context in 32 does most, in 22, "
    "68 and 98\u00a0%.",
)
_NOTES: Final = (
    (
        "Persuasion",
        "of a context: KL(p(A | c, q) ‖ p̂(A | q)), where p̂ is the mixture of the answers’ distributions after all "
        "contexts.",
    ),
    ("From bare", "KL(p(A | c, q) ‖ p(A | q))."),
    ("Of most", "the share of the most that is possible: the entropy of the contexts’ weights. It is the logarithm "
                "of their number if all weights are equal."),
)  # fmt: skip


def report(results: Sequence[SusceptibilityResult]) -> b.Report:
    summary = SusceptibilityResult.summary(results)
    several = len(results) > 1
    return b.Report(
        f"How far contexts move {'these answers' if several else 'this answer'}",
        "susceptibility",
        list(_blocks(results, summary)),
        lead="A language model was asked a query after many contexts in turn. "
        "The distribution of its answers after each was compared with the mixture over all of them, in nats.",
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
def found(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> str:
    """The key of what was found among `FINDINGS`."""
    floor, ceiling = _floor(results), _ceiling(results)
    ends = summary.interval_nats if len(results) > 1 else results[0].interval_nats
    if summary.mean_nats <= floor:
        return "unmoved" if doubt(results) is None else "doubtful"
    if ends is not None and ends[0] <= floor:
        return "too few"
    share = summary.mean_nats / ceiling if ceiling else 0.0
    return "most" if share >= MOST else "much" if share >= LITTLE else "little"


def doubt(results: Sequence[SusceptibilityResult]) -> str | None:
    doubts = (self_check.doubt(result.noise_floor_nats, result.self_check) for result in results)
    return next((why for why in doubts if why is not None), None)


def headline(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> b.Headline:
    what, ceiling = found(results, summary), _ceiling(results)
    share = share_text(summary.mean_nats / ceiling if ceiling else 0.0, 2)
    verdict: Literal["bad", "good", ""] = "bad" if what == "most" else "good" if what == "little" else ""
    return b.Headline(FINDINGS[what][0].format(share=share, why=doubt(results)), verdict)


def numbers(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> Iterator[str]:
    """The susceptibility with its interval, and how many more data would lift that above the noise floor."""
    several = len(results) > 1
    n_contexts = [result.n_contexts for result in results]
    ends = summary.interval_nats if several else results[0].interval_nats
    nats = [one.susceptibility_nats for one in results]
    instead = "" if ends is not None else shared_words.instead_of_interval(nats, len(nats))
    yield _NUMBERS[several].format(
        nats=nats_in(summary.mean_nats, ends),
        instead=instead,
        most=nats_text(_ceiling(results)),
        n=summary.n,
        contexts=shared_words.span_of(n_contexts),
    )
    yield too_few(summary.mean_nats, ends, _floor(results), summary.n if several else min(n_contexts), _DATA[several])


def memorisation(counts: Memorisation | MemorisationOfAll) -> str:
    if isinstance(counts, MemorisationOfAll):
        knows, why = counts.n_knows > 0, "no query is answered right"
        known = f" to the {counts.n_knows:,} of {counts.n:,} queries that it answers right without one"
    else:
        knows, why, known = counts.knows, "the query is not answered right", ""
    if not knows:
        return f"No memorisation ratio: without a context, {why}."
    if counts.ratio is None or counts.ratio_interval is None:
        return "No memorisation ratio: no answer is the original or the context’s."
    n = counts.n_original + counts.n_context
    few = ""
    if share_told_apart(counts.n_original, n, 0.5) is None:
        few = f" Too few answers to decide which it prefers{_it_takes(items_for_share(counts.ratio, 0.5, beyond=n))}."
    return (
        f"Memorisation ratio {share_in(counts.ratio, counts.ratio_interval)}: after contexts that state another "
        f"answer{known}, the model gives {counts.n_original:,} times its own, {counts.n_context:,} times the "
        f"context’s, {counts.n_neither:,} times neither.{few}"
    )


def settings(results: Sequence[SusceptibilityResult]) -> dict[str, str]:
    first, kinds = results[0], {bool(result.answers) for result in results}
    answers = " or ".join(
        name for kind, name in ((False, "any next token"), (True, "its own and the rest")) if kind in kinds
    )
    n_below = sum(result.below_noise_floor for result in results)
    bare, mixture, moved = (
        nats_text(sum(values) / len(results))
        for values in zip(
            *((r.bare_entropy_nats, r.mixture_entropy_nats, r.from_bare_nats) for r in results), strict=True
        )
    )
    return {
        **shared_words.model_facts(first),
        "Estimator": first.estimator,
        "Prompt template": first.template,
        "Separator": repr(first.separator),
        "Answers of a query": answers,
        "Temperature": f"{first.temperature:g}",
        "Entropy of an answer": f"{bare}\u00a0nats without a context, {mixture} for the mixture over all",
        "From bare": f"{moved}\u00a0nats; what exceeds the susceptibility is common to all contexts",
        "Noise floor": f"{nats_text(_floor(results))}\u00a0nats at most; below it {n_below:,} of {len(results):,}",
        "Cost": shared_words.cost(results),
    }


def rows_of(n_queries: int) -> dict[str, tuple[str, str]]:
    """The rows of the decision table of what so many queries find, by the keys of `FINDINGS`."""
    alone = _OF_ONE_QUERY if n_queries == 1 else {}
    return {what: (condition, alone.get(what, advice)) for what, (_, (condition, advice)) in FINDINGS.items()}


def decisions(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> list[tuple[str, str]]:
    met, counts = [rows_of(len(results))[found(results, summary)]], summary.memorisation
    if counts is not None and counts.ratio is not None:
        keeps = share_told_apart(counts.n_original, counts.n_original + counts.n_context, 0.5)
        met += [] if keeps is None else [KEEPS if keeps else BELIEVES]
    return met


def _floor(results: Sequence[SusceptibilityResult]) -> float:
    return max(result.noise_floor_nats for result in results)


def _ceiling(results: Sequence[SusceptibilityResult]) -> float:
    return max(result.ceiling_nats for result in results)


# ---- of both estimators ---------------------------------------------------------------------------------------------
def too_few(value: float, ends: tuple[float, float] | None, floor: float, n: int, noun: str) -> str:
    """A sentence where an interval over `n` of `noun` reaches down to a floor, with how many would lift it above."""
    if ends is None or ends[0] > floor:
        return ""
    # An interval that is cut at 0 is as wide below as above.
    reach = max(value - ends[0], ends[1] - value if ends[0] <= 0 else 0.0)
    needed = items_for_distance(n, value - floor, reach)
    takes = _it_takes(needed if needed is not None and needed > n else None)
    return _TOO_FEW[bool(floor)].format(noun=noun, takes=takes)


def _it_takes(needed: int | None) -> str:
    return "" if needed is None else f": it takes {needed:,} if they are like these"


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
        yield b.table_of(rows, columns, caption, rest=("level", "levels"), detail=True)


# ---- blocks ---------------------------------------------------------------------------------------------------------
def _blocks(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> Iterator[b.Block]:
    first, several = results[0], len(results) > 1
    yield headline(results, summary)
    yield from b.front(numbers(results, summary))
    if summary.memorisation is not None:
        yield b.Text(memorisation(summary.memorisation if several else first.memorisation or summary.memorisation))
    yield b.Advice.from_table((*rows_of(len(results)).values(), BELIEVES, KEEPS), decisions(results, summary))
    fewest = min(result.n_contexts for result in results)
    if 2 < fewest < _ENOUGH_CONTEXTS and any(result.interval_nats for result in results):
        yield b.Warning(f"With {fewest:,} contexts, the interval of a query may be too narrow.")
    yield from b.warnings_of(shared_words.warnings(results))
    if several:
        yield _picture(results, summary)
        yield _contexts_of_all(summary)
        mean = b.Column("Mean", "number", "nats", shade=True)
        yield from factor_table(summary.factors, "Factors, mean susceptibility", mean)
    else:
        yield b.Text(b.Untrusted(first.query), "prose", heading=("Query ", b.Untrusted(first.id, ID)), detail=True)
        yield _contexts(first, bar=True)
    yield from (b.Text(line, "soft") for line in _EXPLAINED)
    yield b.Details("Settings, noise and cost", b.facts_of(settings(results)))
    yield _picture_of_contexts(summary)


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
        # With the digits of sentences, so that 0.012 and 0.009 compare.
        b.Column("Nats", "number", shade=True),
        lambda result: (
            nats_text(result.susceptibility_nats) if result.below_noise_floor else result.susceptibility_nats
        ),
    ),
    (b.Column("Text"), lambda result: b.Untrusted(result.query, 90)),
    (b.Column("Interval", "interval"), lambda result: b.interval(result.interval_nats)),
    (b.Column("Of most", "share"), lambda result: result.share_of_ceiling),
]


def _section(result: SusceptibilityResult) -> b.Section:
    blocks: list[b.Block] = [b.Text(b.Untrusted(result.query), "prose")]
    if result.memorisation is not None:
        blocks.append(b.Text(memorisation(result.memorisation)))
    blocks.append(_contexts(result, shown_on_pages=20))
    cells = b.cells(_INDEX, result)
    return b.Section(b.Untrusted(result.id, ID), blocks, cells, weight=result.susceptibility_nats)


def _contexts(result: SusceptibilityResult, *, shown_on_pages: int = 1000, bar: bool = False) -> b.Table:
    columns: b.Columns[ContextSusceptibility] = [
        (b.Column("Context"), lambda context: b.Untrusted(context.id, ID)),
        (b.Column("Text"), lambda context: b.Untrusted(context.text, _TEXT)),
        (b.Column("Persuasion", "nats", shade=not bar, bar=bar), lambda context: context.persuasion_nats),
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


# ---- pictures -------------------------------------------------------------------------------------------------------
def _picture(results: Sequence[SusceptibilityResult], summary: SusceptibilitySummary) -> b.Chart:
    """How far each query is moved, from nothing to all that is possible; in colours of how the queries differ most."""
    of_id = {result.id: result for result in results}
    factor, floor, ceiling = _telling(summary), _floor(results), _ceiling(results)

    def level(result: SusceptibilityResult) -> b.Phrase:
        known = result.factors.get(factor) if factor is not None else None
        return "" if factor is None or known is None else (b.Untrusted(factor, 16), ": ", b.Untrusted(known, 16))

    return pictures.picture(
        "queries",
        "What the answer to each query reveals of its context",
        b.Axis("susceptibility", "nats", ends=(0.0, 1.02 * ceiling or 1.0)),
        [
            pictures.PictureLine(
                b.Untrusted(result.query, _QUERY),
                result.susceptibility_nats,
                b.number_text(result.share_of_ceiling or 0.0, "share"),
                level(result),
                result.interval_nats,
            )
            for result in (of_id[row.id] for row in summary.queries[:_DRAWN])
        ],
        guides=[
            b.Guide(ceiling, "all that is possible", "x", "dotted"),
            *([b.Guide(floor, "noise floor", "x")] if math.isfinite(floor) else []),
        ],
        footer=f"Bars: 95\u00a0% intervals over contexts{_first(len(results))}",
    )


def _telling(summary: SusceptibilitySummary) -> str | None:
    """The factor whose levels, four at most, lie furthest apart."""
    apart = {
        name: max(level.mean_nats for level in levels) - min(level.mean_nats for level in levels)
        for name, levels in summary.factors.items()
        if 2 <= len(levels) <= 4
    }
    return max(apart, key=lambda name: apart[name], default=None)


def _picture_of_contexts(summary: SusceptibilitySummary) -> b.Chart:
    contexts = summary.contexts[:_DRAWN]
    return b.chart_of_rows(
        "contexts",
        "Contexts by their persuasion",
        "persuasion, mean over queries",
        [b.Untrusted(f"{row.id}: {row.text}", 48) for row in contexts],
        b.ChartSeries("rows", [row.mean_persuasion_nats for row in contexts], colour=2),
        _first(len(summary.contexts)).lstrip("; "),
    )


def _first(n: int) -> str:
    return f"; the first {_DRAWN:,} of {n:,}" if n > _DRAWN else ""
