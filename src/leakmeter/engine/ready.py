"""The door to the engine: a plan of what to measure, made ready for a model, measured in memory or into a run.

ready = make_ready(Plan("influence", Influence(), PromptSettings(), LoadedCases(cases)), backend)
parts = list(ready.measure())                       # in memory
with ready.measure_into(Path("runs")) as run:       # kept, and gone on with where it was interrupted
    parts = list(run.parts)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from leakmeter.core.backend import Backend, check_needs
from leakmeter.core.files import made_for, remove_unused
from leakmeter.core.item import Prepared
from leakmeter.core.loaded import Plan, Preparations
from leakmeter.core.measure import Measure
from leakmeter.core.urls import url_of
from leakmeter.engine.groups import parts_of
from leakmeter.engine.measure import Callbacks, measure_cases
from leakmeter.engine.slices import Slice
from leakmeter.engine.storage.parts import Part
from leakmeter.engine.storage.pseudonym import NONCE_FILES
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import RunSpec, spec_of
from leakmeter.engine.storage.stored import run_directory

_OF_FULL_PASSES: Final = (
    "'{}' has states that cannot be forked, or failed a self-check, so each sequence is run in full; how many tokens "
    "more that takes is said once the first case is measured"
)


def make_ready(plan: Plan, backend: Backend) -> ReadyPlan:
    """A resolved plan's cases tokenised and cut for a back end; `LeakmeterError` where the back end or the measure
    cannot do what is asked of it."""
    plan = plan.case_by_case() if backend.capabilities.is_remote else plan
    check = partial(_check, plan.measure, backend)
    prepared, kept = plan.cases.prepared(backend, plan.settings, plan.measure, check, plan.steps, deferred=True)
    return _ready(replace(plan, cases=kept), backend, prepared)


def ready_of(plan: Plan, backend: Backend, prepared: Preparations) -> ReadyPlan:
    """As `make_ready`, of cases that are prepared already."""
    for case in prepared:
        _check(plan.measure, backend, case)
    return _ready(plan, backend, prepared)


def _ready(plan: Plan, backend: Backend, prepared: Preparations) -> ReadyPlan:
    if backend.passes == "plain":
        plan = replace(plan, cases=replace(plan.cases, notes=(*plan.cases.notes, _OF_FULL_PASSES.format(backend.name))))
    steps = prepared.steps if plan.steps else ()
    return ReadyPlan(plan, backend, prepared, parts_of(plan.cases.cases, plan.group_size, steps, plan.telling))


def _check(measure: Measure, backend: Backend, prepared: Prepared) -> None:
    """Refuse, before anything is written, what the measure cannot do with a case, or the back end cannot answer."""
    measure.check(prepared.item)
    check_needs(backend, measure.needs(prepared.item))


class OpenRun(NamedTuple):
    """A run that is being measured; unless it is a slice, it is complete once all of `parts` are taken."""

    directory: RunDirectory
    spec: RunSpec
    measure: Measure
    parts: Iterator[Part]


@dataclass(frozen=True, slots=True)
class ReadyPlan:
    """A plan whose cases are prepared for a back end; those that cannot be used are left out of its `cases`."""

    plan: Plan
    backend: Backend
    prepared: Preparations
    groups: list[range]
    """The cases of each part of the run."""

    def measure(self, callbacks: Callbacks = Callbacks()) -> Iterator[Part]:  # noqa: B008 (frozen)
        """Each case's texts and measurements, in order; nothing is written."""
        plan = self.plan
        return measure_cases(self.backend, plan.measure, self.prepared, None, callbacks, groups=self.groups)

    def spec(self, *, command: str | None = None, label: str | None = None, data: str | None = None) -> RunSpec:
        """What names the run of this plan, and explains it: the command line, what the run is called, and which files
        the cases are of."""
        plan = self.plan
        return spec_of(
            *(plan.measure, plan.instrument, plan.settings, self.backend, plan.cases.cases),
            group_size=plan.group_size,
            command=command,
            problems=plan.cases.problems,
            label=label,
            data=data,
        )

    @contextmanager
    def measure_into(
        self,
        out: Path,
        *,
        callbacks: Callbacks = Callbacks(),  # noqa: B008 (frozen)
        command: str | None = None,
        label: str | None = None,
        data: str | None = None,
        part: Slice | None = None,
        numbers: Sequence[int] | None = None,
        lasting: bool = True,
    ) -> Iterator[OpenRun]:
        """The plan's run under a directory of runs, or an object store's URL: what is finished is read, the rest is
        measured and written as it is taken. With `part` that slice alone is measured, and the run left for
        `engine.slices.complete`; `numbers` are all parts in the order in which they are measured. A run that is not
        `lasting` outlives a kill, and may be damaged where the machine stops."""
        with ExitStack() as undone:
            if url_of(out) is None:
                undone.enter_context(made_for(out))
            ready, kept_in = self, None
            if self.plan.settle is not None:
                measure, kept_in = self.plan.settle()
                ready = replace(self, plan=replace(self.plan, measure=measure))
            spec = ready.spec(command=command, label=label, data=data)
            undone.enter_context(_kept_for(out / spec.id, kept_in))
            plan, groups = ready.plan, self.groups
            n = len(groups)
            run = run_directory(out, spec.id, str(part or ""))
            run.lasting = lasting
            opened = run.opened(spec) if part is None else run.opened_slice(spec, part.number, part.n_slices, n)
            directory = undone.enter_context(opened)
            in_order = range(n) if numbers is None else numbers
            parts = measure_cases(
                *(self.backend, plan.measure, self.prepared, directory, callbacks),
                groups=groups,
                numbers=in_order if part is None else part.parts(n),
            )
            undone.callback(parts.close)
            yield OpenRun(directory, spec, plan.measure, parts)
            if part is None and directory.is_complete:
                directory.confirm()
            elif part is None:
                directory.finish(spec, n)


@contextmanager
def _kept_for(run: Path, directory: Path | None) -> Iterator[None]:
    """Remove what a directory keeps for a run if an error leaves nothing of the run."""
    try:
        yield
    except BaseException:
        if directory is not None and not run.exists():
            remove_unused(directory, NONCE_FILES)
        raise
