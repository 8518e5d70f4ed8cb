r"""Log-probabilities under λ and T from the likeliest tokens of two rows: an interval that holds the true value.

Context influence decoding (Flemings et al., Eq. 6) mixes a prompt's distribution p with that of the bare prompt, q:

    p̄(y) = a_y^s / Z,    a_v = p(v)^λ q(v)^{1−λ},    s = 1/T,    Z = Σ_v a_v^s

A server that gives the K likeliest tokens of a row, and the given token wherever it ranks, tells a_v of the tokens I
that stand in both rows; y has to be one of them. The rest of Z lies between 0 and a bound. Two steps make it:

1. For s ≥ 1, that is T ≤ 1, and numbers a_v ≥ 0: Σ a_v^s ≤ (Σ a_v)^s, since ‖a‖_s ≤ ‖a‖_1.
2. For 0 ≤ λ ≤ 1, Hölder's inequality with the exponents 1/λ and 1/(1−λ):
   Σ_{v∉I} p(v)^λ q(v)^{1−λ} ≤ (Σ_{v∉I} p(v))^λ (Σ_{v∉I} q(v))^{1−λ} = (1−p(I))^λ (1−q(I))^{1−λ}.
   λ = 0 and λ = 1 are plain sums of q and of p.

Together: 0 ≤ Σ_{v∉I} a_v^s ≤ B = [(1−p(I))^λ (1−q(I))^{1−λ}]^s. Neither step needs to know which tokens I holds, as
long as its values are known in both rows. For λ > 1 a token with a small q has no bound, and for T > 1 many small
tokens have none: there, whole rows are needed.

A row of likeliest tokens tells one thing more: no other token is likelier than the last of them, p_K. What is not in
I is missing from one row or both, so that a_v ≤ m for v ∉ I, where m is the largest of p(v)^λ q_K^{1−λ} over tokens v
of p's row alone, p_K^λ q(v)^{1−λ} over those of q's row alone, and p_K^λ q_K^{1−λ}. With A = (1−p(I))^λ (1−q(I))^{1−λ}
for Σ a_v, Σ a_v^s ≤ max(a_v)^{s−1} Σ a_v ≤ min(m, A)^{s−1} A, which for s > 1 is often far below B = A^s.

Divided by a_y^s, and with S = Σ_{v∈I, v≠y} (a_v/a_y)^s, the two ends are

    −log(1 + S + B/a_y^s) ≤ log p̄(y) ≤ −log(1 + S)

A server's log-probabilities are known up to its noise floor η: log p and log q of a token each move by η at most, so
that log a_v does too (its weights λ and 1−λ are not negative and add up to 1), log (a_v/a_y)^s by 2sη, log a_y^s by sη
and log p(I) by η. Each end takes the worst of these: it stays an end, whichever way the noise went.
Everything is computed with logarithms, so that no power overflows, and 1 − p(I) by expm1, so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from leakmeter.core.request import FloatArray

ROUNDING_NATS: Final = 1e-5
"""Least noise that is reckoned with: servers compute and write log-probabilities in float32."""

Row = Mapping[int, float]
"""Log-probabilities by token id, nats."""


def can_bound(context_weight: float, temperature: float) -> bool:
    return 0.0 <= context_weight <= 1.0 and temperature <= 1.0


def mixed(
    token: int, row: Row, bare: Row, context_weight: float, temperature: float, noise_nats: float = 0.0, n_top: int = 0
) -> tuple[float, float]:
    """Bounds on log p̄_{λ,T} of a token, nats: lower and upper; both are −∞ for a token that one of the rows rules out,
    which a mixture rules out too.

    What is known of both rows has the token; other tokens share the rest of a row's probability. λ is from 0 to 1, T
    above 0 and at most 1; a log-probability may be off by `noise_nats`, and `n_top` of each row's tokens are its
    likeliest, 0 where that is not known.

    Examples:
        >>> low, high = mixed(0, {0: -0.5, 1: -1.0}, {0: -0.9, 1: -0.7}, 0.5, 1.0)
        >>> round(low, 3), round(high, 3)
        (-0.673, -0.621)
    """
    if not can_bound(context_weight, temperature):
        raise ValueError(f"no bounds for λ = {context_weight} at T = {temperature}")
    noise, power = max(noise_nats, ROUNDING_NATS), 1.0 / temperature
    ids = [token, *(token_id for token_id in row if token_id in bare and token_id != token)]
    of_row, of_bare = (np.asarray([log_probs[token_id] for token_id in ids]) for log_probs in (row, bare))
    possible = np.isfinite(of_row) & np.isfinite(of_bare)
    if not possible[0]:
        return -np.inf, -np.inf
    powers = context_weight * of_row[possible] + (1.0 - context_weight) * of_bare[possible]
    others = float(np.logaddexp.reduce(power * (powers[1:] - powers[0])))
    # Tokens that only one row rules out have their share of the other's probability, and none of the mixture's.
    rest = context_weight * _log_rest(of_row, noise) + (1.0 - context_weight) * _log_rest(of_bare, noise)
    largest = min(rest, _log_largest(row, bare, n_top, context_weight) + noise)
    beyond = rest + power * (noise - powers[0])
    if power != 1.0:
        beyond += (power - 1.0) * largest
    spread = 2.0 * power * noise
    return (
        -float(np.logaddexp(0.0, np.logaddexp(others + spread, beyond))),
        -float(np.logaddexp(0.0, others - spread)),
    )


def tempered(token: int, row: Row, temperature: float, noise_nats: float = 0.0, n_top: int = 0) -> tuple[float, float]:
    """Bounds on log softmax(z / T) of a token, nats, as of `mixed`: the mixture of a row with itself. At T = 1 the row
    tells it but for the noise."""
    if temperature != 1.0 or not np.isfinite(row[token]):
        return mixed(token, row, row, 1.0, temperature, noise_nats, n_top)
    noise = max(noise_nats, ROUNDING_NATS)
    return row[token] - noise, min(0.0, row[token] + noise)


def middle(bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Middles of intervals (..., 2), and half their widths; of a value that is infinite for certain, itself and 0."""
    low, high = bounds[..., 0], bounds[..., 1]
    certain = low == high
    with np.errstate(invalid="ignore"):
        half: FloatArray = np.where(certain, 0.0, (high - low) / 2)
        return np.where(certain, high, low + half), half


def _log_largest(row: Row, bare: Row, n_top: int, context_weight: float) -> float:
    """Log of the most that p(v)^λ q(v)^{1−λ} may be of a token that does not stand in both rows."""
    if not n_top:
        return 0.0
    # Below their likeliest tokens, rows hold the given one too, wherever it ranks.
    least, least_bare = (sorted(log_probs.values(), reverse=True)[:n_top][-1] for log_probs in (row, bare))
    alone = max((min(value, 0.0) for token, value in row.items() if token not in bare), default=least)
    alone_bare = max((min(value, 0.0) for token, value in bare.items() if token not in row), default=least_bare)
    return max(
        _weighted(context_weight, alone, least_bare),
        _weighted(context_weight, least, alone_bare),
        _weighted(context_weight, least, least_bare),
    )


def _weighted(context_weight: float, of_row: float, of_bare: float) -> float:
    """λ log p + (1 − λ) log q; a weight of 0 leaves out what may be −∞."""
    return (context_weight * of_row if context_weight else 0.0) + (
        (1.0 - context_weight) * of_bare if context_weight != 1.0 else 0.0
    )


def _log_rest(log_probs: FloatArray, noise: float) -> float:
    return float(np.log(-np.expm1(min(0.0, np.logaddexp.reduce(log_probs)) - noise)))
