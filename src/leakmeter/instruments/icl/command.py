"""`leakmeter icl`: the influence of each exemplar of the prompt on the answers to queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from leakmeter.commands import output
from leakmeter.commands.call import CallOptions, DataRecord, FunctionOptions, RowNames, function, measured
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import FlagOption, RowOptions, RunOptions, TextOption
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.plain import several
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import UsageError
from leakmeter.instruments.icl.given import (
    FIXED_TOGETHER,
    REDRAWN_TOGETHER,
    InputFile,
    Sources,
    TaskOptions,
    choose_queries,
    draw_cases,
    fixed_cases,
)
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings
from leakmeter.instruments.icl.responses import check_either, free_form, response_plan
from leakmeter.instruments.icl.selection_command import icl_select_command
from leakmeter.instruments.influence.measure import Influence

if TYPE_CHECKING:
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.instruments.icl.selection import Selection
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.results.results import Results


app = App(name="icl")
app.command(icl_select_command, name="select")


@app.default
def icl_command(
    *,
    options: TaskOptions | None = None,
    data: InputFile | None = None,
    pool: InputFile | None = None,
    exemplars: InputFile | None = None,
    max_queries: int = 100,
    shots: int | None = None,
    seed: int = 0,
    template: Literal["plain", "chat"] = "plain",
    skip_bad: FlagOption = False,
    measure: Annotated[Icl | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.

    Exemplars are removed one at a time, and the probabilities of the labels are compared. Exemplars are drawn for each
    query, or are the same for all with --exemplars. Without any option, invented support tickets are measured. The same
    command continues a run that was interrupted. For examples without labels, see `leakmeter icl responses`.

    Parameters
    ----------
    data
        Queries: CSV, JSON lines, JSON or Parquet, optionally compressed (.gz, .zst), or '-' for standard input. Labels
        are optional; 'response' is the label that was answered. By default, the queries published with the task.
    pool
        Labelled examples to draw exemplars from; by default those published with the task.
    exemplars
        Labelled examples that precede every query, in the order of the file, instead of drawn ones.
    max_queries
        Maximum number of queries, chosen at random.
    shots
        Number of exemplars to draw for each query, 4 by default.
    seed
        Seed of the choice of queries and of the draws.
    template
        Prompt template: plain, or chat for the whole prompt in one user message.
    skip_bad
        Skip queries that do not fit the model's window, and report how many.
    run.json
        Print one JSON object a query, and a last one with their summary.
    """
    from leakmeter.instruments.icl.result import summary

    options, measure, run = options or TaskOptions(), measure or Icl(), run or RunOptions()
    if exemplars is not None and (pool is not None or shots is not None):
        option = "--pool" if shots is None else "--shots"
        raise UsageError(f"{option} is for drawn exemplars, and --exemplars gives all of them; leave one out")
    sources = Sources(options, exemplars=exemplars, pool=pool, queries=data)
    plan = _plan(
        sources, ExemplarSettings(sources.task.task, template), measure,
        data=data, exemplars=exemplars, pool=pool, shots=shots, max_queries=max_queries, seed=seed, skip_bad=skip_bad,
        data_from="queries with --data FILE",
        pool_from="examples to draw from with --pool FILE, or all with --exemplars FILE",
    )  # fmt: skip
    shown = run_cases(plan, run, inputs=[options.task, data, pool, exemplars])
    if run.json and shown:
        output.print_json({"summary": summary(shown)})


@app.command(name="responses")
def icl_responses_command(
    *,
    data: InputFile,
    exemplars: InputFile | None = None,
    pool: InputFile | None = None,
    input_column: str = "input",
    output_column: str = "output",
    instruction: TextOption | None = None,
    rows: RowOptions | None = None,
    max_queries: int = 100,
    shots: int = 4,
    template: Literal["plain", "chat"] = "plain",
    skip_bad: FlagOption = False,
    measure: Annotated[Influence | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, the influence of each input–output exemplar of a prompt on a free response.

    Exemplars are removed one at a time, and the response is scored again. If a query has an output, that is its
    response, whichever model gave it; otherwise the measuring model draws one. The same command continues a run that
    was interrupted. For exemplars with labels, see `leakmeter icl`.

    Parameters
    ----------
    data
        Queries: CSV, JSON lines, JSON or Parquet, optionally compressed (.gz, .zst), or '-' for standard input.
    exemplars
        Inputs with their outputs that precede every query, in the order of the file; or give --pool.
    pool
        Inputs with their outputs to draw exemplars from, separately for each query.
    input_column
        Column of inputs; its name is their heading in the prompt.
    output_column
        Column of outputs; its name is their heading in the prompt.
    instruction
        First lines of the prompt.
    max_queries
        Maximum number of queries, chosen at random.
    shots
        Number of exemplars to draw for each query from a pool.
    template
        Prompt template: plain, or chat for the whole prompt in one user message.
    skip_bad
        Skip queries that do not fit the model's window, and report how many.
    measure.seed
        Seed of the choice of queries, of the exemplars drawn, and of the responses.
    """
    measure = measure or Influence()
    plan = response_plan(
        measure, free_form(input_column, output_column, instruction), template,
        data=data, exemplars=exemplars, pool=pool, map=(rows or RowOptions()).map, max_queries=max_queries,
        shots=shots, seed=measure.seed, skip_bad=skip_bad,
    )  # fmt: skip
    run_cases(plan, run or RunOptions(), inputs=[data, exemplars, pool])


def _plan(
    sources: Sources, settings: ExemplarSettings, measure: Icl,
    *,
    data: Any, exemplars: Any, pool: Any, shots: int | None, max_queries: int | None, seed: int, skip_bad: bool,
    data_from: str, pool_from: str,
) -> Plan:  # fmt: skip
    """Queries behind the exemplars, or behind some drawn for each; `data_from` and `pool_from` say how to give those
    that are missing.
    """
    queries = sources.examples(data, "test", data_from, labelled=False, answered=True)
    queries = choose_queries(queries, max_queries, seed)
    if exemplars is None:
        examples = sources.examples(pool, "train", pool_from)
        cases, size = draw_cases(examples, queries, shots=4 if shots is None else shots, seed=seed), REDRAWN_TOGETHER
    else:
        cases, size = fixed_cases(sources.examples(exemplars, "train", ""), queries), FIXED_TOGETHER
    return Plan("icl", measure, settings, LoadedCases(tuple(cases), skip_bad=skip_bad), size)


@dataclass(frozen=True, kw_only=True)
class _TaskOptions(RowNames):
    task: str | DataRecord | None = None
    text_column: str | None = None
    label_column: str | None = None
    instruction: str | None = None
    max_queries: int | None = None
    seed: int = 0
    template: str | None = "plain"

    def sources(self, **sources: Any) -> Sources:
        from leakmeter.data.tasks import task_of

        task = self.task
        named, own = (task, None) if task is None or isinstance(task, str) else (None, task_of(task, "task"))
        columns = TaskOptions(None, named, self.text_column, self.label_column, self.instruction)
        return Sources(columns, **sources, task=own, map=self.map)

    def settings(self, sources: Sources) -> ExemplarSettings:
        return ExemplarSettings(task=sources.task.task, template=self.template)


class IclOptions(FunctionOptions, CallOptions, Icl, _TaskOptions):
    exemplars: Any = None
    pool: Any = None
    shots: int | None = None


class IclCall(ModelOptions, IclOptions): ...


@function(IclOptions, IclCall)
def icl(model: KeptModel, data: Any, options: IclOptions) -> Results[IclResult]:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.

    ICLInf = mean_j max_i max_y |log A(S_j, x_j)(y) − log A(S_j∖i, x_j)(y)| over queries x_j, exemplars i of S_j and
    labels y (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Eq. 4).

    Args:
        model: see `influence`.
        data: queries to classify: texts, a file, records, a frame …; without a label they have no accuracy. `response`
            is the label that was answered.
        exemplars: labelled examples that stand before every query, in their order; or
        pool: labelled examples to draw exemplars from, anew for each query.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml, or what such a file says: {'instruction': …, 'fields':
            {column: heading}, 'answer': heading of the label, 'labels': [word, …] or {name in the data: word},
            'label_column': …}. Without a task the columns say all:
        text_column: of texts, 'text' by default; its name is their heading in the prompt.
        label_column: of labels, 'label' by default; the labels are those that occur in it.
        instruction: first lines of the prompt; by default they list the labels.
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

    Examples:
        >>> import leakmeter
        >>> shots = [{"review": "A delight.", "mood": "good"}, {"review": "Two hours lost.", "mood": "bad"}]
        >>> columns = {"text_column": "review", "label_column": "mood", "label_scoring": "whole-sequence"}
        >>> found = leakmeter.icl("toy", ["I slept through it."], exemplars=shots, **columns)
        >>> found[0].answer_exemplar
        'record 1'
    """
    exemplars, pool, shots = options.exemplars, options.pool, options.shots
    check_either(exemplars, pool)
    if exemplars is not None and shots is not None:
        raise UsageError("shots is for drawn exemplars, and exemplars gives all of them; leave one out")
    sources = options.sources(exemplars=exemplars, pool=pool, queries=data)
    _check_queries(data)
    plan = _plan(
        sources, options.settings(sources), options.part(Icl),
        data=data, exemplars=exemplars, pool=pool, shots=shots, max_queries=options.max_queries, seed=options.seed,
        skip_bad=options.skip_bad, data_from="queries", pool_from="a pool",
    )  # fmt: skip
    return measured(model, plan, options)


class IclResponsesOptions(FunctionOptions, CallOptions, RowNames, Influence):
    exemplars: Any = None
    pool: Any = None
    input_column: str = "input"
    output_column: str = "output"
    instruction: str | None = None
    shots: int = 4
    max_queries: int | None = None
    template: str | None = "plain"


class IclResponsesCall(ModelOptions, IclResponsesOptions): ...


@function(IclResponsesOptions, IclResponsesCall)
def icl_responses(model: KeptModel, data: Any, options: IclResponsesOptions) -> Results[InfluenceResult]:
    """Measure, in nats, the influence of each input–output exemplar of a prompt on a free response.

    Of exemplar i and response y it gives Σ_t |log p(y_t | S, x, y_<t) − log p(y_t | S∖i, x, y_<t)| (Flemings et al.,
    Definition 3.2, with exemplars as the pieces of the context) and the same sum with signs, the log-likelihood ratio.

    Args:
        model: see `influence`.
        data: inputs: texts, a file, records, a frame …; the output of one is the response that was given. Without it,
            one is drawn.
        exemplars: inputs with outputs, which stand before every query, in their order; or
        pool: inputs with their outputs to draw exemplars from, separately for each query.
        input_column: of inputs; its name is their heading in the prompt.
        output_column: of outputs; its name is their heading in the prompt.
        instruction: first lines of the prompt.
        shots: exemplars drawn for each query.
        max_queries: measure so many at most, chosen at random; all by default.
        seed: of the draws, of exemplars and of responses, and of the choice of queries.
        settings: `template` of the prompts.
        measure: options of the measure; see `instruments.influence.measure.Influence`.
        names: what the fields of queries, exemplars and pool are called.
        how: as of `influence`.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each query.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> shots = [{"input": "2 + 2", "output": "four"}, {"input": "3 + 3", "output": "six"}]
        >>> found = leakmeter.icl_responses("toy", [{"input": "1 + 1", "output": "two"}], exemplars=shots)
        >>> [piece.name for piece in found[0].pieces]
        ['record 1', 'record 2']
    """
    check_either(options.exemplars, options.pool)
    _check_queries(data)
    plan = response_plan(
        options.part(Influence),
        free_form(options.input_column, options.output_column, options.instruction),
        options.template,
        data=data, exemplars=options.exemplars, pool=options.pool, map=options.map, max_queries=options.max_queries,
        shots=options.shots, seed=options.seed, skip_bad=options.skip_bad,
    )  # fmt: skip
    return measured(model, plan, options)


class IclSelectOptions(FunctionOptions, Icl, _TaskOptions):
    exemplars: Any
    pool: Any = None
    moves: str | Sequence[str] = ()
    max_steps: int = 5
    candidates: int = 8
    out: str | Path | None = None
    progress: bool = False


class IclSelectCall(ModelOptions, IclSelectOptions): ...


@function(IclSelectOptions, IclSelectCall)
def icl_select(model: KeptModel, data: Any, options: IclSelectOptions) -> Selection:
    """Search for exemplars that leak less: reorder, drop, replace or add one at a time.

    At each step every list one move away is measured as `icl` does, and the one with the lowest ICLInf (Li et al.,
    "Evaluating Privacy Leakage From In-Context Learning", Eq. 4) is taken. One half of the queries chooses so; the
    other, which has no part in it, tells what that changes and what it costs in accuracy.

    Args:
        model: see `influence`.
        data: labelled queries.
        exemplars: labelled examples that stand before every query, in their order.
        pool: further labelled examples, which may replace exemplars or be added.
        task, text_column, label_column, instruction: see `icl`.
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

    Examples:
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
    from leakmeter.engine.measure import Callbacks
    from leakmeter.instruments.icl import selection
    from leakmeter.instruments.icl.search import scope_of
    from leakmeter.instruments.icl.selection_report import write_selection

    _check_queries(data)
    exemplars, pool, measure = options.exemplars, options.pool, options.part(Icl)
    sources = options.sources(exemplars=exemplars, pool=pool, queries=data)
    scope = scope_of(
        sources.examples(exemplars, "train", "exemplars"),
        None if pool is None else sources.examples(pool, "train", "a pool"),
        choose_queries(sources.examples(data, "test", "queries"), options.max_queries, options.seed),
        moves=several(options.moves),
        max_steps=options.max_steps,
        n_candidates=options.candidates,
        seed=options.seed,
    )
    prompts = options.settings(sources)
    with model.lock, TemporaryDirectory() if options.out is None else nullcontext(options.out) as out:
        directory = selection.selection_directory(
            scope, prompts, measure, model.name, Path(out), **model.options.machine
        )
        watch = progress if options.progress else lambda backend, n_cases, findings: nullcontext(Callbacks())
        lists = selection.Lists(model.backend, measure, prompts, directory, watch, None)
        chosen, exemplars_file = selection.selected(lists, scope)
        if options.out is not None:
            write_selection(directory, chosen, exemplars_file)
    return chosen


def _check_queries(data: Any) -> None:
    if data is None:
        raise UsageError("there are no queries; give some as data, the second parameter")
