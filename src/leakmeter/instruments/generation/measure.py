"""Private token generation with an audit: the loss of each token for each exemplar, in nats, and its bound."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar, Final

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.limits import MOST_NEW_TOKENS, MOST_SAMPLES, bounded, refuse_bad
from leakmeter.core.measure import (
    Measure,
    Measurement,
)
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.prompt import CONTEXT, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.core.sampling import bits_of, uniforms_of
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.math import COLUMNS, GenerationStatistics, LeaveOneOutVote, shared_runs
from leakmeter.overriding import override
from leakmeter.privacy.accounting import check_delta
from leakmeter.privacy.calibrate import Target, calibrate
from leakmeter.privacy.clipped_logits import Aggregation, NormaliseBy
from leakmeter.privacy.mechanism import ClippedLogitAggregation, Mechanism, bound_of
from leakmeter.privacy.rdp import ORDERS, composed
from leakmeter.privacy.renyi import SPREAD
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.exact_draw import Bits

_PROMPTS_TOGETHER: Final = 64
"""Prompts whose samples advance side by side, about: as many as fill a pass. Each holds keys and values of its own,
and what does not fit in memory is run again at every token; a sample that begins where another ended finds its prompts'
still there."""
_CLIP, _TEMPERATURE = 10.0, 4.8


@dataclass(frozen=True, kw_only=True)
class PrivateGeneration(Measure):
    """Samples by clipped-logit aggregation over exemplars, and the loss of each token for each exemplar, in nats.

    Li et al., "Evaluating Privacy Leakage From In-Context Learning", Algorithm 1: each exemplar has its own prompt, and
    the next token is drawn from the clipped and tempered average of the prompts' logits. The average is also taken
    without each exemplar, and D_α↔ between the two is measured (Eq. 7, before its maximum). An exemplar takes part in
    every token of every sample, end tokens included: its losses add up. Another `mechanism` is called once without each
    exemplar.

    The guarantee is about the texts, and holds as long as nobody can repeat the draws: texts and seed can be tried
    against any guess of an exemplar. Random bits come from the operating system with a nonce, from the seed with a
    seed, and draw tokens with exactly the probabilities that the rule gives (`stats.exact_draw`). Without either (see
    `seeded`) a trial draws with the seed 0, which is no secret, and has no guarantee. All measurements depend on the
    exemplars, and are private. A case with a response is measured as if that had been drawn, as its one sample.
    """

    statistics: ClassVar = GenerationStatistics

    clip: float = _CLIP
    """c, above 0, nats: a clipped logit lies between −c and c."""
    temperature: float = _TEMPERATURE
    """τ of the average, above 0; with 50 exemplars and all else by default, 4.8 is that of ε = 10 (Table 4)."""
    normalise_by: NormaliseBy = "fixed"
    """What a sum without an exemplar is divided by: fixed, as many as before, as the theorem has it; present,
    those that are left, whose bound is twice as wide."""
    sequences: int = 50
    """Samples drawn from the same exemplars; what they tell adds up. The guarantee is for all of them."""
    max_new_tokens: int = 40
    """Maximum number of tokens of each text. The guarantee is for this many."""
    min_new_tokens: int = 0
    """Fewest tokens of each before one that stops it; until then stop tokens are ruled out."""
    delta: float = 1e-5
    """δ of the guaranteed (ε, δ)."""
    seed: int | None = None
    """Seed of the draws."""
    nonce: int | None = None
    """In the place of a seed: draws come from the operating system's source, and this number, at random by default,
    only names the run."""
    mechanism: Mechanism | None = None
    """Another rule, with its own settings and bound, in the place of clip, temperature and normalise_by."""
    sequences_a_part: int | None = None
    """How many of them one case draws; further cases of the same exemplars draw the others. All by default."""

    def __post_init__(self) -> None:
        own = Aggregation(self.clip, 2, self.temperature, self.normalise_by)
        least = max(1, self.min_new_tokens)
        refuse_bad(
            bounded("samples", self.sequences, 1, MOST_SAMPLES),
            (self.min_new_tokens >= 0, "min-new-tokens", self.min_new_tokens, "0 or more"),
            bounded("max-new-tokens", self.max_new_tokens, least, MOST_NEW_TOKENS),
            ((self.seed or 0) >= 0, "seed", self.seed or 0, "0 or more"),
            ((self.nonce or 0) >= 0, "nonce", self.nonce or 0, "0 or more"),
        )
        check_delta(self.delta)
        if self.nonce is not None and self.seed is not None:
            raise UsageError("a nonce replaces a seed; give one of them")
        if self.samples < 1 or self.sequences % self.samples:
            raise UsageError(f"sequences-a-part is {self.samples}; it has to divide {self.sequences} sequences")
        if self.mechanism is not None and own != Aggregation(_CLIP, 2, _TEMPERATURE):
            raise UsageError("a mechanism has its own settings; leave out clip, temperature and normalise-by")

    def seeded(self) -> PrivateGeneration:
        """The same with the seed that was given, or else with a nonce of 128 random bits."""
        is_ready = self.seed is not None or self.nonce is not None
        return self if is_ready else replace(self, nonce=secrets.randbits(128))

    def calibrated(self, epsilon: float, n_exemplars: int) -> PrivateGeneration:
        """The same at the lowest temperature that guarantees ε for all samples together."""
        own = Aggregation(self.clip, n_exemplars, self.temperature, self.normalise_by)
        target = Target(epsilon, self.delta, self.sequences * self.max_new_tokens)
        return replace(self, temperature=calibrate(own, "temperature", target).temperature)

    @property
    @override
    def samples(self) -> int:
        return self.sequences if self.sequences_a_part is None else self.sequences_a_part

    @property
    @override
    def parts(self) -> int:
        """Cases of the same exemplars that draw all samples."""
        return self.sequences // self.samples

    @override
    def check(self, item: ContextItem) -> None:
        """Refuse a case without exemplars, and a response that stops too early."""
        if not item.spans:
            raise UsageError(f"case '{item.id}' has no exemplars; give at least one")
        early = (item.response or ())[: self.min_new_tokens]
        if not item.stop_ids.isdisjoint(early):
            raise UsageError(
                f"case '{item.id}' has a response with a stop token among its first {len(early)}; lower min-new-tokens"
            )

    @override
    def needs(self, item: ContextItem) -> ItemNeeds:
        self.check(item)
        mechanism, prompts = self._mechanism(item), self._prompts(item)
        vote = LeaveOneOutVote(mechanism, (math.inf,), tuple(bound_of(mechanism, ORDERS).tolist()))
        bare = Request((item.blank,), item.response or (0,), TargetLogProbs())
        return ItemNeeds(requests=(Request(prompts, (), vote), bare))

    def _mechanism(self, item: ContextItem) -> Mechanism:
        own = Aggregation(self.clip, len(item.spans), self.temperature, self.normalise_by)
        return self.mechanism or ClippedLogitAggregation(own)

    def _prompts(self, item: ContextItem) -> tuple[Prompt, ...]:
        """Each exemplar alone, behind the prompt without any where the mechanism needs that."""
        public = (item.blank,) if self._mechanism(item).public_first else ()
        return (*public, *(item.alone[span.name] for span in item.spans))

    @override
    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        self.check(item)
        mechanism = self._mechanism(item)
        bound = partial(bound_of, mechanism)
        best = composed(bound, self.sequences * self.max_new_tokens, self.delta).order
        limits = bound(ORDERS)
        reduction = LeaveOneOutVote(mechanism, (*sorted({*SPREAD, best}), math.inf), tuple(limits.tolist()))
        prompts = self._prompts(item)
        if item.response is None:
            kept = yield from self._drawn(item, prompts, reduction)
        else:
            kept = [(yield from self._of_response(item, item.response, prompts, reduction))]
        responses = [tuple(int(token) for token in values[:, 0, 0]) for values in kept]
        bare = yield [Request((item.blank,), response, TargetLogProbs()) for response in responses]
        measurements = [
            GenerationStatistics.promised_order.of(item.id, ORDERS),
            GenerationStatistics.promised_rdp.of(item.id, limits),
            GenerationStatistics.promised_max_divergence.of(item.id, bound([math.inf])),
        ]
        for number, (values, scores) in enumerate(zip(kept, bare, strict=True)):
            measurements += _of_sample(item, number, values, scores.values[0], reduction.orders)
        return measurements

    def _drawn(
        self, item: ContextItem, prompts: tuple[Prompt, ...], reduction: LeaveOneOutVote
    ) -> Generator[list[Request], list[Scores], list[FloatArray]]:
        """Entries of each sample, (token, exemplar, entry)."""
        random = self._random(item)
        drawn: list[list[int]] = [[] for _ in range(self.samples)]
        kept: list[list[FloatArray]] = [[] for _ in range(self.samples)]
        waiting = iter(range(self.samples))
        live = list(islice(waiting, max(1, _PROMPTS_TOGETHER // len(prompts))))
        while live:
            answers = yield [
                Request(
                    prompts,
                    tuple(drawn[i]),
                    replace(reduction, random=random(i, len(drawn[i])), masked=self._masked(item, len(drawn[i]))),
                )
                for i in live
            ]
            for i, scores in zip(live, answers, strict=True):
                # Without the public row.
                kept[i].append(scores.values[-len(item.spans) :, 0])
                drawn[i].append(int(scores.values[0, 0, 0]))
            going = [i for i in live if drawn[i][-1] not in item.stop_ids and len(drawn[i]) < self.max_new_tokens]
            live = going + list(islice(waiting, len(live) - len(going)))
        return [np.stack(steps) for steps in kept]

    def _random(self, item: ContextItem) -> Callable[[int, int], float | Bits]:
        """Sample and step to the random numbers that draw a token."""
        if self.seed is not None or self.nonce is not None:
            return bits_of(self, item)
        uniforms = [uniforms_of(0, item.id, i, self.max_new_tokens) for i in range(self.samples)]
        return lambda i, step: float(uniforms[i][step])

    def _of_response(
        self, item: ContextItem, response: tuple[int, ...], prompts: tuple[Prompt, ...], reduction: LeaveOneOutVote
    ) -> Generator[list[Request], list[Scores], FloatArray]:
        answers = yield [
            Request(prompts, response[:step], replace(reduction, token=token, masked=self._masked(item, step)))
            for step, token in enumerate(response)
        ]
        return np.stack([scores.values[-len(item.spans) :, 0] for scores in answers])

    def _masked(self, item: ContextItem, step: int) -> tuple[int, ...]:
        return tuple(sorted(item.stop_ids)) if step < self.min_new_tokens else ()


def _of_sample(
    item: ContextItem, number: int, values: FloatArray, bare: FloatArray, orders: tuple[float, ...]
) -> Iterator[Measurement]:
    """Measurements of one sample, from (token, exemplar, entry)."""
    told = GenerationStatistics
    columns = (*COLUMNS, *(told.divergence(order) for order in orders))
    yield told.token.of(item.id, np.ascontiguousarray(values[:, 0, 0]), sample=number)
    yield told.log_prob.of(item.id, np.ascontiguousarray(values[:, 0, 1]), sample=number)
    yield told.bare_log_prob.of(item.id, bare, sample=number)
    runs = _verbatim(item, [int(token) for token in values[:, 0, 0]])
    for i, span in enumerate(item.spans):
        for column, statistic in enumerate(columns[2:], 2):
            yield statistic.of(item.id, np.ascontiguousarray(values[:, i, column]), span.name, number)
        yield told.verbatim.of(item.id, runs[i], span.name, number)


def _verbatim(item: ContextItem, response: list[int]) -> FloatArray:
    """Lengths of runs that the response has from each exemplar, (exemplar, token)."""
    texts = [
        [token for piece in item.alone[span.name].pieces if piece.role == CONTEXT for token in piece.ids]
        for span in item.spans
    ]
    *runs, blank_runs = shared_runs(response, [*texts, item.blank.ids.tolist()])
    return np.where(runs > blank_runs, runs, 0).astype(np.float64)
