"""Cases to measurements, part by part: a part is one case, or several that are scored together; none is done twice."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from leakmeter.core.backend import Backend, check_needs, response_texts
from leakmeter.core.drive import Cost, drive
from leakmeter.core.item import Prepared, Span
from leakmeter.core.loaded import Preparations
from leakmeter.core.measure import RESPONSE, TOKEN_ID, Measure, Measurement
from leakmeter.core.noise_sample import NoiseSample
from leakmeter.core.plain import n_listed
from leakmeter.core.record import JsonObject
from leakmeter.core.self_check import Recomputed, WrongPassError, is_checked, record_of
from leakmeter.core.sharing import FullPassCounter, FullPasses
from leakmeter.engine.execute.pool import Failure, rebuilt
from leakmeter.engine.groups import groups_of
from leakmeter.engine.storage.parts import Part, cases_of_part
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import LeakmeterError

_MOST_NAMED: Final = 5
"""Parts that an error names."""
WRITERS: Final = 8
"""Threads that write what workers measured. Each mostly waits for the store, a disk or one far away, while the driver
hands out more; see `docs/results/scale.md`."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Who wants to know how the work goes on; every call has a default that does nothing."""

    on_case: Callable[[int, str], None] = lambda number, case_id: None
    """A case begins: its number from 0 among those to be measured, and its id."""
    on_halving: Callable[[str, int], None] = lambda case_id, n_halvings: None
    """Memory ran out while a case was measured, so many times; the work went on in smaller parts."""
    on_wrong_pass: Callable[[str, float], None] = lambda case_id, nats: None
    """A case's numbers were not those of a plain pass, by so many nats: it was measured again with plain passes."""
    on_full_passes: Callable[[FullPasses], None] = lambda first: None
    """The first cases are measured by a model whose prompts share no work."""


class PartsBackend(Backend):
    """A back end whose work is done by workers, a part of a run at a time."""

    @abstractmethod
    def measure_parts(
        self, measure: Measure, cases: Preparations, parts: Sequence[int], groups: Sequence[range]
    ) -> Iterator[tuple[int, Any]]:
        """Parts by their numbers, each as its cases' `parts` or as a `Failure`, as they come."""

    @abstractmethod
    def close(self) -> None:
        """End the workers."""


def check_answered(backend: Backend, measure: Measure, prepared: Sequence[Prepared]) -> None:
    """Refuse what the back end cannot answer, before anything is scored or written."""
    for case in prepared:
        check_needs(backend, measure.needs(case.item))


def measure_cases(
    backend: Backend,
    measure: Measure,
    prepared: Sequence[Prepared],
    directory: RunDirectory | None,
    callbacks: Callbacks,
    *,
    groups: Sequence[range] | None = None,
    numbers: Sequence[int] | None = None,
) -> Generator[Part]:
    """Each case's texts and measurements, in order: read where a part is finished, measured and written where not.
    Cases of a group (see `groups`; each alone by default) are scored together; last digits depend on it.
    `numbers` are of the parts to be measured, all by default. Once the model behind a server has changed
    (`ModelError`), the part at hand is not written."""
    groups = groups_of([None] * len(prepared)) if groups is None else groups
    in_groups = any(len(group) > 1 for group in groups)
    numbers = range(len(groups)) if numbers is None else numbers
    cases = Preparations.from_prepared(prepared)
    if isinstance(backend, PartsBackend):
        yield from _measured_elsewhere(backend, measure, cases, directory, callbacks, groups, numbers)
        return
    sample = noise_sample_of(measure, cases.lengths, backend)
    noise_nats: float | None = None
    first_measured: int | None = None
    n_done = 0
    for number in numbers:
        at = groups[number]
        if directory is not None and directory.has_part(number):
            yield from cases_of_part(directory, number)
            n_done += len(at)
            continue
        first_measured = number if first_measured is None else first_measured
        if noise_nats is None and backend.capabilities.is_remote:
            noise_nats = _noise_nats(backend, prepared, directory)
        group = with_noise(prepared[at.start : at.stop], noise_nats)
        callbacks.on_case(n_done, group[0].item.id)
        n_done += len(at)
        is_first = number == first_measured
        counter = FullPassCounter(backend) if is_first and backend.passes == "plain" else None
        parts = measured_together(
            *(backend, measure, group),
            measuring_noise=[case in sample for case in at],
            in_groups=in_groups,
            check=check_of(number, at, sample, is_first=is_first),
            counter=counter,
        )
        _say_wrong_pass(parts, callbacks)
        if counter is not None:
            callbacks.on_full_passes(counter.counted(len(group)))
        if n_halvings := parts[0][0]["cost"]["out_of_memory_retries"]:
            callbacks.on_halving(_named([case.item.id for case in group]), n_halvings)
        if directory is not None:
            write_part(directory, number, parts)
        yield from parts


def _measured_elsewhere(
    backend: PartsBackend,
    measure: Measure,
    cases: Preparations,
    directory: RunDirectory | None,
    callbacks: Callbacks,
    groups: Sequence[range],
    numbers: Sequence[int],
) -> Iterator[Part]:
    """See `measure_cases`. Parts are written as they come, and yielded in order; failed parts raise at the end."""
    todo = [number for number in numbers if directory is None or not directory.has_part(number)]
    missing, failed = set(todo), dict[int, Failure]()
    kept: dict[int, list[Part]] = {}
    following = iter(numbers)
    number = next(following, None)
    callbacks.on_case(sum(len(groups[number]) for number in {*numbers} - {*todo}), cases.ids[0])

    def in_order() -> Iterator[Part]:
        nonlocal number
        while number is not None and number not in missing:
            if directory is not None:
                yield from kept.pop(number, None) or cases_of_part(directory, number)
            else:
                yield from kept.pop(number)
            number = next(following, None)

    def written(part: int, outcome: Any) -> None:
        missing.discard(part)
        if directory is None or part == number:
            kept[part] = outcome.parts
        n_cases = sum(len(groups[number]) for number in {*numbers} - missing)
        callbacks.on_case(n_cases, cases.ids[groups[part].stop - 1])

    writing: dict[Future[None], tuple[int, Any]] = {}
    try:
        with ThreadPoolExecutor(WRITERS) as threads:
            for part, outcome in backend.measure_parts(measure, cases, todo, groups):
                if isinstance(outcome, Failure):
                    failed[part] = outcome
                    continue
                if outcome.n_halvings:
                    names = _named(cases.ids[groups[part].start : groups[part].stop])
                    callbacks.on_halving(names, outcome.n_halvings)
                _say_wrong_pass(outcome.parts, callbacks)
                if directory is None:
                    written(part, outcome)
                else:
                    writing[threads.submit(write_part, directory, part, outcome.parts)] = part, outcome
                    for future in _ended(writing, at_most=WRITERS):
                        written(*writing.pop(future))
                yield from in_order()
            for future in _ended(writing, at_most=0):
                written(*writing.pop(future))
                yield from in_order()
    except KeyboardInterrupt:
        # What it left to the writers they have written: these parts are measured too.
        for future, of_part in writing.items():
            if future.exception() is None:
                written(*of_part)
        yield from in_order()
        raise
    yield from in_order()
    if failed:
        raise _failed(failed, cases.ids, groups, len(numbers) if directory is not None else 0)


def _ended(writing: Mapping[Future[None], Any], *, at_most: int) -> list[Future[None]]:
    """Finished writes, once at most `at_most` others are left."""
    while True:
        ended = [future for future in writing if future.done()]
        if len(writing) - len(ended) <= at_most:
            for future in ended:
                future.result()
            return ended
        wait(writing, return_when=FIRST_COMPLETED)


def _failed(failed: Mapping[int, Failure], ids: Sequence[str], groups: Sequence[range], n_kept: int) -> LeakmeterError:
    n = n_listed(len(failed), _MOST_NAMED)
    of_parts = [ids[groups[number].start : groups[number].stop] for number in sorted(failed)[:n]]
    names = ", ".join(f"'{_named(group)}'" for group in of_parts)
    more = f" and {len(failed) - n:,} more" if len(failed) > n else ""
    error = rebuilt(failed[min(failed)])
    message = f"{names}{more} could not be measured: {error}"
    if n_kept:
        message += (
            f"; the other {n_kept - len(failed):,} parts of the run are kept, and the same command tries the failed "
            "ones again"
        )
    error.args = (message,)
    return error


@dataclass(frozen=True, slots=True)
class PartCheck:
    """How a part is held against plain passes."""

    seed: int
    is_kept: bool
    """Whether the part says what was found: those that a process checks because it begins with them do not, since what
    a run holds may not depend on where it was interrupted, nor on who measured what."""


def check_of(number: int, cases: range, sample: NoiseSample, *, is_first: bool) -> PartCheck | None:
    """How a part is checked, by the numbers of its cases: if it has the case of a hundred that is, or if a process
    begins with it."""
    is_kept = is_checked(cases.start, len(cases), sample)
    return PartCheck(number, is_kept) if is_kept or is_first else None


def _say_wrong_pass(parts: Sequence[Part], callbacks: Callbacks) -> None:
    for texts, _ in parts:
        if (nats := texts.get("self_check", {}).get("failed_nats")) is not None:
            callbacks.on_wrong_pass(texts["id"], float(nats))
            return


def measured_together(
    backend: Backend,
    measure: Measure,
    group: Sequence[Prepared],
    *,
    measuring_noise: Sequence[bool],
    in_groups: bool,
    check: PartCheck | None = None,
    counter: FullPassCounter | None = None,
) -> list[Part]:
    """Measure the cases of one part; `measuring_noise` says which are of the run's sample. With `in_groups` each says
    how many cases the part has. With a check, a back end that shares work is held against a plain pass; where it gives
    other numbers, the part is measured again with plain passes alone. `counter` counts what is asked.

    Raises:
        WrongPassError: plain passes do not give what they gave either.
    """
    group = with_sampled_noise(group, measuring_noise)
    n_before = backend.n_halvings
    started = time.perf_counter()
    failed_nats: float | None = None
    try:
        measured, cost, recomputed = _checked(backend, measure, group, check, counter)
    except WrongPassError as wrong:
        failed_nats = wrong.nats
        backend.pass_plainly()
        measured, cost, recomputed = _checked(backend, measure, group, check)
    seconds, n_halvings = time.perf_counter() - started, backend.n_halvings - n_before
    backend.confirm()
    parts: list[Part] = []
    costs = _costs(cost, seconds, n_halvings, len(group))
    for case, measurements, took in zip(group, measured, costs, strict=True):
        case_cost = {**took, "scored_together": len(group)} if in_groups else took
        parts.append(({**texts_of(case, measurements, backend), "cost": case_cost}, measurements))
    if (passes := backend.passes) is not None:
        if passes == "plain":
            for texts, _ in parts:
                texts["self_check"] = {"passes": passes}
        if recomputed is not None and (failed_nats is not None or (check is not None and check.is_kept)):
            # What was found of a part its first case keeps.
            parts[0][0]["self_check"] = record_of(recomputed, passes, failed_nats)
    return parts


def _checked(
    backend: Backend,
    measure: Measure,
    group: Sequence[Prepared],
    check: PartCheck | None,
    counter: FullPassCounter | None = None,
) -> tuple[list[list[Measurement]], Cost, Recomputed | None]:
    """Drive the trials of a part, and hold them against a plain pass where there is a check."""
    trials = [measure.trial(case.item) for case in group]
    look = None if counter is None else counter.look
    if check is None or backend.passes is None:
        measured, cost = drive(backend, trials, on_plan=look)
        recomputed = None
    else:
        backend.begin_self_check(check.seed)
        try:
            measured, cost = drive(backend, trials, on_plan=look)
            recomputed = backend.end_self_check()
        finally:
            backend.drop_self_check()
    if counter is not None:
        counter.n_gradient_tokens += cost.n_gradient_tokens
    return measured, cost, recomputed


def write_part(directory: RunDirectory, number: int, parts: Sequence[Part]) -> None:
    directory.write_part(
        number,
        [texts for texts, _ in parts],
        [measurement for _, measurements in parts for measurement in measurements],
    )


def shares(total: int, n: int) -> list[int]:
    """A count in `n` whole shares that add up to it and differ by 1 at most."""
    return [total // n + (i < total % n) for i in range(n)]


def with_noise(prepared: Sequence[Prepared], noise_nats: float | None) -> Sequence[Prepared]:
    """The cases with the noise of their model, if it is known."""
    if noise_nats is None:
        return prepared
    return [replace(case, item=replace(case.item, model_noise_nats=noise_nats)) for case in prepared]


def noise_sample_of(measure: Measure, lengths: Sequence[int], backend: Backend) -> NoiseSample:
    """Which cases of a run measure noise, by the lengths of all."""
    return NoiseSample.of(lengths, seed=measure.noise_seed, dtype=backend.dtype, device=backend.device)


def with_sampled_noise(prepared: Sequence[Prepared], measuring_noise: Iterable[bool]) -> Sequence[Prepared]:
    """The cases, those of the sample with the noise to measure."""
    return [
        replace(case, item=replace(case.item, measures_noise=is_sampled))
        for case, is_sampled in zip(prepared, measuring_noise, strict=True)
    ]


def _named(ids: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys((ids[0], ids[-1])))


def _noise_nats(backend: Backend, prepared: Sequence[Prepared], directory: RunDirectory | None) -> float:
    """The model's noise, as the run keeps it. It is measured if the run has none, or one measured with fewer requests
    at a time; then the larger counts."""
    noise = None if directory is None else directory.noise
    if noise is None or noise.get("concurrency", 0) < backend.concurrency:
        new_noise = asdict(backend.measured_noise([prepared[0].item]))
        noise = {**new_noise, "nats": max(new_noise["nats"], noise["nats"])} if noise is not None else new_noise
        if directory is not None:
            directory.keep_noise(noise)
    return float(noise["nats"])


def _costs(cost: Cost, seconds: float, n_halvings: int, n: int) -> list[JsonObject]:
    """What each of `n` cases took: its share of what they took together."""
    counts = (shares(count, n) for count in (cost.n_prompts, cost.n_tokens_run, cost.n_full_pass_tokens))
    return [
        {
            "requests": n_prompts,
            "tree_tokens": n_tokens_run,
            "naive_tokens": n_full_pass_tokens,
            "seconds": round(seconds / n, 3),
            "out_of_memory_retries": n_halvings,
        }
        for n_prompts, n_tokens_run, n_full_pass_tokens in zip(*counts, strict=True)
    ]


def _span_texts(span: Span) -> JsonObject:
    texts = asdict(span)
    if span.field is None:
        del texts["field"]
    return texts


def texts_of(prepared: Prepared, measurements: Sequence[Measurement], backend: Backend) -> JsonObject:
    of_tokens = [measurement for measurement in measurements if measurement.unit == TOKEN_ID]
    responses = [
        measurement.values.astype(int).tolist() for measurement in of_tokens if measurement.statistic == RESPONSE
    ]
    named = {
        int(token) for measurement in of_tokens if measurement.statistic != RESPONSE for token in measurement.values
    }
    texts: JsonObject = {
        "id": prepared.item.id,
        "model": backend.name,
        "weights_sha256": backend.weights_sha256,
        "dtype": backend.dtype,
        "unit": prepared.unit,
        "removal": prepared.removal,
        "template": prepared.template,
        "query": prepared.query,
        "context": prepared.context,
        "documents": [{"name": name, "start": start, "end": end} for name, start, end in prepared.documents],
        "truncated_tokens": prepared.n_truncated_tokens,
        "sampled": prepared.item.response is None,
        "responses": [response_texts(ids, backend.tokenizer) for ids in responses],
        "spans": [_span_texts(span) for span in prepared.item.spans],
    }
    if prepared.unmarked_query_tokens is not None:
        texts["unmarked_query_tokens"] = prepared.unmarked_query_tokens
    if prepared.unmeasured_answers:
        texts["unmeasured_answers"] = prepared.unmeasured_answers
    if prepared.item.steps is not None:
        texts["steps"] = asdict(prepared.item.steps)
    texts.update(prepared.texts())
    if named:
        texts["words"] = {str(token): backend.tokenizer.decode([token]) for token in sorted(named)}
    return texts
