"""`leakmeter study`: a factor study, from its cells to table and figure."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leakmeter.cli import output
from leakmeter.cli.options import Flag, RunOptions
from leakmeter.errors import LeakmeterError, UsageError

if TYPE_CHECKING:
    from leakmeter.studies.cells import FinishedCell
    from leakmeter.studies.grid import Study

_Texts = Annotated[list[str] | None, Parameter(negative="")]
_PREDICTED_RECORDS = 5


def study(
    study: str,
    /,
    *,
    size: str = "laptop",
    data: _Texts = None,
    set: _Texts = None,
    dtype: str | None = None,
    device: str | None = None,
    out: Path = Path("runs"),
    no_cache: Flag = False,
    dry_run: Flag = False,
) -> None:
    """Run a factor study: every cell a run that can be continued, then a table and a figure with intervals.

    The same command goes on after an interruption, and costs nothing once all is measured.

    Parameters
    ----------
    study
        Context influence: tables_2_3, figure_2a, figure_2b, figure_2c, figure_3, figure_4, figure_7, figure_8. ICL
        influence: icl_table_1, icl_figure_1 to icl_figure_5, icl_figure_7. Private generation: audit_table_4,
        audit_table_5, audit_table_6, audit_figure_6. Susceptibility: susceptibility_table_1, susceptibility_table_2,
        susceptibility_figure_3, susceptibility_figure_4, susceptibility_contexts. Or a file NAME.toml.
    size
        laptop or paper.
    data
        NAME=FILE for each data set (pubmedqa, cnn_dm; agnews, dbpedia14, trec, and agnews.train … for their exemplars;
        agnews alone for exemplars of private generation; relations for susceptibility, which needs no file), or FILE
        where the study has one; without it, from the hub.
    set
        NAME=VALUE instead of the study's own; again for further values, which make a factor.
    dtype
        See `leakmeter influence`.
    device
        See `leakmeter influence`.
    out
        Directory of runs; the study gets a directory of its own beside them.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter cache`).
    dry_run
        Predict tokens and time instead, from each cell's first records; nothing is run or written.
    """
    from leakmeter.studies.cells import load_records
    from leakmeter.studies.grid import load_study

    chosen = load_study(study, size, _changes(set or []))
    paths = _paths(data or [], chosen)
    records = load_records(chosen, paths)
    _tell_of_few(chosen, records)
    run = RunOptions(dtype=dtype, device=device, out=out, no_cache=no_cache)
    if dry_run:
        _predict(chosen, records, run)
        return
    # What is put into a table: all that determines its numbers, and nothing else.
    words = ["leakmeter", "study", study, "--size", size]
    words += [part for given in data or [] for part in ("--data", given)]
    words += [part for given in set or [] for part in ("--set", given)]
    words += [part for name, given in (("dtype", dtype), ("device", device)) if given for part in (f"--{name}", given)]
    directory = _run(chosen, records, shlex.join(words), run)
    output.tell(f"study: {directory}")


def _run(study: Study, records: Sequence[Sequence[Any]], command: str, run: RunOptions) -> Path:
    from leakmeter.cli.progress import progress
    from leakmeter.studies.cells import finished_cell, measure_cell, study_directory

    directory = study_directory(study, records, run.out, run.dtype, run.device)
    done: dict[int, FinishedCell] = {}
    backend: Any = None
    loaded: str | None = None
    # Cells of a model follow each other, so that each is loaded once, and never two at a time.
    for cell in sorted(study.cells, key=lambda cell: [one.model for one in study.cells].index(cell.model)):
        started = time.perf_counter()
        finished = finished_cell(cell, records[cell.number], directory)
        if finished is None:
            if loaded != cell.model:
                backend = None
                backend, loaded = replace(run, model=cell.model).load_backend(), cell.model
            finished = measure_cell(study, cell, records[cell.number], directory, backend, progress, command=command)
        done[cell.number] = finished
        output.tell(f"cell {len(done)} of {len(study.cells)}: {cell.label}: {time.perf_counter() - started:.0f} s")
    _write(study, [done[number] for number in range(len(study.cells))], directory, command)
    return directory


def _write(study: Study, cells: Sequence[FinishedCell], directory: Path, command: str) -> None:
    from leakmeter.report import tables as rendered
    from leakmeter.studies.cells import write
    from leakmeter.studies.table import provenance

    kind = study.kind
    for finished in cells:
        write(directory / f"cell-{finished.cell.number:02}.csv", kind.items_csv(finished))
    made = kind.tables(study, cells, directory, output.tell)
    about = [study.reproduces, *provenance(study, cells, command)]
    markdown = rendered.to_markdown(study.title, about, made.summary)
    if made.comparisons:
        write(directory / "comparisons.csv", rendered.to_csv(made.comparisons))
        markdown += "\n" + rendered.to_markdown(made.compared_title, made.compared_by, made.comparisons, level=2)
    write(directory / "table.csv", rendered.to_csv(made.rows))
    write(directory / "table.md", markdown)
    for name, page in kind.pages(study, cells, about).items():
        write(directory / name, page)
    try:
        kind.draw(study, made.rows, footer="; ".join(provenance(study, cells, command)), stem=directory / "figure")
    except UsageError as error:
        output.tell(str(error))
    sys.stdout.write(markdown)


def _predict(study: Study, records: Sequence[Sequence[Any]], run: RunOptions) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from leakmeter.report.words import about_seconds
    from leakmeter.studies.run import prepare_case

    kind = study.kind
    n_first = max(_PREDICTED_RECORDS, *(kind.group_size(cell.measure) for cell in study.cells))
    table = Table(box=None, pad_edge=False)
    table.add_column("cell")
    for heading in (kind.records, "tokens to run", "time"):
        table.add_column(heading, justify="right")
    predictors: dict[str, Any] = {}
    total: float | None = 0.0
    for cell in study.cells:
        of_cell = records[cell.number]
        try:
            if cell.model not in predictors:
                predictors[cell.model] = replace(run, model=cell.model).load_predictor()
            predictor = predictors[cell.model]
            cases = [kind.case(record) for record in of_cell[:n_first]]
            prepared = [prepare_case(case, predictor.backend, cell.settings, cell.measure) for case in cases]
            size = kind.group_size(cell.measure)
            groups = [prepared[i : i + size] for i in range(0, len(prepared), size)]
            found = [predictor.predict(cell.measure, *group) for group in groups]
        except LeakmeterError as error:
            output.tell(str(error))
            total = None
            table.add_row(Text(cell.label), f"{len(of_cell):,}", "not predicted", "not predicted")
            continue
        share = len(of_cell) / len(cases)
        seconds = [predictor.seconds(one) for one in found]
        time_of_cell = None if None in seconds else share * sum(seconds)
        total = None if total is None or time_of_cell is None else total + time_of_cell
        tokens = f"{share * sum(one.n_tokens_run for one in found):,.0f}"
        shown = "not predicted" if time_of_cell is None else about_seconds(time_of_cell)
        table.add_row(Text(cell.label), f"{len(of_cell):,}", tokens, shown)
    console = Console(markup=False, highlight=False)
    console.print(Text(f"{study.title}; {study.size} size; nothing was run", style="bold"))
    console.print(table)
    told = "not predicted" if total is None else f"at most {about_seconds(total)} once models are loaded"
    console.print(Text(f"all cells: {told}; from the first {n_first} {kind.records} of each"))


def _changes(given: Sequence[str]) -> dict[str, list[str]]:
    changes: dict[str, list[str]] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--set {one} is not NAME=VALUE, such as --set records=10")
        changes.setdefault(name.replace("-", "_"), []).append(value)
    return changes


def _paths(given: Sequence[str], study: Study) -> dict[str, str]:
    kind = study.kind
    used = list(dict.fromkeys(cell.dataset for cell in study.cells))
    known = kind.sources(list(dict.fromkeys([*kind.datasets(), *used])))
    paths: dict[str, str] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if equals and name in known:
            paths[name] = path
        elif len(used) == 1 and len(given) == 1:
            paths[used[0]] = one
        else:
            raise UsageError(
                f"--data {one} does not say of which data set it is; write NAME=FILE, NAME one of {', '.join(known)}"
            )
    return paths


def _tell_of_few(study: Study, records: Sequence[Sequence[Any]]) -> None:
    told = {(cell.dataset, len(records[cell.number]), cell.n_records) for cell in study.cells}
    what = study.kind.records
    for dataset, n, wanted in sorted(told):
        if n < wanted:
            output.tell(f"{dataset}: {n:,} {what} are there where the study asks for {wanted:,}; all are taken")
