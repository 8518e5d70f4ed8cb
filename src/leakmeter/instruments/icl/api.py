"""The library: labelled exemplars, queries, and the influence of each exemplar on the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.commands.call import CallOptions, Row, RowNames, Some, function, measured
from leakmeter.commands.given import LoadedCases
from leakmeter.errors import UsageError
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings

if TYPE_CHECKING:
    from leakmeter.data.tasks.base import TaskData
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.instruments.icl.selection import Selection
    from leakmeter.runs.loading import KeptModel
    from leakmeter.runs.results import Results
    from leakmeter.text.exemplar import Example

_SETTINGS = Some(ExemplarSettings, without=("task",), raw=True)


@function(was="queries", settings=_SETTINGS, measure=Icl, names=RowNames, how=CallOptions)
def icl(
    model: KeptModel,
    data: Any = None,
    *,
    task: str | Row,
    exemplars: Any = None,
    pool: Any = None,
    shots: int | None = None,
    seed: int = 0,
    max_queries: int | None = None,
    settings: dict[str, Any],
    measure: Icl,
    names: RowNames,
    how: CallOptions,
) -> Results[IclResult]:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.

    ICLInf = mean_j max_i max_y |log A(S_j, x_j)(y) − log A(S_j∖i, x_j)(y)| over queries x_j, exemplars i of S_j and
    labels y (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Eq. 4).

    Args:
        model: see `influence`.
        data: queries to classify: a file, records, a frame …; without a label they have no accuracy.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml, or what such a file says: {'instruction': …, 'fields':
            {column: heading}, 'answer': heading of the label, 'labels': [word, …] or {name in the data: word},
            'label_column': …}.
        exemplars: labelled examples that stand before every query, in their order; or
        pool: labelled examples to draw exemplars from, anew for each query.
        shots: exemplars drawn for each query, 4 by default.
        seed: of the draws, and of the choice of queries.
        max_queries: measure so many at most, chosen at random; all by default.
        settings: `template` of the prompts.
        measure: options of the measure; see `instruments.icl.measure.Icl`.
        names: what the fields of queries, exemplars and pool are called.
        how: as of `influence`.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each query.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Example:
        >>> import leakmeter
        >>> task = {"instruction": "Name the mood.", "fields": {"said": "Said"}, "labels": ["Glad", "Sad"]}
        >>> rows = [{"said": "Sun.", "label": "Glad"}, {"said": "Rain.", "label": "Sad"}]
        >>> found = leakmeter.icl("toy", [{"said": "Hail."}], task=task, exemplars=rows, label_scoring="whole-sequence")
        >>> len(found[0].exemplars)
        2
    """
    from leakmeter.instruments.icl.draw import (
        FIXED_TOGETHER,
        REDRAWN_TOGETHER,
        choose_queries,
        draw_cases,
        fixed_cases,
    )

    if (exemplars is None or exemplars == []) == (pool is None or pool == []):
        raise UsageError("give either exemplars, which stand before every query, or a pool to draw them from")
    if exemplars is not None and shots is not None:
        raise UsageError("shots is for exemplars that are drawn, and exemplars gives all of them; leave one out")
    described = _task(task)
    asked = choose_queries(_examples(described, data, "queries", names, labelled=False), max_queries, seed)
    if exemplars is not None:
        cases, size = fixed_cases(_examples(described, exemplars, "exemplars", names), asked), FIXED_TOGETHER
    else:
        drawn_from = _examples(described, pool, "pool", names)
        cases = draw_cases(drawn_from, asked, shots=4 if shots is None else shots, seed=seed)
        size = REDRAWN_TOGETHER
    prompts = ExemplarSettings(task=described.task, **settings)
    given = LoadedCases(tuple(cases), skip_bad=how.skip_bad)
    return measured(model, "icl", measure, prompts, given, how, group_size=size)


@function(settings=_SETTINGS, measure=Icl, names=RowNames, how=Some(CallOptions, only=("out", "progress")))
def icl_select(
    model: KeptModel,
    data: Any = None,
    *,
    task: str | Row,
    exemplars: Any,
    pool: Any = None,
    moves: Sequence[str] = (),
    max_steps: int = 5,
    candidates: int = 8,
    max_queries: int | None = None,
    seed: int = 0,
    settings: dict[str, Any],
    measure: Icl,
    names: RowNames,
    how: CallOptions,
) -> Selection:
    """Search for exemplars that leak less: reorder, drop, replace or add some, one move at a time.

    At each step every list one move away is measured as `icl` does, and the one with the lowest ICLInf (Li et al.,
    "Evaluating Privacy Leakage From In-Context Learning", Eq. 4) is taken. One half of the queries chooses so; the
    other, which has no part in it, tells what that changes and what it costs in accuracy.

    Args:
        model: see `influence`.
        data: labelled queries.
        task: see `icl`.
        exemplars: labelled examples that stand before every query, in their order.
        pool: further labelled examples, which may replace exemplars or be added.
        moves: 'reorder' (two change places), 'drop', 'replace', 'add' (at the end); all that can be made by default.
        max_steps: moves taken at most.
        candidates: examples of the pool that are tried, chosen at random.
        max_queries: take so many at most, chosen at random; all by default.
        seed: of the choice of queries, of their halves, and of the choice from the pool.
        settings: `template` of the prompts.
        measure: options of the measure; see `instruments.icl.measure.Icl`.
        names: what the fields of queries, exemplars and pool are called.
        how: `out` keeps each list's measurement, so that the same call goes on where it was interrupted.

    Returns:
        The exemplars before and after, and what the change does.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Example:
        >>> import leakmeter
        >>> task = {"instruction": "Name the mood.", "fields": {"said": "Said"}, "labels": ["Glad", "Sad"]}
        >>> rows = [{"said": f"{one}.", "label": "Glad"} for one in ("Sun", "Wind", "Hail", "Snow")]
        >>> given = {"task": task, "exemplars": rows[:2], "label_scoring": "whole-sequence"}
        >>> found = leakmeter.icl_select("toy", rows[2:], **given, max_steps=1)
        >>> found.verdict in ("unchanged", "too few")
        True
    """
    from contextlib import nullcontext
    from tempfile import TemporaryDirectory

    from leakmeter.commands.progress import progress
    from leakmeter.core.plain import to_json
    from leakmeter.instruments.icl import selection
    from leakmeter.instruments.icl.draw import choose_queries
    from leakmeter.instruments.icl.search import scope_of, search
    from leakmeter.instruments.icl.selection_report import report
    from leakmeter.report import markdown
    from leakmeter.runs.measure import Callbacks
    from leakmeter.studies.cells import write

    described = _task(task)
    scope = scope_of(
        _examples(described, exemplars, "exemplars", names),
        None if pool is None else _examples(described, pool, "pool", names),
        choose_queries(_examples(described, data, "queries", names), max_queries, seed),
        moves=list(moves),
        max_steps=max_steps,
        n_candidates=candidates,
        seed=seed,
    )
    prompts = ExemplarSettings(task=described.task, **settings)
    with model.lock, TemporaryDirectory() if how.out is None else nullcontext(how.out) as out:
        machine = {name: model.options.get(name) for name in ("dtype", "device", "memory")}
        directory = selection.selection_directory(scope, prompts, measure, model.name, Path(out), **machine)
        watch = progress if how.progress else lambda backend, n_cases: nullcontext(Callbacks())
        lists = selection.Lists(model.backend, measure, prompts, directory, watch, None)
        longest = lists.longest(scope.exemplars, scope.queries)
        found = search(
            scope, lambda one: lists.measured(one, scope.choosing), fits=lambda one: lists.fits(one, longest)
        )
        before, after = (lists.measured(found.lists[i], scope.reporting) for i in (0, -1))
        chosen = selection.selection_of(lists, scope, found, before, after)
        if how.out is not None:
            write(directory / "selection.json", to_json(chosen))
            write(directory / "table.md", markdown.text(report(chosen)))
            write(directory / "exemplars.jsonl", selection.exemplars_jsonl(found.lists[-1], prompts.task))
    return chosen


def _task(task: str | Row) -> TaskData:
    from leakmeter.data.tasks import load_task, task_of

    return load_task(task) if isinstance(task, str) else task_of(task, "task")


def _examples(described: TaskData, data: Any, what: str, names: RowNames, *, labelled: bool = True) -> list[Example]:
    """Records of any data, as a task reads them."""
    if data is None:
        raise UsageError(f"there are no {what}; give some")
    text = described.texts[0][0][0] if described.texts else "text"
    source = f"'{data}'" if isinstance(data, str | Path) else what
    return described.examples(names.rows(data, text), source, labelled=labelled)
