"""Rules that can be audited: one distribution from several rows, and a bound of how far each row moves it.

A row has the next token's logits for a prompt with one exemplar. A rule is measured by leaving out every exemplar's row
in turn. For clipped-logit aggregation that has a quick formula; other rules are called once for each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from leakmeter.core.limits import refuse_bad
from leakmeter.errors import UsageError
from leakmeter.privacy import bounded, rdp
from leakmeter.privacy.clipped_logits import Adjacency, Aggregation, Vote, average, clipped
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray


# A user's rule may be any object that has these, and can be asked whether it has.
@runtime_checkable
class Mechanism(Protocol):
    """A rule for the next token, and its bound; a user's own needs no more than this.

    A frozen dataclass of plain numbers serves best: a result can then say what it was.
    """

    @property
    def public_first(self) -> bool:
        """Whether the first row is that of the prompt without any exemplar, which is never left out."""

    @property
    def adjacency(self) -> Adjacency:
        """Which sets of exemplars the bound is about. Only 'add-remove' can be audited: exemplars are left out."""

    def log_probs(self, rows: Any) -> Any:
        """Log-probabilities of the next token, nats, (vocab,), normalised.

        Args:
            rows: logits, (row, vocab), float64, as an array of NumPy or torch, whichever the back end computes with.
                At times they are fewer than there are exemplars, and the vocabulary lacks tokens that are ruled out
                whatever the exemplars say.
        """

    def bound(self, orders: Sequence[float]) -> FloatArray:
        """Most that D_α↔ of a token can be, nats, (order,).

        Args:
            orders: each above 1; may hold ∞, at which the bound may be infinite.
        """


@dataclass(frozen=True, slots=True)
class ClippedLogitAggregation:
    """Private token generation (Li et al., Algorithm 1), and the smaller bound of Appendix C.3.1.

    Rows are clipped at `Aggregation.applied_clip`, so that the bound of c holds for the weights that tokens are drawn
    by, rounding included.
    """

    aggregation: Aggregation

    public_first: ClassVar[bool] = False
    adjacency: ClassVar[Adjacency] = "add-remove"

    def vote(self, rows: Any) -> Vote:
        """The distribution, and how each row tilts it; `rows` as for `log_probs`, in any precision.

        Where those present are counted, as many as there are, whatever the bound is for.
        """
        present = self.aggregation.normalise_by == "present"
        own = replace(self.aggregation, subset_size=rows.shape[0]) if present else self.aggregation
        return average(clipped(rows, self.aggregation.applied_clip), own)

    def log_probs(self, rows: Any) -> Any:
        """log softmax(z̄ / τ) of the exemplars that are there."""
        divisor = self.aggregation.subset_size if self.aggregation.normalise_by == "fixed" else rows.shape[0]
        fixed = replace(self.aggregation, subset_size=divisor, normalise_by="fixed")
        return average(clipped(rows, self.aggregation.applied_clip), fixed).log_probs

    def bound(self, orders: Sequence[float]) -> FloatArray:
        return rdp.bound(self.aggregation.sensitivity(), orders)


@dataclass(frozen=True, slots=True)
class BoundedCid:
    """Bounded context influence decoding (Flemings et al., Algorithm 1); the whole context is its one exemplar.

    Any two contexts are within ε of each other, each within ε / 2 of none. An audit leaves the context out, so it holds
    what it measures against the Rényi divergences of pure ε / 2-differential privacy (Li et al., Theorem C.5).
    """

    epsilon: float
    """ε of a token between any two contexts, nats, above 0."""
    temperature: float = 1.0
    """Temperature of both branches, above 0."""
    lambda_max: float = 1.0
    """Largest λ_t, 0 or more."""

    public_first: ClassVar[bool] = True
    adjacency: ClassVar[Adjacency] = "add-remove"

    def __post_init__(self) -> None:
        refuse_bad(
            (math.isfinite(self.epsilon) and self.epsilon > 0, "epsilon", self.epsilon, "above 0"),
            logspace.checked_temperature(self.temperature),
            (math.isfinite(self.lambda_max) and self.lambda_max >= 0, "lambda-max", self.lambda_max, "0 or more"),
        )

    def log_probs(self, rows: Any) -> Any:
        """p̄ with the largest λ_t that keeps the bound; p(· | ∅) where the context is left out."""
        if rows.shape[0] > 2:
            raise UsageError(
                f"bounded decoding has one context, and {rows.shape[0] - 1} exemplars have a prompt each here; "
                "give a single one"
            )
        mixed = bounded.bounded_mixture(
            rows[-1:, :], rows[:1, :], 0.5 * self.epsilon, self.temperature, self.lambda_max
        )
        return mixed.log_probs[0, :] if rows.shape[0] == 2 else mixed.bare_log_probs[0, :]

    def bound(self, orders: Sequence[float]) -> FloatArray:
        """Of a rule that is ε / 2-private, and of which no more is known."""
        return rdp.exponential(0.25 * self.epsilon, orders)


def bound_of(mechanism: Mechanism, orders: Sequence[float]) -> FloatArray:
    """Most that D_α↔ of a token can be, nats, (order,)."""
    if mechanism.adjacency != "add-remove":
        raise UsageError(
            f"the mechanism's bound is about neighbours of the kind '{mechanism.adjacency}', and an audit leaves "
            "exemplars out; give its bound for 'add-remove'"
        )
    limits = np.asarray(mechanism.bound(orders), dtype=np.float64)
    if limits.shape != (len(orders),):
        raise UsageError(f"the mechanism bounds {limits.size} numbers for {len(orders)} orders; give one for each")
    finite = np.isfinite(np.asarray(orders, dtype=np.float64))
    if not ((limits > 0.0).all() and np.isfinite(limits[finite]).all()):
        raise UsageError("the mechanism's bound has to be above 0, and finite at every finite order")
    return limits
