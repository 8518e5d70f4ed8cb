"""Formulas of private generation: a token of a batch and its loss for each exemplar, in nats; what is told of texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace, device

from leakmeter.core import reductions
from leakmeter.core.measure import (
    BARE_LOG_PROB,
    LOG_PROB,
    MOST,
    NATS,
    RESPONSE,
    WEIGHT,
    Statistic,
    Statistics,
)
from leakmeter.core.reductions import NextToken
from leakmeter.errors import UsageError
from leakmeter.overriding import override
from leakmeter.privacy import rdp
from leakmeter.privacy.mechanism import ClippedLogitAggregation, Mechanism
from leakmeter.privacy.renyi import Screened, screened
from leakmeter.stats import exact_draw
from leakmeter.stats.exact_draw import Bits


class GenerationStatistics(Statistics):
    token = RESPONSE
    log_prob = LOG_PROB.but(about="log p(y_t) of the rule")
    bare_log_prob = BARE_LOG_PROB.but(about="log p(y_t) of the model at temperature 1 with no exemplar at all")
    # Divergences by exemplar: NaN where both the loss and its bound are infinite.
    ratio = Statistic(
        "ratio",
        WEIGHT,
        "largest D_α↔ over its bound, of all orders from 2 to 100: an upper bound where it is not above 1",
        per="piece",
        undefined=True,
    )
    order = Statistic("order", WEIGHT, "the order of ratio", per="piece")
    verbatim = Statistic(
        "verbatim",
        WEIGHT,
        "tokens of the longest run through it that the exemplar has too, 0 where the prompt without exemplars has it",
        per="piece",
        below=MOST,
    )
    max_divergence = Statistic("max_divergence", NATS, "D_∞↔", per="piece", undefined=True)
    renyi = Statistic("renyi_", NATS, "D_α↔; α follows the name", per="piece", undefined=True, family=True)
    promised_order = Statistic("promised_order", WEIGHT, "orders of promised_rdp", over="order")
    promised_rdp = Statistic("promised_rdp", NATS, "most that D_α↔ of a token can be at each order", over="order")
    promised_max_divergence = Statistic("promised_max_divergence", NATS, "most that D_∞↔ can be", over="number")

    @classmethod
    def promised(cls) -> tuple[Statistic, ...]:
        """What is of the rule, and of no sample."""
        return cls.promised_order, cls.promised_rdp, cls.promised_max_divergence

    @classmethod
    def divergence(cls, order: float) -> Statistic:
        return cls.max_divergence if order == math.inf else cls.renyi.member(f"{order:g}")


COLUMNS: Final = (
    GenerationStatistics.token,
    GenerationStatistics.log_prob,
    GenerationStatistics.ratio,
    GenerationStatistics.order,
)
"""Token id and its log-probability, nats, the same for each exemplar; largest ratio of D_α↔ to its bound over all
orders (exact where above 1, else an upper bound; see `renyi.Screened`), and the order of it."""


@dataclass(frozen=True, slots=True)
class LeaveOneOutVote(NextToken):
    """The next token of one sample, and its loss for each exemplar: (prompt, 1, column and measured order).

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
    @override
    def rows_together(self) -> bool:
        return True

    @property
    @override
    def bare_first(self) -> bool:
        """Where the rule has a public row: its bound is held against it."""
        return self.mechanism.public_first

    @property
    @override
    def continues(self) -> bool:
        """The next round extends the sample by the token drawn."""
        return self.token is None

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        xp = array_namespace(rows)
        logits, where = rows[:, 0, :], device(rows)
        ids = xp.arange(logits.shape[-1], device=where)
        if self.masked:
            # A rule meets a smaller vocabulary instead of logits of −inf, which a clip would lift.
            out = xp.any(ids[:, None] == xp.asarray(list(self.masked), device=where)[None, :], axis=-1)
            logits, ids = logits[:, ~out], ids[~out]
        log_probs, screening = measured(self.mechanism, logits, self.limits, self.orders)
        if self.token is not None:
            at = xp.nonzero(ids == self.token)[0]
        elif isinstance(self.random, float):
            at = reductions.invert(log_probs, self.random)
        else:
            at = exact_draw.draw(exact_draw.weights_of(log_probs)[None, :], self.random)[0, :]
        shared = xp.stack([xp.astype(xp.take(ids, at), xp.float64), xp.take(log_probs, at)], axis=-1)
        columns = xp.concat([screening.ratio[:, None], screening.order[:, None], screening.losses], axis=-1)
        if self.mechanism.public_first:
            columns = xp.concat([xp.zeros_like(columns[:1, :]), columns], axis=0)
        entries = xp.concat([xp.broadcast_to(shared, (columns.shape[0], 2)), columns], axis=-1)
        return entries[:, None, :]


def measured(
    mechanism: Mechanism, logits: Any, limits: tuple[float, ...], orders: tuple[float, ...]
) -> tuple[Any, Screened]:
    """The next token's distribution, and D_α↔ between it and the one without each exemplar.

    Logits are (row, vocab), the public row first where the rule has one; limits are the bound at each of `rdp.ORDERS`,
    nats. What comes back is log-probabilities, nats, (vocab,), float64, and what was measured at `orders` (see
    `renyi.screened`), a row for each exemplar. All divergences are infinite where one distribution gives what the other
    rules out.
    """
    if isinstance(mechanism, ClippedLogitAggregation):
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
    """log p of the rule, checked: (row, vocab) to (vocab,)."""
    xp = array_namespace(rows)
    log_probs = xp.asarray(mechanism.log_probs(rows), dtype=xp.float64, device=device(rows))
    if log_probs.shape != rows.shape[1:]:
        raise UsageError(
            f"the mechanism gives log-probabilities of shape {tuple(log_probs.shape)} for a vocabulary of "
            f"{rows.shape[1]:,}; expected one for each token"
        )
    total = float(xp.log(xp.sum(xp.exp(log_probs))))
    # 1e-6 nats are rounding. Written so that NaN is refused.
    if not abs(total) <= 1e-6:
        raise UsageError(
            f"the mechanism's probabilities add up to e^{total:.3g}; normalise their logarithms in float64"
        )
    return log_probs


def shared_runs(ids: Sequence[int], others: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    """Length of the longest run of tokens through each token that each of the others has too, (other, token).

    0 for a token that the other has not. Time grows with the product of the lengths.
    """
    # A number that is no token's keeps runs within one of the others.
    theirs = np.asarray([token for other in others for token in (*other, -1)], dtype=np.int64)
    starts = np.cumsum([0, *(len(other) + 1 for other in others[:-1])])
    longest = np.zeros((len(others), len(ids)), dtype=np.int64)
    # Entry j: for how many tokens, from the one looked at, ours equal those of the others from j on.
    run = np.zeros(len(theirs) + 1, dtype=np.int64)
    for i in reversed(range(len(ids))):
        run[:-1] = np.where(theirs == ids[i], run[1:] + 1, 0)
        ahead = np.maximum.reduceat(run[:-1], starts)[:, None]
        reached = np.where(np.arange(len(ids) - i) < ahead, ahead, 0)
        longest[:, i:] = np.maximum(longest[:, i:], reached)
    return longest


def stretches(runs: Sequence[float], least: int) -> list[tuple[int, int]]:
    """Tokens [start, end) that belong to runs of `least` tokens or more; runs that touch are one stretch."""
    inside = np.concatenate([[False], np.asarray(runs) >= least, [False]])
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def distinct(sequences: Iterable[Sequence[int]], n: int) -> float:
    """Distinct n-grams over all n-grams of the sequences (distinct-n; Li, Galley and others 2016); NaN for none."""
    grams = [tuple(ids[i : i + n]) for ids in sequences for i in range(len(ids) - n + 1)]
    return len(set(grams)) / len(grams) if grams else float("nan")


def perplexity(log_probs: npt.ArrayLike) -> float:
    """e to the mean of −log p over the tokens, from nats; NaN for none."""
    values = np.asarray(log_probs, dtype=np.float64)
    return float(np.exp(-values.mean())) if values.size else float("nan")
