"""Formulas of ICL influence: the largest log-ratio of two distributions, and the calibration of label distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Final

from array_api_compat import array_namespace

from leakmeter.core.measure import LABEL, MOST, NATS, NOISE, TOKEN_ID, Statistic, Statistics
from leakmeter.core.reductions import NextToken
from leakmeter.core.request import words_of_mixture
from leakmeter.overriding import override
from leakmeter.stats import logspace


class IclStatistics(Statistics):
    label_loss = Statistic(
        "label_loss",
        NATS,
        "log A(S, x)(y) − log A(S∖i, x)(y) of each label y, by exemplar i",
        per="piece",
        over="label",
    )
    label_log_prob = Statistic("label_log_prob", NATS, "log A(S, x) of each label", over="label")
    label_mass = Statistic(
        "label_mass", NATS, "log of what the labels have together before they are renormalised", over="number"
    )
    noise = NOISE.but(about="what other ways to run the same prompts do to a label_loss", over="number", optional=False)
    prediction = Statistic("prediction", LABEL, "the likeliest label", over="number")
    gold = Statistic("gold", LABEL, "the right label, where it is known", over="number", optional=True)
    answer = Statistic("answer", LABEL, "the label that was answered, where it is known", over="number", optional=True)
    farthest_noise = Statistic(
        "farthest_noise", NATS, "what other ways to run the same prompts do to a token", over="number", optional=True
    )
    plausible_noise = farthest_noise.named("plausible_noise", "the same of plausible tokens")
    farthest_token = Statistic(
        "farthest_token",
        TOKEN_ID,
        "token that an exemplar changes most",
        per="piece",
        over="number",
        optional=True,
        below=MOST,
    )
    farthest_log_prob = Statistic(
        "farthest_log_prob", NATS, "its log-probability with all exemplars", per="piece", over="number", optional=True
    )
    farthest_log_prob_without = farthest_log_prob.named("farthest_log_prob_without", "the same without the exemplar")
    plausible_token = farthest_token.named("plausible_token", "plausible token that an exemplar changes most")
    plausible_log_prob = farthest_log_prob.named("plausible_log_prob", "its log-probability with all exemplars")
    plausible_log_prob_without = farthest_log_prob.named("plausible_log_prob_without", "the same without the exemplar")


FARTHEST: Final = (
    IclStatistics.farthest_token,
    IclStatistics.farthest_log_prob,
    IclStatistics.farthest_log_prob_without,
    IclStatistics.plausible_token,
    IclStatistics.plausible_log_prob,
    IclStatistics.plausible_log_prob_without,
)
"""Entries of what `LogRatioFromFirst` gives: a token id and its log-probabilities, nats, under the first prompt and
under the prompt itself; of all tokens, then of the plausible ones."""
PLAUSIBLE: Final = 1e-6
"""Probability that one of two distributions has to give a token for it to be plausible."""


def log_ratio(log_p: Any, log_q: Any) -> Any:
    """log p − log q, nats, float64; 0 where both are 0, infinite where one is."""
    xp = array_namespace(log_p, log_q)
    wide_p, wide_q = xp.astype(log_p, xp.float64), xp.astype(log_q, xp.float64)
    # −inf less −inf is NaN. Where the model gave NaN, it has to stay.
    neither = (wide_p == -xp.inf) & (wide_q == -xp.inf)
    return xp.where(neither, xp.zeros_like(wide_p), wide_p) - xp.where(neither, xp.zeros_like(wide_q), wide_q)


def farthest_losses(entries: Any) -> Any:
    """|log p₀ − log p| at the two tokens of `FARTHEST`, nats: (..., farthest) to (..., 2), of all and of plausible."""
    return array_namespace(entries).abs(log_ratio(entries[..., 1::3], entries[..., 2::3]))


@dataclass(frozen=True, slots=True)
class LogRatioFromFirst(NextToken):
    """Where max_v |log p₀(v) − log p(v)| is, p₀ being the first prompt's next token: (prompt, 1, farthest).

    Li et al., Eq. 4, over the whole vocabulary: its maximum is the first of `farthest_losses`. Among some 50,000 tokens
    it is often one of the far tail that no response ever says, and that rounding moves the most. So the same stands
    beside it for the tokens that either distribution gives a probability of `PLAUSIBLE` or more. Of equal tokens the
    first is named.
    """

    temperature: float = 1.0

    rows_together: ClassVar[bool] = True
    against_first: ClassVar[bool] = True

    @property
    @override
    def words(self) -> str:
        return words_of_mixture(temperature=self.temperature)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        xp = array_namespace(rows)
        first = logspace.log_softmax(rows[:1, ...], self.temperature)
        # One prompt at a time: float64 copies of all rows would not fit.
        return xp.concat([self._farthest(first, rows[i : i + 1, ...]) for i in range(rows.shape[0])], axis=0)

    def _farthest(self, first: Any, row: Any) -> Any:
        xp = array_namespace(row)
        other = logspace.log_softmax(row, self.temperature)
        gap = xp.abs(log_ratio(first, other))
        # No gap is below 0: a token that is impossible under both, or not plausible, is only named where all are.
        impossible = xp.maximum(first, other) == -xp.inf
        implausible = xp.maximum(first, other) < math.log(PLAUSIBLE)
        entries = []
        for left_out in (impossible, implausible):
            token = xp.argmax(xp.where(left_out, -xp.ones_like(gap), gap), axis=-1, keepdims=True)
            entries += [
                xp.astype(token, xp.float64),
                xp.take_along_axis(first, token, axis=-1),
                xp.take_along_axis(other, token, axis=-1),
            ]
        return xp.concat(entries, axis=-1)


def calibrated(log_probs: Any, content_free: Any, epsilon: float) -> Any:
    """log of p̃ / (p_cf + ε), (..., label), normalised over the labels; nats, float64; p_cf is normalised so too.

    Li et al., App. B, after Zhao et al. 2021: W p̃ with W = diag((p_cf + ε)⁻¹). The paper takes the largest entry of W
    p̃ and does not normalise; a loss needs a distribution.
    """
    xp = array_namespace(log_probs, content_free)
    wide = xp.astype(content_free, xp.float64)
    weight = xp.logaddexp(wide, xp.full_like(wide, math.log(epsilon)))
    return logspace.log_softmax(xp.astype(log_probs, xp.float64) - weight)


def log_mean(log_probs: Any) -> Any:
    """log of the mean of distributions: (distribution, ...) to (...), nats, float64."""
    xp = array_namespace(log_probs)
    n = log_probs.shape[0]
    return reduce(xp.logaddexp, [xp.astype(log_probs[i, ...], xp.float64) for i in range(n)]) - math.log(n)
