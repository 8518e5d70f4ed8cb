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
_ROUNDED: Final = (
    "An earlier version drew these tokens in float64: some token may have been possible under one context alone, with "
    "a chance of up to 1e-11 a token. That δ is added to the guarantee."
)


class Draws(TypedDict):
    """How tokens were drawn, as results have it."""

    exact: bool
    """Whether tokens had exactly the probabilities that were certified."""
    random_bits: str
    """Where they came from: 'operating system' or 'seed'."""


def draws_of(params: Mapping[str, object]) -> Draws:
    """Whether tokens had exactly the probabilities that were certified, and where random bits came from."""
    has_nonce = params.get("nonce") is not None
    # Runs without the field were made when cumulative sums were inverted in float64, as is still done where nothing is
    # promised.
    is_exact = has_nonce or ("nonce" in params and params["seed"] is not None)
    return {"exact": is_exact, "random_bits": "operating system" if has_nonce else "seed"}


def sentences(draws: Mapping[str, object]) -> list[str]:
    """What a reader of the promise needs to know of them, one sentence each.

    Args:
        draws: see `draws_of`.
    """
    return [_EXACT if draws["exact"] else _ROUNDED, *([_SEEDED] if draws["random_bits"] == "seed" else [])]
