"""The posterior that a result shows, and where it shows none."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from leakmeter.stats.stats import posterior_from_even_odds

BELOW_NOISE: Final = "below the noise floor"
BELOW_PLACEBO: Final = "below the placebo"
UNDEFINED: Final = "undefined: impossible with it and without it"


class Posterior(NamedTuple):
    """What an observer concludes, or why that is not said; one of them is None."""

    probability: float | None
    """That the piece was there, from even odds."""
    note: str | None


def posterior_of(signed_nats: float, *, noise_nats: float, placebo_nats: float | None = None) -> Posterior:
    """The posterior from even odds, where the signed sum is larger in size than what moves it without meaning anything.

    Args:
        noise_nats: Σ_t of the noise of each token, in size, nats: at least the noise of the signed sum.
        placebo_nats: size of the signed sum of an irrelevant piece, nats; None where none was measured.
    """
    size = abs(signed_nats)
    if math.isnan(size):
        return Posterior(None, UNDEFINED)
    if size <= noise_nats:
        return Posterior(None, BELOW_NOISE)
    if placebo_nats is not None and size <= placebo_nats:
        return Posterior(None, BELOW_PLACEBO)
    return Posterior(posterior_from_even_odds(signed_nats), None)
