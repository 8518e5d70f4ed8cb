"""Predict what cases will take in tokens and time, before they are measured and without the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from leakmeter.core import cost
from leakmeter.core.backend import Backend
from leakmeter.core.cost import PlanningBackend, Prediction, Sent, Speed, planning_backend, predict
from leakmeter.core.drive import settled, together
from leakmeter.core.item import Prepared
from leakmeter.core.limits import parse_memory
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.measure import Measure, chooses
from leakmeter.core.request import Trial
from leakmeter.engine.measure import shares, with_noise
from leakmeter.errors import ModelError

EXACT_CASES: Final = 32
"""Each of so many cases is predicted; of more, some stand for the others."""
_MOST_SECONDS = 0.25  # for measuring how fast the machine is
_SHARE_OF_RUN = 0.01


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
        """Counts of what cases that are scored together will take."""
        if chooses(measure, *(case.item for case in cases)):
            longest = self._together([measure.longest_trial(case.item) for case in cases])
            return replace(predict(self.backend, longest), is_upper_bound=True)
        return predict(self.backend, self._together([measure.trial(case.item) for case in cases]))

    def _together(self, trials: Sequence[Trial[Any]]) -> Trial[list[Any]]:
        return together([settled(self.backend, trial) for trial in trials])

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
    n_cases: int = 0
    sampled_cases: int | None = None
    """Cases that were predicted one by one, of many; the numbers are estimates then, and `cases` are none. None where
    each case was."""

    def of_more(self, n_cases: int, n_looked_at: int) -> PredictedCases:
        """An estimate for so many cases, from those that were looked at."""
        share = n_cases / n_looked_at
        return replace(
            self,
            requests=round(share * self.requests),
            tree_tokens=round(share * self.tree_tokens),
            full_pass_tokens=round(share * self.full_pass_tokens),
            full_pass_per_token_tokens=round(share * self.full_pass_per_token_tokens),
            seconds=None if self.seconds is None else share * self.seconds,
            operations=None if self.operations is None else share * self.operations,
            cases=(),
            n_cases=n_cases,
            sampled_cases=n_looked_at,
        )


def forecast(
    predictor: Predictor, plan: Plan, *, price_per_million: float | None = None
) -> tuple[PredictedCases, LoadedCases[Any]]:
    """What measuring a plan will take, and its cases with the problems of those that cannot be used. Each of a few
    cases is predicted, and each that a server is asked (it may cost money). Of many cases some stand for the others,
    which are not tokenised: whole parts, spread evenly over them."""
    cases, size = plan.cases.cases, plan.group_size
    if len(cases) <= EXACT_CASES or predictor.sent_beside is not None:
        looked_at = cases
    else:
        numbers = spread_evenly(-(-len(cases) // size), max(1, EXACT_CASES // size))
        looked_at = tuple(case for number in numbers for case in cases[number * size : (number + 1) * size])
    prepared, kept = replace(plan.cases, cases=looked_at).prepared(predictor.backend, plan.settings, plan.measure)
    predicted = predicted_cases(predictor, plan.measure, prepared, group_size=size, price_per_million=price_per_million)
    if len(looked_at) < len(cases):
        predicted = predicted.of_more(len(cases), len(looked_at))
    return predicted, kept


def spread_evenly(n: int, most: int) -> list[int]:
    """So many of n numbers, or all: the middle ones of as many equal stretches."""
    n_taken = min(n, most)
    return [(2 * i + 1) * n // (2 * n_taken) for i in range(n_taken)]


def predicted_cases(
    predictor: Predictor,
    measure: Measure,
    prepared: Sequence[Prepared],
    *,
    group_size: int = 1,
    price_per_million: float | None = None,
) -> PredictedCases:
    """What cases will take, one by one and together; cases that are scored together share. The
    price is that of a million prompt tokens."""
    if predictor.sent_beside is not None:
        prepared = with_noise(prepared, 0.0)  # whichever it is

    groups = [prepared[i : i + group_size] for i in range(0, len(prepared), group_size)]
    predicted = [(group, predictor.predict(measure, *group)) for group in groups]
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
    backend, size = predictor.backend, predictor.backend.size
    durations = [duration for _, prediction in predicted if (duration := predictor.seconds(prediction)) is not None]
    return PredictedCases(
        backend.name,
        backend.dtype,
        predictor.device,
        requests=sum(prediction.n_prompts for prediction in predictions),
        tree_tokens=sum(prediction.n_tokens_run for prediction in predictions),
        full_pass_tokens=sum(prediction.n_full_pass_tokens for prediction in predictions),
        full_pass_per_token_tokens=sum(prediction.n_token_pass_tokens for prediction in predictions),
        seconds=math.fsum(durations) if durations else None,
        at_most=any(prediction.is_upper_bound for prediction in predictions),
        cases=tuple(cases),
        served=_served(predictor, predictions, [case.item for case in prepared], price_per_million),
        operations=None if size is None else math.fsum(cost.operations(size, p.work) for p in predictions),
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


def predictor_of(backend: Backend) -> Predictor:
    size = backend.size
    if size is None:
        sent_beside = backend.to_be_sent_beside if backend.capabilities.is_remote else None
        return Predictor(planning_backend(backend, None), backend.device, None, sent_beside)
    return Predictor(planning_backend(backend, size), backend.device, backend.speed)


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
    backend.hides_pieces = outline.forks
    size = outline.size
    per_token = size.n_layers * size.state_width * size.bytes_per_number
    backend.refuse = lambda chunk: check_states(resolved.name, chunk, per_token, 2 * size.most_state_bytes)
    most = outline.size.most_state_bytes
    return Predictor(
        backend,
        str(outline.device),
        lambda seconds: speed_of(outline.device, outline.dtype, seconds=seconds, memory_bytes=most),
    )


def _unheard(line: str) -> None:
    """Nothing takes time where nothing is fetched or converted."""
