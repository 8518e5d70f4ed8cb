"""What to redact: a few spans without which what is left of a context has little influence on a response, in nats."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.limits import bounded, refuse_bad
from leakmeter.core.measure import Measure, Measurement, Statistic
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.noise import neighbourhood_noise
from leakmeter.core.prompt import Prompt
from leakmeter.core.record import JsonObject
from leakmeter.core.reductions import MixtureLogProbs, TargetLogProbs
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.core.sampling import needs_of_sample, sample
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.math import check_possible, control_nats
from leakmeter.instruments.influence.measure import MOST_CONTROLS, Influence
from leakmeter.instruments.influence.search import Search, hiding_of, screened, states_of
from leakmeter.instruments.redaction.disclosing import (
    CutState,
    RedactionStatistics,
    Targets,
    tokens_of,
)
from leakmeter.overriding import override
from leakmeter.stats.arrays import FloatArray

REMOVED: Final = RedactionStatistics.removed
PUT_BACK: Final = RedactionStatistics.put_back


@dataclass(frozen=True, slots=True)
class CutStep:
    """A span cut or put back, and the influence of what is then left."""

    statistic: Statistic
    """`removed` or `put_back`."""
    name: str
    """Of the span."""
    left: FloatArray
    """log p̄(y_t | D∖R, x, y_<t) − log p̄(y_t | ∅, x, y_<t), nats: (response,)."""

    @property
    def loss(self) -> float:
        """L(R), nats."""
        return float(np.abs(self.left).sum())


@dataclass(frozen=True, kw_only=True)
class Redaction(Measure):
    """Few spans R with L(R) = Σ_t |log p̄(y_t | D∖R, x, y_<t) − log p̄(y_t | ∅, x, y_<t)| at most `max_loss` nats.

    L(R) is the influence of what is left on the response that was given with everything: L of no spans is that of the
    whole context, L of all context 0. Any text moves a response, so that L of irrelevant words is not 0. Spans are cut
    one by one, each time the one whose cutting leaves least, with all spans cut so far and each candidate scored
    together anew; ties go to the first in the text. Spans that can be put back, alone, with the loss still in the limit
    then are: of several the one that leaves least, until there is none. So no single span of the plan can be spared;
    that no other set is smaller is not proved. With `search` a step scores few candidates: those that leave least
    when they, and all that is cut, are hidden from what stands behind the whole context. Losses are exact all the same.

    Where the limit is not reached with every span cut (spans need not cover the context), the plan is what left least
    on the way. The steps are kept in their order. The answer after, drawn from D∖R with the same randomness, is sample
    1.

    With `disclosures` the personal or secret disclosures of the response have to go: each round measures what is left
    without each piece that is left, and finds the disclosures anew as `influence.disclosures` does for the whole
    context. Of their sources it cuts the one that leaves the least sum of the disclosures' nats above their floors,
    less the log-probability of the rest of the response; until none is above its floor, or those that are have no
    sources left. They are held against contexts of other cases (`controls`) as there, so that what has to go is what
    `influence` lists; the contexts are scored once, with the whole one. With `max_loss` too, pieces are then cut until
    that is met. Pieces that can be put back, alone, with no more disclosed then are: first the one with which the rest
    of the response is likeliest. Each case measures noise then, whatever its number.
    """

    statistics: ClassVar = RedactionStatistics
    unsaid: ClassVar = {"controls": 0}

    max_loss: float | None = 1.0
    """Largest influence that the remaining context may have on the response, nats, above 0; None, with `disclosures`
    only, for any."""
    temperature: float = 1.0
    """Temperature of the distribution that is measured and sampled from, above 0."""
    cid_lambda: float = 1.0
    """λ of context influence decoding: 0 ignores the context, 1 is ordinary sampling, more than 1 amplifies the
    context."""
    max_new_tokens: int = 50
    """Maximum number of tokens of a drawn response."""
    seed: int = 0
    """Seed of the draws."""
    search: str | None = None
    """top:K scores in each step only the K pieces that a screen ranks first, which is much faster for long contexts."""
    disclosures: bool = False
    """Cut the sources of the response's personal or secret disclosures, and keep the rest of the response as likely as
    possible."""
    controls: int = Influence.controls
    """Where disclosures are cut: contexts of other cases of the same data that the response is also scored beside, at
    most, as in `influence`. What those raise too is style, and no disclosure. Where no other case has one, built-in
    texts stand in; 0 for none."""

    def __post_init__(self) -> None:
        if self.search is not None:
            Search.parse(self.search)
            if self.disclosures:
                raise UsageError("a search may miss a source of a disclosure; leave out --search or --disclosures")
        if self.max_loss is None:
            if not self.disclosures:
                raise UsageError("the goal is missing: give --max-loss NATS, or --disclosures")
        elif not (np.isfinite(self.max_loss) and self.max_loss > 0):
            raise UsageError(f"max-loss is {self.max_loss}; it has to be above 0 (nats)")
        refuse_bad(bounded("controls", self.controls, 0, MOST_CONTROLS))
        _ = self.reduction

    @override
    def record(self) -> JsonObject:
        """The parameters that name a run, `search` and `disclosures` only where they are set, and `controls` where
        there are any."""
        params = {**asdict(self), "controls": self.n_controls}
        if self.search is None:
            del params["search"]
        if not self.disclosures:
            del params["disclosures"]
        return {name: value for name, value in params.items() if (name, value) not in self.unsaid.items()}

    @property
    @override
    def n_controls(self) -> int:
        return self.controls if self.disclosures else 0

    @property
    def reduction(self) -> TargetLogProbs | MixtureLogProbs:
        return Influence(
            temperature=self.temperature, cid_lambda=self.cid_lambda, max_new_tokens=self.max_new_tokens, seed=self.seed
        ).reduction

    @override
    def needs(self, item: ContextItem) -> ItemNeeds:
        # Whatever is cut, a response is drawn after it.
        drawn = needs_of_sample(item, temperature=self.temperature, context_weight=self.cid_lambda)
        scored = self._request(item, item.typical_prompts, item.response or (0,) * self.max_new_tokens)
        hides = None if self.search is None else hiding_of(item, scored)
        return replace(drawn, requests=(*drawn.requests, scored), hides=hides)

    @override
    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        told = RedactionStatistics
        response, begun = yield from self._begin(item)
        scores = begun.values
        n_controls = len(item.controls)
        check_possible(item, scores[: len(scores) - n_controls])
        bare, full = scores[:2]
        whole = CutStep(told.whole, "", full - bare)
        beside = [
            # What is added to the whole context is held against that.
            statistic.of(item.id, row - (full if statistic == told.placebo and name else bare), name)
            for (statistic, name, _), row in zip(self._beside(item), scores[2:], strict=True)
            if statistic != told.control
        ]
        beside += [
            told.control.of(item.id, control_nats(row, bare), name)
            for name, row in zip(item.controls, scores[len(scores) - n_controls :], strict=True)
        ]
        if self.disclosures:
            # Which pieces are cut depends on the noise, and on no other case.
            own = replace(item, measures_noise=True)
            noise = yield from neighbourhood_noise(own, response, self.reduction, scores[:2])
            assert noise is not None
            series = {(0, each.statistic, each.piece): each.values for each in beside}
            series |= {(0, told.log_prob, ""): full, (0, told.whole, ""): whole.left}
            series[0, told.noise, ""] = noise
            steps, all_removed, first, last = yield from self._hide(item, response, series)
            units = {span.name for span in item.spans if span.kind == "unit"}
            beside += [
                statistic.of(item.id, state.left - values, name)
                for statistic, state in ((told.without_this, first), (told.left_without_this, last))
                for name, values in state.others.items()
                if name in units
            ]
        else:
            steps, all_removed = yield from self._search(item, response, whole)
            noise = yield from neighbourhood_noise(item, response, self.reduction, scores[:2])
        plan = chosen(steps)
        measurements = [
            told.token.of(item.id, response),
            told.log_prob.of(item.id, full),
            told.whole.of(item.id, whole.left),
            *beside,
            *(step.statistic.of(item.id, step.left, step.name) for step in steps),
            told.left.of(item.id, steps[-1].left if steps else whole.left),
            *([] if all_removed is None else [told.all_removed.of(item.id, all_removed)]),
            *([] if noise is None else [told.noise.of(item.id, noise)]),
        ]
        if plan:
            left = item.without(plan)
            after, answered = yield from self._answer(item, left)
            without, with_rest, *irrelevant = answered.values
            measurements.append(told.token.of(item.id, after, sample=1))
            measurements.append(told.whole.of(item.id, with_rest - without, sample=1))
            measurements.append(told.answer_log_prob.of(item.id, with_rest, sample=1))
            with np.errstate(invalid="ignore"):  # a token that neither makes possible says nothing
                measurements += [told.answer_placebo.of(item.id, row - without, sample=1) for row in irrelevant]
        return measurements

    def _request(self, item: ContextItem, prompts: Sequence[Prompt], response: tuple[int, ...]) -> Request:
        return Request((item.blank, *prompts), response, self.reduction)

    def _begin(self, item: ContextItem) -> Trial[tuple[tuple[int, ...], Scores]]:
        """The response, and its scores with no context, with all of it, and of the prompts `_beside`."""
        response = item.response
        if response is None:
            response = yield from self._draw(item, item.prompt)
        beside = (prompt for _, _, prompt in self._beside(item))
        (scores,) = yield [self._request(item, (item.prompt, *beside), response)]
        return response, scores

    def _beside(self, item: ContextItem) -> Iterator[tuple[Statistic, str, Prompt]]:
        """Further prompts that are scored with the whole one: statistic, piece, prompt."""
        told = RedactionStatistics
        if item.placebo_alone is not None:
            yield told.placebo, "", item.placebo_alone
        if self.disclosures:
            for number, prompt in enumerate(item.placebos):
                yield told.placebo, str(number), prompt
            for span in item.spans:
                if span.kind == "unit":
                    yield told.only_this, span.name, item.alone[span.name]
        for name, prompt in item.controls.items():
            yield told.control, name, prompt

    def _search(
        self, item: ContextItem, response: tuple[int, ...], whole: CutStep
    ) -> Trial[tuple[list[CutStep], FloatArray | None]]:
        """The steps to the plan; and what is left without any span, where the limit was not reached."""
        steps: list[CutStep] = []
        assert self.max_loss is not None
        limit, all_removed = self.max_loss, None
        least = whole.loss
        while (steps[-1].loss if steps else least) > limit:
            cut = chosen(steps)
            names = candidates(item, cut)
            if not names:
                # Spans are dropped again from where cutting more did no good.
                all_removed = steps[-1].left if steps else whole.left
                losses = [least, *(step.loss for step in steps)]
                n = int(np.argmin(losses))
                steps, limit = steps[:n], losses[n]
                break
            some = yield from self._promising(item, response, cut, names)
            removals = {name: (*cut, name) for name in some}
            steps.append((yield from self._best(item, response, REMOVED, removals, keep=len(some) < len(names))))
        steps += _spared(item, steps)
        # With one span back where only one was cut, the whole context is back, which is known to be too much.
        while len(cut := chosen(steps)) > 1:
            names = [name for name in candidates(item) if name in cut]
            step = yield from self._best(
                item, response, PUT_BACK, {name: [other for other in cut if other != name] for name in names}
            )
            if step.loss > limit:
                break
            steps.append(step)
        return steps, all_removed

    def _hide(
        self, item: ContextItem, response: tuple[int, ...], series: dict[tuple[int, str, str], FloatArray]
    ) -> Trial[tuple[list[CutStep], FloatArray | None, CutState, CutState]]:
        """The steps until nothing personal or secret is disclosed; what is left with every span cut, where the limit is
        not reached even so; and the states with no span cut, and with the plan."""
        if item.texts_of is None:
            raise ValueError(f"case '{item.id}' was made without its texts, which finding disclosures needs")
        targets = Targets(item.texts_of(response), series)
        steps: list[CutStep] = []
        first = state = yield from self._around(item, response, ())
        all_removed = None
        while True:
            above = targets.above(state)
            options = targets.options(above, state)
            if options:
                name = min(options, key=lambda name: targets.cost(state.others[name]))
            elif self.max_loss is None or state.loss() <= self.max_loss:
                break
            elif state.others:
                name = min(state.others, key=state.loss)
            else:
                all_removed = state.left
                break
            state = yield from self._around(item, response, (*state.cut, name))
            steps.append(CutStep(REMOVED, name, state.left))
        steps += _spared(item, steps)
        needed: set[str] = set()
        while len(cut := chosen(steps)) > 1:
            names = [name for name in candidates(item) if name in cut and name not in needed]
            back = yield from self._put_back(item, response, targets, state, cut, names, needed)
            if back is None:
                break
            name, state = back
            steps.append(CutStep(PUT_BACK, name, state.left))
        return steps, all_removed, first, state

    def _put_back(
        self,
        item: ContextItem,
        response: tuple[int, ...],
        targets: Targets,
        state: CutState,
        cut: Sequence[str],
        names: Sequence[str],
        needed: set[str],
    ) -> Trial[tuple[str, CutState] | None]:
        """The span to put back that leaves the rest of the response likeliest, and the state then; None where there is
        none. Spans that cannot be put back are added to `needed`."""
        if not names:
            return None
        disclosed, excess = {tokens_of(d) for d in targets.above(state)}, targets.excess(state.left)
        said = targets.said(state.cut)
        others = {name: tuple(other for other in cut if other != name) for name in names}
        request = self._request(item, [item.without(cut) for cut in others.values()], response)
        (scores,) = yield [request]
        check_possible(item, scores.values)
        left = dict(zip(names, scores.values[1:] - scores.values[0], strict=True))
        for name in sorted(names, key=lambda name: -float(left[name][targets.rest].sum())):
            if targets.excess(left[name]) <= excess:
                after = yield from self._around(item, response, others[name])
                above = {tokens_of(d) for d in targets.above(after)}
                is_within = self.max_loss is None or after.loss() <= max(self.max_loss, state.loss())
                is_said = not targets.said(after.cut) <= said
                if above <= disclosed and targets.excess(after.left) <= excess and is_within and not is_said:
                    return name, after
            needed.add(name)
        return None

    def _around(self, item: ContextItem, response: tuple[int, ...], cut: tuple[str, ...]) -> Trial[CutState]:
        names = candidates(item, cut)
        prompts = [item.without(cut), *(item.without((*cut, name)) for name in names)]
        (scores,) = yield [self._request(item, prompts, response)]
        check_possible(item, scores.values)
        left = scores.values[1:] - scores.values[0]
        return CutState(cut, left[0], dict(zip(names, left[1:], strict=True)))

    def _promising(
        self, item: ContextItem, response: tuple[int, ...], cut: Sequence[str], names: list[str]
    ) -> Trial[list[str]]:
        """Candidates to score, in order: with a search those that its screen ranks first."""
        if self.search is None or len(names) <= (k := Search.parse(self.search).k):
            return names
        cut_pieces = [piece for span in item.spans if span.name in cut for piece in span.pieces]
        pieces = {span.name: span.pieces for span in item.spans}
        prompts = [item.prompt.hiding(*cut_pieces, *pieces[name]) for name in names]
        rows = yield from screened(item, response, self.reduction, prompts)
        if rows is None:
            return names
        check_possible(item, np.stack(rows))
        bare, _, *hidden = rows
        left = {name: float(np.abs(values - bare).sum()) for name, values in zip(names, hidden, strict=True)}
        leading = sorted(names, key=left.__getitem__)[:k]
        return [name for name in names if name in leading]

    def _best(
        self,
        item: ContextItem,
        response: tuple[int, ...],
        statistic: Statistic,
        removals: Mapping[str, Collection[str]],
        *,
        keep: bool = False,
    ) -> Trial[CutStep]:
        """The removal that leaves least, of sets of spans by the name of the step's span.

        `keep` says that the states of the whole prompt are needed again.
        """
        request = self._request(item, [item.without(names) for names in removals.values()], response)
        *_, scores = yield [states_of(item, response), request] if keep else [request]
        check_possible(item, scores.values)
        left = scores.values[1:] - scores.values[0]
        best = int(np.argmin(np.abs(left).sum(axis=1)))
        return CutStep(statistic, list(removals)[best], left[best])

    def _answer(self, item: ContextItem, prompt: Prompt) -> Trial[tuple[tuple[int, ...], Scores]]:
        """A response drawn from a prompt, and its scores with no context, with that prompt, and with irrelevant words
        as the only context where they fit: (2 or 3, response)."""
        response = yield from self._draw(item, prompt)
        prompts = [prompt]
        if item.placebo_alone is not None and (
            item.window is None or item.placebo_alone.next_position + len(response) <= item.window
        ):
            prompts.append(item.placebo_alone)
        (scores,) = yield [self._request(item, prompts, response)]
        return response, scores

    def _draw(self, item: ContextItem, prompt: Prompt) -> Trial[tuple[int, ...]]:
        # Beside a given response, room was kept for that one alone.
        room = self.max_new_tokens if item.window is None else item.window - prompt.next_position
        (response,) = yield from sample(
            replace(item, prompt=prompt),
            n=1,
            temperature=self.temperature,
            context_weight=self.cid_lambda,
            max_new_tokens=min(self.max_new_tokens, room),
            seed=self.seed,
        )
        return response


def chosen(steps: Sequence[CutStep]) -> list[str]:
    """Names of the spans that are cut after these steps, in the order in which they were."""
    back = {step.name for step in steps if step.statistic == PUT_BACK}
    return [step.name for step in steps if step.statistic == REMOVED and step.name not in back]


def _spared(item: ContextItem, steps: Sequence[CutStep]) -> list[CutStep]:
    """Puts back spans that lie within others that were cut later: the prompt stays the same."""
    back: list[CutStep] = []
    for name in chosen(steps):
        others = [other for other in chosen([*steps, *back]) if other != name]
        if name not in candidates(item, others):
            back.append(CutStep(PUT_BACK, name, steps[-1].left))
    return back


def candidates(item: ContextItem, cut: Collection[str] = ()) -> list[str]:
    """Names of the spans that do not lie within those cut, in the order of the text, shorter ones first."""
    cut_pieces = {piece for span in item.spans if span.name in cut for piece in span.pieces}
    left = [span for span in item.spans if not cut_pieces.issuperset(span.pieces)]
    return [span.name for span in sorted(left, key=lambda span: (span.ranges[0][0], span.n_tokens))]
