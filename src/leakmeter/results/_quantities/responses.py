"""What can be compared and bounded of a response to a context: influence, decoding, what to redact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from leakmeter.results._quantities.places import NOISE, Number, Quantities, at, most
from leakmeter.types.quantity import SHARE_OF_CASES, Case, Quantity
from leakmeter.types.reading import NATS

_WHOLE: Final = at("whole_nats")


def _per_token(of: Number) -> Number:
    """A number of a response over its tokens; none of an empty response."""

    def each(case: Case) -> float | None:
        number, n_tokens = of(case), len(case["response"]["tokens"])
        return number / n_tokens if number is not None and n_tokens else None

    return each


def _repeated(case: Case) -> float | None:
    """None where no personal data was found, or looked for."""
    said = [piece["repeated"] for piece in case["pieces"] if piece["entity_type"] is not None]
    return float(said.count("verbatim")) if said else None


INFLUENCE: Final[Quantities] = (
    Quantity(
        "influence",
        NATS,
        "What the response owes to the whole context: how far its log-probability moves, token by token, without it.",
        _WHOLE,
        floor=NOISE,
    ),
    Quantity(
        "influence.per_token",
        "nats a token",
        "What the response owes to the whole context over the number of its tokens.",
        _per_token(_WHOLE),
        floor=_per_token(NOISE),
    ),
    Quantity(
        "influence.worst_piece",
        NATS,
        "What the response owes to the piece of the context that it owes most.",
        lambda case: most(piece["nats"] for piece in case["pieces"]),
        floor=NOISE,
    ),
    Quantity(
        "influence.worst_response",
        NATS,
        "What the response that owes most to the whole context owes to it, where several were drawn for a case.",
        at("whole_worst_nats"),
        floor=NOISE,
    ),
    Quantity(
        "influence.mean_response",
        NATS,
        "What a response owes to the whole context on average, where several were drawn for a case.",
        at("whole_mean_nats"),
        floor=NOISE,
    ),
    Quantity(
        "influence.repeated",
        "values",
        "How many values of personal data in the context the response says word for word.",
        _repeated,
    ),
)


def _responses(case: Case) -> Sequence[Case]:
    return case["samples"] or [case]


def _spent(case: Case) -> float | None:
    """The largest share of a token's ε."""
    if case["epsilon"] is None:
        return None
    nats = most(nats for one in _responses(case) for nats in one["private"]["per_token"]["spent_epsilon"])
    return None if nats is None else nats / case["epsilon"]["per_token"]


DECODE: Final[Quantities] = (
    Quantity(
        "decode",
        NATS,
        "What the response told of the whole context: how far its log-probability moved, token by token, by it.",
        at("private", "whole_nats"),
    ),
    Quantity(
        "decode.worst_response",
        NATS,
        "What the response that told most of the whole context told of it, where several were drawn for a case.",
        lambda case: most(one["private"]["whole_nats"] for one in case["samples"]),
    ),
    Quantity(
        "decode.worst_token",
        NATS,
        "The most that a token of a response could have told, the one that was drawn or another in its place.",
        lambda case: most(nats for one in _responses(case) for nats in one["private"]["per_token"]["max_loss_nats"]),
    ),
    Quantity(
        "decode.promised",
        NATS,
        "What was promised of the response at most, by basic composition over its tokens.",
        at("epsilon", "response", "basic_nats", null=math.inf),
    ),
    Quantity(
        "decode.ratio",
        "measured over promised",
        "The largest share of its epsilon that a token spent; above 1 the promise is broken.",
        _spent,
        usual="max",
    ),
)

REDACT_PLAN: Final[Quantities] = (
    Quantity(
        "redact_plan",
        NATS,
        "What the response owes to what the plan leaves of the context.",
        at("left_nats"),
        floor=NOISE,
    ),
    Quantity(
        "redact_plan.whole",
        NATS,
        "What the response owes to the context before anything is cut.",
        _WHOLE,
        floor=NOISE,
    ),
    Quantity(
        "redact_plan.cut",
        "share of characters",
        "How much of the context the plan cuts, white space aside.",
        at("redacted_share"),
    ),
    Quantity(
        "redact_plan.reached",
        SHARE_OF_CASES,
        "Whether what is left is within the plan's limit.",
        at("reached"),
        worse="less",
        usual="mean",
    ),
)
