"""`leakmeter icl select`: which exemplars to ship, and in which order."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import PagelessRunOptions
from leakmeter.commands.output import command_line
from leakmeter.instruments.icl.given import InputFile, Sources, TaskOptions, choose_queries
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings

if TYPE_CHECKING:
    from leakmeter.instruments.icl.search import MeasuredList, SearchRound
    from leakmeter.instruments.icl.selection_prediction import PredictedSelection


@Parameter(name="*", negative="")
def icl_select_command(
    *,
    options: TaskOptions | None = None,
    exemplars: InputFile,
    data: InputFile | None = None,
    pool: InputFile | None = None,
    moves: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    max_steps: int = 5,
    candidates: int = 8,
    max_queries: int = 100,
    seed: int = 0,
    template: Literal["plain", "chat"] = "plain",
    measure: Annotated[Icl | None, Parameter(name="*")] = None,
    run: PagelessRunOptions | None = None,
) -> None:
    """Search for exemplars that leak less: reorder, drop, replace or add one at a time.

    At each step every list one move away is measured as `leakmeter icl` does, and the list with the lowest ICLInf is
    taken. Half of the queries choose. The other half, which has no part in the choice, reports what changed and what it
    costs in accuracy. The same command continues a search that was interrupted.

    Parameters
    ----------
    exemplars
        Labelled examples that precede every query, in the order of the file.
    data
        Labelled queries: CSV, JSON lines, JSON or Parquet, optionally compressed (.gz, .zst), or '-' for standard
        input; by default those published with the task.
    pool
        Further labelled examples, which may replace exemplars or be added.
    moves
        Moves to try: reorder (swap two), drop, replace, add (at the end); all possible moves by default.
    max_steps
        Maximum number of moves.
    candidates
        Number of examples of the pool to try, chosen at random.
    max_queries
        Maximum number of queries, chosen at random.
    seed
        Seed of the choice of queries, of their halves, and of the choice from the pool.
    template
        Prompt template: plain, or chat for the whole prompt in one user message.
    run.out
        Directory of runs; the selection gets a directory of its own there, with the new exemplars.
    run.json
        Print one JSON object instead of the tables.
    """
    from leakmeter.commands.progress import study_progress
    from leakmeter.instruments.icl import selection
    from leakmeter.instruments.icl.search import scope_of
    from leakmeter.instruments.icl.selection_report import report_so_far, round_line, write_selection

    options, measure, run = options or TaskOptions(), measure or Icl(), run or PagelessRunOptions()
    sources = Sources(options, exemplars=exemplars, pool=pool, queries=data)
    scope = scope_of(
        sources.examples(exemplars, "train", ""),
        None if pool is None else sources.examples(pool, "train", ""),
        choose_queries(sources.examples(data, "test", "labelled queries with --data FILE"), max_queries, seed),
        # 'reorder,drop' as well as 'reorder drop'
        moves=[name for names in moves or () for name in names.split(",")],
        max_steps=max_steps,
        n_candidates=candidates,
        seed=seed,
    )
    settings = ExemplarSettings(sources.task.task, template)
    if run.dry_run:
        from leakmeter.instruments.icl import selection_prediction

        predicted = selection_prediction.of_run(run, scope, settings, measure)
        output.print_json(predicted) if run.json else _print(predicted)
        return
    backend = run.load_backend()
    machine = {"dtype": run.dtype, "device": run.device, "memory": run.memory}
    directory = selection.selection_directory(scope, settings, measure, run.model, run.out, **machine)
    command = command_line()
    path: list[MeasuredList] = []
    times = [time.perf_counter()]

    def tell_round(before: MeasuredList, after: MeasuredList | None, searched: SearchRound) -> None:
        if not path:
            path.append(before)
        if after is not None:
            path.append(after)
        times.append(time.perf_counter())
        line = round_line(len(times) - 1, before, after, searched.n_lists)
        output.tell(f"{line}: {times[-1] - times[-2]:.0f} s")

    numbers, n_lists = count(), selection.n_lists(scope)
    try:
        with study_progress(dict.fromkeys(range(n_lists), 1.0), noun="list", at_most=True) as bar:
            lists = selection.Lists(
                backend, measure, settings, directory, lambda *about: bar.watching(next(numbers), *about), command
            )
            chosen, exemplars_file = selection.selected(lists, scope, tell_round)
    except KeyboardInterrupt:
        if path and not run.json:
            output.print_report(report_so_far(path, scope), explain=run.explain)
        raise
    document = write_selection(directory, chosen, exemplars_file, command=command)
    if run.json:
        output.print_json(chosen)
    else:
        output.print_report(document, explain=run.explain)
    output.tell(f"selection: {directory}")


def _print(predicted: PredictedSelection) -> None:
    from rich.text import Text

    from leakmeter.report.words import about_seconds

    console = output.console()
    console.print(
        Text(f"{predicted.model} ({predicted.dtype}, {predicted.device}); nothing was measured", style="bold")
    )
    lists = f"at most {predicted.n_lists:,} lists of exemplars by {predicted.n_choosing:,} queries"
    console.print(f"{lists}, 2 of them by {predicted.n_reporting:,} others")
    seconds = predicted.seconds
    duration = "time not predicted" if seconds is None else f"{about_seconds(seconds)} once loaded"
    console.print(f"at most {predicted.tree_tokens:,} tokens, {duration}")
    console.print("The search ends when no move lowers ICLInf. Lists measured before cost nothing.")
