"""`leakmeter study`: factor studies, those of the papers and your own, from their cells to tables and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from leakmeter.cli.regurgitation import regurgitation
from leakmeter.commands import output
from leakmeter.commands.options import Explain, FlagOption, PrecisionOption, RunOptions, WorkersOption
from leakmeter.commands.output import command_line
from leakmeter.commands.study import (
    datasets_of,
    loaded_study,
    private_files,
    record_of,
    run_study,
    shipped_studies,
)
from leakmeter.engine.options import PrecisionOptions, WorkerOptions
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from leakmeter.commands.studies.grid import Study
    from leakmeter.commands.studies.study_report import StudyTables

_Texts = Annotated[list[str] | None, Parameter(negative="")]

app = App(
    name="study",
    help="""Run factor studies, those of the papers or your own, with a table and a figure.

    `leakmeter study NAME` is short for `leakmeter study run NAME`.""",
)
app.command(regurgitation, name="regurgitation")


@app.default
@app.command
def run(
    study: str,
    /,
    *,
    size: str = "laptop",
    data: _Texts = None,
    set: _Texts = None,
    precision: PrecisionOption = None,
    out: Path = Path("runs"),
    no_cache: FlagOption = False,
    dry_run: FlagOption = False,
    explain: Explain = False,
    workers: WorkersOption = None,
) -> None:
    """Run a factor study: every cell a run that can be continued, then a table and a figure with intervals.

    Prints the expected cost first. The same command continues after an interruption, and costs nothing once everything
    is measured.

    Parameters
    ----------
    study
        A name of `leakmeter study list`, or a file NAME.toml.
    size
        laptop or paper.
    data
        NAME=FILE for each data set (see `leakmeter study list`; agnews.train … for exemplars), or FILE where the study
        has one; without it, from the hub.
    set
        Setting to override, as NAME=VALUE; repeat with further values to make it a factor.
    out
        Directory of runs; the study gets a directory of its own beside them.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter models cache`), which never has people's data.
    dry_run
        Only predict tokens and time, from each cell's first records; run and write nothing.
    """
    changes, paths = _changes(set or []), partial(_paths, data or [])
    chosen_precision = asdict(precision or PrecisionOptions())
    loading = chosen_precision | asdict(workers or WorkerOptions())
    options = RunOptions(out=out, no_cache=no_cache, **loading)
    chosen, records, options = loaded_study(study, size, changes, paths, options)
    if dry_run:
        from leakmeter.commands.studies.dry_run import predict_study

        predict_study(chosen, records, options)
        return
    # What is put into a table: all that determines its numbers, and nothing else.
    words = ["study", "run", study, "--size", size]
    words += [part for entry in data or [] for part in ("--data", entry)]
    words += [part for setting in set or [] for part in ("--set", setting)]
    words += [part for name, value in chosen_precision.items() if value for part in (f"--{name}", value)]
    command = command_line(words, without=private_files(chosen, [entry.rpartition("=")[2] for entry in data or []]))

    def show(tables: StudyTables, warning: str = "") -> None:
        if warning:
            output.print_plain(f"{warning}\n")
        output.print_tables(tables, explain=explain)

    directory, tables = run_study(chosen, records, command, options, interrupted=show)
    show(tables)
    output.tell(f"study: {directory}")


@app.command(name="list")
def list_studies(*, json: FlagOption = False) -> None:
    """List the studies that ship with leakmeter, and what each asks for.

    Parameters
    ----------
    json
        Print one JSON object a study.
    """
    from rich.table import Table
    from rich.text import Text

    from leakmeter.commands.studies.grid import SIZES

    studies = shipped_studies()
    if json:
        for name, sizes in studies.items():
            output.print_json(record_of(name, sizes))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("study", no_wrap=True)
    table.add_column("what is shown, of which data")
    for heading in SIZES:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, sizes in studies.items():
        laptop = sizes["laptop"]
        shown = Text.assemble(laptop.title, "\n", (", ".join(datasets_of(laptop)), "dim"))
        table.add_row(name, shown, *(f"{len(sized.cells)} × {sized.cells[0].n_records:,}" for sized in sizes.values()))
    console = output.console()
    console.print(table)
    console.print(
        "Sizes: cells × records of each (contexts, queries, relations or people). leakmeter study run NAME --dry-run"
    )


def _changes(settings: Sequence[str]) -> dict[str, list[str]]:
    changes: dict[str, list[str]] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--set {setting} is not NAME=VALUE, such as --set records=10")
        changes.setdefault(name.replace("-", "_"), []).append(value)
    return changes


def _paths(entries: Sequence[str], study: Study) -> dict[str, str]:
    kind = study.kind
    used = datasets_of(study)
    dataset_names = kind.sources(list(dict.fromkeys([*kind.datasets(), *used])))
    paths: dict[str, str] = {}
    for entry in entries:
        name, equals, path = entry.partition("=")
        if equals and name in dataset_names:
            paths[name] = path
        elif len(used) == 1 and len(entries) == 1:
            paths[used[0]] = entry
        else:
            raise UsageError(
                f"--data {entry} does not name its data set; write NAME=FILE, where NAME is one of "
                f"{', '.join(dataset_names)}"
            )
    return paths
