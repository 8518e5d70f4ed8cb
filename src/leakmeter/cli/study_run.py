"""`leakmeter study run`: a factor study, from its cells to tables and figure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.command_line import command_line
from leakmeter.commands.options import Flag, RunOptions
from leakmeter.errors import UsageError

if TYPE_CHECKING:
    from leakmeter.runs.prediction import Predictor
    from leakmeter.studies.cells import FinishedCell
    from leakmeter.studies.grid import Study

_Texts = Annotated[list[str] | None, Parameter(negative="")]


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
        from leakmeter.cli.study_forecast import print_forecasts
        from leakmeter.studies.forecast import forecasts

        print_forecasts(chosen, forecasts(chosen, chosen.cells, records, _predictors(options)))
        return
    # What is put into a table: all that determines its numbers, and nothing else.
    words = ["study", "run", study, "--size", size]
    words += [part for given in data or [] for part in ("--data", given)]
    words += [part for given in set or [] for part in ("--set", given)]
    words += [part for name, given in (("dtype", dtype), ("device", device)) if given for part in (f"--{name}", given)]
    directory = _run(chosen, records, command_line(words, without=_hidden(chosen, data or [])), options)
    output.tell(f"study: {directory}")


def _run(study: Study, records: Sequence[Sequence[Any]], command: str, options: RunOptions) -> Path:
    from leakmeter.cli.study_forecast import summed
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
        output.tell(f"{len(done)} of {len(study.cells)} cells are measured; {summed(study, expected)}")
        backend: Any = None
        loaded: str | None = None
        with study_progress({one.cell.number: one.n_tokens or 0.0 for one in expected}) as bar:
            for cell in left:
                started = time.perf_counter()
                if loaded != cell.model:
                    backend = None
                    backend, loaded = replace(options, model=cell.model).load_backend(), cell.model
                of_cell = records[cell.number]
                progress = bar.of_cell(cell.number)
                done[cell.number] = measure_cell(study, cell, of_cell, directory, backend, progress, command=command)
                taken = time.perf_counter() - started
                output.tell(f"cell {len(done)} of {len(study.cells)}: {cell.label}: {taken:.0f} s")
    _write(study, [done[number] for number in range(len(study.cells))], directory, command)
    return directory


def _predictors(options: RunOptions) -> Any:
    """A model's name to its predictor, loaded once."""

    @cache
    def predictor_of(model: str) -> Predictor:
        return replace(options, model=model).load_predictor()

    return predictor_of


def _write(study: Study, cells: Sequence[FinishedCell], directory: Path, command: str) -> None:
    from leakmeter.studies import tables as rendered
    from leakmeter.studies.cells import write
    from leakmeter.studies.replicates import ABOUT, TITLE, over_seeds
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
    if seeds := over_seeds(study, made.rows):
        write(directory / "seeds.csv", rendered.to_csv(seeds))
        markdown += "\n" + rendered.to_markdown(TITLE, [ABOUT], seeds, level=2)
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
    kind = study.kind
    told = {(cell.dataset, kind.n_found(records[cell.number]), cell.n_records) for cell in study.cells}
    what = kind.counted or kind.records
    for dataset, n, wanted in sorted(told):
        if n < wanted:
            output.tell(f"{dataset}: {n:,} {what} are there where the study asks for {wanted:,}; all are taken")
