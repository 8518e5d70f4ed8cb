"""From cases to a finished run, shown and reported: what commands of all measures share."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.commands import output
from leakmeter.commands.dry_run import predict_cases
from leakmeter.commands.options import RunOptions
from leakmeter.commands.time_limit import Order, TimeLimit, worst_first
from leakmeter.core import registry
from leakmeter.core.case import Case, Document, unmeasured_answers, unmeasured_text
from leakmeter.core.loaded import LoadedCases
from leakmeter.core.long_work import told_if_long
from leakmeter.core.plain import as_unicode, counted
from leakmeter.core.quantity import watched
from leakmeter.core.urls import place_of
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.report.blocks import Unfinished

if TYPE_CHECKING:
    from leakmeter.commands.options import CaseSource
    from leakmeter.core.backend import Backend
    from leakmeter.core.loaded import Plan
    from leakmeter.data.context_marker import ContextMarker
    from leakmeter.data.formats import DataFormat
    from leakmeter.engine.slices import Slice
    from leakmeter.results.result import AnyResult, PartContent


_LONG_SECONDS: Final = 3.0
"""Seconds of preparation, of which few cases take a moment, before it is said."""
_FIRST_PAGE: Final = 8
"""Cases after which a page is first written while others are measured."""


def run_cases(
    plan: Plan,
    run: RunOptions,
    *,
    results: Callable[[Iterable[PartContent]], Iterator[AnyResult]] | None = None,
    accept: Callable[[Backend], None] = lambda backend: None,
    inputs: Sequence[object] = (),
    public: bool = False,
    hides_paths: bool = False,
    hides: Iterable[str] = (),
) -> Sequence[Any]:
    """Measure a plan into a run directory, show its results, and return them; or predict what that would take.

    `accept` refuses a back end on which the measure would not mean what it promises; `inputs` are options that may name
    files which the command reads, and must not write over. `public` says nothing of the work, of the run's name and of
    what was wrong with a case, which tell of the texts; `hides_paths`: files may be called by the names of people, and
    are left out of the command line that is kept, as are the words that it `hides`.
    """
    limit = _time_limit_of(run, plan)
    began = time.monotonic()
    plan = plan if limit is None else plan.case_by_case()
    read = (plan.settings, run.model, Path(run.model), *inputs)
    if not public:
        for note in plan.cases.notes:
            output.tell(note)
    plan = plan.resolved()
    if run.dry_run:
        predict_cases(plan, run)
        return ()
    if run.html is not None:
        output.check_writable(run.html, "report", *read)
    from leakmeter.commands.progress import progress
    from leakmeter.core.files import files_among
    from leakmeter.engine.measure import Callbacks
    from leakmeter.engine.ready import make_ready
    from leakmeter.engine.storage.parts import cases_of_run
    from leakmeter.engine.storage.stored import check_store

    part = _slice_of(run, draws=plan.settle is not None)
    check_store(run.out)
    backend = run.load_backend()
    if part is not None and backend.capabilities.is_remote:
        raise UsageError("a served model does the work itself; use --concurrency instead of --part")
    accept(backend)
    preparing = f"preparing {counted(len(plan.cases.cases), 'case')} …"
    with _unexplained(public), nullcontext() if public else told_if_long(output.tell, preparing, after_s=_LONG_SECONDS):
        ready = make_ready(plan, backend)
    kept = ready.plan.cases
    if not public:
        for note in kept.notes:
            output.tell(note)
    hidden = [*hides, *([*inputs, run.out, run.html] if hides_paths else [])]
    command = output.command_line(without=hidden)
    files = () if hides_paths or public else dict.fromkeys(as_unicode(str(path)) for path in files_among(inputs))
    shown: list[AnyResult] = []
    n_cases = len(ready.prepared)
    if part is not None:
        n_cases = part.n_cases(ready.groups)
    kind = registry.instrument(plan.instrument).result
    findings: dict[str, float] = {}
    order: Order | None = None
    numbers: Sequence[int] | None = None
    if plan.telling is not None and (limit is not None or _is_worst_first(plan, run)):
        telling = plan.telling(kept.cases)
        of_parts = [max(telling[at.start : at.stop]) for at in ready.groups]
        order = None if limit is None else Order.of(of_parts, seed=0)
        numbers = worst_first(of_parts) if order is None else order.parts
    is_interrupted = False
    done: dict[str, PartContent] = {}
    # What a guarantee of privacy covers is the whole run.
    has_no_part = public or part is not None or plan.settle is not None
    watch = nullcontext(Callbacks()) if public else progress(backend, n_cases, findings)
    try:
        with (
            watch as callbacks,
            ready.measure_into(
                run.out,
                callbacks=callbacks,
                command=command,
                label=run.name,
                data=", ".join(files) or None,
                part=part,
                numbers=numbers,
            ) as opened,
        ):
            directory = opened.directory
            n_kept = sum(len(ready.groups[number]) for number in directory.parts)
            page = None
            if run.html is not None and not public and not directory.is_complete:
                page = _GrowingPage(run.html, n_cases // plan.measure.parts, command)
            kept_name = directory.read_spec().get("name") if directory.is_complete else run.name
            make = results or partial(kind.from_run, params=asdict(opened.measure))

            def parts() -> Iterator[PartContent]:
                """Those that are done when the run is interrupted have results all the same."""
                nonlocal is_interrupted
                try:
                    for each in opened.parts:
                        if order is not None:
                            done[each[0]["id"]] = each
                        yield each
                        # What was measured before costs no time; something is measured in any case.
                        is_new = len(done) > n_kept
                        if limit is not None and is_new and time.monotonic() - began >= limit.seconds:
                            return
                except KeyboardInterrupt:
                    if has_no_part:
                        raise
                    is_interrupted = True

            for result in watched(parts(), make, findings, is_of_run=kind.is_of_run):
                shown.append(result)
                if page is not None:
                    page.grow(shown)
                if run.json and order is None:
                    output.print_json(result.to_dict())
            if is_interrupted:
                raise KeyboardInterrupt
            if limit is not None and len(done) < n_cases:
                raise _TimeOverError
    except _TimeOverError:
        pass
    except KeyboardInterrupt:
        for result in shown if run.json and order is not None else ():
            output.print_json(result.to_dict())
        if shown and not has_no_part:
            _show_interrupted(shown, n_cases // plan.measure.parts, run, command)
        elif shown and not public:
            why = "the guarantee covers all, so results are shown once all are done"
            if part is not None:
                why = f"results are of the whole run, and are shown once all {part.n_slices} parts are put together"
            of_part = "" if part is None else f" of part {part}"
            n_all = n_cases // plan.measure.parts
            output.tell(f"{len(shown):,} of {n_all:,} cases{of_part} are measured; {why}")
        raise
    unfinished: Unfinished | None = None
    if numbers is not None and order is None:
        # Results are those of the order of the cases, here and below: what the checks of one show holds for the next.
        shown = list(make(cases_of_run(directory)))
    if order is not None and limit is not None:
        ids = ready.prepared.ids
        measured = [id_ for id_ in ids if id_ in done]
        shown = list(make(done[id_] for id_ in measured))
        for result in shown if run.json else ():
            output.print_json(result.to_dict())
        if len(done) < n_cases:
            found = {id_ for id_, result in zip(measured, shown, strict=True) if _is_found(result)}
            unfinished = _proven(order, limit, [ids[at.start : at.stop] for at in ready.groups], done, found)
    if run.name not in (None, kept_name) and not public:
        output.tell(f"the run was finished before and keeps its name; '{run.name}' is ignored")
    if part is not None:
        output.tell(f"part {part} is measured; when all {part.n_slices} are: leakmeter runs complete {directory.place}")
        return shown
    if not run.json:
        # Who publishes a guarantee publishes its conditions.
        output.print_results(
            shown,
            n_left_out=len(kept.problems),
            explain=run.explain or public,
            show_secrets=run.show_secrets,
            unfinished=unfinished,
        )
    elif unfinished is not None:
        output.tell(f"{unfinished.only} {unfinished.details}")
    if run.html is not None:
        place = None if unfinished else Path(directory.place)
        output.write_page(run.html, shown, command, place, n_left_out=len(kept.problems), unfinished=unfinished)
    if unfinished:
        output.tell(f"the same command goes on with the other {n_cases - len(done):,} cases")
    output.tell(
        f"run: in '{place_of(run.out)}', and private, its name included" if public else f"run: {directory.place}"
    )
    if run.html is not None:
        output.tell_page(run.html, public=public)
    if kept.problems:
        output.tell(output.left_out(kept.problems, public=public))
    return shown


def _is_worst_first(plan: Plan, run: RunOptions) -> bool:
    """Whether what looks most telling is measured first: of cases measured step by step, of which most disclose
    nothing. Lines of JSON are printed as they come, and a slice is measured, in the order of the data."""
    return bool(plan.steps) and not run.json and run.part is None


class _GrowingPage:
    """The page of a run that is not finished: written again whenever twice as many cases are measured."""

    def __init__(self, path: Path, n_cases: int, command: str) -> None:
        self._path, self._n_cases, self._command = path, n_cases, command
        self._next = _FIRST_PAGE

    def grow(self, shown: Sequence[AnyResult]) -> None:
        if self._next <= len(shown) < self._n_cases:
            self._next = 2 * len(shown)
            so_far = Unfinished(
                f"Only {len(shown):,} of {self._n_cases:,} cases are measured so far.",
                "This page is written again when there are twice as many, and at the end.",
            )
            output.write_page(self._path, shown, self._command, None, unfinished=so_far)


class _TimeOverError(Exception):
    """Ends the measurement of a run that is not finished."""


def _time_limit_of(run: RunOptions, plan: Plan) -> TimeLimit | None:
    if run.budget is None:
        return None
    if plan.telling is None:
        raise UsageError("--budget is for influence of a log, whose answers differ in how telling they look")
    if run.part is not None:
        raise UsageError("a slice is measured in its own order; give --budget without --part")
    return TimeLimit.parsed(run.budget)


def _proven(
    order: Order, limit: TimeLimit, parts: Sequence[Sequence[str]], done: Container[str], found: Container[str]
) -> Unfinished:
    """What the cases that were looked at within a limit prove of the others, by the ids of the cases of each part."""
    are_done = [number for number, ids in enumerate(parts) if all(id_ in done for id_ in ids)]
    are_found = [number for number in are_done if any(id_ in found for id_ in parts[number])]
    noun = "response" if all(len(ids) == 1 for ids in parts) else "response or conversation"
    return order.proves(limit, are_found, are_done, noun)


def _is_found(result: AnyResult) -> bool:
    return any(finding.compute(result) for finding in result.so_far)


def _show_interrupted(shown: Sequence[AnyResult], n_cases: int, run: RunOptions, command: str) -> None:
    if not run.json:
        output.print_results(shown, n_cases, explain=run.explain, show_secrets=run.show_secrets)
    if run.html is not None:
        output.write_page(run.html, shown, command, None, n_cases)
        output.tell_page(run.html, public=type(shown[0]).is_public)


def _slice_of(run: RunOptions, *, draws: bool) -> Slice | None:
    if run.part is None:
        return None
    from leakmeter.engine.slices import Slice

    if run.html is not None:
        raise UsageError(
            "a slice has no page; leave --html out, and write the page of the whole run with `leakmeter report`"
        )
    if draws:
        raise UsageError("a privacy guarantee needs one secret for the whole run; leave --part out")
    return Slice.parsed(run.part)


@contextmanager
def _unexplained(public: bool) -> Iterator[None]:
    """In public, do not say why a case cannot be used: the reason names it, and its number of tokens."""
    try:
        yield
    except LeakmeterError:
        if not public:
            raise
        raise UsageError("a case cannot be used; run the command without --public to see why") from None


def log_formats(marker: ContextMarker | None) -> Iterator[DataFormat]:
    """Presets for logs, loaded where one is looked for."""
    from leakmeter.data.traces.reader import presets

    yield from presets(marker)


def read_cases(source: CaseSource, response: str | None = None, *, needs_response: bool = False) -> LoadedCases[Case]:
    """The cases that options name; `needs_response` as of `data.cases.cases_of`."""
    from leakmeter.data.cases import cases_of, logged_case
    from leakmeter.data.conversation import emission_options

    named = (("--context-file", source.context_file), ("--data", source.data), ("--messages", source.messages))
    options = [name for name, value in named if value]
    if len(options) != 1:
        expected = "one of --context-file, --data and --messages"
        raise UsageError(
            f"{' and '.join(options)} do not go together; give {expected}" if options else f"give {expected}"
        )
    if source.data is not None:
        if source.query is not None or response is not None:
            raise UsageError("each line of --data has its own query and response; leave out --query and --response")
        loaded = cases_of(
            source.data,
            map=source.map,
            format=source.format,
            context_from=source.context_from,
            skip_bad=source.skip_bad,
            needs_response=needs_response,
            emissions=emission_options(source.turns, source.channels),
            quiet_texts=source.quiet_texts,
            logs=log_formats,
        )
        return LoadedCases(loaded.cases, loaded.problems, source.skip_bad, (*loaded.notes, *loaded.first_case))
    of_data = (
        *(("--skip-bad", source.skip_bad), ("--map", source.map), ("--format", source.format)),
        *(("--turns", source.turns != "all"), ("--channels", source.channels)),
        ("--quiet-texts", source.quiet_texts),
    )
    for name, value in of_data:
        if value:
            raise UsageError(f"{name} is for --data")
    if source.messages is not None:
        if source.query is not None:
            raise UsageError("the last user message of --messages is the query; leave out --query")
        case = logged_case(source.messages, response, context_from=source.context_from)
        notes = tuple(f"data: {unmeasured_text(n)}" for n in unmeasured_answers((case,)) if n)
        return LoadedCases((replace(case, id=as_unicode(source.messages.stem)),), notes=notes)
    if source.context_from is not None:
        raise UsageError("--context-from is for --data and --messages; the files of --context-file are the context")
    paths = source.context_file or []
    id_ = as_unicode(paths[0].stem)
    return LoadedCases((Case(id_, documents=_documents(paths), query=source.query or "", response=response),))


def _documents(paths: list[Path]) -> tuple[Document, ...]:
    from leakmeter.core.files import read_text
    from leakmeter.data.cases import unique_names

    documents = [Document(as_unicode(path.name), read_text(path, "context file")) for path in paths]
    for document, path in zip(documents, paths, strict=True):
        if not document.text.strip():
            raise UsageError(f"context file '{path}' is empty, so there is no influence to measure")
    return tuple(unique_names(documents))
