"""What influence says of one response or of many, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.core.plain import excerpt
from leakmeter.errors import UsageError
from leakmeter.instruments.influence import context
from leakmeter.instruments.influence.charts import charts
from leakmeter.instruments.influence.result import InfluenceResult, Piece
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.report.findings import mean_text
from leakmeter.report.scale import nats_text
from leakmeter.report.words import posterior_cell
from leakmeter.text.exemplar import EXEMPLAR

_LISTED: Final = 12
_SURROGATE: Final = "With a surrogate"
_CAVEAT: Final = (
    "A lower-bound estimate of the ex-post privacy loss of this context for this output; not a guarantee, and "
    "nothing about other outputs the model could have given."
)
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
    shared = _shared_settings(cases)
    several = len(cases) > 1
    responses = "a response" if not several else f"{len(cases):,} responses"
    swapped = any(_swaps(case) for case in cases)
    notes: list[b.Block] = [b.Facts([note for note in _NOTES if swapped or note[0] != _SURROGATE])]
    if several and shared:
        notes.insert(0, b.Part("How it was measured", b.facts_of(shared)))
    headlines: list[b.Block] = [b.Headline(_headline(cases))] if several else []
    return b.Report(
        title=f"Influence of the {_whole(cases[0])} on {'these responses' if several else 'this response'}"
        if title is None
        else b.Untrusted(title),
        measure="influence",
        blocks=[*headlines, *charts(cases)],
        lead=f"A language model gave {responses} after reading some {_whole(cases[0])}. Each {_piece(cases[0])} of it "
        "was ablated in turn, and the same response scored again. What its log-probability moved, added up over its "
        f"tokens, is the influence of that {_piece(cases[0])} on the response, in nats.",
        caveat=_CAVEAT,
        sections=[_section(case, shared if several else {}) for case in cases],
        index=(
            b.Column("Response", on="pages"),
            b.Column("Whole", "nats", "nats", shade=True),
            b.Column(f"Strongest {_piece(cases[0])}"),
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
        f"The {_whole(cases[0], 's')} changed {len(cases):,} responses by {mean_text(values)} on average, and one by "
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
    yield b.Headline(verdict(case))
    yield b.Text(_conclusion(case))
    for warning in context.warnings(case):
        yield b.Warning(b.Untrusted(warning))
    yield _attribution(case)
    yield from _samples(case)
    own = {name: said for name, said in context.settings(case).items() if shared.get(name) != said}
    if own:
        yield b.Details("Settings and cost", b.facts_of(own))


def _conclusion(case: InfluenceResult) -> b.Phrase:
    """What an observer can conclude, and which piece has most influence."""
    piece = context.leader(case)
    if piece is None:
        return posterior(case)
    what = "all its mentions" if piece.kind == "value" or piece.n_mentions > 1 else "it"
    moved = f"”: ablating {what} moves the response by {nats_text(piece.nats)}\u00a0nats."
    called = piece.name if case.unit == EXEMPLAR else piece.text
    return posterior(case), f" The strongest {_piece(case)} is “", b.Untrusted(called, 120), moved


def _attribution(case: InfluenceResult) -> b.Attribution:
    pieces = case.pieces
    response = case.response
    tokens = [
        b.Segment(b.Untrusted(token), nats)
        for token, nats in zip(response.tokens, case.whole_per_token_nats, strict=True)
    ]
    query: tuple[b.Block, ...] = (b.Text(b.Untrusted(case.query), "prose", heading="Query"),) if case.query else ()
    tables = [_table(case, context.by_nats(case, "unit"), _pieces_caption(case))]
    values = context.by_nats(case, "value")
    if values:
        tables.append(_table(case, values, "Values with several mentions, all of them ablated together"))
    return b.Attribution(
        context=_context(case),
        response=b.ShadedText(
            (b.Passage(tokens),),
            heading=("Response, each token by what the whole context did to it (", context.provenance(case), ")"),
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
    ranked = [i for i in context.by_nats(case, "unit")[:_LISTED] if not pieces[i].below_noise_floor]
    ranks = {i: rank for rank, i in enumerate(ranked, 1)}
    order = {i: place for place, i in enumerate(context.by_nats(case, "unit"))}
    passages: list[tuple[int | None, list[b.Segment]]] = []
    for stretch in context.stretches(case.context, case.documents, pieces):
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
        b.Column(_piece(case).capitalize()),
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
            piece.posterior if piece.posterior is not None else posterior_cell(piece),
            *([_over_samples(piece, "") or scale.NOT_MEASURED] if sampled else []),
        ]
        rows.append(b.Row(cells, piece=index, quiet=piece.below_noise_floor))
    marks = [b.Mark("noise floor", case.noise_floor_nats, f"{nats_text(case.noise_floor_nats)}\u00a0nats")]
    if case.placebo_nats is not None:
        marks.append(b.Mark("placebo", case.placebo_nats, _placebo(case)))
    return b.Table(
        columns, rows, caption, rest=(_piece(case), f"{_piece(case)}s"), first=_LISTED, marks=marks, sortable=True,
        filterable=caption == _pieces_caption(case), numbered=True,
    )  # fmt: skip


def _remarks(case: InfluenceResult, piece: Piece) -> list[b.Phrase]:
    found: list[b.Phrase] = []
    if piece.document and len(case.documents) > 1 and piece.document != piece.name:
        found.append(b.Untrusted(piece.document, 40))
    n = len(piece.spans)
    if piece.kind == "value":
        found.append(f"{n} mention{'s' if n != 1 else ''}")
    return [*found, *(b.Untrusted(flag) for flag in _flags(piece))]


def _swaps(case: InfluenceResult) -> bool:
    return any(piece.swapped_nats is not None for piece in case.pieces)


def _samples(case: InfluenceResult) -> Iterator[b.Block]:
    """Responses that were sampled again: each on the scale of nats, and their mean."""
    if case.whole_mean_nats is None:
        return
    samples = case.samples
    over = _over_samples(case, "whole_")
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


def _whole(case: InfluenceResult, plural: str = "") -> str:
    """What all pieces are together."""
    return f"set{plural} of exemplars" if case.unit == EXEMPLAR else f"context{plural}"


def _piece(case: InfluenceResult) -> str:
    return EXEMPLAR if case.unit == EXEMPLAR else "piece"


def _pieces_caption(case: InfluenceResult) -> str:
    return "Exemplars" if case.unit == EXEMPLAR else "Pieces of the context"


# ---- sentences ------------------------------------------------------------------------------------------------------
def verdict(case: InfluenceResult) -> str:
    """One sentence: by how many nats the context as a whole changed the response."""
    if case.whole_nats <= case.noise_floor_nats:
        return f"The {_whole(case)} as a whole left no measurable trace in this response."
    return f"The {_whole(case)} as a whole changed this response by {nats_text(case.whole_nats)}\u00a0nats."


def posterior(case: InfluenceResult) -> str:
    """One sentence: what someone who sees only the response can conclude about the context."""
    if case.whole_nats <= case.noise_floor_nats:
        return f"Whoever reads the response learns nothing from it about whether this {_whole(case)} was there."
    return context.posterior_sentence(case, "whole_", f"this {_whole(case)}")


def _placebo(case: InfluenceResult) -> str:
    """What an irrelevant piece does, as sizes: of the sum without signs, and of the one with them."""
    unsigned, signed = nats_text(case.placebo_nats), nats_text(case.placebo_signed_nats)
    alone = case.placebo_alone_signed_nats
    said = f"{unsigned}\u00a0nats, with signs at most {signed}"
    return f"{said}; as the only context, with signs, {nats_text(alone)}"


def _flags(piece: Piece) -> list[str]:
    """Short remarks a reader must see beside the number."""
    remarks = []
    if piece.below_noise_floor:
        remarks.append("below noise")
    if piece.entity_type:
        n = piece.n_mentions
        said = "not repeated" if piece.repeated == "no" else f"repeated {piece.repeated}"
        remarks.append(f"{n} mention{'s' if n > 1 else ''}, {said}")
    if piece.surrogate:
        remarks.append(f"surrogate: {excerpt(piece.surrogate, 60)}")
    repeats = piece.repeats
    if repeats:
        more = f" and {len(repeats) - 4} more" if len(repeats) > 4 else ""
        remarks.append(f"said elsewhere too ({', '.join(excerpt(name, 24) for name in repeats[:4])}{more})")
    elif piece.redundant:
        remarks.append("said elsewhere too")
    if piece.redundant:
        remarks.append("look at “alone”")
    return remarks


def _over_samples(numbers: InfluenceResult | Piece, prefix: str) -> str | None:
    """Mean, 95 % interval and worst in nats; None where nothing was sampled again."""
    mean, interval, worst = (getattr(numbers, f"{prefix}{name}_nats") for name in ("mean", "interval", "worst"))
    if mean is None:
        return None
    return f"{nats_text(mean)} [{nats_text(interval[0])}, {nats_text(interval[1])}], worst {nats_text(worst)}"


def _shared_settings(cases: Sequence[InfluenceResult]) -> dict[str, str]:
    """The settings on which all cases agree."""
    first, *others = map(context.settings, cases)
    return {name: said for name, said in first.items() if all(one.get(name) == said for one in others)}
