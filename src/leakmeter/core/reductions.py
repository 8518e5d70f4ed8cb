"""What can be kept of the logits: each reduction is a pure reduction of rows, run by the back end where the rows
are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from leakmeter.core import rules
from leakmeter.stats import divergence, logspace


class PerToken:
    """Rows of a reduction that keeps something of each response token, prompt by prompt."""

    __slots__ = ()
    rows_together: ClassVar[bool] = False
    against_first: ClassVar[bool] = False
    continues: ClassVar[bool] = False

    def rows(self, n_response: int) -> range:
        """One row per response token."""
        return range(n_response)


class NextToken:
    """Rows of a reduction that keeps something of what would come after the response."""

    __slots__ = ()
    against_first: ClassVar[bool] = False

    def rows(self, n_response: int) -> range:
        """The row after the last response token."""
        return range(n_response, n_response + 1)


@dataclass(frozen=True, slots=True)
class TargetLogProbs(PerToken):
    """log softmax(z / T) of each response token, nats: (prompt, response)."""

    temperature: float = 1.0

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, row, vocab) to (prompt, row)."""
        return logspace.target_log_probs(rows, targets, self.temperature)


@dataclass(frozen=True, slots=True)
class MixtureLogProbs(PerToken):
    """log p̄_{λ,T} of each response token, nats: (prompt, response); the first prompt is the bare one.

    Context influence decoding, Eq. 6: p̄ = softmax((λ z + (1 − λ) z_bare) / T). The bare prompt's own entry is
    log softmax(z_bare / T).
    """

    context_weight: float
    temperature: float = 1.0

    rows_together: ClassVar[bool] = True
    against_first: ClassVar[bool] = True

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, row, vocab) to (prompt, row)."""
        mixed = rules.mix_with_first(rows, self.context_weight)
        return logspace.target_log_probs(mixed, targets, self.temperature)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What another reduction keeps, of some rows only, from a response that the next round takes further."""

    reduction: TargetLogProbs | MixtureLogProbs
    start: int
    stop: int
    continues: ClassVar[bool] = True

    @property
    def rows_together(self) -> bool:
        """As of the other reduction."""
        return self.reduction.rows_together

    @property
    def against_first(self) -> bool:
        """As of the other reduction."""
        return self.reduction.against_first

    def rows(self, n_response: int) -> range:
        """One row for each response token from `start` to before `stop`."""
        return range(self.start, min(self.stop, n_response))

    def reduce(self, rows: Any, targets: Any) -> Any:
        """As the other reduction reduces them."""
        return self.reduction.reduce(rows, targets)


@dataclass(frozen=True, slots=True)
class PromptStates:
    """The last `n` tokens of a prompt, whose states in a layer are wanted: there is nothing to make of logits."""

    n: int
    rows_together: ClassVar[bool] = False
    continues: ClassVar[bool] = False

    def rows(self, n_response: int) -> range:
        """Row 0 stands at the prompt's last token; the others before it."""
        return range(1 - self.n, 1)

    def reduce(self, rows: Any, targets: Any) -> Any:
        """Refused: no logits are made."""
        raise TypeError("states are no logits")


@dataclass(frozen=True, slots=True)
class NextTokenSample(NextToken):
    """The next token, drawn from p̄_{λ,T} by inverting its distribution at `uniform`: (prompt, 1, 2).

    The last axis holds the token id and its log-probability in nats. With λ ≠ 1 the first prompt is the bare one.
    """

    uniform: float
    context_weight: float = 1.0
    temperature: float = 1.0
    continues: ClassVar[bool] = True  # the next round extends the sequence by the token drawn
    against_first: ClassVar[bool] = True

    @property
    def rows_together(self) -> bool:
        """True when two branches are mixed."""
        return self.context_weight != 1.0

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, 1, vocab) to (prompt, 1, 2)."""
        mixed = rules.mix_with_first(rows, self.context_weight) if self.rows_together else rows
        return rules.draw(mixed, self.uniform, self.temperature)


@dataclass(frozen=True, slots=True)
class Labels(NextToken):
    """log softmax(z / T) of a few tokens after the response, nats: (prompt, 1, label)."""

    token_ids: tuple[int, ...]
    temperature: float = 1.0

    rows_together: ClassVar[bool] = False
    continues: ClassVar[bool] = False

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, 1, vocab) to (prompt, 1, label)."""
        return logspace.label_log_probs(rows, self.token_ids, self.temperature)


@dataclass(frozen=True, slots=True)
class DivergenceFromFirst(PerToken):
    """KL(p₀ ‖ p) and KL(p ‖ p₀) at each response token, nats: (prompt, response, 2); p₀ is the first prompt's row."""

    temperature: float = 1.0

    rows_together: ClassVar[bool] = True
    against_first: ClassVar[bool] = True

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, row, vocab) to (prompt, row, 2)."""
        return divergence.from_first(logspace.log_softmax(rows, self.temperature))


@dataclass(frozen=True, slots=True)
class FullDistribution:
    """log softmax(z / T) over the whole vocabulary, nats, at every row: (prompt, response + 1, vocab)."""

    temperature: float = 1.0

    rows_together: ClassVar[bool] = False
    continues: ClassVar[bool] = False

    def rows(self, n_response: int) -> range:
        """Every row, the one after the response included."""
        return range(n_response + 1)

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, row, vocab), normalised."""
        return logspace.log_softmax(rows, self.temperature)
