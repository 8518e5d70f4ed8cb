"""Susceptibility: how far contexts move the distribution over answers to a query, in nats.

With contexts c of weights w that add up to 1, the distribution p_c of answers behind each, p₀ without any, and the
mixture p̂ = Σ w p_c (Du et al. 2024; Liu et al., "Efficiently Computing Susceptibility to Context in Language Models",
Eq. 2):

    ψ(c)  = KL(p_c ‖ p̂)                 persuasion
    χ     = Σ w ψ(c) = I(C; A)           susceptibility, at most the entropy of the weights
    ψ₀(c) = KL(p_c ‖ p₀)                 the same from the bare query; Σ w ψ₀ = χ + KL(p̂ ‖ p₀)
    χ₋c                                   χ of all contexts but c

Left out one at a time, contexts need no second look at the others. With r(v) = w_c p_c(v) / p̂(v), the share of answer v
that comes from c, p̂₋c = p̂ (1 − r) / (1 − w_c), and so

    χ₋c = (χ − w_c ψ(c) − B_c) / (1 − w_c) + w_c / (1 − w_c) + log(1 − w_c),   B_c = Σ_v p̂ ((1 − r) log(1 − r) + r)

which is what the jackknife is made of (`Spread`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from array_api_compat import array_namespace, device

from leakmeter.core.measure import NATS, NOISE, RESPONSE, Statistic, Statistics
from leakmeter.core.reductions import NextToken
from leakmeter.core.request import words_of_mixture
from leakmeter.overriding import override
from leakmeter.stats import stats
from leakmeter.stats.arrays import FloatArray


class SusceptibilityStatistics(Statistics):
    persuasion = Statistic("persuasion", NATS, "ψ(c) = KL(p_c ‖ p̂) of each context", over="context")
    persuasion_from_bare = Statistic(
        "persuasion_from_bare", NATS, "ψ₀(c) = KL(p_c ‖ p₀) of each context, p₀ of the query alone", over="context"
    )
    susceptibility_without = Statistic(
        "susceptibility_without", NATS, "χ of all contexts but this one, of each context", over="context"
    )
    susceptibility = Statistic("susceptibility", NATS, "χ", over="number")
    from_bare = Statistic("from_bare", NATS, "Σ w KL(p_c ‖ p₀)", over="number")
    mixture_from_bare = Statistic(
        "mixture_from_bare", NATS, "KL(p̂ ‖ p₀), by which from_bare is larger than χ", over="number"
    )
    mixture_entropy = Statistic("mixture_entropy", NATS, "entropy of p̂", over="number")
    bare_entropy = Statistic("bare_entropy", NATS, "entropy of p₀", over="number")
    ceiling = Statistic("ceiling", NATS, "entropy of the weights, which χ cannot exceed", over="number")
    noise = NOISE.but(about="what other ways to run the same prompts do to a persuasion", over="number", optional=False)
    token = RESPONSE.but(about="greedy answer: sample 0 that of the query alone, 1, 2 … behind each context")


_OF = SusceptibilityStatistics
OF_CONTEXT: Final = (_OF.persuasion, _OF.persuasion_from_bare, _OF.susceptibility_without)
OF_QUERY: Final = (_OF.mixture_from_bare, _OF.mixture_entropy, _OF.bare_entropy)
_ENTRIES_AT_ONCE: Final = 2**18
"""Of the rows in float64: 2 MB an array, of which some eight are alive."""


@dataclass(frozen=True, slots=True)
class ContextMixture(NextToken):
    """What contexts do to the next token: of the bare prompt, the first, `OF_QUERY`; of the others `OF_CONTEXT`.

    (prompt, 1, 3), nats. All sums over the vocabulary are taken in float64, a slice of it at a time: 257 rows of 49,152
    entries take 0.8 s on a CPU core.
    """

    weights: tuple[float, ...]
    """Of each prompt but the first, adding up to 1. Where fewer prompts than that are given, which only a prediction of
    shapes does, the first ones count."""
    counts: tuple[int, ...]
    """Contexts of equal weight that each of these prompts stands for; χ₋c is that without one of them."""
    temperature: float = 1.0

    rows_together: ClassVar[bool] = True

    @property
    @override
    def words(self) -> str:
        return words_of_mixture(temperature=self.temperature)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, 1, vocab) to (prompt, 1, 3)."""
        n = rows.shape[0] - 1
        slices = _log_prob_slices(rows[:, 0, :], self.temperature)
        return _statistics(slices, self.weights[:n], self.counts[:n])[:, None, :]


def statistics(log_probs: FloatArray, weights: tuple[float, ...], counts: tuple[int, ...]) -> FloatArray:
    """As `ContextMixture`, of normalised log-probabilities of a few answers: (prompt, answer) to (prompt, 3), nats."""
    return np.asarray(_statistics(iter((log_probs,)), weights, counts))


def with_rest(log_probs: FloatArray) -> FloatArray:
    """Answers' log-probabilities, and that of all other answers, nats: (prompt, answer) to (prompt, answer + 1)."""
    total = np.exp(log_probs).sum(axis=-1, keepdims=True)
    # Where rounding leaves no rest, it is 2⁻⁵³: what rounding alone rules out is not infinitely far from others.
    rest = np.log1p(-np.minimum(total, 1.0 - 2.0**-53))
    return np.concatenate([log_probs, rest], axis=-1)


@dataclass(frozen=True, slots=True)
class Spread:
    """What is known of the χ of all contexts that might have been drawn, from n that were, nats.

    χ of n contexts is too small on average, by about (1/2n) Σ_v Var p_c(v) / p̂(v): its mixture has been made of the
    very contexts that are held against it. The jackknife's pseudo-values n χ − (n − 1) χ₋c say by how much, and their
    spread is that of χ: to first order they are χ + n w (ψ(c) − χ), as ψ − χ is the influence function of χ. The
    interval is that of their mean, hence of χ less its bias. What it covers is in docs/results/intervals.md. A
    bootstrap of χ itself covers less, since a resample has fewer different contexts still.
    """

    bias: float
    """By how much χ is too large on average; below 0."""
    standard_error: float
    interval: tuple[float, float] | None
    """95 %; None where `stats.stats.interval_of_mean` has none, as of few contexts."""


def spread(susceptibility: float, without: FloatArray, *, seed: int = 0) -> Spread | None:
    """Bias, standard error and interval of a susceptibility χ, nats; None for fewer than three contexts.

    `without` are χ₋c of each context, nats, repeated ones one by one; the seed is the bootstrap's over pseudo-values.
    """
    n = len(without)
    if n < 3:
        return None
    pseudo = n * susceptibility - (n - 1) * without
    ends = stats.interval_of_mean(pseudo, seed=seed)
    return Spread(
        bias=susceptibility - float(pseudo.mean()),
        standard_error=float(pseudo.std(ddof=1)) / n**0.5,
        interval=None if ends is None else (max(ends[0], 0.0), max(ends[1], 0.0)),
    )


@dataclass(frozen=True, slots=True)
class Likeliest(NextToken):
    """The likeliest next token: (prompt, 1, 1); of several, that of the lowest id."""

    continues: ClassVar[bool] = True  # the next round extends the sequence by it

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, 1, vocab) to (prompt, 1, 1)."""
        xp = array_namespace(rows)
        return xp.astype(xp.argmax(rows, axis=-1, keepdims=True), xp.float64)


def entropy(weights: FloatArray) -> float:
    """Entropy of weights that add up to 1, nats."""
    positive = weights[weights > 0]
    return max(0.0, float(-(positive * np.log(positive)).sum()))


def _statistics(slices: Iterator[Any], weights: tuple[float, ...], counts: tuple[int, ...]) -> Any:
    """(prompt, 3) of slices (prompt, answer) of normalised log-probabilities, float64."""
    first = next(slices)
    xp, where = array_namespace(first), device(first)
    w = xp.asarray(weights, dtype=xp.float64, device=where)
    w = w / xp.sum(w)
    single_weight = w / xp.asarray(counts, dtype=xp.float64, device=where)
    of_query, of_context = _sums(xp, first, w, single_weight)
    for log_probs in slices:
        more_of_query, more_of_context = _sums(xp, log_probs, w, single_weight)
        of_query, of_context = of_query + more_of_query, of_context + more_of_context
    persuasion, from_bare, shared = of_context[:, 0], of_context[:, 1], of_context[:, 2]
    susceptibility = xp.sum(w * persuasion)
    # A single context leaves none.
    left = xp.where(single_weight < 1, 1 - single_weight, xp.ones_like(single_weight))
    without = (susceptibility - single_weight * persuasion - shared + single_weight) / left + xp.log(left)
    without = xp.where((single_weight < 1) & (without > 0), without, xp.zeros_like(without))
    return xp.concat([of_query[None, :], xp.stack([persuasion, from_bare, without], axis=-1)], axis=0)


def _sums(xp: Any, log_probs: Any, w: Any, unit: Any) -> tuple[Any, Any]:
    """A slice's part in `OF_QUERY`, (3,), and in ψ, ψ₀ and B of each context, (context, 3).

    Divergences are Σ p log(p / q) − p + q, of terms that are all 0 or more: where p and q are nearly the same, what is
    missing from their sums to 1 by rounding does not enter.
    """
    log_bare, log_p = log_probs[0, :], log_probs[1:, :]
    bare, p = xp.exp(log_bare), xp.exp(log_p)
    mixture = xp.sum(w[:, None] * p, axis=0)
    log_mixture = xp.log(xp.where(mixture > 0, mixture, xp.ones_like(mixture)))
    of_query = xp.stack(
        [
            xp.sum(_divergence(xp, mixture, log_mixture, bare, log_bare)),
            -xp.sum(mixture * log_mixture),
            -xp.sum(bare * xp.where(bare > 0, log_bare, xp.zeros_like(bare))),
        ]
    )
    share = unit[:, None] * p / xp.where(mixture > 0, mixture, xp.ones_like(mixture))
    # (1 − r) log(1 − r) is 0 where the context is the only one to give that answer.
    partial = xp.where(share < 1, share, xp.zeros_like(share))
    lost = mixture * ((1 - partial) * xp.log1p(-partial) + xp.where(share < 1, share, xp.ones_like(share)))
    of_context = [
        xp.sum(_divergence(xp, p, log_p, mixture, log_mixture), axis=-1),
        xp.sum(_divergence(xp, p, log_p, bare, log_bare), axis=-1),
        xp.sum(lost, axis=-1),
    ]
    return of_query, xp.stack(of_context, axis=-1)


def _divergence(xp: Any, p: Any, log_p: Any, q: Any, log_q: Any) -> Any:
    """Terms of KL(p ‖ q), each 0 or more; ∞ where only q is 0."""
    # 0 · (−∞ − anything) is 0 in a divergence, and NaN in arithmetic.
    possible, none = p > 0, xp.zeros_like(p)
    ratio = xp.where(possible, xp.where(possible, log_p, none) - log_q, none)
    terms = p * ratio - p + q
    # What is not a number stays so, for the back end to find.
    return xp.where(terms < 0, none, terms)


def _log_prob_slices(logits: Any, temperature: float) -> Iterator[Any]:
    """log softmax(z / T) in float64, (prompt, some of vocab) at a time."""
    xp = array_namespace(logits)
    n_rows, n_vocab = logits.shape
    step = max(1, _ENTRIES_AT_ONCE // n_rows)
    starts = range(0, n_vocab, step)
    top = xp.astype(xp.max(logits, axis=-1, keepdims=True), xp.float64) / temperature

    def scaled(start: int) -> Any:
        return xp.astype(logits[:, start : start + step], xp.float64) / temperature - top

    log_total = xp.log(sum(xp.sum(xp.exp(scaled(start)), axis=-1, keepdims=True) for start in starts))
    return (scaled(start) - log_total for start in starts)
