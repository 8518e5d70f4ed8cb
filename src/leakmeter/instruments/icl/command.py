"""`leakmeter icl`: the influence of each exemplar of the prompt on the answers to queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import Flag, RunOptions
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.errors import UsageError
from leakmeter.instruments.icl.given import Given, InputFile, TaskOptions
from leakmeter.instruments.icl.measure import Icl

if TYPE_CHECKING:
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.results.result import Part


def icl(
    *,
    told: TaskOptions | None = None,
    data: InputFile | None = None,
    pool: InputFile | None = None,
    exemplars: InputFile | None = None,
    max_queries: int = 100,
    shots: int | None = None,
    seed: int = 0,
    template: Literal["plain", "chat"] = "plain",
    skip_bad: Flag = False,
    measure: Annotated[Icl | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.

    Exemplars are removed one at a time, and the probabilities of the labels are compared. Exemplars are drawn anew for
    each query, or are the same for all with --exemplars. Without any option, invented support tickets are measured. The
    same command continues a run that was interrupted. For examples without labels, see icl-responses.

    Parameters
    ----------
    data
        Queries: CSV, JSON lines, JSON or Parquet, also packed (.gz, .zst), or '-' for standard input. A label is not
        needed; 'response' is the label that was answered. Those that were published with the task by default.
    pool
        Labelled examples to draw exemplars from; those that were published with the task by default.
    exemplars
        Labelled examples that stand before every query, in the order of the file, instead of drawn ones.
    max_queries
        Measure so many at most, chosen at random.
    shots
        Exemplars drawn for each query, 4 by default.
    seed
        Seed of the choice of queries and of the draws.
    template
        plain, or chat for the whole prompt in one user message.
    skip_bad
        Leave out queries that do not fit the model's window, and say how many.
    run.json
        Print one JSON object a query, and a last one with their summary.
    """
    from leakmeter.instruments.icl.draw import (
        FIXED_TOGETHER,
        REDRAWN_TOGETHER,
        choose_queries,
        draw_cases,
        fixed_cases,
    )
    from leakmeter.instruments.icl.prompts import ExemplarSettings
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.instruments.icl.summary import summary

    told, measure, run = told or TaskOptions(), measure or Icl(), run or RunOptions()
    if exemplars is not None and (pool is not None or shots is not None):
        option = "--pool" if shots is None else "--shots"
        raise UsageError(f"{option} is for exemplars that are drawn, and --exemplars gives all of them; leave one out")
    sources = Given(told, exemplars=exemplars, pool=pool, queries=data)
    queries = sources.examples(data, "test", "queries with --data FILE", labelled=False, answered=True)
    chosen = choose_queries(queries, max_queries, seed)
    if exemplars is None:
        instead = "examples to draw from with --pool FILE, or all with --exemplars FILE"
        examples = sources.examples(pool, "train", instead)
        cases = draw_cases(examples, chosen, shots=4 if shots is None else shots, seed=seed)
    else:
        cases = fixed_cases(sources.examples(exemplars, "train", ""), chosen)
    collected: list[IclResult] = []

    def results(parts: Iterable[Part]) -> Iterator[IclResult]:
        for result in IclResult.from_run(parts, asdict(measure)):
            collected.append(result)
            yield result

    run_cases(
        Plan(
            "icl",
            measure,
            ExemplarSettings(sources.task.task, template),
            LoadedCases(tuple(cases), skip_bad=skip_bad),
            REDRAWN_TOGETHER if exemplars is None else FIXED_TOGETHER,
        ),
        run,
        results=results,
        inputs=[told.task, data, pool, exemplars],
    )
    if run.json and collected:
        output.print_json({"summary": summary(collected)})
