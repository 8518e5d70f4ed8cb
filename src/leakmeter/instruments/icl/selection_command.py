"""`leakmeter icl-plan`: which exemplars to ship, and in which order."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.command_line import command_line
from leakmeter.commands.options import PagelessRunOptions, RunOptions
from leakmeter.instruments.icl.command import find_task
from leakmeter.instruments.icl.measure import Icl

if TYPE_CHECKING:
    from leakmeter.instruments.icl.moves import Scope
    from leakmeter.instruments.icl.prompts import ExemplarSettings
    from leakmeter.instruments.icl.search import Measured, Round


@Parameter(name="*", negative="")
def icl_plan(
    *,
    task: str,
    exemplars: Path,
    data: Path | None = None,
    pool: Path | None = None,
    moves: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    max_steps: int = 5,
    candidates: int = 8,
    queries: int = 100,
    seed: int = 0,
    template: Literal["plain", "chat"] = "plain",
    measure: Annotated[Icl | None, Parameter(name="*")] = None,
    run: PagelessRunOptions | None = None,
) -> None:
    """Search for exemplars of which less shows: reorder, drop, replace or add some, one move at a time.

    At each step every list one move away is measured as `leakmeter icl` does, and the one with the lowest ICLInf is
    taken. One half of the queries chooses so; the other, which has no part in it, tells what that changes and what it
    costs in accuracy. The same command continues a search that was interrupted.

    Parameters
    ----------
    task
        agnews, dbpedia14, trec, or a file NAME.toml that describes your own.
    exemplars
        Labelled examples that stand before every query, in the order of the file.
    data
        Labelled queries: CSV, JSON lines, JSON or Parquet; those that were published with the task by default.
    pool
        Further labelled examples, which may replace exemplars or be added.
    moves
        reorder (two change places), drop, replace, add (at the end); all that can be made by default.
    max_steps
        Moves taken at most.
    candidates
        Examples of the pool that are tried, chosen at random.
    queries
        Take so many at most, chosen at random.
    seed
        Of the choice of queries, of their halves, and of the choice from the pool.
    template
        plain, or chat for the whole prompt in one user message.
    run.out
        Directory of runs; the plan gets a directory of its own there, with the new exemplars.
    run.json
        Print one JSON object instead of the tables.
    """
    from leakmeter.instruments.icl.draw import choose_queries
    from leakmeter.instruments.icl.moves import scope_of
    from leakmeter.instruments.icl.prompts import ExemplarSettings

    measure, run, described = measure or Icl(), run or PagelessRunOptions(), find_task(task)
    scope = scope_of(
        described.load(str(exemplars), "train"),
        None if pool is None else described.load(str(pool), "train"),
        choose_queries(described.load(None if data is None else str(data), "test"), queries, seed),
        # 'reorder,drop' as well as 'reorder drop'
        moves=[name for given in moves or () for name in given.split(",")],
        max_steps=max_steps,
        n_candidates=candidates,
        seed=seed,
    )
    settings = ExemplarSettings(described.task, template)
    if run.dry_run:
        _predict(scope, settings, measure, run)
    else:
        _run(scope, settings, measure, run)


def _run(scope: Scope, settings: ExemplarSettings, measure: Icl, run: RunOptions) -> None:

    from leakmeter.commands.progress import progress
    from leakmeter.instruments.icl.search import search
    from leakmeter.instruments.icl.selection import Lists, exemplars_jsonl, plan_directory, told_plan
    from leakmeter.instruments.icl.selection_report import report
    from leakmeter.report import console, markdown
    from leakmeter.studies.cells import write

    backend = run.load_backend()
    machine = {"dtype": run.dtype, "device": run.device, "memory": run.memory}
    directory = plan_directory(scope, settings, measure, run.model, run.out, **machine)
    command = command_line(sys.argv[1:])
    lists = Lists(backend, measure, settings, directory, progress, command)
    longest = lists.longest(scope.exemplars, scope.queries)
    found = search(
        scope,
        lambda exemplars: lists.measured(exemplars, scope.choosing),
        fits=lambda exemplars: lists.fits(exemplars, longest),
        on_round=_round_teller(),
    )
    shipped = found.path[-1].exemplars
    before, after = (lists.measured(exemplars, scope.reporting) for exemplars in (scope.exemplars, shipped))
    told: dict[str, Any] = {
        "model": lists.model,
        "task": settings.task.name,
        "template": settings.template,
        **asdict(measure),
        **told_plan(scope, found, before, after),
    }
    write(directory / "plan.json", json.dumps(told, ensure_ascii=False))
    made = report(told, command=command)
    write(directory / "table.md", markdown.text(made))
    write(directory / "exemplars.jsonl", exemplars_jsonl(shipped, settings.task))
    if run.json:
        output.print_json(told)
    else:
        output.console().print(console.view(made))
    output.tell(f"plan: {directory}")


def _round_teller() -> Callable[[Measured, Round], None]:
    """Says a line of each round, with the time it took."""
    from leakmeter.instruments.icl.selection import told_list
    from leakmeter.instruments.icl.selection_report import round_line

    number, started = 0, time.perf_counter()

    def tell(before: Measured, one: Round) -> None:
        nonlocal number, started
        number += 1
        now = time.perf_counter()
        taken = None if one.taken is None else told_list(one.taken)
        line = round_line(number, told_list(before), taken, one.n_lists)
        output.tell(f"{line}: {now - started:.0f} s")
        started = now

    return tell


def _predict(scope: Scope, settings: ExemplarSettings, measure: Icl, run: RunOptions) -> None:
    """Print what the search may take at most."""
    from rich.text import Text

    from leakmeter.instruments.icl.selection_bound import predicted_plan
    from leakmeter.report.words import about_bytes, about_seconds

    told = predicted_plan(run.load_predictor(), scope, settings, measure)
    if run.json:
        output.print_json(told)
        return
    console = output.console()
    console.print(Text(f"{told['model']} ({told['dtype']}, {told['device']}); nothing was run", style="bold"))
    lists = f"at most {told['n_lists']:,} lists of exemplars by {told['n_choosing']:,} queries"
    console.print(f"{lists}, 2 of them by {told['n_reporting']:,} others")
    seconds = told["seconds"]
    time_told = "time not predicted" if seconds is None else f"{about_seconds(seconds)} once loaded"
    console.print(f"at most {told['tree_tokens']:,} tokens, {time_told}")
    if told["memory_bytes"] is not None:
        console.print(f"memory, libraries apart: about {about_bytes(sum(told['memory_bytes'].values()))}")
    console.print("The search ends where no move lowers ICLInf; a list that was measured before costs nothing.")
