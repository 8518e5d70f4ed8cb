"""The reduction of an audit: a token is drawn by the rule, and next to the logits each exemplar is left out of it once.

What it gives has a last axis of `COLUMNS`, and behind it D_α↔ at the orders that are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from array_api_compat import array_namespace, device

from leakmeter.core import reductions
from leakmeter.core.reductions import NextToken
from leakmeter.errors import UsageError
from leakmeter.privacy import rdp
from leakmeter.privacy.mechanism import Mechanism, QuickMechanism
from leakmeter.privacy.renyi import Screened, screened
from leakmeter.stats import exact_draw
from leakmeter.stats.exact_draw import Bits

COLUMNS: Final = ("token", "log_prob", "ratio", "order")
"""Token id and its log-probability, nats, the same for each exemplar; largest ratio of D_α↔ to its bound over all
orders (exact where above 1, else an upper bound; see `renyi.Screened`), and the order of it."""
_UNNORMALISED: Final = 1e-6
"""Nats by which the probabilities of a user's rule may miss adding up to 1."""


@dataclass(frozen=True, slots=True)
class LeaveOneOutVote(NextToken):
    """The next token of one sample, and what it tells of each exemplar: (prompt, 1, column and measured order).

    Each prompt has one exemplar; where the rule has a public row, the first has none, and zeros for its measurements.
    Clipped-logit aggregation of 50 exemplars on 49,152 tokens takes 0.06 to 0.2 s on a CPU core, more when
    the temperature is low.
    """

    mechanism: Mechanism
    orders: tuple[float, ...]
    """To be measured, ascending, with the first and the last of `rdp.ORDERS`; may end in ∞."""
    limits: tuple[float, ...]
    """The bound at each of `rdp.ORDERS`, nats."""
    random: float | Bits = 0.0
    """Random bits, by which a token has exactly the probability that the rule gives it (see `exact_draw`). Where
    there is no guarantee, a number in [0, 1) will do, where the distribution is inverted."""
    token: int | None = None
    """The token, where it is given and not drawn."""
    masked: tuple[int, ...] = ()
    """Token ids ruled out whatever the exemplars say, such as stop tokens while a sample is too short."""

    @property
    def rows_together(self) -> bool:
        return True

    @property
    def bare_first(self) -> bool:
        """Where the rule has a public row: its bound is held against it."""
        return self.mechanism.public_first

    @property
    def continues(self) -> bool:
        """The next round extends the sample by the token drawn."""
        return self.token is None

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, 1, vocab) to (prompt, 1, column and measured order)."""
        xp = array_namespace(rows)
        logits, where = rows[:, 0, :], device(rows)
        ids = xp.arange(logits.shape[-1], device=where)
        if self.masked:
            # A rule meets a smaller vocabulary instead of logits of −inf, which a clip would lift.
            out = xp.any(ids[:, None] == xp.asarray(list(self.masked), device=where)[None, :], axis=-1)
            logits, ids = logits[:, ~out], ids[~out]
        log_probs, screening = measured(self.mechanism, logits, self.limits, self.orders)
        at = self._drawn(log_probs) if self.token is None else xp.nonzero(ids == self.token)[0]
        shared = xp.stack([xp.astype(xp.take(ids, at), xp.float64), xp.take(log_probs, at)], axis=-1)
        columns = xp.concat([screening.ratio[:, None], screening.order[:, None], screening.losses], axis=-1)
        if self.mechanism.public_first:
            columns = xp.concat([xp.zeros_like(columns[:1, :]), columns], axis=0)
        entries = xp.concat([xp.broadcast_to(shared, (columns.shape[0], 2)), columns], axis=-1)
        return entries[:, None, :]

    def _drawn(self, log_probs: Any) -> Any:
        """Where in the vocabulary the token stands, (1,)."""
        if isinstance(self.random, float):
            return reductions.invert(log_probs, self.random)
        return exact_draw.draw(exact_draw.weights_of(log_probs)[None, :], self.random)[0, :]


def measured(
    mechanism: Mechanism, logits: Any, limits: tuple[float, ...], orders: tuple[float, ...]
) -> tuple[Any, Screened]:
    """The next token's distribution, and D_α↔ between it and the one without each exemplar.

    Logits are (row, vocab), the public row first where the rule has one; limits are the bound at each of `rdp.ORDERS`,
    nats. What comes back is log-probabilities, nats, (vocab,), float64, and what was measured at `orders` (see
    `renyi.screened`), a row for each exemplar. All divergences are infinite where one distribution gives what the other
    rules out.
    """
    if isinstance(mechanism, QuickMechanism):
        vote = mechanism.vote(logits)
        return vote.log_probs, screened(vote.log_probs, vote.tilts, rdp.ORDERS, limits, orders)
    xp = array_namespace(logits)
    wide = xp.astype(logits, xp.float64)
    log_p = _distribution(mechanism, wide)
    exemplars = range(1 if mechanism.public_first else 0, wide.shape[0])
    log_q = xp.stack([_distribution(mechanism, xp.concat([wide[:i, :], wide[i + 1 :, :]])) for i in exemplars])
    in_p, in_q = ~(log_p == -xp.inf)[None, :], ~(log_q == -xp.inf)
    zero = xp.zeros_like(log_q)
    tilts = xp.where(in_p & in_q, log_p[None, :], zero) - xp.where(in_p & in_q, log_q, zero)
    screening = screened(log_p, tilts, rdp.ORDERS, limits, orders)
    parted = xp.any(in_p != in_q, axis=-1)
    infinite = xp.full_like(screening.ratio, xp.inf)
    return log_p, Screened(
        xp.where(parted[:, None], infinite[:, None], screening.losses),
        xp.where(parted, infinite, screening.ratio),
        xp.where(parted, xp.full_like(screening.order, float(rdp.ORDERS[0])), screening.order),
    )


def _distribution(mechanism: Mechanism, rows: Any) -> Any:
    """What the rule says of these rows, checked."""
    xp = array_namespace(rows)
    log_probs = xp.asarray(mechanism.log_probs(rows), dtype=xp.float64, device=device(rows))
    if log_probs.shape != rows.shape[1:]:
        raise UsageError(
            f"the mechanism gives log-probabilities of shape {tuple(log_probs.shape)} for a vocabulary of "
            f"{rows.shape[1]:,}; expected one for each token"
        )
    total = float(xp.log(xp.sum(xp.exp(log_probs))))
    # Written so that NaN is refused.
    if not abs(total) <= _UNNORMALISED:
        raise UsageError(
            f"the mechanism's probabilities add up to e^{total:.3g}; normalise their logarithms in float64"
        )
    return log_probs
