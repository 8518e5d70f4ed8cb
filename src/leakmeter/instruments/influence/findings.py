"""Which pieces of a case are findings, and which stand for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakmeter.instruments.influence.sources import ContextPiece
from leakmeter.stats.stats import is_above_baselines

if TYPE_CHECKING:
    from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence


def is_finding(case: InfluenceResult, piece: PieceInfluence | None = None) -> bool:
    """Whether the sums of a piece, or of the whole context, with signs and without, are above noise and placebo.

    What is not is neither coloured, ranked nor called evidence.
    """
    if piece is None and not is_held_against_irrelevant(case):
        return False
    if piece is None:
        is_above, nats = is_above_baselines(case.whole_posterior, case.whole_posterior_note), case.whole_nats
    else:
        is_above, nats = is_above_baselines(piece.posterior, piece.posterior_note), piece.nats
    return is_above and nats > floor_nats(case, piece)


def is_held_against_irrelevant(case: InfluenceResult) -> bool:
    """Whether the response was scored beside an irrelevant text, if there is one that fits: of a log that is measured
    step by step, a sample is, and what may disclose something."""
    return case.steps is None or case.placebo_alone_nats is not None


def floor_nats(case: InfluenceResult, piece: PieceInfluence | None = None) -> float:
    """Where colours begin: what the noise, or an irrelevant piece, does to the response.

    `piece` is None for the whole context, which is held against an irrelevant text as the only context, as is a piece
    that is all of the context.
    """
    is_whole = piece is None or piece.signed_per_token_nats == case.whole_signed_per_token_nats
    return max(case.noise_floor_nats, (case.placebo_alone_nats if is_whole else case.placebo_nats) or 0.0)


def has_documents(pieces: Sequence[object]) -> bool:
    return any(getattr(piece, "kind", None) == "document" for piece in pieces)


def shown_in_context(pieces: Sequence[ContextPiece]) -> list[int]:
    """Indices of the pieces that a context is cut into: a document is one where none of its sentences is, and so are
    values that were measured together."""
    measured = {piece.document for piece in pieces if piece.kind in ("unit", "fields")}
    units = {chars for piece in pieces if piece.kind == "unit" for chars in piece.spans}
    return [
        i
        for i, piece in enumerate(pieces)
        if (piece.kind != "document" or piece.document not in measured)
        and (piece.kind != "fields" or units.isdisjoint(piece.spans))
    ]


def telling(case: InfluenceResult) -> list[PieceInfluence]:
    """The pieces that say most: a document, or values that were measured together, where no part is a finding."""
    units = [piece for piece in case.pieces if piece.kind in ("unit", "fields") and is_finding(case, piece)]
    documents = {piece.document for piece in units}
    chars = {one for piece in units if piece.kind == "unit" for one in piece.spans}
    return [
        piece
        for piece in case.pieces
        if (piece.kind != "document" or piece.document not in documents)
        and (piece.kind != "fields" or chars.isdisjoint(piece.spans))
    ]
