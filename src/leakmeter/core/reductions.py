"""What can be kept of the logits: pure reductions of rows, run by the back end where the rows are.

Beside them stand the rules that turn rows of several prompts into one distribution, draw from it, and find its
likeliest tokens without sorting it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from array_api_compat import array_namespace, device

from leakmeter.core.request import Needs, Reduction, goes_by_pairs, words_of_mixture
from leakmeter.overriding import override
from leakmeter.stats import logspace

_BLOCK: Final = 128
"""Entries of a vocabulary that are compared by their largest first; most vocabularies are multiples of it."""


class PerToken(Reduction):
    """Keeps something of each response token, prompt by prompt."""

    __slots__ = ()

    @override
    def rows(self, n_response: int) -> range:
        return range(n_response)


class NextToken(Reduction):
    """Keeps something of what would come after the response."""

    __slots__ = ()

    @override
    def rows(self, n_response: int) -> range:
        return range(n_response, n_response + 1)


@dataclass(frozen=True, slots=True)
class TargetLogProbs(PerToken):
    """log softmax(z / T) of each response token, nats: (prompt, response)."""

    temperature: float = 1.0
    context_weight: ClassVar[float] = 1.0

    @property
    @override
    def needs(self) -> Needs:
        return "targets" if self.temperature == 1.0 else "rows"

    @property
    @override
    def words(self) -> str:
        if self.temperature == 1.0:
            return "the log-probability of a given response"
        return words_of_mixture(temperature=self.temperature)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
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

    @property
    @override
    def words(self) -> str:
        return words_of_mixture(self.context_weight, self.temperature)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        mixed = mix_with_first(rows, self.context_weight)
        return logspace.target_log_probs(mixed, targets, self.temperature)


@dataclass(frozen=True, slots=True)
class PartialRows(Reduction):
    """What another reduction keeps, of some rows only, from a response that the next round takes further."""

    reduction: TargetLogProbs | MixtureLogProbs
    start: int
    stop: int
    continues: ClassVar[bool] = True

    @property
    @override
    def rows_together(self) -> bool:
        return self.reduction.rows_together

    @property
    @override
    def against_first(self) -> bool:
        return goes_by_pairs(self.reduction)

    @property
    @override
    def needs(self) -> Needs:
        return self.reduction.needs

    @property
    @override
    def words(self) -> str:
        return self.reduction.words

    @override
    def rows(self, n_response: int) -> range:
        return range(self.start, min(self.stop, n_response))

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        return self.reduction.reduce(rows, targets)


@dataclass(frozen=True, slots=True)
class PromptStates(Reduction):
    """The last `n` tokens of a prompt, whose states in a layer are wanted: there is nothing to make of logits."""

    n: int

    @override
    def rows(self, n_response: int) -> range:
        """Row 0 stands at the prompt's last token; the others before it."""
        return range(1 - self.n, 1)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
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
    @override
    def rows_together(self) -> bool:
        return self.context_weight != 1.0

    @property
    @override
    def words(self) -> str:
        return words_of_mixture(self.context_weight, self.temperature)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        mixed = mix_with_first(rows, self.context_weight) if self.rows_together else rows
        return draw(mixed, self.uniform, self.temperature)


@dataclass(frozen=True, slots=True)
class Labels(NextToken):
    """log softmax(z / T) of a few tokens after the response, nats: (prompt, 1, label)."""

    token_ids: tuple[int, ...]
    temperature: float = 1.0

    @property
    @override
    def needs(self) -> Needs:
        return "labels" if self.temperature == 1.0 else "rows"

    @property
    @override
    def words(self) -> str:
        if self.temperature == 1.0:
            return "log-probabilities of labels"
        return words_of_mixture(temperature=self.temperature)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        return logspace.label_log_probs(rows, self.token_ids, self.temperature)


@dataclass(frozen=True, slots=True)
class FullDistribution(Reduction):
    """log softmax(z / T) over the whole vocabulary, nats, at every row: (prompt, response + 1, vocab)."""

    temperature: float = 1.0

    @property
    @override
    def words(self) -> str:
        return words_of_mixture(temperature=self.temperature)

    @override
    def rows(self, n_response: int) -> range:
        return range(n_response + 1)

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        return logspace.log_softmax(rows, self.temperature)


def mix_with_first(logits: Any, context_weight: float) -> Any:
    """λ z + (1 − λ) z_bare, λ ≥ 0, for every prompt but the first, which is z_bare and stays as it is, of logits
    (prompt, ..., vocab). Context influence decoding, Eq. 6 before the softmax; λ = 1 + β is context-aware decoding with
    weight β. A token that the bare prompt rules out (−inf) stays ruled out for every prompt, and so does one its own
    prompt rules out."""
    xp = array_namespace(logits)
    bare, full = logits[:1, ...], logits[1:, ...]
    impossible = xp.isinf(bare) | xp.isinf(full)
    zero = xp.zeros_like(full)
    mixed = context_weight * xp.where(impossible, zero, full) + (1.0 - context_weight) * xp.where(
        impossible, zero, bare
    )
    return xp.concat([bare, xp.where(impossible, -xp.inf, mixed)], axis=0)


def draw(logits: Any, uniform: float, temperature: float) -> Any:
    """One token a row from softmax(z / T), T > 0, by inverting the float64 cumulative distribution at `uniform` in
    [0, 1). Logits (prompt, row, vocab) to (prompt, row, 2): token id and its log-probability in nats, float64."""
    xp = array_namespace(logits)
    log_probs = logspace.log_softmax(logits, temperature)
    token = invert(log_probs, uniform)
    chosen = xp.take_along_axis(log_probs, token, axis=-1)
    return xp.concat([xp.astype(token, xp.float64), chosen], axis=-1)


def invert(log_probs: Any, uniform: float) -> Any:
    """Ids (..., 1) of the tokens at which the cumulative distribution passes `uniform`, in [0, 1), of float64
    log-probabilities (..., vocab)."""
    xp = array_namespace(log_probs)
    cumulative = xp.cumulative_sum(xp.exp(log_probs), axis=-1)
    # Scaling by the last entry keeps rounding from leaving the top of [0, 1) without a token; strict "<=" skips
    # tokens of probability zero.
    return xp.sum(xp.astype(cumulative <= uniform * cumulative[..., -1:], xp.int64), axis=-1, keepdims=True)


@dataclass(frozen=True, slots=True)
class Top(NextToken):
    """The `k` likeliest next tokens, in order, of ties that of the lowest id first: (prompt, 1, k, 2).

    The last axis holds the token id and its log-probability in nats. Of a vocabulary of fewer tokens, all.
    """

    k: int
    """1 or more."""

    continues: ClassVar[bool] = True  # the next round extends the sequence by some of them
    needs: ClassVar[Needs] = "top"

    @property
    @override
    def words(self) -> str:
        return f"the {self.k} likeliest tokens of a row"

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        return top(rows, self.k)


def top(logits: Any, k: int) -> Any:
    """The `k` largest entries of each row, at most the vocabulary: (..., vocab) to (..., k, 2), token ids and log
    softmax(z), nats, float64, largest first, ties by id."""
    xp = array_namespace(logits)
    n_vocab = logits.shape[-1]
    flat = xp.reshape(logits, (-1, n_vocab))
    ids = _largest(flat, min(k, n_vocab))
    # Of the best alone the sum over the vocabulary is asked for: the others differ from it by their logits.
    best = logspace.target_log_probs(flat[None, :, :], ids[:, 0])[0, :, None]
    chosen = xp.astype(xp.take_along_axis(flat, ids, axis=-1), xp.float64)
    log_probs = best + (chosen - chosen[:, :1])
    return xp.reshape(xp.stack([xp.astype(ids, xp.float64), log_probs], axis=-1), (*logits.shape[:-1], -1, 2))


def _largest(rows: Any, k: int) -> Any:
    """Ids of the `k` largest entries of each row, largest first, ties by id: (row, vocab) to (row, k). They lie in the
    k blocks with the largest maxima: an entry of another block is below each of these maxima."""
    xp, where = array_namespace(rows), device(rows)
    n_rows, n_vocab = rows.shape
    missing = -n_vocab % _BLOCK
    if missing:
        rows = xp.concat([rows, xp.full((n_rows, missing), -xp.inf, dtype=rows.dtype, device=where)], axis=-1)
    blocks = xp.reshape(rows, (n_rows, -1, _BLOCK))
    chosen = _descending(xp.max(blocks, axis=-1))[:, :k]
    # In the order of their ids, so that a stable sort puts the lowest of equal entries first.
    chosen = xp.sort(chosen, axis=-1)
    ids = xp.reshape(chosen[:, :, None] * _BLOCK + xp.arange(_BLOCK, device=where), (n_rows, -1))
    order = _descending(xp.take_along_axis(rows, ids, axis=-1))[:, :k]
    return xp.take_along_axis(ids, order, axis=-1)


def _descending(values: Any) -> Any:
    return array_namespace(values).argsort(values, axis=-1, descending=True, stable=True)
