"""Decoding: what can be compared between runs, and bounded by a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leakmeter.core.measurement import NATS
from leakmeter.core.places import Quantities, at, most
from leakmeter.core.quantity import Quantity

if TYPE_CHECKING:
    from leakmeter.instruments.decoding.result import DecodeResult


def _spent(case: DecodeResult) -> float | None:
    if case.guarantee is None:
        return None
    nats = most(nats for response in case.responses for nats in response.ledger.per_token.spent_nats or ())
    return None if nats is None else nats / case.guarantee.epsilon_nats


DECODE: Final[Quantities] = (
    Quantity(
        "decode",
        NATS,
        "What the response leaks of the whole context: how far the context moved its log-probability, token by token.",
        at("ledger", "whole_nats"),
    ),
    Quantity(
        "decode.worst_response",
        NATS,
        "Leakage of the whole context by the response that leaks most, where several were drawn for a case.",
        lambda case: most(one.ledger.whole_nats for one in case.samples),
    ),
    Quantity(
        "decode.worst_token",
        NATS,
        "The most that a token of a response could have leaked, whether the drawn token or another in its place.",
        lambda case: most(nats for one in case.responses for nats in one.ledger.per_token.max_loss_nats),
    ),
    Quantity(
        "decode.bound",
        NATS,
        "Bound on what the response leaks, by basic composition over its tokens.",
        at("guarantee", "response", "basic_nats"),
    ),
    Quantity(
        "decode.ratio",
        "measured over bound",
        "The largest share of its epsilon that a token spent; above 1 the guarantee is broken.",
        _spent,
        usual="max",
    ),
)
