"""Context influence: the influence of each piece of a context on a response, in nats."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.json_object import JsonObject
from leakmeter.core.limits import MOST_NEW_TOKENS, MOST_SAMPLES, bounded
from leakmeter.core.measure import Measure
from leakmeter.core.measurement import COUNT, HALF_WIDTH, NATS, TOKEN_ID, Measurement
from leakmeter.core.noise import interval_noise_of, neighbourhood_noise, token_by_token
from leakmeter.core.reductions import MixtureLogProbs, TargetLogProbs
from leakmeter.core.request import FloatArray, Request, Scores, Trial
from leakmeter.core.sampling import sample
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.ladder import Ladder, Scored, sentences_by_document
from leakmeter.instruments.influence.search import Audit, Found, Search, Searcher, check_possible
from leakmeter.overriding import override
from leakmeter.stats import logspace

MOST_ROUNDS: Final = 8
AUDITED: Final = "audited"
SCREENED: Final = "screened"
GROUPED: Final = "grouped"


@dataclass(frozen=True, kw_only=True)
class Influence(Measure):
    """|log p̄(y_t | D, x, y_<t) − log p̄(y_t | D∖D_i, x, y_<t)| for every piece D_i and response token, nats.

    Flemings et al., Definitions 3.1 and 3.2, under p̄_{λ,T} of Eq. 6. The signed difference is what is kept, as
    statistic `without_this`; beside it `only_this`, log p̄(y_t | D_i) − log p̄(y_t | ∅), which sees a value that is
    said elsewhere too; `swapped`, log p̄(y_t | D) − log p̄(y_t | D with a surrogate for D_i), for personal data that
    is swapped too; `whole`, for all of D; `placebo`, for an irrelevant piece added, and `placebo_alone`, for one
    as the only context, log p̄(y_t | irrelevant) − log p̄(y_t | ∅): what `without_this` and `whole` are held against;
    `noise`, the difference that other neighbours in the computation make. Where a server's likeliest tokens leave an
    interval for each log-probability, differences are those of the middles; `half_width`, of each piece and of the
    response, is the most that one may be off, and `noise` holds it too.

    Of a context that is cut by unit 'auto', documents are scored first, then sentences of those that matter; sentences
    of the others have no numbers, and not all sentences are scored alone (see `ladder`).

    With `search` only some pieces have these numbers. `screened` is log p̄(y_t | D) − log p̄(y_t | D with D_i hidden)
    of every piece that was screened, `grouped` the same without a group of pieces, of each of the group, and `audited`
    the round of the audit in which a piece was drawn.
    """

    temperature: float = 1.0
    """Temperature of the distribution that is measured and sampled from, above 0."""
    cid_lambda: float = 1.0
    """λ of context influence decoding: 0 ignores the context, 1 is ordinary sampling, more than 1 amplifies the
    context."""
    samples: int = 1
    """Number of responses to draw for a case without one."""
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

    def __post_init__(self) -> None:
        checks = (
            logspace.checked_temperature(self.temperature),
            logspace.checked_weight(self.cid_lambda),
            bounded("samples", self.samples, 1, MOST_SAMPLES),
            bounded("max-new-tokens", self.max_new_tokens, 1, MOST_NEW_TOKENS),
            (self.seed >= 0, "seed", self.seed, "0 or more"),
            bounded("audit-rounds", self.audit_rounds, 1, MOST_ROUNDS),
        )
        for good, name, value, expected in checks:
            if not good:
                raise UsageError(f"{name} is {value}; it has to be {expected}")
        if self.search is None and (self.audit is not None or self.audit_rounds != 1):
            raise UsageError("an audit checks what a search missed; give --search top:K with --audit")
        if self.audit is None and self.audit_rounds != 1:
            raise UsageError(f"audit-rounds is {self.audit_rounds} and there is no audit; give --audit CONFIDENCE:B")
        _ = self.searching, self.auditing

    @property
    def searching(self) -> Search | None:
        return None if self.search is None else Search.parse(self.search)

    @property
    def auditing(self) -> Audit | None:
        return None if self.audit is None else Audit.parse(self.audit)

    @property
    def chooses(self) -> bool:
        """Whether what it asks depends on the scores."""
        return self.search is not None

    def chooses_of(self, item: ContextItem) -> bool:
        """The same of an item that has documents to choose from."""
        return bool(self._documents(item))

    @property
    def documents_first(self) -> bool:
        """Whether it measures documents before their sentences where a case is cut into both."""
        return self.search is None

    @property
    def levels(self) -> bool:
        """Whether documents and paragraphs are measured beside the units that stand in them."""
        return self.search is not None

    @property
    def exhaustive(self) -> Influence | None:
        """The same measure of every piece; None where it is that already."""
        if self.search is None:
            return None
        return _EveryPiece(**{**asdict(self), "search": None, "audit": None, "audit_rounds": 1})

    @override
    def record(self) -> JsonObject:
        """The parameters that name a run; those of a search where there is one."""
        params = asdict(self)
        if self.search is None:
            for name in ("search", "audit", "audit_rounds"):
                del params[name]
        return params

    @property
    def reduction(self) -> TargetLogProbs | MixtureLogProbs:
        if self.cid_lambda == 1.0:
            return TargetLogProbs(self.temperature)
        return MixtureLogProbs(self.cid_lambda, self.temperature)

    @override
    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        return self._trial(item, longest=False)

    def longest_trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        return self._trial(item, longest=True)

    def _trial(self, item: ContextItem, *, longest: bool) -> Trial[list[Measurement]]:
        if item.response is not None:
            responses = [item.response]
        else:
            responses = yield from sample(
                item,
                n=self.samples,
                temperature=self.temperature,
                context_weight=self.cid_lambda,
                max_new_tokens=self.max_new_tokens,
                seed=self.seed,
            )
        if self.searching is not None:
            searcher = Searcher(
                self.searching, self.auditing, self.audit_rounds, self.reduction, responses[0], self.seed, longest
            )
            scored = yield from searcher.trial(item)
            exact = yield from self._exact(item, responses, scored.cuts, scored)
            return [*exact, *_of_search(item, scored)]
        sentences = self._documents(item)
        if sentences:
            return (yield from self._from_documents(item, responses, sentences, longest=longest))
        return (yield from self._exact(item, responses, _without_documents(item), None))

    def _documents(self, item: ContextItem) -> dict[str, tuple[str, ...]]:
        """Documents to score before their sentences, which they are given with."""
        if self.search is not None:
            return {}
        return sentences_by_document(item, 1 if item.response is not None else self.samples, self._n_bare)

    @property
    def _n_bare(self) -> int:
        """Prompts that a further request has to score again: the bare one, with which every other is mixed."""
        return int(self.reduction.rows_together)

    def _from_documents(
        self,
        item: ContextItem,
        responses: Sequence[tuple[int, ...]],
        sentences: Mapping[str, Sequence[str]],
        *,
        longest: bool,
    ) -> Trial[list[Measurement]]:
        """Measure documents on responses, then sentences of those that matter."""
        within = {part for parts in sentences.values() for part in parts}
        names = [name for name in _without_documents(item, sentences) if name not in within]
        irrelevant = [item.placebo_alone] if item.placebo_alone is not None else []
        extras = [*(item.alone[name] for name in names), *irrelevant, *item.placebos]
        cuts = [item.cuts[name] for name in names]
        prompts = [(item.blank, item.prompt, *cuts, *(extras if i == 0 else ())) for i in range(len(responses))]
        noise_nats = interval_noise_of(item)
        answers = yield [Request(p, y, self.reduction, noise_nats) for p, y in zip(prompts, responses, strict=True)]
        scored = [Scored.from_scores(names, names if i == 0 else (), answer) for i, answer in enumerate(answers)]
        for answer in answers:
            check_possible(item, answer.values)
        noise = yield from neighbourhood_noise(item, responses[0], self.reduction, answers[0].values[:2])

        ladder = Ladder(item, sentences, scored, noise, self._n_bare, longest)
        documents = ladder.documents()
        left_out = [part for name in documents for part in sentences[name]]
        alone: list[str] = []
        bare = (item.blank,) * self._n_bare
        if left_out:
            further = (*bare, *(item.cuts[name] for name in left_out))
            answers = yield [Request(further, response, self.reduction, noise_nats) for response in responses]
            for response_scored, answer in zip(scored, answers, strict=True):
                response_scored.add(left_out, answer.without_first(self._n_bare), alone=False)
            alone = ladder.alone(documents)
        if alone:
            further = (*bare, *(item.alone[name] for name in alone))
            (answer,) = yield [Request(further, responses[0], self.reduction, noise_nats)]
            scored[0].add(alone, answer.without_first(self._n_bare), alone=True)

        every, every_alone = {*names, *left_out}, {*names, *alone}
        names = [span.name for span in item.spans if span.name in every]
        alone = [name for name in names if name in every_alone]
        together = [rows.together(names, alone if i == 0 else ()) for i, rows in enumerate(scored)]
        return self._measurements(item, responses, names, alone, together, noise)

    def _exact(
        self, item: ContextItem, responses: Sequence[tuple[int, ...]], scored: Collection[str], searched: Found | None
    ) -> Trial[list[Measurement]]:
        """Measure pieces on responses; on the first, what a search has found is not scored again."""
        names = [span.name for span in item.spans if span.name in scored]
        cuts = [item.cuts[name] for name in names]
        irrelevant = [item.placebo_alone] if item.placebo_alone is not None else []
        swaps = [item.swaps[name] for name in names if name in item.swaps]
        placebos = item.placebos if searched is None else ()
        extras = [*(item.alone[name] for name in names), *swaps, *irrelevant, *placebos]
        # The bare prompt stands first: it is what every other mixes with.
        prompts = [(item.blank, item.prompt, *cuts, *(extras if i == 0 else ())) for i in range(len(responses))]
        if searched is not None:
            prompts[0] = (item.blank, *extras)
        begun = None
        if searched is not None and item.model_noise_nats is None:
            # The search has left the states of the whole context.
            begun = yield from token_by_token(item, responses[0], self.reduction)
        noise_nats = interval_noise_of(item)
        answers = yield [Request(p, y, self.reduction, noise_nats) for p, y in zip(prompts, responses, strict=True)]
        if searched is not None:
            answers = [searched.together(names, answers[0]), *answers[1:]]
        for answer in answers:
            check_possible(item, answer.values)
        noise = yield from neighbourhood_noise(item, responses[0], self.reduction, answers[0].values[:2], begun)
        return self._measurements(item, responses, names, names, answers, noise)

    def _measurements(
        self,
        item: ContextItem,
        responses: Sequence[tuple[int, ...]],
        names: Sequence[str],
        alone: Sequence[str],
        answers: Sequence[Scores],
        noise: FloatArray,
    ) -> list[Measurement]:
        """Of pieces that were left out, some of them scored alone too, for the first response."""
        measurements: list[Measurement] = []
        wide = np.zeros(len(responses[0]))
        for i, (response, scores) in enumerate(zip(responses, answers, strict=True)):
            measurements += self._readings(item, i, response, names, alone, scores.values)
            if scores.half_width is not None:
                widths = list(self._half_widths(item, i, names, alone, scores.half_width))
                measurements += widths
                wide = widths[-1].values if i == 0 else wide
        measurements.append(Measurement(item.id, 0, "", "noise", NATS, noise + wide))
        return measurements

    def _half_widths(
        self, item: ContextItem, sample_: int, names: Sequence[str], alone: Sequence[str], widths: FloatArray
    ) -> Iterator[Measurement]:
        """Most that the contrasts of each piece may be off, and last that any contrast may."""
        n = len(names)
        bare, whole, cuts, extras = widths[0], widths[1], widths[2 : 2 + n], widths[2 + n :]
        # Extras are scored for the first response alone.
        alones = dict(zip(alone, extras, strict=False))
        swaps = dict(zip(_swapped(item, names), extras[len(alone) :], strict=False))
        for number, name in enumerate(names):
            contrasts = [whole + cuts[number], *(whole + swaps[name] for _ in [0] if name in swaps)]
            contrasts += [alones[name] + bare for _ in [0] if name in alones]
            yield Measurement(item.id, sample_, name, HALF_WIDTH, NATS, np.max(contrasts, axis=0))
        yield Measurement(item.id, sample_, "", HALF_WIDTH, NATS, np.maximum(bare, whole) + np.max(widths, axis=0))

    def _readings(
        self,
        item: ContextItem,
        sample_: int,
        response: tuple[int, ...],
        names: Sequence[str],
        alone: Sequence[str],
        values: FloatArray,
    ) -> Iterator[Measurement]:
        def measurement(statistic: str, series: FloatArray, piece: str = "", unit: str = NATS) -> Measurement:
            return Measurement(item.id, sample_, piece, statistic, unit, series)

        check_possible(item, values)
        n = len(names)
        bare, whole, cuts, extras = values[0], values[1], values[2 : 2 + n], values[2 + n :]
        yield measurement("token", np.asarray(response, dtype=np.float64), unit=TOKEN_ID)
        yield measurement("log_prob", whole)
        yield measurement("whole", whole - bare)
        for name, cut in zip(names, cuts, strict=True):
            yield measurement("without_this", whole - cut, name)
        for name, row in zip(alone, extras, strict=False):
            yield measurement("only_this", row - bare, name)
        # Extras are scored for the first response alone.
        exchanged, extras = _swapped(item, names), extras[len(alone) :]
        swapped, irrelevant = extras[: len(exchanged)], extras[len(exchanged) :]
        for name, swap in zip(exchanged, swapped, strict=False):
            yield measurement("swapped", whole - swap, name)
        for placebo_alone in irrelevant[:1]:
            yield measurement("placebo_alone", placebo_alone - bare)
        for number, placebo in enumerate(irrelevant[1:]):
            yield measurement("placebo", placebo - whole, str(number))


class _EveryPiece(Influence):
    """What a search is held against: it measures every piece of a case that is cut as for the search."""

    __slots__ = ()

    @property
    @override
    def documents_first(self) -> bool:
        return False


def _without_documents(item: ContextItem, kept: Collection[str] = ()) -> list[str]:
    """Pieces of a case, those apart that are documents with sentences of their own; of these only some."""
    return [span.name for span in item.spans if span.kind != "document" or span.name in kept]


def _swapped(item: ContextItem, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in item.swaps]


def _of_search(item: ContextItem, searched: Found) -> Iterator[Measurement]:
    whole = searched.whole.values
    for name, row in searched.hidden.items():
        yield Measurement(item.id, 0, name, SCREENED, NATS, whole - row.values)
    for name, row in searched.groups.items():
        yield Measurement(item.id, 0, name, GROUPED, NATS, whole - row.values)
    for name, number in searched.audited.items():
        yield Measurement(item.id, 0, name, AUDITED, COUNT, np.asarray([float(number)]))
