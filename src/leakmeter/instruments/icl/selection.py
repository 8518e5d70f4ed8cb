"""Exemplar selection: each list that is searched is a run of its own; queries that did not choose report.

runs/
  icl-select-9a…/         mode 0700: one directory for the exemplars, the queries, the model and the measure
    icl-1f2e…/            the run of one list before one half of the queries
    selection.json, table.md, exemplars.jsonl      of the last command

The directory's name leaves out the moves, the pool and the number of steps: a longer search goes on from what a shorter
one has measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Final

from leakmeter.commands.studies.cells import ShowProgress, directory_of, used_directory
from leakmeter.core.backend import Backend
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.record import Record
from leakmeter.engine.ready import make_ready
from leakmeter.errors import WindowError
from leakmeter.instruments.icl.given import FIXED_TOGETHER, fixed_cases
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings
from leakmeter.instruments.icl.result import IclResult, IclSummary, summary
from leakmeter.instruments.icl.search import (
    ExemplarList,
    ExemplarSearch,
    MeasuredList,
    SearchRound,
    SearchScope,
    search,
)
from leakmeter.stats import stats
from leakmeter.stats.ranks import paired_difference
from leakmeter.text.exemplars import LabelledText, Task

FEWEST: Final = 6
"""Queries of which Wilcoxon's two-sided p can fall below 0.05: with n of them it is 2^(1 − n) at least."""
_LOWEST: Final = "lowest ICLInf {:.3g} nats"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionStep(MeasuredList):
    """The list of exemplars after a step."""

    step: int
    """From 1; 0 is the list as given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Record):
    """An exemplar of the list at the end."""

    id: str
    label: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionModel(Record):
    """What measures."""

    name: str
    weights_sha256: str | None
    dtype: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Record):
    """What a search for exemplars found, as `leakmeter icl select --json` prints it."""

    model: SelectionModel
    task: str
    template: str | None
    space: str
    label_scoring: str
    calibration: str | None
    calibration_baseline: str
    calibration_epsilon: float
    temperature: float
    moves: tuple[str, ...]
    max_steps: int
    seed: int
    candidates: tuple[str, ...]
    """Ids of the examples of the pool that may come."""
    n_choosing: int
    n_reporting: int
    steps: tuple[SelectionStep, ...]
    rounds: tuple[SearchRound, ...]
    ended: str
    """'no move lowers it' or 'max steps'."""
    n_lists: int
    """Measured by the queries that choose."""
    exemplars: tuple[Chosen, ...]
    """Of the list at the end, in order."""
    before: IclSummary
    """Of the queries that report, behind the exemplars as given."""
    after: IclSummary
    """Of the same queries, behind the exemplars at the end."""
    verdict: str
    """'lower', 'not lower', 'too few' (queries) or 'unchanged' (no step was taken)."""
    loss_difference_nats: float | None
    """Of ICLInf, after less before; None where a loss is infinite."""
    loss_difference_interval_nats: tuple[float, float] | None
    """95 %, paired over queries; None of few, of which all have to be lower."""
    wilcoxon_p: float
    accuracy_difference: float
    """From −1 to 1."""
    accuracy_difference_interval: tuple[float, float]
    """95 %, Bonett and Price 2012."""
    warnings: tuple[str, ...]
    """Of the query, behind the exemplars at the end, whose labels are least likely together."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Measures lists of exemplars, and goes on with what was measured before."""

    backend: Backend
    measure: Icl
    settings: ExemplarSettings
    directory: Path
    progress: ShowProgress
    command: str | None
    findings: dict[str, float] = field(default_factory=dict)
    """What progress says of the lists that are measured."""

    def longest(self, exemplars: ExemplarList, queries: Sequence[LabelledText]) -> LabelledText:
        """The query of most tokens: behind a list where it fits, every query does."""
        cases = fixed_cases(exemplars, queries)
        sizes = [len(self.settings.prepare(case, self.backend, self.measure).item.prompt.ids) for case in cases]
        return queries[sizes.index(max(sizes))]

    def fits(self, exemplars: ExemplarList, query: LabelledText) -> bool:
        (case,) = fixed_cases(exemplars, [query])
        try:
            self.settings.prepare(case, self.backend, self.measure)
        except WindowError:
            return False
        return True

    def measured(self, exemplars: ExemplarList, queries: Sequence[LabelledText]) -> list[IclResult]:
        cases = LoadedCases(tuple(fixed_cases(exemplars, queries)))
        plan = Plan("icl", self.measure, self.settings, cases, FIXED_TOGETHER)
        ready = make_ready(plan, self.backend)
        with (
            used_directory(self.directory),
            self.progress(self.backend, len(cases.cases), self.findings) as callbacks,
            ready.measure_into(self.directory, callbacks=callbacks, command=self.command) as run,
        ):
            return list(IclResult.from_run(list(run.parts), asdict(self.measure)))


def selection_directory(
    scope: SearchScope, settings: ExemplarSettings, measure: Icl, model: str, out: Path, **machine: str | None
) -> Path:
    """The directory of a selection under `out`, which need not be there; named by a scope's texts and seed."""
    return directory_of(
        out,
        "icl-select",
        exemplars=[asdict(example) for example in scope.exemplars],
        queries=[asdict(query) for query in scope.queries],
        settings=asdict(settings),
        measure=asdict(measure),
        model=model,
        seed=scope.seed,
        machine=machine,
    )


def selection_of(
    lists: Lists, scope: SearchScope, outcome: ExemplarSearch, before: Sequence[IclResult], after: Sequence[IclResult]
) -> Selection:
    """`before` and `after`: the queries that report, behind the exemplars as given and at the end."""
    first, second = ([result.loss_nats for result in results] for results in (before, after))
    is_finite = all(map(math.isfinite, (*first, *second)))
    difference, backend = paired_difference(second, first, seed=scope.seed), lists.backend
    p = difference.p_value
    pairs = [(first_result.is_right, other.is_right) for first_result, other in zip(before, after, strict=True)]
    gained, lost = pairs.count((False, True)), pairs.count((True, False))
    if len(outcome.path) == 1:
        verdict = "unchanged"
    elif len(before) < FEWEST:
        verdict = "too few"
    else:
        verdict = "lower" if is_finite and difference.is_below(0.0) and p < 0.05 else "not lower"
    steps = ({name: getattr(measured, name) for name in MeasuredList.__slots__} for measured in outcome.path)
    return Selection(
        **asdict(lists.measure),
        model=SelectionModel(
            name=backend.name,
            weights_sha256=backend.weights_sha256,
            dtype=backend.dtype,
            device=backend.device,
        ),
        task=lists.settings.task.name,
        template=lists.settings.template,
        moves=scope.kinds,
        max_steps=scope.max_steps,
        seed=scope.seed,
        candidates=tuple(example.id for example in scope.pool),
        n_choosing=len(scope.choosing),
        n_reporting=len(scope.reporting),
        steps=tuple(SelectionStep(step=number, **step_fields) for number, step_fields in enumerate(steps)),
        rounds=outcome.rounds,
        ended="no move lowers it" if outcome.is_exhausted else "max steps",
        n_lists=1 + sum(searched.n_lists for searched in outcome.rounds),
        exemplars=tuple(Chosen(id=example.id, label=example.label) for example in outcome.lists[-1]),
        before=summary(before, seed=scope.seed),
        after=summary(after, seed=scope.seed),
        verdict=verdict,
        loss_difference_nats=stats.mean(second) - stats.mean(first) if is_finite else None,
        loss_difference_interval_nats=difference.interval,
        wilcoxon_p=p,
        accuracy_difference=(gained - lost) / len(pairs),
        accuracy_difference_interval=difference_of_shares(gained, lost, len(pairs)),
        warnings=min(after, key=lambda result: result.label_mass).warnings,
    )


def selected(
    lists: Lists,
    scope: SearchScope,
    on_round: Callable[[MeasuredList, MeasuredList | None, SearchRound], None] = lambda before, after, searched: None,
) -> tuple[Selection, str]:
    """The selection, and its exemplars as the text of a file."""
    longest = lists.longest(scope.exemplars, scope.queries)

    def measured(exemplars: ExemplarList) -> list[IclResult]:
        results = lists.measured(exemplars, scope.choosing)
        mean = stats.mean([result.loss_nats for result in results])
        lists.findings[_LOWEST] = min(mean, lists.findings.get(_LOWEST, math.inf))
        return results

    outcome = search(scope, measured, fits=lambda list_: lists.fits(list_, longest), on_round=on_round)
    before, after = (lists.measured(outcome.lists[i], scope.reporting) for i in (0, -1))
    chosen = selection_of(lists, scope, outcome, before, after)
    return chosen, exemplars_jsonl(outcome.lists[-1], lists.settings.task)


def exemplars_jsonl(exemplars: ExemplarList, task: Task) -> str:
    columns = [name for name, _ in task.fields]
    rows = (
        {"id": exemplar.id, **dict(zip(columns, exemplar.texts, strict=True)), task.label_column: exemplar.label}
        for exemplar in exemplars
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def difference_of_shares(gained: int, lost: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Interval, in [-1, 1], of the difference between two shares of the same items (Bonett and Price 2012).

    (p₊ − p₋) ± z √((p₊ + p₋ − (p₊ − p₋)²) / (n + 2)), with p₊ = (gained + 1) / (n + 2) and p₋ likewise. Unlike the
    mean's it has a width where no item changes.
    """
    more, less = ((count + 1) / (n + 2) for count in (gained, lost))
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    half = z * math.sqrt((more + less - (more - less) ** 2) / (n + 2))
    return (max(more - less - half, -1.0), min(more - less + half, 1.0))


def n_lists(scope: SearchScope) -> int:
    """How many lists a search measures at most, those by the queries that report among them."""
    return 1 + sum(n for n, _ in search_rounds(scope)) + 2


def search_rounds(scope: SearchScope) -> Iterator[tuple[int, int]]:
    """Of each round how many lists it has, and of how many exemplars, at most."""
    n_pool = len(scope.pool)
    for number in range(scope.max_steps):
        n = len(scope.exemplars) + (min(number, n_pool) if "add" in scope.kinds else 0)
        n_moves = {"reorder": n * (n - 1) // 2, "drop": n, "replace": n * n_pool, "add": n_pool}
        longer = 1 if "add" in scope.kinds and number < n_pool else 0
        yield sum(n_moves[kind] for kind in scope.kinds), n + longer
