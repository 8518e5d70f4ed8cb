"""ICL influence on one query or on many, as blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from leakmeter.instruments.icl import words
from leakmeter.instruments.icl.result import (
    ExemplarInfluence,
    FixedExemplar,
    IclResult,
    IclSummary,
    Losses,
    Position,
    summary,
)
from leakmeter.report import blocks as b
from leakmeter.report import pictures
from leakmeter.report import words as shared_words
from leakmeter.report.scale import nats_text, times_text
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

EXEMPLARS: Final[Mapping[str, tuple[str, str]]] = {
    "little": (
        "The answers reveal less than 0.1 nats of every exemplar",
        'Ship the prompt, and check it from now on: `leakmeter gate --latest --max "icl.answer.max <= 0.1"`',
    ),
    "some": (
        "The answers reveal 0.1 to 1 nats of an exemplar",
        "One answer reveals little; many together reveal more. Try other orders and fewer exemplars: "
        "`leakmeter icl select`.",
    ),
    "much": (
        "An answer reveals 1 nat or more of an exemplar",
        "Replace or drop that exemplar, or search for a list that leaks less: `leakmeter icl select`. If it must not "
        "be revealed at all, ship generated exemplars: `leakmeter generate`.",
    ),
    "worst": (
        "The worst case is 1 nat or more, and the answers reveal less",
        "Show callers only the label: the probabilities reveal more than the answer.",
    ),
    "doubtful": (
        "Numbers too uncertain to show that the answers reveal little",
        "Give `--dtype float32`, or another model, and measure again; `leakmeter doctor` says what moves the numbers.",
    ),
    "chance": (
        "The likeliest answers are not shown to be right more often than guesses",
        "Give more labelled queries, or use a larger model or a clearer instruction before you judge the leakage.",
    ),
}


def _advice(total: IclSummary, results: Sequence[IclResult]) -> b.Advice:
    what = words.found(total, results)
    met = {"little" if what == "nothing" else what}
    if total.quantiles_nats["0.5"] is None or total.mean_nats >= words.MUCH_NATS > total.answers.mean_nats:
        met.add("worst")
    if total.accuracy_interval is not None and total.accuracy_interval[0] <= 1 / len(results[0].labels):
        met.add("chance")
    return b.Advice.from_table(EXEMPLARS.values(), [EXEMPLARS[name] for name in met])


LABELS_SHOWN: Final = 6
_LABEL: Final = 16
_ID: Final = 24


def report(results: Sequence[IclResult]) -> b.Report:
    several, total = len(results) > 1, summary(results)
    by_loss = sorted(results, key=lambda result: (-result.answer_nats, -result.loss_nats)) if several else []
    return b.Report(
        title=f"Influence of the exemplars on {'these answers' if several else 'this answer'}",
        measure="icl",
        blocks=[
            *_found(results, total),
            *([_picture(by_loss)] if several else []),
            *(_of_all if several else _of_one)(results, total),
            *_files(results, total),
        ],
        lead="A language model chose a label for a query after a few labelled exemplars. Exemplars were removed one at "
        "a time, and the probabilities of the answers were compared, in nats.",
        caveat=words.CAVEAT,
        sections=[_section(result) for result in by_loss],
        index_caption="Queries, largest leakage first; nats",
        index_first=8,
        index=b.heads(_INDEX),
        case=("query", "queries"),
        sections_left_out="that reveal less",
        guide_to="exemplar",
        has_posteriors=False,
    )


def _found(results: Sequence[IclResult], total: IclSummary) -> Iterator[b.Block]:
    yield words.headline(total, results)
    if words.found(total, results) in ("some", "much"):
        yield b.Text(words.most_revealed(results))
    if len(results) > 1:
        yield b.Text(words.mean(total))
        yield b.Text(words.worst_case(total, results))
    else:
        yield b.Text(words.worst_case_of_one(results[0]))
    yield _advice(total, results)
    yield from b.warnings_of(shared_words.warnings(results))


def _of_one(results: Sequence[IclResult], total: IclSummary) -> Iterator[b.Block]:
    (result,) = results
    yield _exemplars_of(result)
    yield b.Text(b.Untrusted(result.query), "prose", heading=("Query ", b.Untrusted(result.id, 40)), detail=True)
    yield b.Text(words.answer(result), heading="Answer", detail=True)
    yield replace(_labels_of(result), detail=True)
    yield from _explained(results, total)


def _of_all(results: Sequence[IclResult], total: IclSummary) -> Iterator[b.Block]:
    yield _fixed_exemplars(total.exemplars) if total.exemplars else _positions(total.positions)
    yield b.Text(words.whose(total, results[0].model), "soft")
    yield from _explained(results, total, words.accuracy(total), words.INTERVALS)


def _explained(results: Sequence[IclResult], total: IclSummary, *texts: str) -> Iterator[b.Block]:
    for text in (words.vocabulary(results), *texts):
        if text is not None:
            yield b.Text(text, "soft")
    n_shots = shared_words.span_of(len(result.exemplars) for result in results)
    drawn = f"{n_shots}, {'the same for all queries' if total.exemplars else 'drawn for each query'}"
    more = {"Exemplars": drawn, "Noise floor": words.noise(total, results), "Cost": shared_words.cost(results)}
    yield b.Details("Settings, noise and cost", b.facts_of({**words.settings(results[0]), **more}))


# ---- many queries ---------------------------------------------------------------------------------------------------
def _positions(positions: Sequence[Position]) -> b.Table:
    return b.table_of(
        positions,
        [
            (b.Column("Position", "count"), lambda position: position.position),
            (b.Column("Mean", "nats", "nats", bar=True), lambda position: position.mean_nats),
            (b.Column("Std", "nats"), lambda position: position.std_nats),
            (b.Column("Interval", "interval"), lambda position: b.interval(position.interval_nats)),
        ],
        "Positions: worst case of the exemplar there",
        detail=True,
    )


def _fixed_exemplars(exemplars: Sequence[FixedExemplar]) -> b.Table:
    return b.table_of(
        sorted(exemplars, key=lambda exemplar: -exemplar.answers.mean_nats),
        [
            (b.Column("Exemplar"), _id),
            (b.Column("Label"), lambda exemplar: b.Untrusted(exemplar.label or "", _LABEL)),
            (b.Column("Text"), lambda exemplar: b.Untrusted(exemplar.text, 320)),
            (b.Column("By the answers", "nats", "nats", bar=True), lambda exemplar: exemplar.answers.mean_nats),
            (b.Column("Interval", "interval"), lambda exemplar: b.interval(exemplar.answers.interval_nats)),
            (b.Column("Worst case", "nats", on="wide"), lambda exemplar: exemplar.mean_nats),
            (b.Column("Most", "nats", on="wide", detail=True), lambda exemplar: exemplar.max_nats),
            (b.Column("Worst in", "share"), lambda exemplar: exemplar.worst_share),
        ],
        "Exemplars (the same for all queries) by mean leakage through the answers",
        rest=("exemplar", "exemplars"),
    )


_MARKS: Final = {None: "", True: " ✓", False: " ✗"}
_INDEX: Final[b.Columns[IclResult]] = [
    (
        b.Column("Nats", "nats", shade=True),
        lambda result: b.finding(result.answer_nats, is_finding=result.answer_nats > result.answer_noise_floor_nats),
    ),
    (b.Column("Text"), lambda result: b.Untrusted(result.query, 90)),
    (
        b.Column("Answer"),
        lambda result: (b.Untrusted(result.answer, _LABEL), "" if result.answer_given else _MARKS[result.is_right]),
    ),
    (b.Column("Right", on="wide"), lambda result: b.Untrusted(result.gold or "", _LABEL)),
    (b.Column("Exemplar", on="wide"), lambda result: _id(result.revealed)),
]


def _section(result: IclResult) -> b.Section:
    text = result.query
    if len(text) > 400:
        text = f"{text[:400].rstrip()}…"
    blocks = (
        b.Text(b.Untrusted(text), "prose"),
        b.Text(words.answer(result)),
        _labels_of(result),
        _exemplars_of(result, among_many=True),
    )
    return b.Section(b.Untrusted(result.id, 12), blocks, b.cells(_INDEX, result), weight=result.answer_nats)


# ---- one query ------------------------------------------------------------------------------------------------------
def _id(exemplar: ExemplarInfluence | FixedExemplar) -> b.Untrusted:
    return b.Untrusted(exemplar.id, _ID)


def _labels_of(result: IclResult) -> b.Table:
    """With all exemplars, and without the one of the largest loss.

    Of many labels the first `LABELS_SHOWN` are those that matter: the prediction, the right one, the one that changes
    most, then the likeliest; these and the others likeliest first.
    """
    worst, shares = result.worst, result.label_probabilities
    must = (result.answer, result.prediction, result.gold, worst.worst_label)
    likeliest = sorted(range(len(shares)), key=lambda i: -shares[i])
    first = sorted(likeliest, key=lambda i: result.labels[i] not in must)[:LABELS_SHOWN]
    rows = []
    for i in sorted(likeliest, key=lambda i: i not in first):
        label, share, nats = result.labels[i], shares[i], worst.signed_nats[i]
        # A label that has no probability with the exemplar leaves open how much it has without.
        without = min(1.0, math.exp(math.log(share) - nats)) if share else None
        remarks = ["answered"] * (label == result.answer) + ["likeliest"] * (label == result.prediction)
        remarks += ["right"] * (label == result.gold) + ["worst case"] * (label == worst.worst_label)
        rows.append(
            b.Row((
                b.Untrusted(label, 24), words.probability(share), words.probability(without), nats,
                ", ".join(remarks),
            ))
        )  # fmt: skip
    columns = (
        b.Column("Label"),
        b.Column("With all", "share"),
        b.Column(("Without ", b.Untrusted(worst.id, 12)), "share"),
        b.Column("Nats", "signed_nats"),
        b.Column("Remark"),
    )
    return b.Table(columns, rows, rest=("label", "labels"), first=LABELS_SHOWN, first_on_pages=LABELS_SHOWN)


def _exemplars_of(result: IclResult, *, among_many: bool = False) -> b.Table:
    """Fewer columns on a page of hundreds of queries."""
    everywhere: b.Columns[ExemplarInfluence] = [
        (b.Column("Exemplar"), _id),
        (b.Column("Label"), lambda exemplar: b.Untrusted(exemplar.label or "", _LABEL)),
        (b.Column("Text"), lambda exemplar: b.Untrusted(exemplar.text, 108 if among_many else 130)),
        (
            b.Column("By the answer", "nats", shade=among_many, bar=not among_many),
            lambda exemplar: exemplar.answer_nats,
        ),
        (b.Column("Worst case", "nats"), lambda exemplar: exemplar.loss_nats),
        (b.Column("At"), lambda exemplar: words.changed(exemplar, _LABEL)),
    ]
    floor = result.answer_noise_floor_nats
    return b.table_of(
        sorted(result.exemplars, key=lambda exemplar: -exemplar.answer_nats),
        [everywhere[i] for i in (0, 2, 3, 4)] if among_many else everywhere,
        "" if among_many else "Exemplars by leakage through the answer, nats",
        quiet=lambda exemplar: exemplar.answer_below_noise_floor,
        rest=("exemplar", "exemplars"),
        marks=() if among_many else (b.Mark("noise floor", floor, f"{nats_text(floor)}\u00a0nats"),),
    )


# ---- pictures -------------------------------------------------------------------------------------------------------
_DRAWN: Final = 20
_KINDS: Final[Mapping[b.Phrase, int]] = {"1 nat or more": 1, "less than 1 nat": 0}


def _picture(by_loss: Sequence[IclResult]) -> b.Chart:
    """What the answer to each query reveals, and in the worst case any answer would."""
    n = len(by_loss)
    lines = [
        pictures.PictureLine(
            b.Untrusted(result.query, 36),
            result.answer_nats,
            (f"{nats_text(result.answer_nats)} of ", b.Untrusted(result.revealed.id, 10)),
            "1 nat or more" if result.answer_nats >= words.MUCH_NATS else "less than 1 nat",
            others=[result.loss_nats] if math.isfinite(result.loss_nats) else [],
        )
        for result in by_loss[:_DRAWN]
        if math.isfinite(result.answer_nats)
    ]
    return pictures.picture(
        "queries",
        "What the answer to each query reveals of an exemplar",
        b.Axis("revealed of the exemplar named at the end", "nats"),
        lines,
        others="in the worst case",
        colours=_KINDS,
        guides=[b.Guide(words.MUCH_NATS, f"1 nat: a factor of {times_text(words.MUCH_NATS)}", "x", "dotted")],
        footer=f"The first {_DRAWN} of {n:,} queries, largest leakage first" if n > _DRAWN else "",
    )


def _files(results: Sequence[IclResult], total: IclSummary) -> Iterator[b.Chart]:
    """Figures of a paper; pages have the same numbers in tables."""
    about = ""
    if len(results) > 1:
        ends = "with 95 % intervals" if len(results) >= FEWEST_FOR_INTERVAL else "too few for intervals"
        about = f"Means over {len(results):,} queries, {ends}"
    places = [exemplar for exemplar in total.positions if math.isfinite(exemplar.mean_nats)]
    if places:
        # Exemplars that all queries have go by the ids that they have in the tables.
        ids = {exemplar.position: _id(exemplar) for exemplar in total.exemplars or ()}
        names: list[b.Phrase] = [ids.get(exemplar.position, str(exemplar.position)) for exemplar in places]
        x = b.Axis("exemplar, first to last in the prompt" if ids else "position of the exemplar", names=names)
        yield b.Chart(
            "positions",
            f"Worst case by {'exemplar, in the order of the prompt' if ids else 'the position of the exemplar'}",
            (b.Panel(x, b.Axis("worst case", "nats"), (_series("bar", places),)),),
            footer=about,
            panel_inches=(max(4.8, 1.2 + 0.34 * len(places)), 3.6),
            on="files",
        )
    finite = [exemplar for exemplar in total.exemplars or () if math.isfinite(exemplar.answers.mean_nats)]
    shown = sorted(finite, key=lambda exemplar: -exemplar.answers.mean_nats)[:40]
    if shown:
        names = [(b.Untrusted(exemplar.id, 12), ": ", b.Untrusted(exemplar.text, 42)) for exemplar in shown]
        yield b.chart_of_rows(
            "exemplars",
            "Leakage of each exemplar through the answers, largest first",
            "revealed by the answers",
            names,
            _series("rows", [exemplar.answers for exemplar in shown]),
            about,
        )


def _series(draws: b.SeriesStyle, shown: Sequence[Losses]) -> b.ChartSeries:
    ends = [losses.interval_nats or (losses.mean_nats, losses.mean_nats) for losses in shown]
    low, high = ([end[i] for end in ends] for i in (0, 1))
    return b.ChartSeries(draws, [losses.mean_nats for losses in shown], low=low, high=high)
