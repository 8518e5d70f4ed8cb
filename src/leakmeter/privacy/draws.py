"""How the tokens of a promise were drawn, as results tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SEED_WARNING: Final = "a seeded run carries no guarantee unless the seed stays secret"


def draws_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Whether tokens had exactly the probabilities that were certified, and where random bits came from.

    Args:
        params: of the measure, as its run has them.
    """
    has_nonce = params.get("nonce") is not None
    # Runs without the field were made when cumulative sums were inverted in float64, as is still done where nothing is
    # promised.
    is_exact = has_nonce or ("nonce" in params and params["seed"] is not None)
    return {"exact": is_exact, "random_bits": "operating system" if has_nonce else "seed"}
