"""A measurement that is watched: its requests go piece by piece, each number is told as it comes, and it can be ended.

The trial is the measure's own. What is asked at once elsewhere is asked in several rounds here, each of which begins
with the states of the whole context that the one before has left, so that the tokens run are about as many; last
digits may differ, by amounts of the size of the noise floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from leakmeter.core.backend import response_texts
from leakmeter.core.case import Case
from leakmeter.core.item import ContextItem, Lazily, Prepared
from leakmeter.core.loaded import LoadedCases
from leakmeter.core.measure import RESPONSE, Measure, Measurement
from leakmeter.core.request import Asked, Request, Scores, Trial
from leakmeter.engine.loading import KeptModel
from leakmeter.engine.measure import Callbacks, check_answered, measure_cases
from leakmeter.errors import CapabilityError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.search import SearchScores, states_of
from leakmeter.overriding import override
from leakmeter.products.serve.queue import Job
from leakmeter.results.result import PartContent
from leakmeter.stats.arrays import FloatArray
from leakmeter.text.build import PromptSettings

SCREENED_FROM: Final = 12
"""Pieces from which a context is screened before exact values come, those first that matter most."""
_HIDDEN_AT_ONCE: Final = 16
"""Pieces of a round of the screen."""
_MOST_AT_ONCE: Final = 8
"""Pieces of a round; the first rounds have fewer, so that something is seen soon."""
_PIECE: Final = ""
_ALONE, _PLACEBO, _CONTROL, _NOISE = "each piece alone", "an irrelevant text", "other contexts", "the noise floor"
_KINDS: Final = (_PIECE, _ALONE, _PLACEBO, _CONTROL)
"""Of prompts, in the order in which they are scored; all but the first are steps of the calibration."""


class JobWatch:
    """Who looks on: this one at nothing, and ends the work when its job is cancelled."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def on_whole(self, nats: float) -> None:
        """The influence of the whole context is known."""

    def on_piece(self, name: str, nats: float, *, exact: bool) -> None:
        """A piece is known, or what a screen says of it."""

    def on_scored(self, scored: SearchScores) -> None:
        """More is known of the tokens of the response: the whole context, twice as many pieces as before, or all."""

    def on_calibration(self, step: int, of: int, what: str) -> None:
        """A step begins, from 1, of those that tell what of the pieces' numbers is a finding, and what it measures."""

    def on_token(self, text: str, ledger: Mapping[str, float]) -> None:
        """A token was drawn: what it adds to the text, and its entry in the ledger of the response."""

    def on_round(self, n_prompts: int) -> None:
        """So many prompts are scored."""


def prepared_case(kept: KeptModel, measure: Measure, settings: PromptSettings, case: Case) -> Prepared:
    (prepared,), _ = LoadedCases((case,)).prepared(kept.backend, settings.resolved(), measure)
    measure.check(prepared.item)
    if kept.backend.capabilities.is_remote:
        check_answered(kept.backend, measure, [prepared])
    return prepared


def measured(kept: KeptModel, measure: Measure, prepared: Prepared, watch: JobWatch) -> PartContent:
    """One case's texts and measurements, watched; the model's score cache holds nothing of it."""
    watched = _Watched(measure, watch, kept)
    with kept.lock, cancellable(kept, watch.job):
        return next(iter(measure_cases(kept.backend, watched, [prepared], None, Callbacks())))


def cancellable(kept: KeptModel, job: Job) -> AbstractContextManager[None]:
    """Meanwhile a job that is cancelled ends before the next layer of a local model is run."""
    return kept.backend.interruptible(job.check)


class _Watched(Measure):
    """A measure whose trials are watched."""

    def __init__(self, measure: Measure, watch: JobWatch, kept: KeptModel) -> None:
        self._measure, self._watch, self._kept = measure, watch, kept

    @override
    def trial(self, item: ContextItem) -> Trial[list[Measurement]]:
        """The measure's own, each of whose rounds is answered in one or in several, and told of."""
        answered: Callable[[Sequence[Asked]], Trial[list[Scores]]]
        if isinstance(self._measure, Influence):
            forks = self._kept.backend.capabilities.hides_pieces
            answered = _Pieces(item, self._watch, forks, exhaustive=self._measure.search is None).answered
        elif isinstance(self._measure, Decode):
            answered = self._watched_tokens(item, self._measure)
        else:
            answered = self._watched_rounds()
        trial = self._measure.trial(item)
        try:
            requests: Sequence[Asked] = next(trial)
            while True:
                self._watch.job.check()
                try:
                    answers = yield from answered(requests)
                except CapabilityError as refused:
                    requests = trial.throw(refused)
                else:
                    requests = trial.send(answers)
        except StopIteration as end:
            measurements: list[Measurement] = end.value
            return measurements

    def _watched_rounds(self) -> Callable[[Sequence[Asked]], Trial[list[Scores]]]:
        n_prompts = 0

        def answered(requests: Sequence[Asked]) -> Trial[list[Scores]]:
            nonlocal n_prompts
            answers = yield requests
            n_prompts += sum(len(request.prompts) for request in requests if isinstance(request, Request))
            self._watch.on_round(n_prompts)
            return answers

        return answered

    def _watched_tokens(self, item: ContextItem, measure: Decode) -> Callable[[Sequence[Asked]], Trial[list[Scores]]]:
        rows: list[Any] = []

        def answered(requests: Sequence[Asked]) -> Trial[list[Scores]]:
            answers = yield requests
            if item.response is not None:
                return answers
            rows.append(answers[0].values[-1, 0])
            readings = list(measure.readings(item.id, 0, np.stack(rows)))
            ids = next(reading.values for reading in readings if reading.statistic == RESPONSE).astype(int).tolist()
            text = response_texts(ids, self._kept.backend.tokenizer)["tokens"][-1]
            # A character of several tokens is told with its last.
            self._watch.on_token(
                "" if text.endswith("\ufffd") else text,
                {reading.statistic: float(reading.values[-1]) for reading in readings},
            )
            return answers

        return answered


@dataclass
class _Pieces:
    """The pieces of a case, scored a few at a time."""

    item: ContextItem
    watch: JobWatch
    forks: bool
    """Whether the model's states of a context are kept from round to round, and it can hide pieces."""
    exhaustive: bool
    """Whether every piece is scored, in an order of our own."""
    scored: SearchScores = field(default_factory=SearchScores)
    begun: list[str] = field(default_factory=list)
    """Steps of the calibration."""

    def __post_init__(self) -> None:
        item = self.item
        self._hidden = {frozenset(span.pieces): span.name for span in item.spans}
        placebos = (*item.placebos, *([] if item.placebo_alone is None else [item.placebo_alone]))
        self._steps = [
            step
            for step, is_asked in (
                (_ALONE, bool(item.alone)),
                (_PLACEBO, bool(placebos)),
                (_CONTROL, bool(item.controls)),
                (_NOISE, item.measures_noise and item.model_noise_nats is None),
            )
            if is_asked
        ]
        self._placebos = {id(prompt) for prompt in placebos}

    def _names(self, request: Request) -> list[str | None]:
        """The piece that each prompt goes without; None of other prompts."""
        names = {id(prompt): name for name, prompt in _prepared(self.item.cuts).items()}
        return [
            self._hidden.get(each_prompt.hidden) if each_prompt.hidden else names.get(id(each_prompt))
            for each_prompt in request.prompts
        ]

    def _kinds(self, request: Request, names: Sequence[str | None]) -> list[str | None]:
        """What each prompt is for, of `_KINDS`; None of the prompt itself, of the blank one, and of groups."""
        alone = {id(prompt) for prompt in _prepared(self.item.alone).values()}
        controls = {id(prompt) for prompt in _prepared(self.item.controls).values()}
        kinds = ((_ALONE, alone), (_PLACEBO, self._placebos), (_CONTROL, controls))
        return [
            _PIECE if name is not None else next((kind for kind, among in kinds if id(prompt) in among), None)
            for prompt, name in zip(request.prompts, names, strict=True)
        ]

    def answered(self, requests: Sequence[Asked]) -> Trial[list[Scores]]:
        """Answers of a round; of one that is about pieces or what they are held against, in several."""
        request = requests[-1]
        if not isinstance(request, Request):
            return (yield requests)
        names = self._names(request)
        kinds = self._kinds(request, names)
        if not any(kind is not None for kind in kinds[1:]):
            # Noise is measured of the prompt and of the blank one, once their usual scores are known.
            both = (id(self.item.prompt), id(self.item.blank))
            if self.scored.whole.size and all(id(prompt) in both for prompt in request.prompts):
                self._tell_step(_NOISE)
            return (yield requests)
        rows: dict[int, FloatArray] = {}
        first = [1] if request.prompts[1] is self.item.prompt else []
        todo = list(range(2 if first else 1, len(request.prompts)))
        places = {number: _KINDS.index(kinds[number] or _PIECE) for number in todo}
        todo.sort(key=places.__getitem__)
        if not first:
            self._tell_step(kinds[todo[0]])
        lead = yield from self._some(request, names, first or todo[:1], rows)
        todo = todo if first else todo[1:]
        if first:
            if not self.scored.whole.size:
                self.scored.bare, self.scored.whole = rows[0], rows[1]
                self.watch.on_whole(self.scored.nats(rows[0]))
                self.watch.on_scored(self.scored)
            self.scored.bare, self.scored.whole = rows[0], rows[1]
            if self.exhaustive and len(self._hidden) >= SCREENED_FROM and self.forks:
                yield from self._screened(request)
                ranked = {name: -self.scored.nats(self.scored.hidden[name]) for name in self.scored.hidden}
                todo.sort(key=lambda number: (places[number], ranked.get(names[number] or "", 1.0)))
        n_at_once = 1
        while todo:
            self._tell_step(kinds[todo[0]])
            n = sum(places[number] == places[todo[0]] for number in todo[:n_at_once])
            batch, todo = todo[:n], todo[n:]
            yield from self._some(request, names, batch, rows)
            n_at_once = min(_MOST_AT_ONCE, 2 * n_at_once)
        whole = Scores(np.stack([rows[number] for number in range(len(request.prompts))]))
        return [*lead[: len(requests) - 1], whole]

    def _tell_step(self, kind: str | None) -> None:
        """Once of each step: sentences of documents that matter are scored behind it."""
        if kind in self._steps and kind not in self.begun:
            self.begun.append(kind)
            self.watch.on_calibration(len(self.begun), len(self._steps), kind)

    def _some(
        self, request: Request, names: Sequence[str | None], numbers: Sequence[int], rows: dict[int, FloatArray]
    ) -> Trial[list[Scores]]:
        """Some of a request's prompts, behind the states of the whole context, which the next round begins with."""
        self.watch.job.check()
        some = replace(request, prompts=(request.prompts[0], *(request.prompts[number] for number in numbers)))
        answers = yield [states_of(self.item, request.response), some] if self.forks else [some]
        rows[0] = answers[-1].values[0]
        for place, number in enumerate(numbers, 1):
            rows[number] = answers[-1].values[place]
            name, is_hidden = names[number], bool(request.prompts[number].hidden)
            piece_rows = self.scored.hidden if is_hidden else self.scored.cuts
            if name is not None and name not in piece_rows and self.scored.whole.size:
                piece_rows[name] = rows[number]
                self.watch.on_piece(name, self.scored.nats(rows[number]), exact=not is_hidden)
                n_exact = len(self.scored.cuts)
                if not is_hidden and (n_exact & (n_exact - 1) == 0 or n_exact == len(self.item.spans)):
                    self.watch.on_scored(self.scored)
        return answers

    def _screened(self, request: Request) -> Trial[None]:
        """All pieces hidden in turn, a few at a time."""
        hiding = [self.item.prompt.hiding(*span.pieces) for span in self.item.spans]
        every = replace(request, prompts=(request.prompts[0], *hiding))
        for start in range(1, len(every.prompts), _HIDDEN_AT_ONCE):
            numbers = range(start, min(start + _HIDDEN_AT_ONCE, len(every.prompts)))
            yield from self._some(every, self._names(every), numbers, {})


def _prepared(prompts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those of a mapping that were made already."""
    return prompts.prepared if isinstance(prompts, Lazily) else prompts
