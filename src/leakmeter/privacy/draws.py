"""How the tokens of a guarantee were drawn, in results and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SEED_WARNING: Final = "a seeded run has no guarantee unless the seed stays secret"
_SEEDED: Final = (
    "It holds against anyone who does not know the seed and cannot guess it; with the seed, the draws can be "
    "repeated. A seed such as 0 gives no guarantee."
)
_EXACT: Final = (
    "Every token was drawn with exactly the probability computed for it, a fraction of whole numbers, so drawing adds "
    "no δ to the guarantee."
)


def draws_of(params: Mapping[str, object]) -> dict[str, str]:
    return {"random_bits": "seed" if params["nonce"] is None else "operating system"}


def sentences(draws: Mapping[str, object]) -> list[str]:
    return [_EXACT, *([_SEEDED] if draws["random_bits"] == "seed" else [])]
