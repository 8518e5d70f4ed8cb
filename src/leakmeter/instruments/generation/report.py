"""An audit of private generation, of one batch or of many, and what may be published, as blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from leakmeter.core.plain import n_listed
from leakmeter.instruments.generation import words
from leakmeter.instruments.generation.result import (
    AtOrder,
    BoundComparison,
    ClippedLogits,
    ExemplarDivergence,
    GenerationSummary,
    PrivateGenerationResult,
    PublicTexts,
)
from leakmeter.report import blocks as b
from leakmeter.report import pictures
from leakmeter.report.scale import at_most_text, nats_text

_FAILURES: Final = 10
_BARS: Final = 10
"""Batches that a picture has room for."""
_SHOWN: Final = 5
"""Exemplars, tokens and texts that a terminal shows of many."""
_NOTES: Final = (
    ("Measured", "the larger of Dα(P‖Q) and Dα(Q‖P), Rényi divergences between the next token’s distribution with all "
                 "exemplars and without one of them, over the whole vocabulary, added up over tokens."),
    ("No violation", "no measurement of any exemplar, for one token or for all together, exceeds the bound at any "
                     "order; other exemplars and other tokens were not measured."),
    ("Distinct-n", "distinct n-grams of tokens over all."),
)  # fmt: skip


def report(cases: Sequence[PrivateGenerationResult]) -> b.Report:
    several = len(cases) > 1
    return b.Report(
        "Private generation: guarantee against measurement",
        "private_generation",
        list(_summary(cases)) if several else (),
        lead="A language model generated texts from private exemplars. The privacy loss of each token for each "
        "exemplar was measured and compared with the bound that the mechanism guarantees.",
        sections=[
            b.Section(
                b.Untrusted(case.id.removeprefix("batch "), 80),
                [*(() if several else _summary(cases)), *_batch(case, several=several)],
                b.cells(_INDEX, case),
                # Of broken ones all come first; what is infinite is above any ratio.
                weight=min(case.at_guarantee.ratio, 1e9) + (0.0 if case.holds else 2e9),
            )
            for case in cases
        ],
        index=b.heads(_INDEX),
        index_caption="Batches: broken ones first, then by share of the bound",
        case=("batch", "batches"),
        scripted=False,
        notes=[b.Facts(_NOTES)],
    )


def public_report(publics: Sequence[PublicTexts]) -> b.Report:
    """The texts, their guarantee, and how they were made; nothing that was measured."""
    weakest = max((public.guarantee for public in publics), key=lambda guarantee: guarantee.epsilon)
    texts = [text for public in publics for text in public.texts]
    averaged = (
        "The model read each example separately; at every token, the clipped logits of all of them were averaged, "
        "which limits the influence of each example. "
    )
    return b.Report(
        f"{'A text' if len(texts) == 1 else 'Texts'} with a privacy guarantee",
        "private_generation",
        [
            b.Headline(f"Guaranteed: {words.guarantee(weakest)}."),
            *b.front(words.conditions(publics[0].draws)),
            *(_text(text, f"Text {number}") for number, text in enumerate(texts, 1)),
            b.Details("Settings", b.facts_of(words.settings(publics[0]))),
        ],
        lead="A language model generated these texts from private examples, which are not shown here. "
        f"{averaged if isinstance(publics[0].mechanism, ClippedLogits) else ''}This page shows the texts, their "
        "guarantee, and how they were made.",
        is_signed=False,
    )


def _text(text: str, heading: str) -> b.Text:
    return b.Text(b.Untrusted(text), "prose", heading=heading)


def _share(heading: str, **more: Any) -> b.Column:
    return b.Column(heading, "share", digits=3, **more)


_INDEX: Final[b.Columns[PrivateGenerationResult]] = [
    (b.Column("Verdict"), lambda case: "no violation" if case.holds else "broken"),
    (b.Column("Bound", "number"), lambda case: case.at_guarantee.bound_nats),
    (b.Column("Measured", "number"), lambda case: case.at_guarantee.measured_nats),
    (_share("Share"), lambda case: case.at_guarantee.ratio),
    (b.Column("Exemplar"), lambda case: words.exemplar(case, case.at_guarantee.exemplar)),
    (b.Column("Perplexity", "number"), lambda case: words.perplexity(case.text_quality.perplexity)),
]


# ---- all batches ----------------------------------------------------------------------------------------------------
def _summary(cases: Sequence[PrivateGenerationResult]) -> Iterator[b.Block]:
    summary, several = GenerationSummary.from_results(cases), len(cases) > 1
    holds = summary.holds
    yield b.Headline(words.verdict(cases), "good" if holds else "bad")
    failures = [
        (*((b.Untrusted(case.id, 40), ": ") if several else ()), "Exemplar ", *words.compared(failure), ".")
        for case in cases
        for failure in case.verdict.failures
    ]
    n = n_listed(len(failures), _FAILURES)
    yield from map(b.Text, failures[:n])
    if len(failures) > n:
        yield b.Text(f"And {len(failures) - n:,} more.")
    if holds:
        yield b.Text(words.measured(cases))
    yield b.Advice.from_table(words.DECISIONS, words.decisions(cases))
    if holds and not several:
        yield _nearest(cases[0])
    yield b.Text(words.MEANING, detail=True) if holds else b.Text(words.PROOF)
    if summary.n_repeated_texts:
        yield b.Warning(words.repeated(summary))
    yield b.Warning(words.PRIVATE)
    yield _bars(cases)
    yield b.Text(f"{words.guarantee(summary.guarantee)}.", heading="Guarantee" if holds else "Claimed but broken")
    yield b.Text(" ".join(words.conditions(cases[0].draws if summary.guarantee else None)), "soft")
    if several:
        yield b.Text(words.BATCHES, "soft")
    yield b.Details("Settings", b.facts_of(words.settings(cases[0])))
    yield from figures(cases)


def _nearest(case: PrivateGenerationResult) -> b.Text:
    return b.Text(("Nearest to its bound: exemplar ", *words.compared(case.verdict.worst_token), "."), detail=True)


def _bars(cases: Sequence[PrivateGenerationResult]) -> b.Chart:
    """What was measured, in percent of what is promised: of a batch its whole and its worst token, else of each batch
    the larger of both."""

    def largest(case: PrivateGenerationResult) -> tuple[AtOrder | BoundComparison, BoundComparison]:
        failures, worst = case.verdict.failures, case.verdict.worst_token
        whole: list[AtOrder | BoundComparison] = [
            case.at_guarantee,
            *(failure for failure in failures if failure.token is None),
        ]
        tokens = [worst, *(failure for failure in failures if failure.token is not None)]
        return max(whole, key=lambda row: row.ratio), max(tokens, key=lambda row: row.ratio)

    rows: list[tuple[b.Phrase, AtOrder | BoundComparison]]
    if len(cases) == 1:
        rows = list(zip(("all tokens", "worst token"), largest(cases[0]), strict=True))
    else:
        of_batches = [(b.Untrusted(case.id, 16), max(largest(case), key=lambda row: row.ratio)) for case in cases]
        rows = [*sorted(of_batches, key=lambda row: -row[1].ratio)[:_BARS]]
    left_out = f"; the {_BARS} nearest of {len(cases):,} batches" if len(cases) > _BARS else ""
    return pictures.bars(
        "share-of-bound",
        f"Measured, in percent of the promised bound{left_out}",
        b.Axis("% of the bound"),
        [
            (name, 100.0 * row.ratio, f"{nats_text(row.measured_nats)} of {nats_text(row.bound_nats)} nats")
            for name, row in rows
        ],
        [b.Guide(100.0, "promised", across="x")],
    )


# ---- a batch --------------------------------------------------------------------------------------------------------
def _batch(case: PrivateGenerationResult, *, several: bool) -> Iterator[b.Block]:
    if several:
        yield b.Headline(words.verdict([case]), "good" if case.holds else "bad")
        if case.holds:
            yield _nearest(case)
    spent = case.bounds.spent
    yield b.Text(words.SPENT.format(n=spent.n_tokens, epsilon=at_most_text(spent.epsilon)), detail=True)
    yield from b.warnings_of(case.warnings)
    yield from _texts(case)
    convention = b.Facts(
        [(label, nats_text(epsilon)) for label, epsilon in words.convention(case)],
        "The paper’s convention for ε (not a verdict)",
    )
    measured = [*_orders(case), _exemplars(case), _tokens(case), convention, b.Text(words.CONVENTION, "soft")]
    yield b.Details("Bound and measurement by order, exemplar and token", measured, told=True)


def _orders(case: PrivateGenerationResult) -> Iterator[b.Block]:
    if (panel := _panel_of_orders(case, "")).series:
        yield b.Chart(
            "orders-of-batch",
            "Rényi divergence of all tokens together, bound and measured, over its order",
            (panel,),
            footer="Both axes are logarithmic; values that are 0 or infinite are not drawn.",
            panel_inches=(6.4, 3.4),
            on="pages",
        )
    columns: b.Columns[AtOrder] = [
        (b.Column("Order", "number"), lambda row: words.order_text(row.order) + "*" * (row.order == case.bounds.order)),
        (b.Column("Bound", "number"), lambda row: row.bound_nats),
        (b.Column("Measured", "number"), lambda row: row.measured_nats),
        (_share("Share"), lambda row: row.ratio),
        (b.Column("Exemplar"), lambda row: words.exemplar(case, row.exemplar)),
        (b.Column("Sum of maxima", "number"), lambda row: row.sum_of_maxima_nats),
        (_share("Worst token"), lambda row: row.worst_token_ratio),
    ]
    yield b.table_of(case.by_order, columns, "Rényi divergences of all tokens together, bound and measured, nats")
    yield b.Text(words.ORDERS, "soft")


def _exemplars(case: PrivateGenerationResult) -> b.Table:
    columns: b.Columns[ExemplarDivergence] = [
        (b.Column("Rank", "count"), lambda exemplar: exemplar.rank),
        (b.Column("Exemplar"), lambda exemplar: words.exemplar(case, exemplar.name)),
        (b.Column("Nats", "number"), lambda exemplar: exemplar.measured_nats),
        (_share("Share", bar=True), lambda exemplar: exemplar.ratio),
        (_share("Worst token"), lambda exemplar: exemplar.worst_token.ratio),
        (b.Column("Copied", "count"), lambda exemplar: exemplar.copied_tokens),
        (b.Column("Text"), lambda exemplar: b.Untrusted(exemplar.text, 160)),
    ]
    caption = f"Largest losses, at order {words.order_text(case.bounds.order)}; shares: of the bound; copied: tokens"
    ranked = sorted(case.exemplars, key=lambda exemplar: exemplar.rank)
    rest = ("exemplar", "exemplars")
    return b.table_of(ranked, columns, caption, rest=rest, first=_SHOWN, open_on_pages=10, detail=True)


def _tokens(case: PrivateGenerationResult) -> b.Table:
    by_sample = [sample.per_token.share_of_bound for sample in case.samples]
    shares = {(i, t): share for i, sample in enumerate(by_sample) for t, share in enumerate(sample)}
    columns: b.Columns[tuple[int, int]] = [
        (b.Column("Sample", "count"), lambda at: at[0] + 1),
        (b.Column("Token", "count"), lambda at: at[1] + 1),
        (b.Column("Text"), lambda at: words.token(case.samples[at[0]].tokens[at[1]])),
        (_share("Share"), lambda at: shares[at]),
        (
            b.Column("Of exemplar"),
            lambda at: words.exemplar(case, case.samples[at[0]].per_token.share_exemplar[at[1]]),
        ),
    ]
    worst = sorted(shares, key=lambda at: (-shares[at], *at))[:10]
    caption = "Tokens that used most of their bound; share: at the order where it is largest"
    return b.table_of(worst, columns, caption, rest=("token", "tokens"), first=_SHOWN, detail=True)


def _texts(case: PrivateGenerationResult) -> Iterator[b.Block]:
    quality = words.quality(case.text_quality)
    noise = words.noise(case)
    yield b.Text(quality if noise is None else f"{quality} {noise}", detail=True)
    shown = [
        _text(
            sample.text,
            f"Text {number}: {len(sample.tokens):,} tokens, perplexity {words.perplexity(sample.perplexity)}",
        )
        for number, sample in enumerate(case.samples, 1)
    ]
    blocks: list[b.Block] = [*shown[:_SHOWN]]
    if len(shown) > _SHOWN:
        blocks.append(b.Details(f"{len(shown) - _SHOWN:,} more", shown[_SHOWN:]))
    copies = case.text_quality.verbatim
    if copies:
        passages = b.table_of(
            copies,
            [
                (b.Column("Sample", "count"), lambda copy: copy.sample + 1),
                (b.Column("Passage"), lambda copy: b.Untrusted(copy.text, 200)),
                (b.Column("Longest run, tokens", "count"), lambda copy: copy.longest_run_tokens),
                (b.Column("Exemplar"), lambda copy: words.exemplar(case, copy.exemplar)),
            ],
            rest=("passage", "passages"),
            first=20,
        )
        blocks.append(b.Details("Copied passages", [passages]))
    yield b.HeadedBlocks("Text" if len(shown) == 1 else f"{len(shown):,} texts", blocks)


_INK, _ORANGE = 6, 1  # colours of bounds, and of measurements


def figures(cases: Sequence[PrivateGenerationResult]) -> Iterator[b.Chart]:
    """Bound and measurement over the order, and each exemplar against its bound; the first six batches."""
    shown = [(case, (f"batch {number}: ", b.Untrusted(case.id, 48))) for number, case in enumerate(cases[:6], 1)]
    footer = f"{len(cases) - 6:,} more batches left out" if len(cases) > 6 else ""
    for name, caption, panel_of, height in (
        ("orders", "Bound against measurement, all tokens together", _panel_of_orders, 3.6),
        ("exemplars", "Share of its bound that each exemplar used", _panel_of_exemplars, 3.8),
    ):
        panels = [panel_of(case, title) for case, title in shown]
        yield b.Chart(name, caption, panels, footer=footer, columns=3, panel_inches=(4.4, height), on="files")


def _panel_of_orders(case: PrivateGenerationResult, title: b.Phrase) -> b.Panel:
    """Rényi divergences of all tokens together; what is 0 or infinite is on no logarithmic axis."""
    looks = (
        ("bound", "bound", partial(b.ChartSeries, colour=_INK)),
        ("sum_of_maxima", "measured, sum of maxima", partial(b.ChartSeries, faded=True)),
        ("measured", "measured, worst exemplar", partial(b.ChartSeries, colour=_ORANGE)),
    )
    series = []
    for quantity, name, drawn in looks:
        points = _drawable((row.order, getattr(row, f"{quantity}_nats")) for row in case.by_order)
        if points:
            captions = [f"order {words.order_text(x)}: {name} {nats_text(y)} nats" for x, y in points]
            xs, ys = zip(*points, strict=True)
            series.append(drawn("line", ys, xs, name=name, notes=captions))
    return b.Panel(
        b.Axis("order α", scale="log", ticks=_ticks(case)),
        b.Axis("Rényi divergence", "nats", scale="log"),
        series,
        title=title,
        guides=(b.Guide(case.bounds.order, "order of the guaranteed ε", across="x"),),
    )


def _ticks(case: PrivateGenerationResult) -> list[float]:
    """The order of the guarantee, and those of the others whose numbers do not stand on one another."""
    orders = sorted(row.order for row in case.by_order if row.order < math.inf)
    kept = [case.bounds.order]
    for order in orders:
        if all(abs(math.log(order / other)) > 0.2 for other in kept):
            kept.append(order)
    return sorted(kept)


def _panel_of_exemplars(case: PrivateGenerationResult, title: b.Phrase) -> b.Panel:
    """Each exemplar at each finite order; above the diagonal the guarantee is broken."""
    points = _drawable(
        (row.bound_nats, nats)
        for exemplar in case.exemplars
        for row, nats in zip(case.by_order, exemplar.by_order_nats, strict=True)
        if row.order < math.inf
    )
    xs, ys = [x for x, _ in points], [y for _, y in points]
    ends = (min(xs), max(xs)) if xs else (1.0, 10.0)
    series = [b.ChartSeries("line", ends, ends, name="all of the bound", faded=True)]
    if points:
        series.append(b.ChartSeries("scatter", ys, xs, name="an exemplar, at an order", colour=_ORANGE))
    return b.Panel(b.Axis("bound", "nats", scale="log"), b.Axis("measured", "nats", scale="log"), series, title=title)


def _drawable(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if 0.0 < x < math.inf and 0.0 < y < math.inf]
