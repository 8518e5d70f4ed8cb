"""What influence says of a response, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leakmeter.instruments.influence.result import InfluenceResult, Piece
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import excerpt
from leakmeter.report.view import settings
from leakmeter.report.words import posterior_sentence

CAVEAT: Final = (
    "A lower-bound estimate of the ex-post privacy loss of this context for this output; not a guarantee, and "
    "nothing about other outputs the model could have given."
)


def verdict(case: InfluenceResult) -> str:
    """One sentence: by how many nats the context as a whole changed the response."""
    if case.whole_nats <= case.noise_floor_nats:
        return "The context as a whole left no measurable trace in this response."
    return f"The context as a whole changed this response by {nats_text(case.whole_nats)}\u00a0nats."


def posterior(case: InfluenceResult) -> str:
    """One sentence: what someone who sees only the response can conclude about the context."""
    if case.whole_nats <= case.noise_floor_nats:
        return "Whoever reads the response learns nothing from it about whether this context was there."
    return posterior_sentence(case, "whole_", "this context")


def placebo(case: InfluenceResult) -> str:
    """What an irrelevant piece does, as sizes: of the sum without signs, and of the one with them."""
    unsigned, signed = nats_text(case.placebo_nats), nats_text(case.placebo_signed_nats)
    alone = case.placebo_alone_signed_nats
    said = f"{unsigned}\u00a0nats, with signs at most {signed}"
    return f"{said}; as the only context, with signs, {nats_text(alone)}"


def flags(piece: Piece) -> list[str]:
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
        shown = ", ".join(excerpt(name, 24) for name in repeats[:4]) + (
            f" and {len(repeats) - 4} more" if len(repeats) > 4 else ""
        )
        remarks.append(f"said elsewhere too ({shown})")
    elif piece.redundant:
        remarks.append("said elsewhere too")
    if piece.redundant:
        remarks.append("look at “alone”")
    return remarks


def over_samples(numbers: InfluenceResult | Piece, prefix: str) -> str | None:
    """Mean, 95 % interval and worst in nats; None where nothing was sampled again."""
    mean, interval, worst = (getattr(numbers, f"{prefix}{name}_nats") for name in ("mean", "interval", "worst"))
    if mean is None:
        return None
    return f"{nats_text(mean)} [{nats_text(interval[0])}, {nats_text(interval[1])}], worst {nats_text(worst)}"


def shared_settings(cases: Sequence[InfluenceResult]) -> dict[str, str]:
    """The settings on which all cases agree."""
    first = settings(cases[0])
    for case in cases[1:]:
        other = settings(case)
        first = {name: text for name, text in first.items() if other.get(name) == text}
    return first
