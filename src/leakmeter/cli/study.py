"""`leakmeter study`: factor studies, those of the papers and your own, from their cells to tables and figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from leakmeter.commands import output
from leakmeter.commands.command_line import command_line
from leakmeter.commands.options import Flag, RunOptions
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.json_object import JsonObject
    from leakmeter.runs.prediction import Predictor
    from leakmeter.studies.cells import FinishedCell
    from leakmeter.studies.forecast import Forecast
    from leakmeter.studies.grid import Study

_Texts = Annotated[list[str] | None, Parameter(negative="")]

app = App(
    name="study",
    help="""Run factor studies, those of the papers and your own: table and figure with intervals.

    `leakmeter study NAME` is short for `leakmeter study run NAME`.""",
)


@app.default
@app.command
def run(
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

    What it will take is said first. The same command goes on after an interruption, and costs nothing once all is
    measured.

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
        NAME=VALUE instead of the study's own; again for further values, which make a factor.
    dtype
        See `leakmeter influence`.
    device
        See `leakmeter influence`.
    out
        Directory of runs; the study gets a directory of its own beside them.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter cache`); of people's data it never keeps any.
    dry_run
        Predict tokens and time instead, from each cell's first records; nothing is run or written.
    """
    from leakmeter.studies.cells import load_records
    from leakmeter.studies.grid import load_study

    chosen = load_study(study, size, _changes(set or []))
    records = load_records(chosen, _paths(data or [], chosen))
    _tell_of_few(chosen, records)
    options = RunOptions(dtype=dtype, device=device, out=out, no_cache=no_cache or chosen.kind.is_personal)
    if dry_run:
        from leakmeter.studies.forecast import forecasts

        _print_forecasts(chosen, forecasts(chosen, chosen.cells, records, _predictors(options)))
        return
    # What is put into a table: all that determines its numbers, and nothing else.
    words = ["study", "run", study, "--size", size]
    words += [part for given in data or [] for part in ("--data", given)]
    words += [part for given in set or [] for part in ("--set", given)]
    words += [part for name, given in (("dtype", dtype), ("device", device)) if given for part in (f"--{name}", given)]
    directory = _run(chosen, records, command_line(words, without=_hidden(chosen, data or [])), options)
    output.tell(f"study: {directory}")


@app.command(name="list")
def list_studies(*, json: Flag = False) -> None:
    """List the studies that ship with leakmeter, and what each asks for.

    Parameters
    ----------
    json
        Print one JSON object a study.
    """
    from rich.table import Table
    from rich.text import Text

    from leakmeter.studies.grid import SIZES, load_study, shipped

    studies = {name: {size: load_study(name, size) for size in SIZES} for name in shipped()}
    if json:
        for name, sizes in studies.items():
            output.print_json(_record(name, sizes))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("study", no_wrap=True)
    table.add_column("what is shown, of which data")
    for heading in SIZES:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, sizes in studies.items():
        of = sizes["laptop"]
        shown = Text.assemble(of.title, "\n", (", ".join(_datasets(of)), "dim"))
        table.add_row(name, shown, *(f"{len(one.cells)} × {one.cells[0].n_records:,}" for one in sizes.values()))
    console = output.console()
    console.print(table)
    console.print(
        "Sizes: cells × records of each (contexts, queries, relations or people). leakmeter study run NAME --dry-run"
    )


def _record(name: str, sizes: Mapping[str, Study]) -> JsonObject:
    study = sizes["laptop"]
    datasets = _datasets(study)
    return {
        "name": name,
        **{of: getattr(study, of) for of in ("title", "measure", "reproduces")},
        "datasets": datasets,
        "data": study.kind.sources(datasets),
        **{size: {"cells": len(of.cells), "records": of.cells[0].n_records} for size, of in sizes.items()},
    }


def _datasets(study: Study) -> list[str]:
    return list(dict.fromkeys(cell.dataset for cell in study.cells))


def _run(study: Study, records: Sequence[Sequence[Any]], command: str, options: RunOptions) -> Path:
    from leakmeter.commands.progress import study_progress
    from leakmeter.studies.cells import finished_cell, measure_cell, study_directory
    from leakmeter.studies.forecast import forecasts

    directory = study_directory(study, records, options.out, options.dtype, options.device)
    found = [finished_cell(cell, records[cell.number], directory) for cell in study.cells]
    done = {one.cell.number: one for one in found if one is not None}
    # Cells of a model follow each other, so that each is loaded once, and never two at a time.
    models = [cell.model for cell in study.cells]
    left = sorted((c for c in study.cells if c.number not in done), key=lambda cell: models.index(cell.model))
    if left:
        expected = forecasts(study, left, records, _predictors(options))
        output.tell(f"{len(done)} of {len(study.cells)} cells are measured; {_summed(study, expected)}")
        backend: Backend | None = None
        loaded: str | None = None
        with study_progress({one.cell.number: one.n_tokens or 0.0 for one in expected}) as bar:
            for cell in left:
                started = time.perf_counter()
                if backend is None or loaded != cell.model:
                    backend = None
                    backend, loaded = replace(options, model=cell.model).load_backend(), cell.model
                of_cell = records[cell.number]
                progress = bar.of_cell(cell.number)
                done[cell.number] = measure_cell(study, cell, of_cell, directory, backend, progress, command=command)
                taken = time.perf_counter() - started
                output.tell(f"cell {len(done)} of {len(study.cells)}: {cell.label}: {taken:.0f} s")
    _write(study, [done[number] for number in range(len(study.cells))], directory, command)
    return directory


def _predictors(options: RunOptions) -> Callable[[str], Predictor]:

    @cache
    def predictor_of(model: str) -> Predictor:
        return replace(options, model=model).load_predictor()

    return predictor_of


def _write(study: Study, cells: Sequence[FinishedCell], directory: Path, command: str) -> None:
    from leakmeter.studies import tables as rendered
    from leakmeter.studies.cells import write
    from leakmeter.studies.table import SEEDS_ABOUT, SEEDS_TITLE, over_seeds, provenance

    kind = study.kind
    for finished in cells:
        write(directory / f"cell-{finished.cell.number:02}.csv", kind.items_csv(finished))
    made = kind.tables(study, cells, directory, output.tell)
    about = [study.reproduces, *provenance(study, cells, command)]
    markdown = rendered.to_markdown(study.title, about, made.summary)
    if made.comparisons:
        write(directory / "comparisons.csv", rendered.to_csv(made.comparisons))
        markdown += "\n" + rendered.to_markdown(made.compared_title, made.compared_by, made.comparisons, level=2)
    if seeds := over_seeds(study, made.rows):
        write(directory / "seeds.csv", rendered.to_csv(seeds))
        markdown += "\n" + rendered.to_markdown(SEEDS_TITLE, [SEEDS_ABOUT], seeds, level=2)
    write(directory / "table.csv", rendered.to_csv(made.rows))
    write(directory / "table.md", markdown)
    for name, page in kind.pages(study, cells, about).items():
        write(directory / name, page)
    try:
        kind.draw(study, made.rows, footer="; ".join(provenance(study, cells, command)), stem=directory / "figure")
    except UsageError as error:
        output.tell(str(error))
    output.print_plain(markdown)


def _hidden(study: Study, data: Sequence[str]) -> list[str]:
    """Files of people, which may be called by their names."""
    if not study.kind.is_personal:
        return []
    files = {one.rpartition("=")[2] for one in data} | {cell.dataset for cell in study.cells}
    return sorted(files.difference(study.kind.datasets()))


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
    used = _datasets(study)
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
    kind = study.kind
    counts = {(cell.dataset, kind.n_found(records[cell.number]), cell.n_records) for cell in study.cells}
    what = kind.counted or kind.records
    for dataset, n, wanted in sorted(counts):
        if n < wanted:
            output.tell(f"{dataset}: {n:,} {what} are there where the study asks for {wanted:,}; all are taken")


def _print_forecasts(study: Study, found: Sequence[Forecast]) -> None:
    from rich.table import Table
    from rich.text import Text

    from leakmeter.report.words import about_seconds
    from leakmeter.studies.forecast import n_looked_at

    table = Table(box=None, pad_edge=False)
    table.add_column("cell")
    for heading in (study.kind.records, "tokens to run", "time"):
        table.add_column(heading, justify="right")
    for one in found:
        if one.problem is not None:
            output.tell(one.problem)
        tokens = "not predicted" if one.n_tokens is None else f"{one.n_tokens:,.0f}"
        time = "not predicted" if one.seconds is None else about_seconds(one.seconds)
        table.add_row(Text(one.cell.label), f"{one.n_records:,}", tokens, time)
    console = output.console()
    console.print(Text(f"{study.title}; {study.size} size; nothing was run", style="bold"))
    console.print(table)
    console.print(Text(f"all cells: {_time(found)}; from the first {n_looked_at(study)} {study.kind.records} of each"))


def _summed(study: Study, found: Sequence[Forecast]) -> str:
    n_records = sum(one.n_records for one in found)
    tokens = [one.n_tokens for one in found if one.n_tokens is not None]
    said = f"{sum(tokens):,.0f} tokens, {_time(found)}" if len(tokens) == len(found) else "not predicted"
    return f"{n_records:,} {study.kind.records} are left: {said}"


def _time(found: Sequence[Forecast]) -> str:
    from leakmeter.report.words import about_seconds

    seconds = [one.seconds for one in found if one.seconds is not None]
    if len(seconds) < len(found):
        return "time not predicted"
    return f"at most {about_seconds(sum(seconds))} once models are loaded"
