"""Pointwise mutual information of tokens with a context, and the term that stands beside it in a loss; nats.

With pmi(v; D) = log p(v | D) − log p(v | ∅) of the model as it is (T = 1), and p_T(∅) = softmax(z(∅) / T),

    log p̄_{λ,T}(v | D) = log p_T(v | ∅) + (λ / T) pmi(v; D) − K_D,    K_D = log E_{v~p_T(∅)} exp((λ / T) pmi(v; D))

since (λ z(D) + (1 − λ) z(∅)) / T is z(∅) / T + (λ / T) pmi up to a number that all tokens share. Hence for a piece D_i

    log p̄(v | D) − log p̄(v | D∖D_i) = (λ / T) (pmi(v; D) − pmi(v; D∖D_i)) − (K_D − K_{D∖D_i}).

Flemings et al., Theorem 3.1, have the first term and call the rest a constant of proportionality. It is a term of its
own, which both contexts have a part in; it is 0 for every context where λ = T = 1.

With pmi_T(v; D) = log p_T(v | D) − log p_T(v | ∅), of the tempered model, the same holds with λ in the place of λ / T
and another K, which is 0 for every context where λ = 1, whatever T is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from array_api_compat import array_namespace

from leakmeter.core import reductions
from leakmeter.core.reductions import PerToken
from leakmeter.core.request import words_of_mixture
from leakmeter.overriding import override
from leakmeter.stats import logspace

WITH_PMI: Final = ("log_prob", "pmi", "partition", "tempered_pmi", "tempered_partition")
"""log p̄_{λ,T}(y_t | D), pmi(y_t; D), K_D, and the latter two of the tempered model."""


@dataclass(frozen=True, slots=True)
class TargetWithPmi(PerToken):
    """What a response's tokens have to do with each prompt, nats: (prompt, response, `WITH_PMI`).

    The first prompt is the bare one: its log p̄ is log softmax(z(∅) / T), its other entries are 0 up to rounding. The
    five entries are computed apart, so that the identities above can be tried on them.
    """

    context_weight: float = 1.0
    """λ ≥ 0."""
    temperature: float = 1.0
    """T > 0."""

    rows_together: ClassVar[bool] = True
    against_first: ClassVar[bool] = True

    @property
    @override
    def words(self) -> str:
        return words_of_mixture(self.context_weight, self.temperature)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, row, vocab) to (prompt, row, 5), float64."""
        xp = array_namespace(rows)
        # One row at a time: float64 copies of all rows would not fit.
        return xp.concat([self._row(rows[:, i : i + 1, :], targets[i]) for i in range(rows.shape[1])], axis=1)

    def _row(self, row: Any, target: Any) -> Any:
        xp = array_namespace(row)
        row = xp.astype(row, xp.float64)
        mixed = logspace.log_softmax(reductions.mix_with_first(row, self.context_weight), self.temperature)
        tempered = logspace.log_softmax(row, self.temperature)
        pmi = _less_the_first(logspace.log_softmax(row))
        tempered_pmi = _less_the_first(tempered)
        prior = tempered[:1, ...]
        partition = _log_mean_power(prior, pmi, self.context_weight / self.temperature)
        tempered_partition = _log_mean_power(prior, tempered_pmi, self.context_weight)
        index = xp.broadcast_to(target, (row.shape[0], 1, 1))
        of_target = [xp.take_along_axis(values, index, axis=-1) for values in (mixed, pmi, tempered_pmi)]
        return xp.concat([of_target[0], of_target[1], partition, of_target[2], tempered_partition], axis=-1)


def _less_the_first(log_probs: Any) -> Any:
    """log p − log p₀ for every prompt, p₀ the first; −inf for a token that either rules out, as `mix_with_first`."""
    xp = array_namespace(log_probs)
    first = log_probs[:1, ...]
    possible = xp.isfinite(first) & xp.isfinite(log_probs)
    zero = xp.zeros_like(log_probs)
    difference = xp.where(possible, log_probs, zero) - xp.where(possible, first, zero)
    return xp.where(possible, difference, -xp.inf)


def _log_mean_power(log_probs: Any, values: Any, weight: float) -> Any:
    """log E_{v~p} e^{weight · values_v} over the last axis, which stays with length 1; float64."""
    xp = array_namespace(values)
    possible = xp.isfinite(values)
    # A token that is ruled out has no part in the mean, also where its weight is 0.
    exponents = xp.where(possible, log_probs + weight * xp.where(possible, values, xp.zeros_like(values)), -xp.inf)
    top = xp.max(exponents, axis=-1, keepdims=True)
    return top + xp.log(xp.sum(xp.exp(exponents - top), axis=-1, keepdims=True))
