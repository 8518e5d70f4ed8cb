"""Context influence: the influence of each piece of a context on a response, in nats."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final

import numpy as np

from leakmeter.core.item import ContextItem, StepByStep, measured_together
from leakmeter.core.limits import MOST_NEW_TOKENS, MOST_SAMPLES, bounded, refuse_bad
from leakmeter.core.measure import Measure, Measurement
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.noise import neighbourhood_noise, token_by_token
from leakmeter.core.prompt import Prompt
from leakmeter.core.record import JsonObject
from leakmeter.core.reductions import MixtureLogProbs, TargetLogProbs
from leakmeter.core.request import Request, Trial
from leakmeter.core.sampling import needs_of_sample, sample
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.ladder import Ladder, sentences_by_document
from leakmeter.instruments.influence.math import MOST_ROUNDS, InfluenceStatistics, PieceScores, check_possible
from leakmeter.instruments.influence.search import Audit, Search, Searcher, SearchScores, hiding_of
from leakmeter.instruments.influence.steps import AVERAGED, FEWEST, Stepwise, steps_of
from leakmeter.overriding import override
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray

MOST_CONTROLS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Influence(Measure):
    """|log p̄(y_t | D, x, y_<t) − log p̄(y_t | D∖D_i, x, y_<t)| for every piece D_i and response token, nats.

    Flemings et al., Definitions 3.1 and 3.2, under p̄_{λ,T} of Eq. 6. What is kept are signed differences, without the
    absolute value: `InfluenceStatistics` has them, with the placebos and controls that they are held against.

    Of a context that is cut by unit 'auto', documents are scored first, then sentences of those that matter; sentences
    of the others have no numbers, and not all sentences are scored alone (see `ladder`).

    With `search` only some pieces have these numbers.
    """

    statistics: ClassVar = InfluenceStatistics
    unsaid: ClassVar = {"controls": 0, "complete": False, "sample_for_averages": AVERAGED}

    temperature: float = 1.0
    """Temperature of the distribution that is measured and sampled from, above 0."""
    cid_lambda: float = 1.0
    """λ of context influence decoding: 0 ignores the context, 1 is ordinary sampling, more than 1 amplifies the
    context."""
    samples: int = 0
    """Number of responses to draw for a case without one; 0 draws one for a single case, and none for rows of data, of
    which one without a response is refused."""
    max_new_tokens: int = 50
    """Maximum number of tokens of a drawn response."""
    seed: int = 0
    """Seed of the draws and of the choice of audited pieces."""
    search: str | None = None
    """Search instead of scoring every piece, many times faster for long contexts: top:K screens all pieces and scores
    the K that matter most exactly; top:K:M scores M at most."""
    audit: str | None = None
    """With a search: CONFIDENCE:B, such as 0.95:3 or 0.95:5%, also scores pieces drawn at random, as many as are needed
    to state with that confidence that at most B of the pieces not listed exceed the K-th."""
    audit_rounds: int = 1
    """Maximum number of audit rounds; another round follows if one finds a piece that the screen missed."""
    controls: int = 3
    """Contexts of other cases of the same data that each response is also scored beside, at most: what those raise too
    is style, and no disclosure. Where no other case has one, built-in texts stand in; 0 for none."""

    complete: bool = False
    """Measure everything of each case, also of a log of more than 40 cases, whose cases are otherwise measured step by
    step: pieces, controls and irrelevant texts only where a disclosure is possible, and of cases drawn at random."""

    sample_for_averages: int = AVERAGED
    """Cases of a log measured step by step that are drawn at random and compared with an irrelevant text, whatever was
    found: the share of answers above that text, with its interval, is of these."""

    def __post_init__(self) -> None:
        refuse_bad(
            logspace.checked_temperature(self.temperature),
            logspace.checked_weight(self.cid_lambda),
            bounded("samples", self.samples, 0, MOST_SAMPLES),
            bounded("max-new-tokens", self.max_new_tokens, 1, MOST_NEW_TOKENS),
            (self.seed >= 0, "seed", self.seed, "0 or more"),
            bounded("audit-rounds", self.audit_rounds, 1, MOST_ROUNDS),
            bounded("controls", self.controls, 0, MOST_CONTROLS),
            bounded("sample-for-averages", self.sample_for_averages, FEWEST, MOST_SAMPLES),
        )
        if not self._is_stepwise and self.sample_for_averages != AVERAGED:
            raise UsageError(
                "sample-for-averages is for logs that are measured step by step; leave it out, or complete, search and "
                "controls 0, with which every case is measured in full"
            )
        if self.search is None and (self.audit is not None or self.audit_rounds != 1):
            raise UsageError("an audit checks what a search missed; give --search top:K with --audit")
        if self.audit is None and self.audit_rounds != 1:
            raise UsageError(f"audit-rounds is {self.audit_rounds} and there is no audit; give --audit CONFIDENCE:B")
        _ = self.searching, self.auditing

    @property
    def n_samples(self) -> int:
        return max(self.samples, 1)

    @property
    def searching(self) -> Search | None:
        return None if self.search is None else Search.parse(self.search)

    @property
    def auditing(self) -> Audit | None:
        return None if self.audit is None else Audit.parse(self.audit)

    @property
    @override
    def documents_first(self) -> bool:
        """Whether it measures documents before their sentences, where a case is cut into both."""
        return self.search is None

    @property
    @override
    def noise_seed(self) -> int:
        return self.seed

    @property
    @override
    def levels(self) -> bool:
        return self.search is not None

    @property
    def _is_stepwise(self) -> bool:
        """Whether cases of a large log are measured step by step."""
        return not self.complete and self.search is None and self.controls > 0

    def steps(self, n_cases: int) -> Sequence[StepByStep | None]:
        """How each of the cases of one log is measured."""
        return steps_of(n_cases, self.seed, self.sample_for_averages) if self._is_stepwise else ()

    @override
    def record(self) -> JsonObject:
        params = {**asdict(self), "samples": self.n_samples}
        if self.search is None:
            for name in ("search", "audit", "audit_rounds"):
                del params[name]
        return {name: value for name, value in params.items() if (name, value) not in self.unsaid.items()}

    @property
    def reduction(self) -> TargetLogProbs | MixtureLogProbs:
        if self.cid_lambda == 1.0:
            return TargetLogProbs(self.temperature)
        return MixtureLogProbs(self.cid_lambda, self.temperature)

    @override
    def needs(self, item: ContextItem) -> ItemNeeds:
        drawn = ItemNeeds()
        if item.response is None:
            drawn = needs_of_sample(item, temperature=self.temperature, context_weight=self.cid_lambda)
        response = item.response or (0,) * self.max_new_tokens
        (scored,) = self._requests(item, [response], [(item.blank, *item.typical_prompts)])
        hides = None if self.search is None else hiding_of(item, scored)
        return replace(drawn, requests=(*drawn.requests, scored), hides=hides)

    @override
    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        if item.response is not None:
            responses = [item.response]
        else:
            responses = yield from sample(
                item,
                n=self.n_samples,
                temperature=self.temperature,
                context_weight=self.cid_lambda,
                max_new_tokens=self.max_new_tokens,
                seed=self.seed,
            )
        if item.steps is not None:
            return (yield from self._by_steps(item, responses[0], item.steps))
        if self.searching is not None:
            searcher = Searcher(
                self.searching, self.auditing, self.audit_rounds, self.reduction, responses[0], self.seed
            )
            found = yield from searcher.trial(item)
            return (yield from self._of_search(item, responses, found))
        scored, noise = yield from self._of_pieces(item, responses)
        return list(_measurements(item, responses, scored, noise))

    def _by_steps(self, item: ContextItem, response: tuple[int, ...], steps: StepByStep) -> Trial[list[Measurement]]:
        stepwise = Stepwise(item, response, self.reduction)
        scored = [stepwise.scored]
        if (yield from stepwise.trial(steps)):
            scored, _ = yield from self._of_pieces(item, [response], stepwise)
        return list(_measurements(item, [response], scored, stepwise.noise))

    def _documents(self, item: ContextItem) -> dict[str, tuple[str, ...]]:
        """Documents to score before their sentences, with these."""
        if self.search is not None:
            return {}
        return sentences_by_document(item, 1 if item.response is not None else self.n_samples, self._n_bare)

    @property
    def _n_bare(self) -> int:
        """Prompts that a further request has to score again: the bare one, with which every other is mixed."""
        return int(self.reduction.rows_together)

    def _scored(
        self,
        item: ContextItem,
        responses: Sequence[tuple[int, ...]],
        names: Collection[str],
        known: PieceScores | None = None,
    ) -> Trial[list[PieceScores]]:
        """Score responses without each piece, and the first with each alone, swapped, with placebos and beside contexts
        of other cases; what is `known` of the first is not scored again."""
        first = known or PieceScores()
        cut = [name for name in names if name not in first.cuts]
        swapped = [name for name in names if name in item.swaps]
        irrelevant = [] if item.placebo_alone is None or first.placebo_alone is not None else [item.placebo_alone]
        others = [name for name in item.controls if name not in first.controls]
        whole = (item.prompt, *(item.cuts[name] for name in names))
        # The bare prompt stands first: it is what every other mixes with.
        prompts = [(item.blank, *whole)] * len(responses)
        prompts[0] = (
            item.blank,
            *(() if known else (item.prompt,)),
            *(item.cuts[name] for name in cut),
            *(item.alone[name] for name in names),
            *(item.swaps[name] for name in swapped),
            *irrelevant,
            *(item.controls[name] for name in others),
            *(() if first.placebos else item.placebos),
        )
        answers = yield self._requests(item, responses, prompts)
        rows = iter(answers[0].values)
        first.bare = next(rows)
        first.whole = first.whole if known else next(rows)
        first.cuts |= {name: next(rows) for name in cut}
        first.alone = {name: next(rows) for name in names}
        first.swaps = {name: next(rows) for name in swapped}
        first.placebo_alone = next(rows) if irrelevant else first.placebo_alone
        first.controls |= {name: next(rows) for name in others}
        first.placebos += rows
        scored = [first]
        for answer in answers[1:]:
            bare, whole_row, *of_cuts = answer.values
            scored.append(PieceScores(bare, whole_row, dict(zip(names, of_cuts, strict=True))))
        for response_scored in scored:
            check_possible(item, response_scored.values)
        return scored

    def _requests(
        self, item: ContextItem, responses: Sequence[tuple[int, ...]], prompts: Sequence[tuple[Prompt, ...]]
    ) -> list[Request]:
        return [Request(p, y, self.reduction) for p, y in zip(prompts, responses, strict=True)]

    def _of_search(
        self, item: ContextItem, responses: Sequence[tuple[int, ...]], found: SearchScores
    ) -> Trial[list[Measurement]]:
        told = InfluenceStatistics
        # The search has left the states of the whole context.
        begun = yield from token_by_token(item, responses[0], self.reduction)
        names = [span.name for span in item.spans if span.name in found.cuts]
        scored = yield from self._scored(item, responses, names, found)
        noise = yield from neighbourhood_noise(item, responses[0], self.reduction, found.values[:2], begun)
        measurements = [*_measurements(item, responses, scored, noise)]
        for statistic, rows in ((told.screened, found.hidden), (told.grouped, found.groups)):
            measurements += (statistic.of(item.id, found.whole - row, name) for name, row in rows.items())
        measurements += (told.audited.of(item.id, number, name) for name, number in found.audited.items())
        return measurements

    def _of_pieces(
        self, item: ContextItem, responses: Sequence[tuple[int, ...]], known: Stepwise | None = None
    ) -> Trial[tuple[list[PieceScores], FloatArray | None]]:
        """Measure pieces on responses: documents, then sentences of those that matter, or each; and the noise, unless
        it is known."""
        sentences = self._documents(item)
        within = {part for parts in sentences.values() for part in parts}
        names = [name for name in _without_documents(item, sentences) if name not in within]
        scored = yield from self._scored(item, responses, names, None if known is None else known.scored)
        if known is None:
            noise = yield from neighbourhood_noise(item, responses[0], self.reduction, scored[0].values[:2])
        else:
            noise = known.noise
        ladder = self._ladder(item, sentences, scored, noise)
        documents = ladder.documents()
        left_out = [part for name in documents for part in sentences[name]]
        bare = (item.blank,) * self._n_bare
        if left_out:
            further = (*bare, *(item.cuts[name] for name in left_out))
            answers = yield self._requests(item, responses, [further] * len(responses))
            for response_scored, answer in zip(scored, answers, strict=True):
                response_scored.cuts |= zip(left_out, answer.values[self._n_bare :], strict=True)
            alone = ladder.alone(documents)
            if alone:
                further = (*bare, *(item.alone[name] for name in alone))
                (answer,) = yield self._requests(item, responses[:1], [further])
                scored[0].alone |= zip(alone, answer.values[self._n_bare :], strict=True)
        yield from self._of_fields(item, responses, scored, ladder)
        return scored, noise

    def _ladder(
        self,
        item: ContextItem,
        sentences: Mapping[str, Sequence[str]],
        scored: Sequence[PieceScores],
        noise: FloatArray | None,
    ) -> Ladder:
        of_tokens = np.zeros(len(scored[0].whole)) if noise is None else noise
        return Ladder(item, sentences, scored, of_tokens, self._n_bare)

    def _of_fields(
        self, item: ContextItem, responses: Sequence[tuple[int, ...]], scored: Sequence[PieceScores], ladder: Ladder
    ) -> Trial[None]:
        """Measure values of records one by one where those that were measured together matter."""
        together = measured_together(item.spans)
        names = [part for name in ladder.matter(together) for part in together[name]]
        if not names:
            return
        bare = (item.blank,) * self._n_bare
        without = tuple(item.cuts[name] for name in names)
        prompts = [(*bare, *without)] * len(responses)
        prompts[0] = (*bare, *without, *(item.alone[name] for name in names))
        answers = yield self._requests(item, responses, prompts)
        for i, (response_scored, answer) in enumerate(zip(scored, answers, strict=True)):
            rows = iter(answer.values[self._n_bare :])
            response_scored.cuts |= {name: next(rows) for name in names}
            if i == 0:
                response_scored.alone |= {name: next(rows) for name in names}


def _measurements(
    item: ContextItem, responses: Sequence[tuple[int, ...]], scored: Sequence[PieceScores], noise: FloatArray | None
) -> Iterator[Measurement]:
    for i, (response, response_scored) in enumerate(zip(responses, scored, strict=True)):
        check_possible(item, response_scored.values)
        names = [span.name for span in item.spans if span.name in response_scored.cuts]
        yield from response_scored.measurements(item, response, i, names)
    if noise is not None:
        yield InfluenceStatistics.noise.of(item.id, noise)


def _without_documents(item: ContextItem, kept: Collection[str] = ()) -> list[str]:
    """Names of the pieces, without the documents that have sentences of their own unless they are `kept`, and without
    values that are measured together first."""
    within = {part for parts in measured_together(item.spans).values() for part in parts}
    return [
        span.name for span in item.spans if span.name not in within and (span.kind != "document" or span.name in kept)
    ]
