"""The context of one case beside its response, and its pieces in tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from leakmeter.core.plain import excerpt, n_listed
from leakmeter.instruments.influence import context, disclosure_report, findings, search_report, sentences
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.report.scale import nats_text
from leakmeter.report.words import posterior_cell
from leakmeter.stats.stats import BELOW_PLACEBO, is_above_baselines
from leakmeter.text.exemplars import EXEMPLAR

SURROGATE: Final = "With a surrogate"
POSTERIOR: Final = "Posterior"
FINDING: Final = "Finding"
"""Headings of columns."""
_LISTED: Final = 12


def attribution(case: InfluenceResult) -> b.Attribution:
    pieces = case.pieces
    floors = context.token_floors(case, case.placebo_alone_per_token_nats, is_finding=findings.is_finding(case))
    tokens = context.coloured_tokens(case)
    query: tuple[b.Block, ...] = (b.Text(b.Untrusted(case.query), "prose", heading="Query"),) if case.query else ()
    units = "Exemplars" if case.unit == EXEMPLAR else "Pieces of the context"
    if search_report.is_partial(case):
        units = "Pieces of the context that were scored exactly"
    captions = {
        "document": "Documents",
        "unit": units,
        "value": "Values with several mentions, all ablated together",
    }
    ranked = {kind: context.by_nats(case, kind) for kind in captions}
    tables = [_table(case, ranked[kind], caption) for kind, caption in captions.items() if ranked[kind]]
    return b.Attribution(
        context=_context(case),
        response=b.ShadedText(
            (b.Passage(tokens),),
            heading=(
                "Response, each token coloured by the influence of the whole context (",
                context.provenance(case),
                ")",
            ),
            floor_nats=case.noise_floor_per_token_nats,
            style="tokens",
        ),
        tables=tables,
        nats=[piece.nats if findings.is_finding(case, piece) else 0.0 for piece in pieces],
        signed_by_token=[piece.signed_per_token_nats for piece in pieces],
        whole_signed_by_token=case.whole_signed_per_token_nats,
        floor_by_token=context.token_floors(case, case.placebo_per_token_nats),
        whole_floor_by_token=floors,
        beside=query,
        partly=search_report.is_partial(case),
        disclosures=disclosure_report.disclosures(case),
    )


def _context(case: InfluenceResult) -> b.ShadedText:
    pieces = case.pieces
    shown = [*context.by_nats(case, "unit"), *context.by_nats(case, "document")]
    ranked = [i for i in context.by_nats(case, "unit")[:_LISTED] if findings.is_finding(case, pieces[i])]
    ranks = {i: rank for rank, i in enumerate(ranked, 1)}
    order = {i: place for place, i in enumerate(shown)}
    # What was not scored exactly comes behind, so that numbers of pieces stay what they are.
    left = search_report.units_left(case)
    disclosed = disclosure_report.marked(case)
    passages: list[tuple[int | None, list[b.Segment]]] = []
    for stretch in context.stretches(case.context, case.documents, [*pieces, *left]):
        if not passages or passages[-1][0] != stretch.document:
            passages.append((stretch.document, []))
        units = sorted((i for i in stretch.units if i < len(pieces)), key=lambda i: order[i])
        top = pieces[units[0]] if units else None
        is_finding = top is not None and findings.is_finding(case, top)
        unknown = [left[i - len(pieces)] for i in stretch.units if i >= len(pieces)]
        remarks: list[b.Phrase] = [] if top is None else [(b.Untrusted(top.name, 40), f": {scale.nats_cell(top.nats)}")]
        remarks += [search_report.unscored(case, piece) for piece in unknown]
        passages[-1][1].append(
            b.Segment(
                b.Untrusted(stretch.text),
                None if top is None else top.nats if is_finding else 0.0,
                units,
                stretch.values,
                b.joined(remarks, "; "),
                ranks.get(units[0]) if units else None,
                # Beside a finding it is known what stands there; beside none it is not.
                unmeasured=search_report.why(unknown[0]) if unknown and not is_finding else "",
                parts=disclosure_report.parts(stretch, disclosed),
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
        heading="Context, each piece coloured by its influence beyond the placebo",
        floor_nats=_floor(case),
        floor_name="noise" if case.placebo_nats is None else "placebo",
    )


def _floor(case: InfluenceResult) -> float:
    return max((findings.floor_nats(case, piece) for piece in case.pieces), default=case.noise_floor_nats)


def _table(case: InfluenceResult, ranked: Sequence[int], caption: str) -> b.Table:
    swaps = any(piece.swapped_nats is not None for piece in case.pieces)
    has_alone = any(case.pieces[i].alone_nats is not None for i in ranked)
    piece_name = "document" if case.pieces[ranked[0]].kind == "document" else sentences.unit_noun(case)
    sampled = any(piece.mean_nats is not None for piece in case.pieces)
    columns: list[tuple[b.Column, Callable[[PieceInfluence], b.Cell], bool]] = [
        (b.Column(piece_name.capitalize()), lambda piece: b.Untrusted(piece.name, 24), True),
        (b.Column("Text"), lambda piece: b.Noted(b.Untrusted(piece.text, 120), remarks_on(case, piece)), True),
        (b.Column("Without it", "nats", bar=True, role="nats"), lambda piece: piece.nats, True),
        (b.Column("Found by"), lambda piece: search_report.found_by(case, piece), case.search is not None),
        (b.Column(SURROGATE, "nats", role="whole"), lambda piece: piece.swapped_nats, swaps),
        (
            b.Column("Signed", "signed_nats", role="signed", on="wide", detail=True),
            lambda piece: piece.signed_nats,
            True,
        ),
        (b.Column("Alone", "nats", role="whole", detail=True), lambda piece: piece.alone_nats, has_alone),
        (
            b.Column(POSTERIOR, "posterior", role="whole"),
            lambda piece: _posterior(case, piece),
            case.response.sampled,
        ),
        (b.Column(FINDING, role="whole"), lambda piece: _finding(case, piece), not case.response.sampled),
        (
            b.Column("Over samples", role="whole", detail=True),
            lambda piece: sentences.over_samples(piece, "") or scale.NOT_MEASURED,
            sampled,
        ),
    ]
    shown = [(column, cell) for column, cell, is_there in columns if is_there]
    rows = []
    for index in ranked:
        piece = case.pieces[index]
        cells = [cell(piece) for _, cell in shown]
        rows.append(b.Row(cells, piece=index, quiet=not findings.is_finding(case, piece)))
    noise = f"{nats_text(case.noise_floor_nats)}\u00a0nats{context.whose_noise(case)}"
    marks = [b.Mark("noise floor", case.noise_floor_nats, noise)]
    if case.placebo_nats is not None:
        unsigned, signed = nats_text(case.placebo_nats), nats_text(case.placebo_signed_nats)
        alone = f"{nats_text(case.placebo_alone_signed_nats)} if it is the only context"
        note = f"{unsigned}\u00a0nats (an irrelevant text in the same place; signed: at most {signed}, and {alone})"
        marks.append(b.Mark("placebo", case.placebo_nats, note))
    return b.Table(
        [column for column, _ in shown], rows, caption, rest=(piece_name, f"{piece_name}s"), first=_LISTED,
        marks=marks, floor_nats=_floor(case), sortable=len(rows) > 1, filterable=len(rows) > _LISTED, numbered=True,
    )  # fmt: skip


def remarks_on(case: InfluenceResult, piece: PieceInfluence) -> list[b.Phrase]:
    remarks: list[b.Phrase] = []
    if piece.document and len(case.documents) > 1 and piece.document != piece.name:
        remarks.append(b.Untrusted(piece.document, 40))
    n = len(piece.spans)
    if piece.kind == "value":
        remarks.append(f"{n} mention{'s' if n != 1 else ''}")
    remarks += search_report.remarks(case, piece)
    flags = []
    if piece.below_noise_floor:
        flags.append("below noise")
    elif not findings.is_finding(case, piece):
        flags.append(_placebo_flag(case, piece))
    if piece.entity_type:
        n = piece.n_mentions
        repetition = "not repeated" if piece.repeated == "no" else f"repeated {piece.repeated}"
        flags.append(f"{n} mention{'s' if n > 1 else ''}, {repetition}")
    if piece.surrogate:
        flags.append(f"surrogate: {excerpt(piece.surrogate, 60)}")
    repeats = piece.repeats
    if repeats:
        n = n_listed(len(repeats), 4)
        more = f" and {len(repeats) - n} more" if len(repeats) > n else ""
        flags.append(f"repeated elsewhere ({', '.join(excerpt(name, 24) for name in repeats[:n])}{more})")
    elif piece.redundant:
        flags.append("said elsewhere too")
    if piece.redundant:
        flags.append(f"“alone” {nats_text(piece.alone_nats)}\u00a0nats")
    return [*remarks, *map(b.Untrusted, flags)]


def _placebo_flag(case: InfluenceResult, piece: PieceInfluence) -> str:
    """Which of its sums is not above the placebo's: the one without signs stands beside it, the other need not."""
    if piece.nats <= findings.floor_nats(case, piece):
        return "below the placebo"
    if piece.posterior_note != BELOW_PLACEBO:
        return f"with signs {piece.posterior_note}"
    is_whole = piece.signed_per_token_nats == case.whole_signed_per_token_nats
    placebo = case.placebo_alone_signed_nats if is_whole else case.placebo_signed_nats
    return f"with signs {nats_text(piece.signed_nats)}, within the placebo’s {nats_text(placebo)}"


def _finding(case: InfluenceResult, piece: PieceInfluence) -> str:
    """Of a response that was given there is no posterior; remarks say why a piece is no finding."""
    return "yes" if findings.is_finding(case, piece) else "no"


def _posterior(case: InfluenceResult, piece: PieceInfluence) -> b.Cell:
    """The posterior, or the baseline that the piece is below."""
    if findings.is_finding(case, piece):
        return piece.posterior
    return "<\u00a0placebo" if is_above_baselines(piece.posterior, piece.posterior_note) else posterior_cell(piece)


def samples(case: InfluenceResult) -> Iterator[b.Block]:
    if case.whole_mean_nats is None:
        return
    samples, shown = case.samples, findings.shown_in_context(case.pieces)
    over = sentences.over_samples(case, "whole_")
    yield b.Text(f"Over {len(samples)} sampled responses, nats: {over}.", detail=True)
    rows = []
    for sample in samples:
        nats = {i: sample.piece_nats[i] for i in shown if case.pieces[i].kind != "value"}
        top = max(nats, key=lambda i: (nats[i], -i), default=None)
        strongest: b.Phrase = ""
        if top is not None:
            strongest = (b.Untrusted(case.pieces[top].name, 40), f" {scale.nats_cell(nats[top])}")
        rows.append(b.Row((b.Untrusted(sample.text, 160), sample.whole_nats, strongest)))
    columns = (
        b.Column("Response"),
        b.Column("Nats", "nats", bar=True),
        b.Column(f"Strongest piece{search_report.scored(case)}"),
    )
    yield b.Table(
        columns,
        rows,
        caption=f"Sampled again: {len(samples)} response{'s' if len(samples) != 1 else ''}",
        rest=("response", "responses"),
        detail=True,
    )
