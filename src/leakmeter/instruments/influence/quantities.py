"""Influence of pieces on a response: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import HALF_WIDTH, NOISE, Number, Quantities, at, most
from leakmeter.core.quantity import Case, LowerBound, Quantity

_WHOLE: Final = at("whole_nats")


def _per_token(of: Number) -> Number:
    """A number of a response over its tokens; none of an empty response."""

    def each(case: Case) -> float | None:
        number, n_tokens = of(case), len(case.response.tokens)
        return number / n_tokens if number is not None and n_tokens else None

    return each


def _repeated(case: Case) -> float | None:
    """None where no personal data was found, or looked for. What the response says is known without a score too."""
    pieces = [*case.pieces, *(() if case.search is None else case.search.pieces)]
    repetitions = [piece.repeated for piece in pieces if piece.entity_type is not None]
    return float(repetitions.count("verbatim")) if repetitions else None


INFLUENCE: Final[Quantities] = (
    Quantity(
        "influence",
        NATS,
        "Influence of the whole context on the response: how far its tokens' log-probabilities move without it.",
        _WHOLE,
        floor=NOISE,
        half_width=HALF_WIDTH,
    ),
    Quantity(
        "influence.per_token",
        "nats a token",
        "Influence of the whole context on the response over the number of its tokens.",
        _per_token(_WHOLE),
        floor=_per_token(NOISE),
        half_width=_per_token(HALF_WIDTH),
    ),
    Quantity(
        "influence.worst_piece",
        NATS,
        "Influence on the response of the piece of the context that has most.",
        lambda case: most(piece.nats for piece in case.pieces),
        floor=NOISE,
        half_width=HALF_WIDTH,
        lower_bound=LowerBound(
            lambda case: not (case.search is None or case.search.is_complete),
            "a search did not score all pieces",
            "measure without --search, or look at 'influence', which is of the whole context",
        ),
    ),
    Quantity(
        "influence.worst_response",
        NATS,
        "Largest influence of the whole context on a response, where several were drawn for a case.",
        at("whole_worst_nats"),
        floor=NOISE,
        half_width=HALF_WIDTH,
    ),
    Quantity(
        "influence.mean_response",
        NATS,
        "Mean influence of the whole context on a response, where several were drawn for a case.",
        at("whole_mean_nats"),
        floor=NOISE,
        half_width=HALF_WIDTH,
    ),
    Quantity(
        "influence.repeated",
        "values",
        "How many values of personal data in the context the response says word for word.",
        _repeated,
    ),
)
