"""Decoding with a ledger: what each token told of the context as it was drawn, in nats, and its bound."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from leakmeter.core.case import Case
from leakmeter.core.item import ContextItem
from leakmeter.core.limits import MOST_NEW_TOKENS, MOST_SAMPLES, bounded, refuse_bad
from leakmeter.core.measure import LOSS, NATS, Measure, Measurement, Statistic
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.record import JsonObject
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.core.sampling import bits_of, draw_with, uniforms_of
from leakmeter.errors import UsageError
from leakmeter.overriding import override
from leakmeter.privacy import accounting
from leakmeter.privacy.decoding import (
    RECEIPT,
    Decoding,
    NextTokenSampleWithLoss,
    ReceiptStatistics,
    TargetLogProbsWithLoss,
)
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.exact_draw import Bits, SystemBits


class DecodingStatistics(ReceiptStatistics):
    loss = LOSS
    spent_epsilon = Statistic("spent_epsilon", NATS, "2 · max_loss, with a bound ε alone", optional=True)
    promised_epsilon = Statistic("promised_epsilon", NATS, "ε of the token, with a bound alone", optional=True)


DELTA: Final = 1e-5
"""Of a guarantee, where none is given."""


@dataclass(frozen=True, kw_only=True)
class Decode(Measure):
    """A response drawn by context influence decoding, and the privacy loss of each of its tokens, nats.

    Without `epsilon`, p̄_{λ,T} = softmax((λ z(D) + (1 − λ) z(∅)) / T) with the given λ (Flemings et al., Eq. 6). With
    it, λ_t is the largest, up to `lambda_max`, at which max_v |log p̄(v | D) − log p(v | ∅)| ≤ ε / 2 over the whole
    vocabulary (their Algorithm 1). Each step is then within ε / 2 of a distribution that knows nothing of D, and any
    two contexts are within ε of each other, whatever token comes (Theorem B.1): a step is ε-DP for the context, and n
    steps are n ε-DP or better (`privacy.accounting`). Tokens are drawn with exactly the probabilities that were held
    against the bound (`stats.exact_draw`), so that no δ is left out. This bounds what the tokens tell, under two
    conditions. Nobody can repeat the draws: they come from the operating system's source, or from a seed that stays
    secret, since text and seed together can be tried against any guess of the context. And z(∅) depends on nothing of
    D; where its last digits depend on what is computed beside it, the bound holds up to that noise.

    Stop tokens are ruled out in both branches while the response is shorter than `min_new_tokens`. A case with a
    response is not drawn: its ledger is the one that drawing it would have given.
    """

    statistics: ClassVar = DecodingStatistics

    temperature: float = 1.0
    """Temperature of both branches, above 0."""
    cid_lambda: float = 1.0
    """λ of context influence decoding without epsilon: 0 ignores the context, 1 is ordinary sampling, more than 1
    amplifies the context."""
    epsilon: float | None = None
    """Privacy bound of each token between any two contexts, nats, above 0; half of it against no context."""
    lambda_max: float = 1.0
    """Largest λ_t with epsilon."""
    min_new_tokens: int = 0
    """Minimum number of tokens before a response may stop."""
    max_new_tokens: int = 50
    """Maximum number of tokens of a drawn response."""
    samples: int = 1
    """Number of responses to draw for a case without one."""
    seed: int | None = None
    """Seed of the draws: 0 by default; none with epsilon, so that nobody can repeat them (see `seeded`)."""
    nonce: int | None = None
    """Instead of a seed, with epsilon: the draws come from the operating system's random source, and this number
    (random by default) only names the run, so that the same command continues it."""

    def __post_init__(self) -> None:
        epsilon = self.epsilon
        refuse_bad(
            logspace.checked_temperature(self.temperature),
            logspace.checked_weight(self.cid_lambda),
            (epsilon is None or (math.isfinite(epsilon) and epsilon > 0), "epsilon", epsilon, "above 0"),
            (math.isfinite(self.lambda_max) and self.lambda_max >= 0, "lambda-max", self.lambda_max, "0 or more"),
            (self.min_new_tokens >= 0, "min-new-tokens", self.min_new_tokens, "0 or more"),
            bounded("max-new-tokens", self.max_new_tokens, max(1, self.min_new_tokens), MOST_NEW_TOKENS),
            bounded("samples", self.samples, 1, MOST_SAMPLES),
            (self.seed is None or self.seed >= 0, "seed", self.seed, "0 or more"),
            (self.nonce is None or self.nonce >= 0, "nonce", self.nonce, "0 or more"),
        )
        if epsilon is None and self.lambda_max != 1.0:
            raise UsageError("lambda-max needs a bound; give epsilon too, or cid-lambda instead")
        if epsilon is not None and self.cid_lambda != 1.0:
            raise UsageError("epsilon chooses each token's λ; give lambda-max instead of cid-lambda")
        if self.nonce is not None and (epsilon is None or self.seed is not None):
            raise UsageError(
                "a nonce replaces the seed of a bounded response; leave it out, or give epsilon without seed"
            )

    def seeded(self) -> Decode:
        """The same with a seed: the given one or 0, or with epsilon a nonce of 128 random bits."""
        if self.seed is not None or self.nonce is not None:
            return self
        return replace(self, seed=0) if self.epsilon is None else replace(self, nonce=secrets.randbits(128))

    @property
    def decoding(self) -> Decoding:
        if self.epsilon is None:
            return Decoding(self.temperature, self.cid_lambda)
        return Decoding(self.temperature, self.lambda_max, self.epsilon / 2.0)

    @property
    @override
    def together(self) -> int:
        """A round of drawing reads all weights for one token of each response, so that eight take little more time.

        Under ε each is drawn apart: nothing of another context is to stand in the passes of its blank prompt.
        """
        return 8 if self.epsilon is None else 1

    @override
    def record(self) -> JsonObject:
        parameters = super().record()
        if self.epsilon is None and self.nonce is None:
            del parameters["nonce"]  # as in runs that were made before there were any
        return parameters

    @override
    def check(self, item: ContextItem) -> None:
        """Refuse to draw a bounded response without random numbers, and a response that decoding would rule out."""
        if item.response is None:
            if self.epsilon is not None and self.seed is None and self.nonce is None:
                raise UsageError("a bounded response needs random numbers; take `seeded()` of the measure")
            return
        early = min(self.min_new_tokens, len(item.response))
        if not item.stop_ids.isdisjoint(item.response[:early]):
            raise UsageError(
                f"case '{item.id}' has a response with a stop token among its first {early}; lower min-new-tokens"
            )

    @override
    def needs(self, item: ContextItem) -> ItemNeeds:
        prompts = (item.blank, item.prompt)
        if item.response is None:
            random: float | Bits = 0.5 if self.epsilon is None else SystemBits()
            return ItemNeeds(requests=(Request(prompts, (), NextTokenSampleWithLoss(self.decoding, random)),))
        reductions = self._reductions(item, item.response)
        return ItemNeeds(requests=tuple(Request(prompts, item.response, reduction) for reduction in reductions))

    @override
    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        self.check(item)
        if item.response is not None:
            ledgers = [(yield from self._score(item, item.response))]
        else:
            stops, random = tuple(sorted(item.stop_ids)), self._random(item)
            ledgers = yield from draw_with(
                item,
                (item.blank, item.prompt),
                lambda i, step: NextTokenSampleWithLoss(
                    self.decoding, random(i, step), stops if step < self.min_new_tokens else ()
                ),
                n=self.samples,
                max_new_tokens=self.max_new_tokens,
            )
        return [measurement for i, ledger in enumerate(ledgers) for measurement in self.readings(item.id, i, ledger)]

    def _random(self, item: ContextItem) -> Callable[[int, int], float | Bits]:
        """A function of response and step to the random numbers of a token."""
        if self.epsilon is not None:
            return bits_of(self, item)
        uniforms = [uniforms_of(self.seed or 0, item.id, i, self.max_new_tokens) for i in range(self.samples)]
        return lambda i, step: float(uniforms[i][step])

    def _score(
        self, item: ContextItem, response: tuple[int, ...]
    ) -> Generator[list[Request], list[Scores], FloatArray]:
        reductions = self._reductions(item, response)
        answers = yield [Request((item.blank, item.prompt), response, reduction) for reduction in reductions]
        return np.concatenate([scores.values[-1] for scores in answers])

    def _reductions(self, item: ContextItem, response: tuple[int, ...]) -> list[TargetLogProbsWithLoss]:
        """Of the tokens before which no response may stop, and of the others; those that have any."""
        n = len(response)
        early = min(self.min_new_tokens, n)
        masked = TargetLogProbsWithLoss(self.decoding, 0, early, tuple(sorted(item.stop_ids)))
        free = TargetLogProbsWithLoss(self.decoding, early, n)
        return [reduction for reduction in (masked, free) if reduction.rows(n)] or [free]

    def readings(self, item_id: str, number: int, ledger: FloatArray) -> Iterator[Measurement]:
        """The measurements of a response, or of as much of it as is drawn.

        The ledger is (token, receipt), see `privacy.decoding.RECEIPT`.
        """
        columns: dict[Statistic, FloatArray] = dict(zip(RECEIPT, np.ascontiguousarray(ledger.T), strict=True))
        told = DecodingStatistics
        columns[told.loss] = np.abs(columns[told.log_prob] - columns[told.bare_log_prob])
        if self.epsilon is not None:
            columns[told.spent_epsilon] = 2.0 * columns[told.max_loss]
            columns[told.promised_epsilon] = np.full(len(ledger), float(self.epsilon))
        for statistic, values in columns.items():
            yield statistic.of(item_id, values, sample=number)


def check_guarantee(measure: Decode, cases: Sequence[Case], delta: float) -> None:
    """Refuse a bound that cannot be kept or accounted for; without one, nothing."""
    accounting.check_delta(delta)
    if measure.epsilon is None:
        return
    accounting.basic([(measure.epsilon, 1)])
    for case in cases:
        if case.response is not None:
            raise UsageError(
                f"case '{case.id}' has a response, and epsilon bounds only responses that it draws; leave the "
                "response out"
            )


def check_precision(measure: Decode, dtype: str | None) -> None:
    """Refuse a precision whose noise would void a bound."""
    if measure.epsilon is not None and dtype in ("bfloat16", "float16"):
        raise UsageError(
            f"dtype is '{dtype}'; epsilon is certified from logits, whose noise in that precision depends on the "
            "context and would void it; give float32"
        )


def precision_for(measure: Decode, model: Any, dtype: str | None) -> str | None:
    """The precision to load a model in: float32 under a bound if none is given, on CUDA too."""
    check_precision(measure, dtype)
    named = not isinstance(model, tuple) and model != "toy"
    return "float32" if measure.epsilon is not None and dtype is None and named else dtype
