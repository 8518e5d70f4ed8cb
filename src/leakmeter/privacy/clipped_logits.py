"""Clipped-logit aggregation: s prompts with one private exemplar each, averaged at every token.

Li et al., "Evaluating Privacy Leakage From In-Context Learning", Algorithm 1:

    clip_c(z)_v = max(−c, z_v − max_u z_u + c),    z̄ = (1/s) Σ_i clip_c(z_i),    token ~ softmax(z̄ / τ).

The clip takes each row's maximum off, so that logits and log-probabilities come to the same, and its largest entry is
always c. A token that a row rules out (−inf) gets −c from it and stays possible. What is to be ruled out whatever the
exemplars say, such as stop tokens or entries that only pad the vocabulary, is left out of the rows beforehand.

Without exemplar i the sum lacks its own clipped row, so that the two distributions differ by a tilt,

    log p(v) − log p_{∖i}(v) = clip_c(z_i)_v / (s τ) + a number that all tokens share,

and every leave-one-out is as cheap as the rows: nothing of exemplar × vocabulary × exemplar is ever made.

The theorem bounds real numbers, and tokens are drawn by float64 weights. With η the most by which rounding moves the
logarithm of a weight, up to a number that all tokens share, the logarithms of the fractions that tokens are drawn by
differ between neighbours by a range of at most 2 (Δ + 2η) in place of 2Δ. So rows are clipped at `applied_clip`, a c′
below c whose Δ′ + 2η is at most Δ: the bound of c then holds for what is drawn, rounding included, and needs no δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from array_api_compat import array_namespace

from leakmeter.core.limits import refuse_bad
from leakmeter.errors import UnknownNameError
from leakmeter.stats import logspace

NormaliseBy = Literal["fixed", "present"]
"""What a sum is divided by where an exemplar is missing: still s, as the theorem has it, or those present."""
_WIDEST: Final = 1e9
"""The largest clip: far beyond any logit, and far below what overflows."""
_ROUNDING: Final = 2.0**-53
"""Most that one operation in float64 takes off or adds, of its result."""
_SHARED: Final = 32.0
"""Roundings beside those of the votes: a logarithm of at most 2^20 tokens, and 8 units of the last digit for e^x."""
_LIFTED: Final = 340.0
"""c / τ beyond which the least weight may be lifted (`exact_draw.LOG_LEAST`), and the logarithm of Σ W matters too."""
_MOST_TOKENS: Final = 2.0**20
Adjacency = Literal["add-remove", "replace-one"]
"""Which sets of exemplars are neighbours: one has an exemplar more; or one exemplar is another."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How clipped logits become a distribution."""

    clip: float
    """c > 0, nats: a clipped logit lies between −c and c."""
    subset_size: int
    """s, the number of exemplars."""
    temperature: float
    """τ > 0."""
    normalise_by: NormaliseBy = "fixed"

    def __post_init__(self) -> None:
        least = 2 if self.normalise_by == "present" else 1
        refuse_bad(
            (0 < self.clip <= _WIDEST, "clip", self.clip, f"above 0, and at most {_WIDEST:g}"),
            (self.subset_size >= least, "subset-size", self.subset_size, f"{least} or more"),
            logspace.checked_temperature(self.temperature),
        )
        if self.normalise_by not in get_args(NormaliseBy):
            raise UnknownNameError("normalise-by", self.normalise_by, get_args(NormaliseBy))

    def sensitivity(self, adjacency: Adjacency = "add-remove") -> float:
        """Δ, nats: most that a neighbour moves z̄_v / τ, for any token v.

        c / (sτ) for one exemplar more or less and a fixed s (Appendix C.3.1). Twice that where one is replaced. Twice
        that also where those present are counted: the average without an exemplar is the one in which the mean of the
        others stands in for it.
        """
        once = self.clip / (self.subset_size * self.temperature)
        return once if adjacency == "add-remove" and self.normalise_by == "fixed" else 2.0 * once

    @property
    def rounding(self) -> float:
        """η, nats: most that rounding moves the logarithm of a token's weight, but for what all tokens share.

        With m = c / τ, in units of 2^-53: a sum of s votes in any order is off by s m; two quotients, and two
        differences of numbers up to 2 m, by 6 m together; log ΣW of 2^20 tokens by 14; e^x by 16. Two m are left for
        the arithmetic of `applied_clip`.
        """
        widest = self.clip / self.temperature
        lifted = 2.0 * _MOST_TOKENS if widest > _LIFTED else 0.0
        return _ROUNDING * ((self.subset_size + 8) * widest + _SHARED + lifted)

    @property
    def applied_clip(self) -> float:
        """c′, nats: what rows are clipped at, so that the weights, as rounded, keep the bound of c.

        Below c by 1e-12 of it with 50 exemplars. It is 0, and every token as likely as any other, where Δ is so small
        that rounding could exceed it.
        """
        return max(0.0, self.clip - 2.0 * self.rounding * self.subset_size * self.temperature)


class Vote(NamedTuple):
    """A distribution of the next token, and how each exemplar tilts it; nats, float64."""

    log_probs: Any
    """log p(v) with all exemplars, (vocab,), normalised."""
    tilts: Any
    """log p(v) − log p_{∖i}(v) up to a number that all tokens share, (exemplar, vocab); finite."""


def clipped(logits: Any, clip: float) -> Any:
    """clip_c of each row, float64, nats, same shape; from logits or log-probabilities, (..., vocab)."""
    xp = array_namespace(logits)
    wide = xp.astype(logits, xp.float64)
    return xp.clip(wide - xp.max(wide, axis=-1, keepdims=True) + clip, min=-clip)


def average(votes: Any, aggregation: Aggregation) -> Vote:
    """Average clipped rows, (exemplar, vocab), float64, with all exemplars and without each; c has been applied."""
    xp = array_namespace(votes)
    total = xp.sum(votes, axis=0)
    if aggregation.normalise_by == "fixed":
        mean, share = total / aggregation.subset_size, votes / aggregation.subset_size
    else:
        n_present = votes.shape[0]
        if n_present != aggregation.subset_size:
            raise ValueError(f"{n_present} rows; the bound is for {aggregation.subset_size}")
        mean = total / n_present
        share = (votes - mean) / (n_present - 1)
    return Vote(logspace.log_softmax(mean, aggregation.temperature), share / aggregation.temperature)
