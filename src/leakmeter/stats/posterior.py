"""The posterior that a result shows, and where it shows none."""

from __future__ import annotations

import math
from typing import Final

from leakmeter.stats.stats import posterior_from_even_odds

BELOW_NOISE: Final = "below the noise floor"
BELOW_PLACEBO: Final = "below the placebo"
UNDEFINED: Final = "undefined: impossible with it and without it"


def posterior_fields(
    signed_nats: float, *, noise_nats: float, placebo_nats: float | None = None, prefix: str = ""
) -> dict[str, float | str | None]:
    """The fields `posterior`, from even odds, and `posterior_note`, why there is none; one of them is None.

    A posterior is shown where the signed sum is larger in size than what moves it without meaning anything.

    Args:
        signed_nats: s = Σ_t log p(y_t | with the piece) − log p(y_t | without it), nats.
        noise_nats: Σ_t of the noise of each token, in size, nats: at least the noise of the signed sum.
        placebo_nats: size of the signed sum of an irrelevant piece, nats; None where none was measured.
        prefix: stands before the names of the fields.
    """
    size = abs(signed_nats)
    note = None
    if math.isnan(size):
        note = UNDEFINED
    elif size <= noise_nats:
        note = BELOW_NOISE
    elif placebo_nats is not None and size <= placebo_nats:
        note = BELOW_PLACEBO
    return {
        f"{prefix}posterior": posterior_from_even_odds(signed_nats) if note is None else None,
        f"{prefix}posterior_note": note,
    }
