"""Monte Carlo susceptibility: how far contexts move the answers to a query, in nats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from leakmeter.core.item import Item
from leakmeter.core.limits import MOST_NEW_TOKENS, bounded, refuse_bad
from leakmeter.core.measure import Measure, Measurement, Statistic
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.noise import going_on, of_contrast
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility import math as kernel
from leakmeter.instruments.susceptibility.math import ContextMixture, Likeliest, SusceptibilityStatistics
from leakmeter.overriding import override
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class ContextSet:
    """The contexts that a query is asked behind, one at a time, and the answers that are told apart."""

    prompts: tuple[Prompt, ...]
    """The query behind each context."""
    weights: tuple[float, ...]
    """Of each context, adding up to 1."""
    answers: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """Token ids of each form of each answer as it follows the query; empty for the whole vocabulary."""


@dataclass(frozen=True, slots=True)
class QueryItem(Item):
    """A query that is asked behind many contexts, one at a time; `prompt` is the query alone."""

    contexts: ContextSet = field(kw_only=True)

    @property
    @override
    def typical_prompts(self) -> tuple[Prompt, ...]:
        return (*dict.fromkeys((self.contexts.prompts[0], self.contexts.prompts[-1])), self.prompt)


@dataclass(frozen=True, slots=True)
class _Mixture:
    """The bare query, then the query behind each context that differs; only the latter are mixed."""

    prompts: tuple[Prompt, ...]
    weights: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Susceptibility(Measure):
    """χ(q) = I(C; A | q) = Σ w KL(p(A | c, q) ‖ p̂(A | q)), p̂ = Σ w p(A | c, q), over contexts c of weights w, nats.

    Du et al. 2024; Liu et al., "Efficiently Computing Susceptibility to Context in Language Models", Eq. 2. A is the
    next token, or one of the item's answers and, apart from them, all else: an answer is as likely as the product over
    its tokens, summed over the forms it is written in. The mixture is what makes χ a mutual information; the expected
    divergence from the bare query, which is larger, has a name of its own. Contexts with the same text are scored once,
    with their weights added.

    For the noise, the last token of the bare query and of four contexts is run a second time, and what these four do to
    the query is calculated from either: it is twice the most that a persuasion of theirs differs. The largest error of
    a persuasion against full passes was 0.01 to 0.4 times that in float32, 0.3 to 1.3 times, at 0.001 to 0.06 nats, in
    bfloat16; that of the susceptibility 0.2 times at most, since the errors of contexts cancel (SmolLM2-135M on a CPU,
    five queries behind 16 contexts). Of a served model, whose noise the run measured, it is at least what such noise
    makes to a persuasion.
    """

    statistics: ClassVar = SusceptibilityStatistics

    temperature: float = 1.0
    """Temperature of every token's distribution, above 0."""
    answer_tokens: int = 0
    """Maximum number of tokens of the likeliest answer, which is generated with and without each context for the
    memorisation ratio; 0 to skip it."""

    def __post_init__(self) -> None:
        refuse_bad(
            logspace.checked_temperature(self.temperature),
            bounded("answer-tokens", self.answer_tokens, 0, MOST_NEW_TOKENS),
        )

    @property
    @override
    def max_new_tokens(self) -> int:
        return self.answer_tokens

    @override
    def check(self, item: QueryItem) -> None:
        if len(item.contexts.prompts) < 2:
            raise UsageError(f"case '{item.id}' has fewer than two contexts; give at least two")

    @override
    def needs(self, item: QueryItem) -> ItemNeeds:
        few = _few(item, _distinct(item, item.contexts)[0])
        answers = [Request((item.prompt,), (), Likeliest())] if self.answer_tokens else []
        return ItemNeeds(requests=(*self._requests(item.contexts, few), *answers))

    @override
    def trial(self, item: QueryItem) -> Trial[list[Measurement]]:
        self.check(item)
        contexts = item.contexts
        every, places = _distinct(item, contexts)
        few = _few(item, every)
        requests, again = self._requests(contexts, every), self._requests(contexts, few)
        is_known = item.model_noise_nats is not None
        kept = [] if is_known else [going_on(prompt) for prompt in few.prompts if len(prompt.ids) > 1]
        scores = yield [*requests, *again, *kept]
        statistics = self._statistics(scores[: len(requests)], contexts, every)
        once = self._statistics(scores[len(requests) : len(requests) + len(again)], contexts, few)
        # The last token of a few prompts is run once more, from states that were kept: alone, where it had company.
        twice = self._statistics((yield again), contexts, few)
        noise = max(_differ(once, twice), self._known_noise(item, statistics))
        measurements = list(_measurements(item, contexts, statistics, places, noise))
        if self.answer_tokens:
            answers = yield from self._answers(item, every.prompts)
            for sample, place in enumerate((0, *places)):
                measurements.append(SusceptibilityStatistics.token.of(item.id, answers[place], sample=sample))
        return measurements

    def _known_noise(self, item: QueryItem, statistics: FloatArray) -> float:
        """Twice what the model's known noise makes to a persuasion; 0 where it is not known."""
        if item.model_noise_nats is None:
            return 0.0
        n_tokens = max((len(form) for answer in item.contexts.answers for form in answer), default=1)
        twice = of_contrast(item.model_noise_nats, TargetLogProbs(self.temperature)) * n_tokens
        persuasion = statistics[1:, :2]
        return noise_of_persuasion(twice, float(persuasion.max(initial=0.0, where=np.isfinite(persuasion))))

    def _requests(self, contexts: ContextSet, mixture: _Mixture) -> list[Request]:
        if not contexts.answers:
            return [Request(mixture.prompts, (), ContextMixture(mixture.weights, mixture.counts, self.temperature))]
        forms = [form for answer in contexts.answers for form in answer]
        return [Request(mixture.prompts, form, TargetLogProbs(self.temperature)) for form in forms]

    def _statistics(self, scores: Sequence[Scores], contexts: ContextSet, mixture: _Mixture) -> FloatArray:
        """(prompt, 3): `OF_QUERY`, then `OF_CONTEXT` of each prompt but the first."""
        if not contexts.answers:
            return scores[0].values[:, 0]
        forms = iter(scores)
        log_probs = [
            np.logaddexp.reduce([next(forms).values.sum(axis=1) for _ in answer], axis=0) for answer in contexts.answers
        ]
        return kernel.statistics(kernel.with_rest(np.stack(log_probs, axis=-1)), mixture.weights, mixture.counts)

    def _answers(
        self, item: QueryItem, prompts: tuple[Prompt, ...]
    ) -> Generator[list[Request], list[Scores], list[FloatArray]]:
        """Token ids of the greedy answer to each prompt."""
        written: list[list[int]] = [[] for _ in prompts]
        live = list(range(len(prompts)))
        for _ in range(self.answer_tokens):
            answers = yield [Request((prompts[i],), tuple(written[i]), Likeliest()) for i in live]
            for i, scores in zip(live, answers, strict=True):
                written[i].append(int(scores.values[0, 0, 0]))
            live = [i for i in live if written[i][-1] not in item.stop_ids]
        return [np.asarray(ids, dtype=np.float64) for ids in written]


def noise_of_persuasion(twice_nats: float, largest_nats: float) -> float:
    """Twice what makes to the largest persuasion, to second order, that log-probabilities are off by half of
    `twice_nats`, nats.

    Where they are off by δ, ψ = Σ p log(p / p̂) is off by δ Σ p |log(p / p̂)| through its weights, at most δ (ψ + √(2ψ)),
    by δ Σ |p − p̂| ≤ δ √(2ψ) through p̂ (Pinsker), and, however near p is to p̂, by 2 δ².
    """
    if not np.isfinite(largest_nats):
        return 0.0
    return twice_nats * (largest_nats + 2.0 * float(np.sqrt(2.0 * max(largest_nats, 0.0))) + twice_nats)


def _distinct(item: QueryItem, contexts: ContextSet) -> tuple[_Mixture, tuple[int, ...]]:
    """Contexts that differ in prompt or weight, and for each context the place of its prompt among theirs."""
    keys = list(zip(contexts.prompts, contexts.weights, strict=True))
    counts = Counter(keys)
    place = {key: i for i, key in enumerate(counts, 1)}
    mixture = _Mixture(
        prompts=(item.prompt, *(prompt for prompt, _ in counts)),
        weights=tuple(n * weight for (_, weight), n in counts.items()),
        counts=tuple(counts.values()),
    )
    return mixture, tuple(place[key] for key in keys)


def _few(item: QueryItem, every: _Mixture) -> _Mixture:
    """The bare query, and up to four contexts far apart in their order, of equal weight."""
    n = len(every.prompts) - 1
    chosen = sorted({1 + round(i * (n - 1) / 3) for i in range(4)})
    return _Mixture(
        prompts=(item.prompt, *(every.prompts[i] for i in chosen)),
        weights=(1.0 / len(chosen),) * len(chosen),
        counts=(1,) * len(chosen),
    )


def _measurements(
    item: QueryItem, contexts: ContextSet, statistics: FloatArray, places: Sequence[int], noise: float
) -> Iterator[Measurement]:
    of_context, weights = statistics[list(places)], np.asarray(contexts.weights)
    shared: dict[Prompt, float] = {}
    for prompt, weight in zip(contexts.prompts, contexts.weights, strict=True):
        shared[prompt] = shared.get(prompt, 0.0) + weight
    for statistic, values in zip(kernel.OF_CONTEXT, of_context.T, strict=True):
        yield statistic.of(item.id, np.ascontiguousarray(values))
    told = SusceptibilityStatistics
    of_query: dict[Statistic, float] = {
        told.susceptibility: float(weights @ of_context[:, 0]),
        told.from_bare: float(weights @ of_context[:, 1]),
        **dict(zip(kernel.OF_QUERY, statistics[0], strict=True)),
        told.ceiling: kernel.entropy(np.asarray(list(shared.values()))),
        told.noise: noise,
    }
    for statistic, value in of_query.items():
        yield statistic.of(item.id, value)


def _differ(once: FloatArray, twice: FloatArray) -> float:
    """Twice the most that a persuasion differs; where both are infinite it does not."""
    ones, others = once[1:, :2], twice[1:, :2]
    both = np.isinf(ones) & np.isinf(others)
    return 2.0 * float(np.abs(np.where(both, 0.0, ones) - np.where(both, 0.0, others)).max())
