"""Given cases to a finished run, shown and reported: what the commands of all measures share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.commands import output
from leakmeter.commands.command_line import command_line
from leakmeter.commands.dry_run import predict_cases
from leakmeter.commands.given import LoadedCases, as_unicode
from leakmeter.commands.options import RunOptions
from leakmeter.core import registry
from leakmeter.core.measure import Measure
from leakmeter.core.urls import place_of, url_of
from leakmeter.errors import LeakmeterError, UsageError

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.instrument import Settings
    from leakmeter.core.item import Prepared
    from leakmeter.engine.measure import Callbacks
    from leakmeter.engine.slices import Slice
    from leakmeter.results.result import AnyResult, Part
    from leakmeter.storage.rundir import RunDirectory


def run_cases(
    given: LoadedCases[Any],
    settings: Settings,
    measure: Measure,
    name: str,
    run: RunOptions,
    *,
    group_size: int = 1,
    results: Callable[[Iterable[Part]], Iterator[AnyResult]] | None = None,
    accept: Callable[[Backend], None] = lambda backend: None,
    settle: Callable[[], tuple[Measure, Path]] | None = None,
    inputs: Sequence[object] = (),
    public: bool = False,
    hides_paths: bool = False,
) -> None:
    """Measure cases into a run directory, and show them; or predict what that would take.

    Args:
        given: what is measured.
        settings: how prompts are made.
        measure: what measures.
        name: the measure's.
        run: with which model, and where to.
        group_size: cases that are scored together; see `engine.measure.measure_cases`.
        results: texts and measurements to what is shown; the measure's own results by default.
        accept: refuses a back end on which the measure would not mean what it promises.
        settle: called once nothing else is refused: gives what measures instead, and the directory where that is kept,
            which goes again where nothing comes to be measured.
        inputs: options that may name files which the command reads, and must not write over.
        hides_paths: files may be called by the names of people, and are left out of the command line that is kept.
        public: say nothing of the work, of the run's name and of what was wrong with a case, which tell of the texts.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    read = (settings, run.model, Path(run.model), *inputs)
    if not public:
        for note in given.notes:
            output.tell(note)
    settings = settings.resolved()
    if run.dry_run:
        predict_cases(given, settings, measure, run, group_size=group_size)
        return
    if run.html is not None:
        output.check_writable(run.html, "report", *read)
    from leakmeter.commands.progress import progress
    from leakmeter.core.written import files_among
    from leakmeter.engine.measure import Callbacks, RemoteBackend, check_answered
    from leakmeter.storage.stored import check_store

    part = _slice_of(run, draws=settle is not None)
    check_store(run.out)
    backend = run.load_backend()
    if part is not None and isinstance(backend, RemoteBackend):
        raise UsageError("a served model does the work from wherever it is asked; leave --part out, for --concurrency")
    accept(backend)
    with _unexplained(public):
        prepared, kept = given.prepared(backend, settings, measure)
        # What a measure cannot do with cases of this kind it says as its trial begins: before anything is written.
        measure.check(prepared[0].item)
        check_answered(backend, measure, prepared)
    if not public:
        for note in kept.notes:
            output.tell(note)
    hidden = [*inputs, run.out, run.html] if hides_paths else []
    command = command_line(sys.argv[1:], without=hidden)
    files = () if hides_paths or public else dict.fromkeys(as_unicode(str(path)) for path in files_among(inputs))
    shown: list[AnyResult] = []
    watch = nullcontext(Callbacks()) if public else progress(backend, len(prepared))
    with (
        watch as callbacks,
        kept_parts(
            *(backend, measure, name, settings, prepared, kept, run.out),
            group_size=group_size,
            command=command,
            label=run.name,
            data=", ".join(files) or None,
            callbacks=callbacks,
            settle=settle,
            part=part,
        ) as (directory, settled, parts),
    ):
        kept_name = directory.read_spec().get("name") if directory.is_complete else run.name
        results_of = results or partial(registry.instrument(name).result.from_run, params=asdict(settled))
        for result in results_of(parts):
            shown.append(result)
            if run.json:
                output.print_json(result.to_dict())
    if run.name not in (None, kept_name) and not public:
        output.tell(f"the run was finished before, and keeps its name; '{run.name}' is not written down")
    if part is not None:
        output.tell(f"part {part} is measured; when all {part.of} are: leakmeter runs complete {directory.place}")
        return
    if not run.json:
        output.print_results(shown)
    if run.html is not None:
        output.write_page(run.html, shown, command, Path(directory.place))
    output.tell(
        f"run: in '{place_of(run.out)}', and private, its name included" if public else f"run: {directory.place}"
    )
    if run.html is not None:
        output.tell_page(run.html, public=public)
    if kept.problems:
        output.tell(output.left_out(kept.problems, public=public))


def _slice_of(run: RunOptions, *, draws: bool) -> Slice | None:
    """The slice of the run that is to be measured; None for all of it."""
    if run.part is None:
        return None
    from leakmeter.engine.slices import Slice

    if run.html is not None:
        raise UsageError("a slice has no page; leave --html out, and give it to `leakmeter report` of the whole run")
    if draws:
        raise UsageError("a guarantee of privacy draws one secret for all of a run; leave --part out")
    return Slice.parsed(run.part)


@contextmanager
def kept_parts(
    backend: Backend,
    measure: Measure,
    name: str,
    settings: Settings,
    prepared: Sequence[Prepared],
    kept: LoadedCases[Any],
    out: Path,
    *,
    group_size: int = 1,
    command: str | None = None,
    label: str | None = None,
    data: str | None = None,
    callbacks: Callbacks,
    settle: Callable[[], tuple[Measure, Path]] | None = None,
    part: Slice | None = None,
) -> Iterator[tuple[RunDirectory, Measure, Iterator[Part]]]:
    """A run directory, what measures, and the cases' texts and measurements; the run is complete once all are taken.
    `prepared` are the cases of `kept` for the back end. With `part` that slice alone is measured, and the run left for
    `engine.slices.complete`. All else is as for `run_cases`."""
    from leakmeter.core.written import made_for
    from leakmeter.engine.measure import measure_cases, n_parts
    from leakmeter.storage.fingerprint import spec_of
    from leakmeter.storage.stored import run_directory

    with ExitStack() as undone:
        if url_of(out) is None:
            undone.enter_context(made_for(out))
        measure, kept_in = (measure, None) if settle is None else settle()
        spec = spec_of(
            *(measure, name, settings, backend, kept.cases),
            group_size=group_size,
            command=command,
            problems=kept.problems,
            label=label,
            data=data,
        )
        undone.enter_context(_kept_for(out / spec.id, kept_in))
        n = n_parts(len(prepared), group_size)
        numbers = range(n) if part is None else part.parts(n)
        run = run_directory(out, spec.id, str(part or ""))
        opened = run.opened(spec) if part is None else run.opened_slice(spec, part.number, part.of, n)
        directory = undone.enter_context(opened)
        parts = measure_cases(backend, measure, prepared, directory, callbacks, group_size=group_size, numbers=numbers)
        yield directory, measure, parts
        if part is None and not directory.is_complete:
            directory.finish(spec, n)


@contextmanager
def _kept_for(run: Path, directory: Path | None) -> Iterator[None]:
    """What a directory keeps for a run goes again where nothing of the run came to be."""
    try:
        yield
    except BaseException:
        from leakmeter.core.written import remove_unused
        from leakmeter.storage.nonce import NONCE_FILES

        if directory is not None and not run.exists():
            remove_unused(directory, NONCE_FILES)
        raise


@contextmanager
def _unexplained(public: bool) -> Iterator[None]:
    """In public it is not said why a case cannot be used: the reason has its name, and its number of tokens."""
    try:
        yield
    except LeakmeterError:
        if not public:
            raise
        raise UsageError("a case cannot be used so; without --public the same command says why") from None
