"""How the tokens of a promise were drawn, as results tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

SEED_WARNING: Final = "a seeded run carries no guarantee unless the seed stays secret"
_SEEDED: Final = (
    "It holds for whoever does not know the seed, from which the draws can be repeated, and cannot find it by trying: "
    "a seed such as 0 gives no guarantee."
)
_EXACT: Final = (
    "Every token had exactly the probability that was computed for it, a fraction of whole numbers, and none was drawn "
    "otherwise: drawing adds no δ to the guarantee."
)


class Draws(TypedDict):
    """How tokens were drawn, as results have it."""

    random_bits: str
    """Where they came from: 'operating system' or 'seed'."""


def draws_of(params: Mapping[str, object]) -> Draws:
    return {"random_bits": "seed" if params["nonce"] is None else "operating system"}


def sentences(draws: Mapping[str, object]) -> list[str]:
    """What a reader of the promise needs to know of them, one sentence each."""
    return [_EXACT, *([_SEEDED] if draws["random_bits"] == "seed" else [])]
