"""What influence says of one response or of many, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from leakmeter.errors import UsageError
from leakmeter.instruments.influence import words
from leakmeter.instruments.influence.result import InfluenceResult, Piece
from leakmeter.report import blocks as b
from leakmeter.report import scale, view
from leakmeter.report import words as shared_words
from leakmeter.report.findings import mean_text
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import by_nats, leader, stretches
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate

_LISTED: Final = 12
_PIECES_AT_MOST: Final = 30
_TOKENS_AT_MOST: Final = 60
_SURROGATE: Final = "With a surrogate"
_NOTES: Final[tuple[tuple[str, str], ...]] = (
    ("Without it", "how far the response’s log-probability moves when only this piece is ablated."),
    ("Alone", "how far it moves when this piece is all the context there is. A fact said twice reads low without "
              "either and high with only one."),
    (_SURROGATE, "how far it moves when a surrogate value of the same kind stands in its place; what is lost "
                         "came from the context, not from the model’s memory."),
    ("Signed", "plus, the piece made the response likelier."),
    ("Posterior", "from even odds, how likely the piece was there for an observer of the response, "
                  "1 / (1 + exp(−signed)); not shown where the signed sum is no larger in size than that of the noise "
                  "or of the placebo, nor for one token."),
    ("Placebo", "what an irrelevant piece of typical length does."),
    ("Bars and colours", f"share one scale, log(1 + nats / {scale.KNEE_NATS:g}), the same in every case."),
)  # fmt: skip


def report(
    cases: Sequence[InfluenceResult],
    *,
    title: str | None = None,
    command: str | None = None,
    provenance: b.Provenance = b.Provenance(),  # noqa: B008 (frozen)
) -> b.Report:
    """Each response with its shaded context, its pieces, and how it was measured.

    Args:
        cases: one or more.
        title: of the user; ours where None.
        command: the command line they came from.
        provenance: of the run they lie in.

    Raises:
        UsageError: there is no case.
    """
    if not cases:
        raise UsageError("no case to show: a report needs at least one, as `leakmeter influence --json` prints them")
    shared = words.shared_settings(cases)
    several = len(cases) > 1
    responses = "a response" if not several else f"{len(cases):,} responses"
    swapped = any(_swaps(case) for case in cases)
    notes: list[b.Block] = [b.Facts([note for note in _NOTES if swapped or note[0] != _SURROGATE])]
    if several and shared:
        notes.insert(0, b.Part("How it was measured", b.facts_of(shared)))
    headlines: list[b.Block] = [b.Headline(_headline(cases))] if several else []
    return b.Report(
        title="Influence of the context on this response" if title is None else b.Untrusted(title),
        measure="influence",
        blocks=[*headlines, *_charts(cases)],
        lead=f"A language model gave {responses} after reading some context. Each piece of that context was ablated "
        "in turn, and the same response scored again. What its log-probability moved, added up over its tokens, is the "
        "influence of that piece on the response, in nats.",
        caveat=words.CAVEAT,
        sections=[_section(case, shared if several else {}) for case in cases],
        index=(
            b.Column("Response", on="pages"),
            b.Column("Whole", "nats", "nats", shade=True),
            b.Column("Strongest piece"),
            b.Column("Without it", "nats", "nats"),
        ),
        sections_left_out="with less influence of their contexts",
        notes=notes,
        guide_to="piece",
        provenance=provenance,
        command=None if command is None else b.Command(b.Untrusted(command)),
    )


def _headline(cases: Sequence[InfluenceResult]) -> str:
    values = [case.whole_nats for case in cases]
    return (
        f"The contexts changed {len(cases):,} responses by {mean_text(values)} on average, and one by "
        f"{nats_text(max(values))}\u00a0nats."
    )


def _section(case: InfluenceResult, shared: dict[str, str]) -> b.Section:
    return b.Section(b.Untrusted(case.id, 80), list(_blocks(case, shared)), _cells(case), weight=case.whole_nats)


def _cells(case: InfluenceResult) -> tuple[b.Cell, ...]:
    pieces = case.pieces
    quiet = case.whole_nats <= case.noise_floor_nats
    whole = scale.nats_cell(case.whole_nats) if quiet else case.whole_nats
    response = b.Untrusted(case.response.text, 72)
    top = max(pieces, key=lambda piece: float(piece.nats), default=None)
    if top is None:
        return response, whole, "", None
    return response, whole, (b.Untrusted(top.name, 24), ": ", b.Untrusted(top.text, 60)), top.nats


def _blocks(case: InfluenceResult, shared: dict[str, str]) -> Iterator[b.Block]:
    yield b.Headline(words.verdict(case))
    yield b.Text(_posterior(case))
    for warning in shared_words.warnings(case):
        yield b.Warning(b.Untrusted(warning))
    yield _attribution(case)
    yield from _samples(case)
    settings = {name: said for name, said in view.settings(case).items() if shared.get(name) != said}
    if settings:
        yield b.Details("Settings and cost", b.facts_of(settings))


def _posterior(case: InfluenceResult) -> b.Phrase:
    """What an observer can conclude, and which piece has most influence."""
    first = leader(case)
    if first is None:
        return words.posterior(case)
    piece = case.pieces[first]
    what = "all its mentions" if piece.kind == "value" or piece.n_mentions > 1 else "it"
    moved = f"”: ablating {what} moves the response by {nats_text(piece.nats)}\u00a0nats."
    return words.posterior(case), " The strongest piece is “", b.Untrusted(piece.text, 120), moved


def _attribution(case: InfluenceResult) -> b.Attribution:
    pieces = case.pieces
    response = case.response
    tokens = [
        b.Segment(b.Untrusted(token), nats)
        for token, nats in zip(response.tokens, case.whole_per_token_nats, strict=True)
    ]
    query: tuple[b.Block, ...] = (b.Text(b.Untrusted(case.query), "prose", heading="Query"),) if case.query else ()
    tables = [_table(case, by_nats(case, "unit"), "Pieces of the context")]
    values = by_nats(case, "value")
    if values:
        tables.append(_table(case, values, "Values with several mentions, all of them ablated together"))
    return b.Attribution(
        context=_context(case),
        response=b.ShadedText(
            (b.Passage(tokens),),
            heading=("Response, each token by what the whole context did to it (", shared_words.provenance(case), ")"),
            floor_nats=case.noise_floor_per_token_nats,
            style="tokens",
        ),
        tables=tables,
        nats=[0.0 if piece.below_noise_floor else piece.nats for piece in pieces],
        signed_by_token=[piece.signed_per_token_nats for piece in pieces],
        whole_signed_by_token=case.whole_signed_per_token_nats,
        beside=query,
    )


def _context(case: InfluenceResult) -> b.ShadedText:
    """The context, each stretch by the strongest of the units that cover it."""
    pieces = case.pieces
    ranked = [i for i in by_nats(case, "unit")[:_LISTED] if not pieces[i].below_noise_floor]
    ranks = {i: rank for rank, i in enumerate(ranked, 1)}
    order = {i: place for place, i in enumerate(by_nats(case, "unit"))}
    passages: list[tuple[int | None, list[b.Segment]]] = []
    for stretch in stretches(case):
        if not passages or passages[-1][0] != stretch.document:
            passages.append((stretch.document, []))
        units = sorted(stretch.units, key=lambda i: order[i])
        top = pieces[units[0]] if units else None
        passages[-1][1].append(
            b.Segment(
                b.Untrusted(stretch.text),
                None if top is None else 0.0 if top.below_noise_floor else top.nats,
                units,
                stretch.values,
                "" if top is None else (b.Untrusted(top.name, 40), f": {scale.nats_cell(top.nats)}"),
                ranks.get(units[0]) if units else None,
            )
        )
    documents = case.documents
    several = len(documents) > 1
    return b.ShadedText(
        [
            b.Passage(segments, b.Untrusted(documents[number].name, 60) if several and number is not None else "")
            for number, segments in passages
            # The blank line between two documents needs no passage of its own.
            if number is not None or any(segment.text.text.strip() for segment in segments)
        ],
        heading="Context",
        floor_nats=0.0,
        floor_said_nats=case.noise_floor_nats,
    )


def _table(case: InfluenceResult, ranked: Sequence[int], caption: str) -> b.Table:
    """Without it, alone, which way, and the posterior that it was there; most nats first."""
    swaps = _swaps(case)
    sampled = any(piece.mean_nats is not None for piece in case.pieces)
    columns = [
        b.Column("Piece"),
        b.Column("Text"),
        b.Column("Without it", "nats", bar=True, role="nats"),
        *([b.Column(_SURROGATE, "nats", role="whole")] if swaps else []),
        b.Column("Signed", "signed_nats", role="signed", on="wide"),
        b.Column("Alone", "nats", role="whole"),
        b.Column("Posterior", "posterior", role="whole"),
        *([b.Column("Over samples", role="whole")] if sampled else []),
    ]
    rows = []
    for index in ranked:
        piece = case.pieces[index]
        cells: list[b.Cell] = [
            b.Untrusted(piece.name, 24),
            b.Noted(b.Untrusted(piece.text, 120), _remarks(case, piece)),
            piece.nats,
            *([piece.swapped_nats] if swaps else []),
            piece.signed_nats,
            piece.alone_nats,
            piece.posterior if piece.posterior is not None else shared_words.posterior_cell(piece),
            *([words.over_samples(piece, "") or scale.NOT_MEASURED] if sampled else []),
        ]
        rows.append(b.Row(cells, piece=index, quiet=piece.below_noise_floor))
    marks = [b.Mark("noise floor", case.noise_floor_nats, f"{nats_text(case.noise_floor_nats)}\u00a0nats")]
    if case.placebo_nats is not None:
        marks.append(b.Mark("placebo", case.placebo_nats, words.placebo(case)))
    return b.Table(
        columns, rows, caption, rest=("piece", "pieces"), first=_LISTED, marks=marks, sortable=True,
        filterable=caption.startswith("Pieces"), numbered=True,
    )  # fmt: skip


def _remarks(case: InfluenceResult, piece: Piece) -> list[b.Phrase]:
    found: list[b.Phrase] = []
    if piece.document and len(case.documents) > 1:
        found.append(b.Untrusted(piece.document, 40))
    n = len(piece.spans)
    if piece.kind == "value":
        found.append(f"{n} mention{'s' if n != 1 else ''}")
    return [*found, *(b.Untrusted(flag) for flag in words.flags(piece))]


def _swaps(case: InfluenceResult) -> bool:
    return any(piece.swapped_nats is not None for piece in case.pieces)


def _samples(case: InfluenceResult) -> Iterator[b.Block]:
    """Responses that were sampled again: each on the scale of nats, and their mean."""
    if case.whole_mean_nats is None:
        return
    samples = case.samples
    over = words.over_samples(case, "whole_")
    yield b.Text(f"Over {len(samples)} sampled responses, nats: {over}.")
    rows = []
    for sample in samples:
        nats = {i: x for i, x in enumerate(sample.piece_nats) if case.pieces[i].kind == "unit"}
        top = max(nats, key=lambda i: (nats[i], -i), default=None)
        strongest: b.Phrase = ""
        if top is not None:
            strongest = (b.Untrusted(case.pieces[top].name, 40), f" {scale.nats_cell(nats[top])}")
        rows.append(b.Row((b.Untrusted(sample.text, 160), sample.whole_nats, strongest)))
    columns = (b.Column("Response"), b.Column("Nats", "nats", bar=True), b.Column("Strongest piece"))
    yield b.Table(
        columns,
        rows,
        caption=f"Sampled again: {len(samples)} response{'s' if len(samples) != 1 else ''}",
        rest=("response", "responses"),
    )


# ---- figures --------------------------------------------------------------------------------------------------------
def _charts(cases: Sequence[InfluenceResult]) -> Iterator[b.Chart]:
    """Pieces with intervals, and pieces over the tokens of the response with most influence."""
    pieces = _of_one(cases[0]) if len(cases) == 1 else _over_cases(cases)
    if pieces is not None:
        yield pieces
    most = max(cases, key=lambda case: case.whole_nats)
    if _units(most) and most.response.tokens:
        yield _heat_map(most)


def _units(case: InfluenceResult) -> list[Piece]:
    """The pieces that are no values said several times, in the order of the context."""
    return [piece for piece in case.pieces if piece.kind == "unit"]


def _strongest(case: InfluenceResult) -> list[Piece]:
    """As many pieces as can be shown, those of most influence, in the order of the context."""
    pieces = _units(case)
    order = sorted(range(len(pieces)), key=lambda i: -pieces[i].nats)
    return [pieces[i] for i in sorted(order[:_PIECES_AT_MOST])]


def _name(piece: Piece) -> b.Phrase:
    return b.Untrusted(f"{piece.name}: {piece.text}", 48)


def _of_one(case: InfluenceResult) -> b.Chart | None:
    shown = _strongest(case)
    if not shown:
        return None
    means = [piece.mean_nats for piece in shown if piece.mean_nats is not None]
    intervals = [piece.interval_nats for piece in shown if piece.interval_nats is not None]
    is_mean = len(means) == len(intervals) == len(shown)
    left_out = len(_units(case)) - len(shown)
    floor = case.noise_floor_nats
    low, high = zip(*intervals, strict=True) if is_mean else ((), ())
    series = b.Series("rows", means if is_mean else [piece.nats for piece in shown], low=low, high=high)
    x = b.Axis(f"influence of the piece{', mean over responses' * is_mean}", "nats")
    guide = b.Guide(floor, f"noise floor, {nats_text(floor)} nats", across="x")
    return b.Chart(
        "pieces",
        "Influence of each piece of the context",
        [b.Panel(x, b.Axis("", names=[_name(piece) for piece in shown]), (series,), guides=(guide,))],
        footer=_said(
            "Bars: 95 % intervals over responses that were drawn" if is_mean else "",
            f"{left_out:,} weaker pieces left out" if left_out else "",
        ),
        panel_inches=(7.2, 1.1 + 0.24 * max(len(shown), 4)),
        on="files",
    )


def _over_cases(cases: Sequence[InfluenceResult]) -> b.Chart | None:
    """Pieces at the same place of their contexts; None where cases were cut otherwise, or personal data was."""
    if len({case.unit for case in cases}) > 1 or any(case.unit == "entity" for case in cases):
        return None
    found: dict[str, list[float]] = {}
    for case in cases:
        for piece in _units(case):
            found.setdefault(piece.name, []).append(piece.nats)
    enough = {name: values for name, values in found.items() if 2 * len(values) >= len(cases)}
    shown = dict(list(enough.items())[:_PIECES_AT_MOST])
    if not shown:
        return None
    means = [aggregate(values, "mean") for values in shown.values()]
    ends: list[Any] = [
        interval_of_aggregate(values, "mean", seed=0) or (mean, mean)
        for values, mean in zip(shown.values(), means, strict=True)
    ]
    series = b.Series("bar", means, low=[low for low, _ in ends], high=[high for _, high in ends])
    x = b.Axis(
        ("piece (", b.Untrusted(cases[0].unit, 40), "), by its place"), names=[b.Untrusted(name) for name in shown]
    )
    later = len(enough) - len(shown)
    return b.Chart(
        "pieces",
        "Influence by place in the context",
        [b.Panel(x, b.Axis("influence of the piece", "nats"), (series,))],
        footer=_said(
            f"Means over {len(cases):,} cases with 95 % bootstrap intervals; pieces that at least half of them have",
            f"{later:,} later ones left out" if later else "",
        ),
        panel_inches=(max(4.8, 1.0 + 0.32 * len(shown)), 3.8),
        on="files",
    )


def _heat_map(case: InfluenceResult) -> b.Chart:
    shown = _strongest(case)
    tokens = case.response.tokens[:_TOKENS_AT_MOST]
    left_out = len(_units(case)) - len(shown), len(case.response.tokens) - len(tokens)
    panel = b.Panel(
        b.Axis("token of the response", names=[b.Untrusted(token, 14) for token in tokens]),
        b.Axis("", names=[_name(piece) for piece in shown]),
        grid=b.Grid([piece.per_token_nats[: len(tokens)] for piece in shown]),
    )
    return b.Chart(
        "tokens",
        "Influence of each piece on each token",
        [panel],
        footer=_said(
            "The response with most influence of its context",
            *(f"{n:,} more {what} left out" for n, what in zip(left_out, ("pieces", "tokens"), strict=True) if n),
        ),
        panel_inches=(3.6 + 0.16 * len(tokens), 1.6 + 0.2 * max(len(shown), 4)),
        on="files",
    )


def _said(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
