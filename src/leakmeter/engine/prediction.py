"""`--dry-run`: what cases will take in prompts and tokens, and in time by a short pass that is measured here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, Final

from leakmeter.core.backend import Backend, check_needs
from leakmeter.core.case import conversation_of, n_characters
from leakmeter.core.counting import CountingBackend, Counts, count
from leakmeter.core.item import Prepared
from leakmeter.core.limits import parse_memory
from leakmeter.core.loaded import LoadedCases, Plan, Preparations
from leakmeter.core.measure import Measure
from leakmeter.core.prompt import VIRTUAL, Piece, Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.sharing import FullPasses
from leakmeter.core.tree import chunk_of
from leakmeter.engine.groups import groups_of, parts_of
from leakmeter.engine.measure import noise_sample_of, shares, with_noise, with_sampled_noise
from leakmeter.errors import ModelError

EXACT_CASES: Final = 32
"""Each of so many cases is predicted; of more, some stand for the others."""
_PASS_PROMPTS: Final = 4
_PASS_TOKENS: Final = 128
"""Of each prompt of the pass that is measured, the last ones."""


class Predictor:
    """Predicts cases for one model, which is loaded: it scores a few hundred tokens, once."""

    def __init__(self, model: Backend) -> None:
        self.model = model
        self.backend = CountingBackend(model)
        self._tokens_per_second: float | None = None

    @property
    def is_remote(self) -> bool:
        return self.model.capabilities.is_remote

    def predict(self, measure: Measure, *cases: Prepared, seed: int = 0) -> Counts:
        """Counts of what cases that are scored together will take; where it depends on what is found, on answers that
        the seed draws."""
        self.backend.seed = seed
        return count(self.backend, [measure.trial(case.item) for case in cases])

    def seconds(self, counts: Counts) -> float | None:
        """None of a served model, and where no prompt was scored."""
        if self._tokens_per_second is None:
            first = self.backend.first
            if self.is_remote or first is None:
                return None
            self._tokens_per_second = _tokens_per_second(self.model, first)
        return counts.n_tokens_run / self._tokens_per_second


def predictor_for(
    model: str, *, dtype: str | None = None, device: str | None = None, memory: str | None = None
) -> Predictor:
    """A predictor for a model that has to be on this machine already, else `ModelError`; nothing is fetched or kept."""
    from leakmeter.models import resolve

    resolved = resolve(model, notify=_unheard, download=False, hash_weights=False)
    if resolved.is_hub and not Path(resolved.path).is_dir():
        raise ModelError(f"'{model}' is not on this machine; fetch it with `leakmeter models pull {model}`")
    from leakmeter.backends.hf.load import load_directory

    loaded = load_directory(
        Path(resolved.path),
        name=resolved.name,
        dtype=dtype,
        device=device,
        weights_sha256=None,
        memory_bytes=parse_memory(memory) if memory else None,
    )
    return Predictor(loaded)


def _unheard(line: str) -> None:
    """Nothing takes time where nothing is fetched or converted."""


def _tokens_per_second(model: Backend, request: Request) -> float:
    """How fast a model runs the ends of some prompts, the second time."""
    ends = [prompt.ids[prompt.ids < VIRTUAL][-_PASS_TOKENS:].tolist() for prompt in request.prompts[-_PASS_PROMPTS:]]
    prompts = tuple(Prompt((Piece("end", "frame", tuple(ids)),)) for ids in ends if ids)
    chunk = chunk_of([Request(prompts, (ends[-1][-1],), TargetLogProbs())])
    with model.without_cache():
        model.score(chunk)
        n_before, started = model.n_tokens_run, time.perf_counter()
        model.score(chunk)
        return max(1, model.n_tokens_run - n_before) / (time.perf_counter() - started)


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
    """By how long a short pass takes here; None of a served model."""
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
    depends: bool = False
    """Whether it depends on what is found."""
    at_least: bool = False
    """Whether more is run where something is found: cases are measured step by step, and nothing is taken to be."""
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
    plan = plan.case_by_case() if predictor.is_remote else plan
    cases, size = plan.cases.cases, plan.group_size
    numbers: Sequence[int] = range(len(cases))
    sizes: Sequence[int] = ()
    if len(cases) > EXACT_CASES and not predictor.is_remote:
        groups = parts_of(cases, size, plan.steps, plan.telling)
        # Evenly over the cases, since parts differ in size.
        part_of = [part for part, group in enumerate(groups) for _ in group]
        looked = spread_evenly(len(cases), max(1, EXACT_CASES * len(groups) // len(cases)))
        parts = list(dict.fromkeys(part_of[number] for number in looked))
        numbers = [number for part in parts for number in groups[part]]
        sizes = [len(groups[part]) for part in parts]
    looked_at = tuple(cases[number] for number in numbers)
    prepared, kept = replace(plan.cases, cases=looked_at).prepared(
        *(predictor.backend, plan.settings, plan.measure),
        steps=[plan.steps[number] for number in numbers] if plan.steps else (),
    )
    sample = noise_sample_of(plan.measure, [n_characters(case) for case in cases], predictor.model)
    is_least = any(case.item.steps is not None for case in prepared)
    predicted = predicted_cases(
        *(predictor, plan.measure, list(map(_finding_nothing, prepared)) if is_least else prepared),
        measuring_noise=[number in sample for number in numbers],
        # Of cases that are left out nobody knows the part.
        groups=_ranges(sizes) if sum(sizes) == len(prepared) else None,
        group_size=size,
        price_per_million=price_per_million,
    )
    if len(looked_at) < len(cases):
        predicted = predicted.of_more(len(cases), len(looked_at))
    notes = (*kept.notes, *_of_sharing(predictor.model, plan.measure, prepared[0]))
    return replace(predicted, at_least=is_least), replace(kept, notes=notes)


def _of_sharing(backend: Backend, measure: Measure, prepared: Prepared) -> Iterator[str]:
    """How many tokens more a model takes whose prompts share no work, counted of a case without the model."""
    if backend.passes != "plain":
        return
    item = prepared.item
    own, shared = (count(CountingBackend(backend, shares), [measure.trial(item)]) for shares in (None, "prefixes"))
    first = FullPasses(backend.name, 1, own.n_tokens_run, shared.n_tokens_run)
    yield (
        f"'{backend.name}' has states that cannot be forked, or failed a self-check, so each sequence is run in full: "
        f"{'at most' if own.is_upper_bound else 'about'} {first.words}"
    )


def _finding_nothing(prepared: Prepared) -> Prepared:
    """A case of which nothing is found, since nothing is known of its texts: random answers would be full of it."""
    if prepared.item.steps is None:
        return prepared
    return replace(prepared, item=replace(prepared.item, texts_of=None))


def _ranges(sizes: Sequence[int]) -> list[range]:
    """One after another."""
    ends = list(accumulate(sizes, initial=0))
    return [range(start, end) for start, end in pairwise(ends)]


def spread_evenly(n: int, most: int) -> list[int]:
    """So many of n numbers, or all: the middle ones of as many equal stretches."""
    n_taken = min(n, most)
    return [(2 * i + 1) * n // (2 * n_taken) for i in range(n_taken)]


def predicted_cases(
    predictor: Predictor,
    measure: Measure,
    prepared: Sequence[Prepared],
    *,
    measuring_noise: Iterable[bool] | None = None,
    groups: Sequence[range] | None = None,
    group_size: int = 1,
    price_per_million: float | None = None,
) -> PredictedCases:
    """What cases will take, one by one and together; cases that are scored together share. `measuring_noise` says which
    are of their run's sample; by default they are all of a run. The price is that of a million prompt tokens."""
    if measuring_noise is None:
        sample = noise_sample_of(measure, Preparations.from_prepared(prepared).lengths, predictor.model)
        measuring_noise = [number in sample for number in range(len(prepared))]
    prepared = with_sampled_noise(prepared, islice(measuring_noise, len(prepared)))
    if predictor.is_remote:
        prepared = with_noise(prepared, 0.0)  # whichever it is

    for case in prepared:
        check_needs(predictor.backend, measure.needs(case.item))
    conversations = [conversation_of(case.origin.case) if case.origin is not None else None for case in prepared]
    parts = [prepared[at.start : at.stop] for at in groups or groups_of(conversations, group_size)]
    every = [predictor.predict(measure, *part) for part in parts]
    again = (predictor.predict(measure, *part, seed=1) for part in parts)
    depends = any(other != counts for other, counts in zip(again, every, strict=True))
    cases: list[PredictedCase] = []
    for part, counts in zip(parts, every, strict=True):
        n, seconds = len(part), predictor.seconds(counts)
        totals = (counts.n_prompts, counts.n_tokens_run, counts.n_full_pass_tokens, counts.n_token_pass_tokens)
        of_case = None if seconds is None else seconds / n
        own = zip(*(shares(total, n) for total in totals), strict=True)
        cases += [
            PredictedCase(
                case.item.id, requests, run, full, full_per_token, of_case, counts.is_upper_bound and not depends
            )
            for case, (requests, run, full, full_per_token) in zip(part, own, strict=True)
        ]
    durations = [case.seconds for case in cases if case.seconds is not None]
    return PredictedCases(
        predictor.model.name,
        predictor.model.dtype,
        predictor.model.device,
        requests=sum(counts.n_prompts for counts in every),
        tree_tokens=sum(counts.n_tokens_run for counts in every),
        full_pass_tokens=sum(counts.n_full_pass_tokens for counts in every),
        full_pass_per_token_tokens=sum(counts.n_token_pass_tokens for counts in every),
        seconds=sum(durations) if durations else None,
        at_most=any(counts.is_upper_bound for counts in every) and not depends,
        depends=depends,
        cases=tuple(cases),
        served=_served(predictor, every, [case.item for case in prepared], price_per_million),
        n_cases=len(cases),
    )


def _served(
    predictor: Predictor, every: Sequence[Counts], items: Sequence[Any], price_per_million: float | None
) -> PredictedServed | None:
    if not predictor.is_remote or not items:
        return None
    sent = sum((counts.sent for counts in every), predictor.model.to_be_sent_beside(items, len(every)))
    price = None if price_per_million is None else sent.n_tokens / 1e6 * price_per_million
    return PredictedServed(sent.n_requests, sent.n_tokens, price_per_million, price)
