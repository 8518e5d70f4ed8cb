"""`leakmeter icl`: the influence of each exemplar of the prompt on the answers to queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.given import LoadedCases
from leakmeter.commands.options import Flag, RunOptions
from leakmeter.commands.renamed import renamed
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.instruments.icl.measure import Icl

if TYPE_CHECKING:
    from leakmeter.data.tasks.base import Split, TaskData
    from leakmeter.instruments.icl.result import IclResult
    from leakmeter.runs.result import Part
    from leakmeter.text.exemplar import Example

SAMPLE: Final = "tickets"
"""The task whose texts ship with the package."""


@renamed("--queries", "--max-queries")
def icl(
    *,
    task: str = SAMPLE,
    data: Path | None = None,
    pool: Path | None = None,
    exemplars: Path | None = None,
    max_queries: int = 100,
    shots: int | None = None,
    seed: int = 0,
    template: Literal["plain", "chat"] = "plain",
    skip_bad: Flag = False,
    measure: Annotated[Icl | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.

    Every exemplar is left out in turn, and the probabilities of the labels are compared. Exemplars are drawn anew for
    each query, or are the same for all with --exemplars. Without any option, invented support tickets are measured. The
    same command continues a run that was interrupted.

    Parameters
    ----------
    task
        agnews, dbpedia14, trec, a file NAME.toml that describes your own, or tickets, the invented sample.
    data
        Queries: CSV, JSON lines, JSON or Parquet, with or without labels; those that were published with the task by
        default.
    pool
        Labelled examples to draw exemplars from; those that were published with the task by default.
    exemplars
        Labelled examples that stand before every query, in the order of the file, instead of drawn ones.
    max_queries
        Measure so many at most, chosen at random.
    shots
        Exemplars drawn for each query, 4 by default.
    seed
        Of the choice of queries and of the draws.
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

    measure, run = measure or Icl(), run or RunOptions()
    known = find_task(task)
    if exemplars is not None and (pool is not None or shots is not None):
        option = "--pool" if shots is None else "--shots"
        raise UsageError(f"{option} is for exemplars that are drawn, and --exemplars gives all of them; leave one out")

    def records(given: Path | None, split: Split, instead: str) -> list[Example]:
        if given is None and task == SAMPLE:
            given = _sample("csv")
        if given is None and known.hub is None:
            raise UsageError(f"task '{known.task.name}' has no texts of its own; give {instead}")
        return known.load(None if given is None else str(given), split, labelled=split == "train")

    chosen = choose_queries(records(data, "test", "queries with --data FILE"), max_queries, seed)
    if exemplars is None:
        examples = records(pool, "train", "examples to draw from with --pool FILE, or all with --exemplars FILE")
        cases = draw_cases(examples, chosen, shots=4 if shots is None else shots, seed=seed)
    else:
        cases = fixed_cases(known.load(str(exemplars), "train"), chosen)
    found: list[IclResult] = []

    def results(parts: Iterable[Part]) -> Iterator[IclResult]:
        for result in IclResult.from_run(parts, asdict(measure)):
            found.append(result)
            yield result

    run_cases(
        LoadedCases(tuple(cases), skip_bad=skip_bad),
        ExemplarSettings(known.task, template),
        measure,
        "icl",
        run,
        group_size=REDRAWN_TOGETHER if exemplars is None else FIXED_TOGETHER,
        results=results,
        inputs=[task, data, pool, exemplars],
    )
    if run.json and found:
        output.print_json({"summary": summary(found)})


def find_task(task: str) -> TaskData:
    """What --task names.

    Raises:
        UnknownNameError: neither a known task nor a file NAME.toml.
        DataError: a file that describes no task.
    """
    from leakmeter.data import tasks

    if task == SAMPLE:
        return tasks.load_task(str(_sample("toml")))
    if task not in tasks.names() and not task.lower().endswith(".toml"):
        raise UnknownNameError("task", task, [*tasks.names(), SAMPLE])
    return tasks.load_task(task)


def _sample(suffix: str) -> Path:
    return Path(str(resources.files("leakmeter.samples").joinpath(f"{SAMPLE}.{suffix}")))
