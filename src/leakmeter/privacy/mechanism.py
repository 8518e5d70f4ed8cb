"""What can be audited: a rule that makes one distribution of several rows, and promises how little each row moves it.

A row is what a model says next behind a prompt that has one exemplar. A rule is measured by leaving out every
exemplar's row in turn (`ballot`). Private voting knows what that does, and is quick; of other rules nothing need be
known.
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
from leakmeter.privacy.private_voting import Adjacency, Vote, Voting, average, clipped
from leakmeter.privacy.verdict import Promised
from leakmeter.stats import logspace
from leakmeter.stats.stats import FloatArray


@runtime_checkable
class Mechanism(Protocol):
    """A rule for the next token, and its promise; a user's own needs no more than this.

    A frozen dataclass of plain numbers serves best: a result can then say what it was.
    """

    @property
    def public_first(self) -> bool:
        """Whether the first row is that of the prompt without any exemplar, which is never left out."""

    @property
    def adjacency(self) -> Adjacency:
        """Which sets of exemplars the promise is about. Only 'add-remove' can be audited: exemplars are left out."""

    def log_probs(self, rows: Any) -> Any:
        """Log-probabilities of the next token, nats, (vocab,), normalised.

        Args:
            rows: logits, (row, vocab), float64, as an array of NumPy or torch, whichever the back end computes with.
                At times they are fewer than there are exemplars, and the vocabulary lacks tokens that are ruled out
                whatever the exemplars say.
        """

    def promised(self, orders: Sequence[float]) -> FloatArray:
        """Most that D_α↔ of a token can be, nats, (order,).

        Args:
            orders: each above 1; may hold ∞, at which the promise may be infinite.
        """


@runtime_checkable
class QuickMechanism(Mechanism, Protocol):
    """A rule that knows what leaving out each row does, and need not be asked row by row."""

    def vote(self, rows: Any) -> Vote:
        """The distribution, and what it owes to each row; `rows` as for `log_probs`, in any precision."""


@dataclass(frozen=True, slots=True)
class PrivateVoting:
    """Private token generation (Li et al., Algorithm 1), and the smaller bound of Appendix C.3.1."""

    voting: Voting

    public_first: ClassVar[bool] = False
    adjacency: ClassVar[Adjacency] = "add-remove"

    def vote(self, rows: Any) -> Vote:
        """Clip and average; where those present are counted, as many as there are, whatever was promised."""
        present = self.voting.normalise_by == "present"
        voting = replace(self.voting, subset_size=rows.shape[0]) if present else self.voting
        return average(clipped(rows, voting.clip), voting)

    def log_probs(self, rows: Any) -> Any:
        """log softmax(z̄ / τ) of the exemplars that are there."""
        divisor = self.voting.subset_size if self.voting.normalise_by == "fixed" else rows.shape[0]
        voting = replace(self.voting, subset_size=divisor, normalise_by="fixed")
        return average(clipped(rows, voting.clip), voting).log_probs

    def promised(self, orders: Sequence[float]) -> FloatArray:
        """See `rdp.promised`."""
        return rdp.promised(self.voting.sensitivity(), orders)


@dataclass(frozen=True, slots=True)
class BoundedCid:
    """Bounded context influence decoding (Flemings et al., Algorithm 1); the whole context is its one exemplar.

    Any two contexts are within ε of each other, each within ε / 2 of none. An audit leaves the context out, so it holds
    what it measures against the Rényi divergences of pure ε / 2-differential privacy (Li et al., Theorem C.5).
    """

    epsilon: float
    """ε of a token between any two contexts, nats, above 0."""
    temperature: float = 1.0
    """T of both branches, above 0."""
    lambda_max: float = 1.0
    """Largest λ_t, 0 or more."""

    public_first: ClassVar[bool] = True
    adjacency: ClassVar[Adjacency] = "add-remove"

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        refuse_bad(
            (math.isfinite(self.epsilon) and self.epsilon > 0, "epsilon", self.epsilon, "above 0"),
            logspace.checked_temperature(self.temperature),
            (math.isfinite(self.lambda_max) and self.lambda_max >= 0, "lambda-max", self.lambda_max, "0 or more"),
        )

    def log_probs(self, rows: Any) -> Any:
        """p̄ with the largest λ_t that keeps the bound; p(· | ∅) where the context is left out.

        Raises:
            UsageError: more than one exemplar.
        """
        if rows.shape[0] > 2:
            raise UsageError(
                f"bounded decoding has one context, and {rows.shape[0] - 1} exemplars have a prompt each here; "
                "give a single one"
            )
        mixed = bounded.bounded_mixture(
            rows[-1:, :], rows[:1, :], 0.5 * self.epsilon, self.temperature, self.lambda_max
        )
        return mixed.log_probs[0, :] if rows.shape[0] == 2 else mixed.bare_log_probs[0, :]

    def promised(self, orders: Sequence[float]) -> FloatArray:
        """Of a rule that is ε / 2-private, and of which no more is known."""
        return rdp.exponential(0.25 * self.epsilon, orders)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Upper bounds, nats, of what a number of tokens tell of one exemplar together."""

    n_tokens: int
    epsilon: float
    """ε at δ, 0 or more."""
    delta: float
    order: float
    """The order that gives ε; the paper's α*."""
    rdp: float
    """Rényi divergence of that order, of all tokens."""
    pure_epsilon: float
    """ε at δ = 0: basic composition of what each token costs at most."""


def guarantee(promised: Promised, n_tokens: int, delta: float, orders: Sequence[float] = rdp.ORDERS) -> Guarantee:
    """What so many tokens cost together, by whatever rule: Rényi divergences add up (Li et al., Theorem C.7).

    For private voting it is `rdp.promise`, which also says when this is a guarantee and when it is not.

    Args:
        promised: of a token.
        n_tokens: of all sequences that one exemplar has a part in.
        delta: δ, above 0 and below 1.
        orders: to choose from, each above 1, finite.
    """
    epsilon, order = rdp.to_epsilon(n_tokens * promised(orders), orders, delta)
    at_order, at_infinity = (float(limit) for limit in promised([order, math.inf]))
    return Guarantee(n_tokens, epsilon, delta, order, n_tokens * at_order, n_tokens * at_infinity)


def promise_of(mechanism: Mechanism, orders: Sequence[float]) -> FloatArray:
    """Most that D_α↔ of a token can be, nats, (order,).

    Raises:
        UsageError: the promise is about other neighbours, or no promise.
    """
    if mechanism.adjacency != "add-remove":
        raise UsageError(
            f"the mechanism's promise is about neighbours of the kind '{mechanism.adjacency}', and an audit leaves "
            "exemplars out; give its promise for 'add-remove'"
        )
    limits = np.asarray(mechanism.promised(orders), dtype=np.float64)
    if limits.shape != (len(orders),):
        raise UsageError(f"the mechanism promises {limits.size} numbers for {len(orders)} orders; give one for each")
    finite = np.isfinite(np.asarray(orders, dtype=np.float64))
    if not ((limits > 0.0).all() and np.isfinite(limits[finite]).all()):
        raise UsageError("the mechanism's promise has to be above 0, and finite at every finite order")
    return limits
