"""Reductions of decoding from two branches, which draw or score tokens.

The last axis of what they give is the receipt of a token: `RECEIPT` names its entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from array_api_compat import array_namespace, device

from leakmeter.core import reductions
from leakmeter.core.measure import BARE_LOG_PROB, LOG_PROB, NATS, RESPONSE, WEIGHT, Statistic, Statistics
from leakmeter.core.reductions import NextToken
from leakmeter.core.request import Reduction
from leakmeter.overriding import override
from leakmeter.privacy import bounded
from leakmeter.stats import exact_draw
from leakmeter.stats.exact_draw import Bits


class ReceiptStatistics(Statistics):
    """What is known of a token as it is drawn."""

    token = RESPONSE
    weight = Statistic("weight", WEIGHT, "λ_t")
    log_prob = LOG_PROB
    bare_log_prob = BARE_LOG_PROB
    max_loss = Statistic("max_loss", NATS, "largest loss that any token would have had: infinite where D rules one out")


RECEIPT: Final = tuple(ReceiptStatistics.all())


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the next token's distribution is made of two branches: Flemings et al., Eq. 6, or their Algorithm 1."""

    temperature: float = 1.0
    """T > 0, of both branches."""
    context_weight: float = 1.0
    """λ ≥ 0; with a bound, the largest there may be."""
    bound_nats: float | None = None
    """Largest loss against the bare branch; None to take λ as it is."""

    def mix(self, full: Any, bare: Any) -> bounded.Mixture:
        """Logits (..., vocab) of both branches to their mixture."""
        if self.bound_nats is None:
            return bounded.mixture(full, bare, self.context_weight, self.temperature)
        return bounded.bounded_mixture(full, bare, self.bound_nats, self.temperature, self.context_weight)


@dataclass(frozen=True, slots=True)
class NextTokenSampleWithLoss(NextToken):
    """The next token, drawn from the mixture: (prompt, 1, receipt).

    The first prompt is the bare one. Its own receipt draws from its own distribution, with λ = 0.
    """

    decoding: Decoding
    random: float | Bits
    """Without a bound, a number in [0, 1), where the distribution is inverted. With one, random bits, by which a token
    has exactly the probability that was certified (see `exact_draw`)."""
    masked: tuple[int, ...] = ()
    """Token ids ruled out in both branches, such as stop tokens while a response is too short."""

    def __post_init__(self) -> None:
        if isinstance(self.random, float) != (self.decoding.bound_nats is None):
            raise TypeError("a bounded token needs random bits, and an unbounded one a number in [0, 1)")

    rows_together: ClassVar[bool] = True
    against_first: ClassVar[bool] = True
    continues: ClassVar[bool] = True  # the next round extends the sequence by the token drawn

    @property
    @override
    def bare_first(self) -> bool:
        """Under a bound: what is certified is held against the bare branch."""
        return self.decoding.bound_nats is not None

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        return _receipts(self.decoding, rows, self.masked, None, self.random)


@dataclass(frozen=True, slots=True)
class TargetLogProbsWithLoss(Reduction):
    """The receipts of a response's tokens, as if they had been drawn: (prompt, stop − start, receipt).

    The first prompt is the bare one, with λ = 0. A mask holds for some steps of a response: those from `start` to
    before `stop` are asked.
    """

    decoding: Decoding
    start: int
    stop: int
    masked: tuple[int, ...] = ()
    """Token ids ruled out in both branches at these steps."""

    rows_together: ClassVar[bool] = True
    against_first: ClassVar[bool] = True

    @property
    @override
    def bare_first(self) -> bool:
        return self.decoding.bound_nats is not None

    @override
    def rows(self, n_response: int) -> range:
        return range(self.start, min(self.stop, n_response))

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        return _receipts(self.decoding, rows, self.masked, targets, None)


def without(logits: Any, masked: tuple[int, ...]) -> Any:
    """Logits (..., vocab) with some token ids ruled out."""
    xp = array_namespace(logits)
    if not masked:
        return logits
    where = device(logits)
    vocabulary = xp.arange(logits.shape[-1], device=where)[:, None]
    is_masked = xp.any(vocabulary == xp.asarray(list(masked), device=where)[None, :], axis=-1)
    return xp.where(is_masked, -xp.inf, logits)


def _receipts(decoding: Decoding, rows: Any, masked: tuple[int, ...], targets: Any, random: float | Bits | None) -> Any:
    xp = array_namespace(rows)
    out = []
    # One row at a time: a search goes over the vocabulary many times, and float64 copies of all rows would not fit.
    for i in range(rows.shape[1]):
        logits = without(rows[:, i, :], masked)
        mixed = decoding.mix(logits[1:, :], logits[:1, :])
        bare = mixed.bare_log_probs[:1, :]
        log_probs = xp.concat([bare, mixed.log_probs], axis=0)
        if random is None:
            token = xp.broadcast_to(targets[i], (log_probs.shape[0], 1))
        elif isinstance(random, float):
            token = reductions.invert(log_probs, random)
        else:
            token = exact_draw.draw(xp.concat([mixed.bare_weights[:1, :], mixed.weights], axis=0), random)
        none = xp.zeros_like(bare[:, 0])
        entries = (
            xp.astype(token, xp.float64)[:, 0],
            xp.concat([none, mixed.weight]),
            xp.take_along_axis(log_probs, token, axis=-1)[:, 0],
            xp.take_along_axis(xp.broadcast_to(bare, log_probs.shape), token, axis=-1)[:, 0],
            xp.concat([none, mixed.max_loss]),
        )
        out.append(xp.stack(entries, axis=-1))
    return xp.stack(out, axis=1)
