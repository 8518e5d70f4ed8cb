"""Predict what cases will take in tokens and time, before they are measured and without the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from leakmeter.core import cost
from leakmeter.core.backend import Backend
from leakmeter.core.cost import PlanningBackend, Prediction, Sent, Speed, planning_backend, predict
from leakmeter.core.drive import settled, together
from leakmeter.core.item import Prepared
from leakmeter.core.limits import parse_memory
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.measure import Measure, chooses
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.engine.sampling import Sampling, outline_of
from leakmeter.errors import LeakmeterError, ModelError, UsageError
from leakmeter.storage.kept import KeptPrediction
from leakmeter.storage.spec import device_of

EXACT_CASES: Final = 32
"""Each of so many cases is predicted; of more, some stand for the others."""
_SEED: Final = 0
_LEAST_PARTS: Final = 8
_MOST_PARTS: Final = 48
_ENOUGH_PROMPTS: Final = 14_000
"""Prompts of the parts that are predicted, from which on no further part is: it takes a second to count them."""
_MOST_SECONDS = 0.25  # for measuring how fast the machine is
_SHARE_OF_RUN = 0.01
_SPEEDS: WeakKeyDictionary[Any, tuple[float, Speed]] = WeakKeyDictionary()
"""Of the device of a model in memory, and in how many seconds it was measured: a short answer that is measured alone
takes less than a look at the device."""


@dataclass(slots=True)
class Predictor:
    """Predicts cases for one model on one device; measures the device's speed when it is first needed."""

    backend: PlanningBackend
    device: str
    measure_speed: Callable[[float], Speed] | None
    """The device's speed, measured in so many seconds; None where operations have no meaning."""
    sent_beside: Callable[[Sequence[Any], int], Sent] | None = None
    """Of a served model: what a run of items in so many parts has the server asked beside them."""
    _speed: Speed | None = None

    def predict(self, measure: Measure, *cases: Prepared) -> Prediction:
        """Counts of what cases that are scored together will take. Where a case stands for others (`n_alike`), requests
        that these ask for too are left out."""
        if chooses(measure, *(case.item for case in cases)):
            longest = self._together([measure.longest_trial(case.item) for case in cases])
            return replace(predict(self.backend, longest), is_upper_bound=True)
        return predict(self.backend, self._together([measure.trial(case.item) for case in cases]))

    def _together(self, trials: Sequence[Trial[Any]]) -> Trial[list[Any]]:
        whole = [settled(self.backend, trial) for trial in trials]
        return together(whole if self.backend.n_alike == 1 else [_own(trial) for trial in whole])

    def seconds(self, prediction: Prediction) -> float | None:
        size = self.backend.size
        if size is None or self.measure_speed is None:
            return None
        if self._speed is None:
            # A first look tells how long a better one may take.
            self._speed = self.measure_speed(0.0)
            allowed = _SHARE_OF_RUN * cost.seconds(size, self._speed, prediction.work)
            self._speed = self.measure_speed(min(allowed, _MOST_SECONDS))
        return cost.seconds(size, self._speed, prediction.work)

    def kept(self, prediction: Prediction) -> KeptPrediction:
        seconds = self.seconds(prediction)
        return KeptPrediction(
            tree_tokens=prediction.n_tokens_run, seconds=None if seconds is None else round(seconds, 3)
        )


def shares(total: int, n: int) -> list[int]:
    """A count in `n` whole shares that add up to it and differ by 1 at most."""
    return [total // n + (i < total % n) for i in range(n)]


@dataclass(frozen=True, slots=True)
class PredictedCase:
    """What a case will take: its share of what those take that are scored together."""

    id: str
    requests: int
    """Prompts scored."""
    tree_tokens: int
    """To be run."""
    full_pass_tokens: int
    """That a full pass for each prompt would run."""
    full_pass_per_token_tokens: int
    """That a full pass for each prompt and token would run."""
    seconds: float | None
    """None where operations have no meaning."""
    at_most: bool
    """Whether it is an upper bound."""


@dataclass(frozen=True, slots=True)
class PredictedServed:
    """What a server will be asked, repeated requests apart."""

    requests: int
    """Of the cases, of the noise floor, and of whether the model is still the same."""
    prompt_tokens: int
    """Sent with them, the responses that are scored included."""
    price_per_million: float | None
    """Of a million prompt tokens, as it was given."""
    price: float | None
    """Of all of them, in the same currency; None where none was given."""


@dataclass(frozen=True, slots=True)
class PredictedWithoutSearch:
    """What the same cases would take if every piece was scored."""

    requests: int
    tree_tokens: int
    operations: float | None
    """None where operations have no meaning."""
    seconds: float | None
    tokens_ratio: float
    """Tokens without the search over tokens with it; as the next one at least so much, where those are at most so
    many."""
    operations_ratio: float | None
    at_most: bool
    """Whether it is an upper bound itself, since responses are still to be drawn."""


@dataclass(frozen=True, slots=True)
class PredictedCases:
    """What cases will take together, and each of them; the numbers are those of `PredictedCase`, added up."""

    model: str
    dtype: str
    device: str
    requests: int
    tree_tokens: int
    full_pass_tokens: int
    full_pass_per_token_tokens: int
    seconds: float | None
    at_most: bool
    cases: tuple[PredictedCase, ...]
    served: PredictedServed | None = None
    """None where the model is in this process."""
    operations: float | None = None
    """Multiply-adds count twice; None where operations have no meaning."""
    without_search: PredictedWithoutSearch | None = None
    """None where nothing is searched."""
    n_cases: int = 0
    sampled_cases: int | None = None
    """Cases that were predicted one by one, of many; the numbers are estimates then, and `cases` are none. None where
    each case was."""
    tree_tokens_range: tuple[int, int] | None = None
    """95 % range of the estimate, as is the next one; None of what is no estimate."""
    seconds_range: tuple[float, float] | None = None


def forecast(
    predictor: Predictor, plan: Plan, *, price_per_million: float | None = None
) -> tuple[PredictedCases, LoadedCases[Any]]:
    """What measuring a plan will take, and its cases with the problems of those that cannot be used. Each of a few
    cases is predicted, and each that a server is asked (it may cost money). Of many cases a sample stands for the
    others (`engine.sampling`), which are not tokenised."""
    cases, measure = plan.cases.cases, plan.measure
    every = getattr(measure, "exhaustive", None)
    if len(cases) > EXACT_CASES and predictor.sent_beside is None:
        return _estimated(predictor, plan, every)
    prepared, kept = plan.cases.prepared(predictor.backend, plan.settings, measure)
    exhaustive = None if every is None else (every, plan.cases.prepared(predictor.backend, plan.settings, every)[0])
    more: Any = {"group_size": plan.group_size, "price_per_million": price_per_million, "exhaustive": exhaustive}
    return predicted_cases(predictor, measure, prepared, **more), kept


def _estimated(predictor: Predictor, plan: Plan, every: Measure | None) -> tuple[PredictedCases, LoadedCases[Any]]:
    """Parts are predicted until they have many prompts. Cases that are scored together but have nothing in common are
    predicted alone, each with its share of the passes."""
    cases, backend = plan.cases.cases, predictor.backend
    is_alone = plan.group_size == plan.measure.together
    size = 1 if is_alone else plan.group_size
    parts = [cases[first : first + size] for first in range(0, len(cases), size)]
    outlines = [[outline_of(case) for case in part] for part in parts]
    shapes = [tuple(dict.fromkeys(shape for shape, _ in part)) for part in outlines]
    sizes = [sum(n for _, n in part) for part in outlines]
    sampling = Sampling.from_outlines(list(zip(shapes, sizes, strict=True)), seed=_SEED)
    predicted: dict[int, tuple[Prediction, ...]] = {}
    problems: list[str] = []
    n_prompts = 0
    backend.n_alike = plan.group_size if is_alone else 1
    try:
        for place in sampling.places(_SEED):
            if len(predicted) >= _MOST_PARTS or (len(predicted) >= _LEAST_PARTS and n_prompts >= _ENOUGH_PROMPTS):
                break
            some = replace(plan.cases, cases=tuple(parts[sampling.order[place]]), problems=())
            try:
                predicted[place] = tuple(
                    predictor.predict(measure, *some.prepared(backend, plan.settings, measure)[0])
                    for measure in (plan.measure, every)
                    if measure is not None
                )
            except LeakmeterError as error:
                if not plan.cases.skip_bad:
                    raise
                problems.append(str(error))
                continue
            n_prompts += predicted[place][0].n_prompts
    finally:
        backend.n_alike = 1
    if not predicted:
        raise UsageError(f"none of {len(problems)} cases that were tried can be used; the first: {problems[0]}")
    places = sorted(predicted)
    weights = sampling.weights(places).tolist()
    own = [predicted[place][0] for place in places]

    def range_of(values: Sequence[float], total: float) -> tuple[float, float] | None:
        error = sampling.relative_error(places, values)
        return None if error is None else (max(0.0, total * (1.0 - error)), total * (1.0 + error))

    total = _total(predictor, own, weights)
    tokens_range = range_of([float(prediction.n_tokens_run) for prediction in own], total.tree_tokens)
    seconds = [duration for prediction in own if (duration := predictor.seconds(prediction)) is not None]
    return _predicted(
        predictor,
        total,
        None if every is None else _total(predictor, [predicted[place][1] for place in places], weights),
        cases=(),
        n_cases=len(cases),
        sampled_cases=sum(len(parts[sampling.order[place]]) for place in places),
        tree_tokens_range=None if tokens_range is None else (round(tokens_range[0]), round(tokens_range[1])),
        seconds_range=None if total.seconds is None else range_of(seconds, total.seconds),
    ), replace(plan.cases, problems=(*plan.cases.problems, *problems))


class _Total(NamedTuple):
    requests: float
    tree_tokens: float
    full_pass_tokens: float
    full_pass_per_token_tokens: float
    seconds: float | None
    operations: float | None
    at_most: bool


def _total(predictor: Predictor, predictions: Sequence[Prediction], weights: Sequence[float] | None = None) -> _Total:
    """Predictions added up, each as often as its weight says; once by default."""
    counts = [1.0] * len(predictions) if weights is None else weights

    def total(values: Iterable[float]) -> float:
        return math.fsum(count * value for count, value in zip(counts, values, strict=True))

    size = predictor.backend.size
    seconds = [duration for prediction in predictions if (duration := predictor.seconds(prediction)) is not None]
    return _Total(
        total(prediction.n_prompts for prediction in predictions),
        total(prediction.n_tokens_run for prediction in predictions),
        total(prediction.n_full_pass_tokens for prediction in predictions),
        total(prediction.n_token_pass_tokens for prediction in predictions),
        total(seconds) if seconds else None,
        None if size is None else total(cost.operations(size, prediction.work) for prediction in predictions),
        any(prediction.is_upper_bound for prediction in predictions),
    )


def _predicted(predictor: Predictor, own: _Total, exhaustive: _Total | None, **more: Any) -> PredictedCases:
    without_search = None
    if exhaustive is not None:
        without_search = PredictedWithoutSearch(
            round(exhaustive.requests),
            round(exhaustive.tree_tokens),
            exhaustive.operations,
            exhaustive.seconds,
            exhaustive.tree_tokens / own.tree_tokens,
            None if exhaustive.operations is None or not own.operations else exhaustive.operations / own.operations,
            exhaustive.at_most,
        )
    return PredictedCases(
        predictor.backend.name,
        predictor.backend.dtype,
        predictor.device,
        round(own.requests),
        round(own.tree_tokens),
        round(own.full_pass_tokens),
        round(own.full_pass_per_token_tokens),
        own.seconds,
        own.at_most,
        operations=own.operations,
        without_search=without_search,
        **more,
    )


def predicted_cases(
    predictor: Predictor,
    measure: Measure,
    prepared: Sequence[Prepared],
    *,
    group_size: int = 1,
    price_per_million: float | None = None,
    exhaustive: tuple[Measure, Sequence[Prepared]] | None = None,
) -> PredictedCases:
    """What cases will take, one by one and together; cases that are scored together share. `exhaustive` has, of a
    search, the measure of every piece and its cases; the price is that of a million prompt tokens."""
    if predictor.sent_beside is not None:
        prepared = with_noise(prepared, 0.0)  # whichever it is

    def in_groups(measure: Measure, prepared: Sequence[Prepared]) -> list[tuple[Sequence[Prepared], Prediction]]:
        groups = [prepared[i : i + group_size] for i in range(0, len(prepared), group_size)]
        return [(group, predictor.predict(measure, *group)) for group in groups]

    predicted = in_groups(measure, prepared)
    predictions = [prediction for _, prediction in predicted]
    cases: list[PredictedCase] = []
    for group, prediction in predicted:
        n, seconds = len(group), predictor.seconds(prediction)
        counts = (
            prediction.n_prompts,
            prediction.n_tokens_run,
            prediction.n_full_pass_tokens,
            prediction.n_token_pass_tokens,
        )
        of_case = None if seconds is None else seconds / n
        own = zip(*(shares(count, n) for count in counts), strict=True)
        cases += [
            PredictedCase(case.item.id, requests, run, full, full_per_token, of_case, prediction.is_upper_bound)
            for case, (requests, run, full, full_per_token) in zip(group, own, strict=True)
        ]
    everything = None if exhaustive is None else [prediction for _, prediction in in_groups(*exhaustive)]
    return _predicted(
        predictor,
        _total(predictor, predictions),
        None if everything is None else _total(predictor, everything),
        cases=tuple(cases),
        served=_served(predictor, predictions, [case.item for case in prepared], price_per_million),
        n_cases=len(cases),
    )


def _served(
    predictor: Predictor, predictions: Sequence[Prediction], items: Sequence[Any], price_per_million: float | None
) -> PredictedServed | None:
    if predictor.sent_beside is None or not items:
        return None
    sent = predictor.sent_beside(items, len(predictions))
    for prediction in predictions:
        sent += prediction.sent or Sent()
    price = None if price_per_million is None else sent.n_tokens / 1e6 * price_per_million
    return PredictedServed(sent.n_requests, sent.n_tokens, price_per_million, price)


def with_noise(prepared: Sequence[Prepared], noise_nats: float | None) -> Sequence[Prepared]:
    """The cases with the noise of their model, if it is known."""
    if noise_nats is None:
        return prepared
    return [replace(case, item=replace(case.item, model_noise_nats=noise_nats)) for case in prepared]


def predictor_of(backend: Backend) -> Predictor:
    if hasattr(backend, "planning"):
        return Predictor(backend.planning(), device_of(backend), None)
    model = getattr(backend, "model", None)
    limits = getattr(backend, "limits", None)
    if model is None or limits is None:
        sent_beside = getattr(backend, "to_be_sent_beside", None)
        return Predictor(planning_backend(backend, None), "cpu", None, sent_beside)
    from leakmeter.backends.hf.machine import speed_of
    from leakmeter.backends.hf.outline import size_of

    def measured(seconds: float) -> Speed:
        cached = _SPEEDS.get(model)
        if cached is None or cached[0] < seconds:
            speed = speed_of(model.device, model.dtype, seconds=seconds, memory_bytes=limits.state_bytes)
            cached = _SPEEDS[model] = (seconds, speed)
        return cached[1]

    return Predictor(planning_backend(backend, size_of(model, limits)), str(model.device), measured)


def predictor_for(
    model: str, *, dtype: str | None = None, device: str | None = None, memory: str | None = None
) -> Predictor:
    """A predictor for a model that has to be on this machine already (else `ModelError`); the weights are not read."""
    from leakmeter.models import resolve

    resolved = resolve(model, notify=_unheard, download=False, hash_weights=False)
    if resolved.is_hub and not Path(resolved.path).is_dir():
        raise ModelError(f"'{model}' is not on this machine; fetch it with `leakmeter models pull {model}`")
    from leakmeter.backends.hf.machine import speed_of
    from leakmeter.backends.hf.outline import outline_directory
    from leakmeter.backends.hf.schedule import check_states

    outline = outline_directory(
        Path(resolved.path),
        name=resolved.name,
        dtype=dtype,
        device=device,
        memory_bytes=parse_memory(memory) if memory else None,
    )
    backend = PlanningBackend(
        name=resolved.name,
        tokenizer=outline.tokenizer,
        dtype=str(outline.dtype).removeprefix("torch."),
        window=outline.window,
        sharing="prefixes" if outline.forks else "sequences",
        size=outline.size,
        most_rows=outline.most_rows,
    )
    backend.hides_pieces = outline.hides
    size = outline.size
    per_token = size.n_layers * size.state_width * size.bytes_per_number
    backend.check = lambda chunk: check_states(resolved.name, chunk, per_token, 2 * size.most_state_bytes)
    most = outline.size.most_state_bytes
    return Predictor(
        backend,
        str(outline.device),
        lambda seconds: speed_of(outline.device, outline.dtype, seconds=seconds, memory_bytes=most),
    )


def _own(trial: Trial[Any]) -> Trial[None]:
    """A trial without requests that repeat other trials' (`is_others`)."""
    try:
        requests = next(trial)
        while True:
            own = [not (isinstance(request, Request) and request.is_others) for request in requests]
            answers = iter((yield [request for request, is_own in zip(requests, own, strict=True) if is_own]))
            requests = trial.send([next(answers) if is_own else Scores(np.empty(0)) for is_own in own])
    except StopIteration:
        return


def _unheard(line: str) -> None:
    """Nothing takes time where nothing is fetched or converted."""
