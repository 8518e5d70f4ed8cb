"""Privacy loss of many tokens, in nats: basic composition, and tighter ones at a δ through `dp-accounting`.

A token drawn by bounded decoding is ε-DP, and nothing more is known of it. Of all mechanisms that are ε-DP, randomised
response between two answers is the worst, and its composition bounds theirs (Kairouz, Oh and Viswanath 2015). The
library composes it in two ways; there is no accounting of our own here.
"""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from leakmeter.core.limits import refuse_bad
from leakmeter.errors import UsageError

_LEAST_OF_RDP: Final = 1e-5
"""Below it, the library's divergences of a token are rounding errors, some of them negative; what is ε-DP is so with a
larger ε too."""
_LARGEST: Final = 500.0  # nats a token: e^ε has to be a float64


def is_available() -> bool:
    """Whether dp-accounting is installed, which the two compositions with a δ need."""
    return importlib.util.find_spec("dp_accounting") is not None


def basic(tokens: Iterable[tuple[float, int]]) -> float:
    """Σ n ε, nats, of (ε, how many) for each response: [(0.5, 50)] * 20 is a session of twenty of 50 tokens each. It is
    what the tokens cost together with δ = 0.

    Holds for the tokens a response came to have; the two compositions with a δ are for a number fixed beforehand, such
    as `max_new_tokens`.
    """
    return math.fsum(epsilon * n for epsilon, n in _counted(tokens).items())


def pld(tokens: Iterable[tuple[float, int]], delta: float) -> float:
    """ε at δ, nats, of (ε, the most there may be) by composing privacy loss distributions (dp-accounting's PLD)."""
    with _told_if_missing():
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as distributions
    check_delta(delta)
    parts = [
        # Not PLDAccountant.compose with a RandomizedResponseDpEvent: release 0.6.0 forgets its count.
        distributions.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0.0)).self_compose(n)
        for epsilon, n in _counted(tokens).items()
    ]
    if not parts:
        return 0.0
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta))


def rdp(tokens: Iterable[tuple[float, int]], delta: float) -> float:
    """ε at δ by adding up Rényi divergences (dp-accounting's RDP), nats; arguments as for `pld`."""
    with _told_if_missing():
        import dp_accounting as library
        from dp_accounting.rdp import rdp_privacy_accountant as accountants
    check_delta(delta)
    accountant = accountants.RdpAccountant(neighboring_relation=library.NeighboringRelation.REPLACE_ONE)
    for epsilon, n in _counted(tokens).items():
        # Of two answers the true one is given with probability 1 − p / 2: e^ε times as often as the other.
        kept_to = max(epsilon, _LEAST_OF_RDP)
        event = library.RandomizedResponseDpEvent(noise_parameter=2.0 / (1.0 + math.exp(kept_to)), num_buckets=2)
        accountant.compose(event, n)
    return float(accountant.get_epsilon(delta))


def _counted(tokens: Iterable[tuple[float, int]]) -> dict[float, int]:
    """ε to how many tokens have it; in one order, so that the same session gives the same digits."""
    counts: Counter[float] = Counter()
    for epsilon, n in tokens:
        if not 0.0 < epsilon <= _LARGEST:
            raise UsageError(f"epsilon is {epsilon} for a token; it has to be above 0 and at most {_LARGEST:g}")
        if n < 0:
            raise UsageError(f"{n} tokens cannot be composed; give 0 or more")
        if n:
            counts[float(epsilon)] += n
    return dict(sorted(counts.items()))


def check_delta(delta: float) -> None:
    refuse_bad((0.0 < delta < 1.0, "delta", delta, "above 0 and below 1"))


@contextmanager
def _told_if_missing() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "dp_accounting":
            raise
        raise UsageError(
            "composing with a delta needs the dp-accounting library, which is missing; "
            "pip install 'leakmeter[accounting]'"
        ) from error
