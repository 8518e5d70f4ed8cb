"""`leakmeter runs`: what was measured here, whether it is still what was written, and taking it elsewhere."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from leakmeter.cli.query import query
from leakmeter.commands import output
from leakmeter.commands.options import FlagOption
from leakmeter.core.plain import visible
from leakmeter.core.urls import place_of
from leakmeter.runs import all_printed
from leakmeter.runs import schema as made_schema

if TYPE_CHECKING:
    from leakmeter.core.record import JsonObject
    from leakmeter.engine.storage.catalogue import Entry, RunSummary

app = App(
    name="runs",
    help="""List, show, compare, query, verify and export runs.

    A run is a directory under runs, or under --runs. It is given by its path, the name that --name gave it, the name
    of its directory, or as much of that as tells it from others. Path and --runs may be a URL of an object store
    (s3://, gs://, az://). Nothing here loads a model.""",
)
app.command(query, name="query")

_WIDEST: Final = 60
_Runs = Annotated[Path, Parameter(help="Directory of runs, where the run is given by name.")]
_GROUPS: Final = ("parameters", "prompts", "model", "versions")


@app.command
def schema(instrument: str | None = None, /) -> None:
    """Print the JSON schema of an instrument's --json output; without a name, list the instruments.

    Args:
        instrument: its name, or doctor.
    """
    if instrument is None:
        output.print_plain("".join(f"{name}\n" for name in all_printed()))
        return
    output.print_plain(json_format.dumps(made_schema(instrument), ensure_ascii=False, indent=1) + "\n")


@app.command(name="list")
def list_runs(*, runs: Path = Path("runs"), json: FlagOption = False) -> None:
    """List runs, complete or not, and the directories of studies beside them.

    Parameters
    ----------
    runs
        Directory of runs.
    json
        Write one JSON object a directory instead of a table.
    """
    from leakmeter.engine.storage.catalogue import entries, minute

    listed = entries(runs)
    if json:
        for entry in listed:
            output.print_json(asdict(entry))
        return
    if not listed:
        output.tell(f"no runs under '{runs}'")
        return
    from rich.text import Text

    from leakmeter.core.plain import excerpt

    rows = [
        ("name", "state", "cases", "finished, UTC"),
        *((entry.name, entry.state or entry.kind, _cases(entry), minute(entry)) for entry in listed),
    ]
    cells = [[excerpt(cell, _WIDEST) for cell in row] for row in rows]
    of_name, of_state, of_cases, _ = (max(map(len, column)) for column in zip(*cells, strict=True))
    abouts = [
        "",
        *(
            ", ".join(filter(None, (run_entry.model, run_entry.given_name, run_entry.data, run_entry.unit)))
            for run_entry in listed
        ),
    ]
    screen = output.console()
    for row, about in zip(cells, abouts, strict=True):
        line = f"{row[0]:<{of_name}}  {row[1]:<{of_state}}  {row[2]:>{of_cases}}  {row[3]}"
        # A name is there to be copied, so that no line is broken.
        screen.print(Text(line.rstrip()), soft_wrap=True)
        if about:
            screen.print(Text(f"  {excerpt(about, 4 * _WIDEST)}", style="dim"), soft_wrap=True)


@app.command
def show(run: str, /, *, runs: _Runs = Path("runs"), json: FlagOption = False) -> None:
    """Show what a run measured, its settings, model, versions and cost.

    Parameters
    ----------
    run
        The run.
    json
        Write one JSON object instead.
    """
    from leakmeter.engine.storage.catalogue import find_run, summary

    path = find_run(run, runs)
    run_summary = summary(path)
    if json:
        output.print_plain(json_format.dumps(_record(path, run_summary), indent=2) + "\n")
    else:
        _write_lines(_lines(path, run_summary))


@app.command
def compare(
    a: str,
    b: str,
    /,
    *,
    runs: Path = Path("runs"),
    quantity: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: FlagOption = False,
) -> None:
    """Compare two runs of one measure case by case: differences, intervals and tests.

    Differences are B − A, means over pairs of cases with the same id, with 95 % intervals. p is of Wilcoxon's
    signed-rank test, by Holm's rule among the quantities; effect is its rank-biserial correlation. B is worse or
    better only if the interval leaves out 0, p is below 0.05, and the difference is above the noise floor of both runs.
    There is no verdict where settings differ that change what the numbers mean, such as the ablation unit, the removal,
    λ or T.

    Parameters
    ----------
    a
        A run.
    b
        Another run of the same measure.
    runs
        Directory of runs, where they are given by name.
    quantity
        Compare this quantity, such as 'influence' or 'icl.accuracy'; again for each further one. All by default.
    json
        Print one JSON object instead; null means that a value is missing.
    """
    from leakmeter.engine.storage.catalogue import entry_of, find_run, label
    from leakmeter.products.gate.compare import compare as compared
    from leakmeter.results.results import read_measured

    paths = [find_run(name, runs) for name in (a, b)]
    first, second = map(read_measured, paths)
    comparison = compared(first, second, quantity or ()).to_dict()
    if json:
        output.print_json(comparison)
        return
    from leakmeter.products.pages.render import comparison_report

    for letter, path in zip("AB", paths, strict=True):
        output.print_text(f"{letter}: {', '.join(filter(None, (path.resolve().name, label(entry_of(path)))))}")
    output.print_report(comparison_report(comparison, "A", "B"), explain=True)


@app.command
def complete(run: str, /, *others: Annotated[Path, Parameter(negative="")], runs: _Runs = Path("runs")) -> None:
    """Combine the slices of a run (see --part of the commands that measure).

    Parameters
    ----------
    run
        The run.
    others
        Further directories of the same run, if jobs shared no directory: their parts are copied to the first.
    """
    from leakmeter.engine.slices import complete as completed
    from leakmeter.engine.storage.catalogue import find_run

    first = Path(place_of(find_run(run, runs)))
    output.tell(f"run: {completed([first, *others]).place}")


@app.command
def verify(*run: Annotated[str, Parameter(negative="")], runs: Path = Path("runs")) -> None:
    """Check that runs are as they were written: no file truncated, edited, missing or foreign.

    The exit code is 1 if anything is wrong. An unfinished run is listed as unfinished, and is wrong only if you named
    it.

    Parameters
    ----------
    run
        Runs to check; all runs of the directory by default.
    runs
        Directory of runs.
    """
    from leakmeter.engine.storage.catalogue import RUN, entries, find_run
    from leakmeter.engine.storage.stored import fetched
    from leakmeter.engine.storage.verify import verify as verified

    runs = runs if run else fetched(runs)
    named = [find_run(name, runs) for name in run]
    verdicts = [verified(path) for path in named or (runs / entry.name for entry in entries(runs) if entry.kind == RUN)]
    for verdict in verdicts:
        findings = (f"    {finding}" for finding in verdict.findings)
        _write_lines((f"{verdict.state:10}  {verdict.path.name}  {verdict.n_files} files", *findings))
    if not verdicts:
        output.tell(f"no runs under '{runs}'")
    if any(verdict.state == "wrong" or (named and verdict.state == "unfinished") for verdict in verdicts):
        sys.exit(1)


@app.command
def rename(run: str, name: str, /, *, runs: _Runs = Path("runs")) -> None:
    """Rename a run in lists and on pages; its id and its numbers stay the same.

    Parameters
    ----------
    run
        The run.
    name
        New name, one line; '' removes it.
    """
    from leakmeter.runs import rename_run

    rename_run(run, name or None, runs=runs)


@app.command
def export(run: str, /, *, out: Path, redact: FlagOption = False, runs: _Runs = Path("runs")) -> None:
    """Write a run as measurements.parquet, cases.jsonl and spec.json, or its measurements alone as CSV.

    Two runs of the same spec give the same bytes, however often either was interrupted.

    Parameters
    ----------
    run
        The run.
    out
        A directory that is not there yet, or a file NAME.csv.
    redact
        Leave out all texts and everything that reveals them, such as drawn tokens, and replace names by keyed hashes.
        The key is your own: you can join two of your exports, and nobody else can test guesses.
    """
    from leakmeter.engine.storage.catalogue import find_run
    from leakmeter.engine.storage.export import Redacted, write

    path = find_run(run, runs)
    if redact:
        from leakmeter.engine.storage.pseudonym import subject_key
        from leakmeter.models import config_dir

        write(path, out, Redacted(subject_key(config_dir())))
    else:
        write(path, out)
    output.tell(f"export: {out}")


def _write_lines(lines: Iterable[str]) -> None:
    """What was given, such as a command or a file's name, may hold anything, and is one line."""
    sys.stdout.write("".join(visible(line).replace("\n", "␊") + "\n" for line in lines))


def _cases(entry: Entry) -> str:
    if entry.n_cases_finished is None:
        return ""
    if entry.n_cases == entry.n_cases_finished:
        return f"{entry.n_cases:,}"
    return f"{entry.n_cases_finished:,} of {'?' if entry.n_cases is None else f'{entry.n_cases:,}'}"


def _record(path: Path, summary: RunSummary) -> JsonObject:
    entry = summary.entry
    return {
        "run": entry.name,
        "name": entry.given_name,
        "directory": place_of(path),
        "state": entry.state,
        "finished": entry.finished,
        "measure": entry.measure,
        "unit": entry.unit,
        "data": entry.data,
        "cases": entry.n_cases,
        "cases_finished": entry.n_cases_finished,
        "measurements": summary.n_measurements,
        **{heading: dict(getattr(summary, heading)) for heading in _GROUPS},
        "version": entry.version,
        "command": summary.command,
        "cost": asdict(summary.cost),
        "workers": [asdict(worker) for worker in summary.workers],
        "slowest_part": None if summary.slowest_part is None else asdict(summary.slowest_part),
        "warnings": list(_warnings(summary)),
    }


def _warnings(summary: RunSummary) -> Iterator[str]:
    if summary.entry.state == "unfinished":
        yield "not complete: the same command continues it"
    if n_retries := summary.cost.out_of_memory_retries:
        yield f"memory ran out {n_retries} times; last digits may differ from a run with less --memory"
    if summary.problems:
        yield output.left_out(summary.problems)


def _lines(path: Path, summary: RunSummary) -> Iterator[str]:
    entry, cost = summary.entry, summary.cost
    yield entry.name
    yield f"  directory     {place_of(path)}"
    yield f"  state         {entry.state}{f', {entry.finished}' if entry.finished else ''}"
    for heading, text in (("name", entry.given_name), ("data", entry.data), ("unit", entry.unit)):
        if text:
            yield f"  {heading:14}{text}"
    yield f"  measure       {entry.measure}"
    yield f"  cases         {_cases(entry)}"
    yield f"  measurements  {summary.n_measurements:,} numbers"
    yield (
        f"  cost          {cost.seconds:,.1f} s; {cost.requests:,} prompts; {cost.tree_tokens:,} tokens run, "
        f"where full passes take {cost.naive_tokens:,}"
    )
    for worker in summary.workers:
        rate = f", {worker.tree_tokens / worker.seconds:,.0f} tokens a second" if worker.seconds else ""
        yield f"  worker        {worker.worker}: {worker.n_cases:,} cases in {worker.seconds:,.1f} s{rate}"
    if (slowest := summary.slowest_part) is not None:
        named = f"'{slowest.ids[0]}'" + (f" to '{slowest.ids[-1]}'" if len(slowest.ids) > 1 else "")
        where = f", on {slowest.worker}" if slowest.worker else ""
        yield f"  slowest part  {slowest.number}, case {named}: {slowest.seconds:,.1f} s{where}"
    yield f"  leakmeter     {entry.version}"
    yield f"  command       {summary.command or 'none: made in Python'}"
    for heading in _GROUPS:
        yield f"  {heading}"
        for name, value in getattr(summary, heading).items():
            # A unit that was left to the kind of case is the one above.
            known = entry.unit if name == "unit" and value is None else value
            yield f"    {name} = {'not set' if known is None else json_format.dumps(known, ensure_ascii=False)}"
    for warning in _warnings(summary):
        yield f"  warning: {warning}"
