"""What reports say of a response and of the context before it: those of influence, and of redaction.

The context is cut where pieces begin and end, each stretch knowing which pieces cover it. Everything a case holds is
untrusted. `visible` is the one gate it passes before it is shown anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from leakmeter.core import self_check
from leakmeter.core.plain import visible
from leakmeter.instruments.influence.findings import is_finding, shown_in_context, telling
from leakmeter.instruments.influence.result import ContextResult, InfluenceResult, PieceInfluence
from leakmeter.instruments.influence.sources import ContextPiece
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_cell, nats_text, percent
from leakmeter.report.words import cost_of_checks_so_far, model_facts, saved
from leakmeter.results.result import DocumentRange
from leakmeter.stats.stats import GIVEN

_REMOVALS: Final = {
    "drop": "its tokens are cut out, and the rest moves up",
    "mask": "its tokens stay in place but the model may not look at them",
    "retokenize": "its characters are deleted, and the text is tokenised again",
}


def posterior_sentence(case: ContextResult, prefix: str, noun: str) -> str:
    """One sentence: how sure the response makes a reader that something was there, or why that is not said; of a
    response that was given, how much likelier it is.

    `case` has a signed sum, a posterior and a note under names with the prefix, "whole_" or "left_".
    """
    signed_nats: float = getattr(case, f"{prefix}signed_nats")
    signed, sure = nats_text(signed_nats), getattr(case, f"{prefix}posterior")
    note: str | None = getattr(case, f"{prefix}posterior_note")
    if note == GIVEN:
        likelier = "likelier" if signed_nats > 0 else "less likely"
        return f"It is {nats_text(abs(signed_nats))}\u00a0nats {likelier} with {noun} than without it."
    if sure is None and not case.response.sampled:
        return f"The signed sum is {signed}\u00a0nats, {note}."
    if sure is None:
        return f"No posterior is shown: the signed sum is {signed}\u00a0nats, {note}."
    if sure < 0.5:
        return (
            f"The response is likelier without {noun} (the signed sum is {signed}\u00a0nats). An observer who "
            f"gave even odds that {noun} was there gives {percent(sure)} after this response."
        )
    return (
        f"An observer who gave even odds that {noun} was there is {percent(sure)} sure of it after this response (the "
        f"signed sum is {signed}\u00a0nats)."
    )


def is_nothing(case: ContextResult, nats: float) -> bool:
    """Whether noise alone would show an amount without signs."""
    return nats <= case.noise_floor_nats


def doubt(case: ContextResult) -> str | None:
    """Why it says nothing that nothing was found of a case, as a clause; None where it does."""
    if case.is_partly_read:
        return "another version of leakmeter measured it and kept more of its numbers than this one reads"
    return self_check.doubt(case.noise_floor_nats / max(1, len(case.response.tokens)), case.self_check)


def warnings(result: ContextResult) -> list[str]:
    sentences = list(result.warnings)
    if result.truncated_tokens:
        cut = f"{result.truncated_tokens} tokens of the context"
        sentences.append(f"{cut} did not fit the model's window and were not measured.")
    return sentences


def provenance(result: ContextResult) -> str:
    if not result.response.sampled:
        return "given, not drawn from this model"
    return "sampled" if result.response.seed is None else f"sampled, seed {result.response.seed}"


def whose_noise(result: ContextResult) -> str:
    """Behind a noise floor: of which cases it is, where the case measured none itself; else empty."""
    if result.noise_cases is None:
        return ""
    return f", the most of a token of {result.noise_cases} other cases at each token"


def settings(result: ContextResult) -> dict[str, str]:
    cost, retries = result.cost, result.cost.out_of_memory_retries
    spared = ""
    if cost.naive_tokens:
        spared = f", {saved(cost.tree_tokens, cost.naive_tokens)} saved against {cost.naive_tokens} one by one"
    times = "once" if retries == 1 else f"{retries} times"
    facts: dict[str, str | None] = {
        **model_facts(result),
        "Prompt template": result.template,
        "Unit of context": result.unit,
        "Removal": f"{result.removal}: {_REMOVALS.get(result.removal, 'as named')}",
        "Temperature": f"{result.temperature:g}",
        "Decoding λ": f"{result.cid_lambda:g}",
        "Response": provenance(result),
        "Noise floor": f"{nats_text(result.noise_floor_nats)}\u00a0nats; "
        f"{nats_text(result.noise_floor_per_token_nats)} a token{whose_noise(result)}",
        "Cost": f"{cost.requests} requests, {cost.tree_tokens} tokens run{spared}{cost_of_checks_so_far(result)}",
        "Memory": f"ran out {times}; cut smaller, last digits may differ from a run with more" if retries else None,
    }
    return {name: visible(text) for name, text in facts.items() if text is not None}


def token_floors(case: InfluenceResult, placebo: Sequence[float] | None, *, is_finding: bool = True) -> Sequence[float]:
    """Of each token its noise, or the placebo's effect if that is more; infinite without a finding."""
    noise = case.noise_floor_per_token_nats
    if not is_finding:
        return [math.inf] * len(case.response.tokens)
    return [max(noise, nats) for nats in placebo] if placebo else [noise] * len(case.response.tokens)


def coloured_tokens(case: InfluenceResult) -> list[b.Segment]:
    """The response's tokens, each with what the whole context did to it, where that is more than a floor."""
    floors = token_floors(case, case.placebo_alone_per_token_nats, is_finding=is_finding(case))
    return [
        b.Segment(b.Untrusted(token), nats if nats > floor else 0.0, note=nats_cell(nats))
        for token, nats, floor in zip(case.response.tokens, case.whole_per_token_nats, floors, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ContextStretch:
    """A run of context characters that the same pieces cover."""

    start: int
    """First character in the context."""
    text: str
    """The characters, made visible."""
    units: tuple[int, ...]
    """Indices of the units covering it among the pieces."""
    values: tuple[int, ...]
    """Indices of the values said several times that cover it."""
    document: int | None
    """Index of the document it lies in."""


def stretches(context: str, documents: Sequence[DocumentRange], pieces: Sequence[ContextPiece]) -> list[ContextStretch]:
    """The whole context in order, cut at every boundary of a piece or document; joined, it is the context.

    What of a piece lies outside the text is left out, and so are documents whose sentences are among the pieces.
    """
    shown = visible(context)
    end = len(shown)
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    cuts = {0, end}
    for index in shown_in_context(pieces):
        for start, stop in pieces[index].spans:
            start, stop = max(0, start), min(end, stop)
            if start < stop:
                begins.setdefault(start, []).append(index)
                ends.setdefault(stop, []).append(index)
                cuts |= {start, stop}
    for document in documents:
        cuts |= {min(end, max(0, document.start)), min(end, max(0, document.end))}

    parts = []
    open_pieces: list[int] = []
    values = {index for index, piece in enumerate(pieces) if piece.kind == "value"}
    for start, stop in pairwise(sorted(cuts)):
        for index in ends.get(start, ()):
            open_pieces.remove(index)
        open_pieces.extend(begins.get(start, ()))
        covering = sorted(set(open_pieces))
        parts.append(
            ContextStretch(
                start,
                shown[start:stop],
                tuple(i for i in covering if i not in values),
                tuple(i for i in covering if i in values),
                next((i for i, d in enumerate(documents) if d.start <= start < d.end), None),
            )
        )
    return parts


def by_nats(result: InfluenceResult, kind: str) -> list[int]:
    """Indices of the pieces of one kind: findings first, then by nats, then in the context's order."""
    pieces = result.pieces
    of_kind = [i for i, piece in enumerate(pieces) if piece.kind == kind]
    if kind == "unit":
        # Values that were measured together stand for what has no numbers of its own.
        of_kind += [i for i in shown_in_context(pieces) if pieces[i].kind == "fields"]
    return sorted(of_kind, key=lambda i: (not is_finding(result, pieces[i]), -_order(pieces[i])))


def leader(result: InfluenceResult) -> PieceInfluence | None:
    """The finding with most nats, a document only where none of its sentences is one; None without findings."""
    return max((piece for piece in telling(result) if is_finding(result, piece)), key=_order, default=None)


def _order(piece: PieceInfluence) -> float:
    return -math.inf if math.isnan(piece.nats) else piece.nats
