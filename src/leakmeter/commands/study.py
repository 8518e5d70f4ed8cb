"""A study run from its cells to its files: what the command and the library share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.commands import output
from leakmeter.commands.options import RunOptions
from leakmeter.errors import UsageError, as_keyword, options_named

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.commands.studies.cells import FinishedCell
    from leakmeter.commands.studies.grid import Study
    from leakmeter.commands.studies.study_report import StudyTables
    from leakmeter.commands.studies.tables import StudyRow
    from leakmeter.core.backend import Backend
    from leakmeter.core.record import JsonObject


@dataclass(frozen=True, slots=True)
class StudyRun:
    """A study that was run, in its directory."""

    path: Path
    """Directory of its tables and figures, and of the runs of its cells."""

    def to_frame(self) -> pd.DataFrame:
        """The study's table: one row a cell and statistic, with intervals."""
        import pandas as pd

        return pd.read_csv(self.path / "table.csv")

    def save_html(self, path: str | Path) -> Path:
        """Write the study's page: one file of mode 0600, no network.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.

        Raises:
            StoreError: it lies in a run, or the study cannot be read.
        """
        from leakmeter.commands.studies.study_report import page_of_study
        from leakmeter.results.result import saved

        return saved(path, page_of_study(self.path))

    def save_latex(self, path: str | Path) -> Path:
        """Write the study's tables as LaTeX (booktabs), each with caption, label and notes; of mode 0600.

        Args:
            path: the file; one that is there is replaced.

        Returns:
            The file's path.

        Raises:
            StoreError: it lies in a run, or the study cannot be read.
        """
        from leakmeter.commands.studies.study_report import tables_of
        from leakmeter.results.result import saved

        return saved(path, tables_of(self.path).latex(), noun="LaTeX file")


def study(
    name: str | Path,
    *,
    size: str = "laptop",
    data: Mapping[str, str | Path] | None = None,
    settings: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    device: str | None = None,
    out: str | Path = "runs",
    cache: bool = True,
) -> StudyRun:
    """Run a factor study, one of the papers' or your own: every cell a run that can be continued, then its tables.

    Args:
        name: of `list_studies`, or a file NAME.toml.
        size: 'laptop' or 'paper'.
        data: files by the names of the data sets; without them, from the hub.
        settings: values in the place of the study's own, such as {'records': 10}; a list makes a factor.
        dtype: see `load_backend`.
        device: see `load_backend`.
        out: directory of runs; the study gets a directory of its own beside them.
        cache: keep and use scores in the score cache; of people's data none are kept.

    Returns:
        The study's directory, with its table as a frame.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> leakmeter.study("no-such-study")
        Traceback (most recent call last):
        leakmeter.errors.UnknownNameError: no study named 'no-such-study'...
    """
    value_lists = {
        key: value if isinstance(value, list | tuple) else [value] for key, value in (settings or {}).items()
    }
    changes = {key: [str(item) for item in values] for key, values in value_lists.items()}
    paths = {key: str(path) for key, path in (data or {}).items()}
    options = RunOptions(dtype=dtype, device=device, out=Path(out), no_cache=not cache)
    with options_named(_as_argument):
        chosen, records, options = loaded_study(str(name), size, changes, lambda study: paths, options)
        private = private_files(chosen, paths.values())
        shown = {file_name: output.HIDDEN if path in private else path for file_name, path in paths.items()}
        set_to = {key: output.HIDDEN if value in private else value for key, value in (settings or {}).items()}
        given = {"data": shown, "settings": set_to, "dtype": dtype, "device": device}
        words = [repr(str(name)), f"size={size!r}", *(f"{key}={value!r}" for key, value in given.items() if value)]
        return StudyRun(run_study(chosen, records, f"leakmeter.study({', '.join(words)})", options)[0])


def _as_argument(name: str, value: str | None) -> str | None:
    """An option of `leakmeter study run` as an argument of `study`."""
    setting, equals, level = (value or "").partition("=")
    if name in ("set", "data") and equals:
        shown = level if level in ("…", "FILE") else repr(level)
        return f"{'settings' if name == 'set' else name}={{'{setting}': {shown}}}"
    return as_keyword(name, value) if name in ("data", "device", "dtype", "size") else None


def list_studies() -> list[JsonObject]:
    """List the studies that ship with leakmeter, and what each asks for.

    Returns:
        One object a study: name, title, measure, data sets, and cells and records of each size.

    Examples:
        >>> import leakmeter
        >>> {"name", "title", "measure"} <= leakmeter.list_studies()[0].keys()
        True
    """
    return [record_of(name, sizes) for name, sizes in shipped_studies().items()]


def shipped_studies() -> dict[str, dict[str, Study]]:
    from leakmeter.commands.studies.grid import SIZES, load_study, shipped

    return {name: {size: load_study(name, size) for size in SIZES} for name in shipped()}


def loaded_study(
    name: str,
    size: str,
    changes: Mapping[str, list[str]],
    paths: Callable[[Study], Mapping[str, str]],
    options: RunOptions,
) -> tuple[Study, Sequence[Sequence[Any]], RunOptions]:
    """A study, the records of each cell, and its options: scores of people's data are never kept. Tells of missing
    records. `changes` replace values of the study; `paths` gives the files of its data sets by name."""
    from leakmeter.commands.studies.cells import load_records
    from leakmeter.commands.studies.grid import load_study

    chosen = load_study(name, size, changes)
    records = load_records(chosen, paths(chosen))
    _tell_of_few(chosen, records)
    return chosen, records, replace(options, no_cache=options.no_cache or chosen.kind.is_personal)


def _tell_of_few(study: Study, records: Sequence[Sequence[Any]]) -> None:
    kind = study.kind
    counts = {(cell.dataset, kind.n_found(records[cell.number]), cell.n_records) for cell in study.cells}
    noun = kind.counted or kind.records
    for dataset, n, n_asked in sorted(counts):
        if n < n_asked:
            output.tell(f"{dataset}: {n:,} {noun} are available, and the study asks for {n_asked:,}; all are used")


def private_files(study: Study, paths: Iterable[str]) -> list[str]:
    """Files of people, which may be called by their names."""
    if not study.kind.is_personal:
        return []
    return sorted({*paths, *datasets_of(study)}.difference(study.kind.datasets()))


def record_of(name: str, sizes: Mapping[str, Study]) -> JsonObject:
    """A study as `leakmeter study list --json` prints it."""
    study = sizes["laptop"]
    datasets = datasets_of(study)
    return {
        "name": name,
        **{field_name: getattr(study, field_name) for field_name in ("title", "measure", "reproduces")},
        "datasets": datasets,
        "data": study.kind.sources(datasets),
        **{size: {"cells": len(sized.cells), "records": sized.cells[0].n_records} for size, sized in sizes.items()},
    }


def datasets_of(study: Study) -> list[str]:
    return list(dict.fromkeys(cell.dataset for cell in study.cells))


def run_study(
    study: Study,
    records: Sequence[Sequence[Any]],
    command: str,
    options: RunOptions,
    interrupted: Callable[[StudyTables, str], None] = lambda tables, warning: None,
) -> tuple[Path, StudyTables]:
    """Measure the missing cells of a study, and write its tables and figures; returns directory and tables. `command`
    has all that determines the numbers; models are the study's, not the options'. `interrupted` gets the tables so far,
    and a warning."""
    from leakmeter.commands.progress import study_progress
    from leakmeter.commands.studies.cells import finished_cell, measure_cell, study_directory
    from leakmeter.commands.studies.quality import Quality
    from leakmeter.engine.measure import PartsBackend
    from leakmeter.report.blocks import interrupted as interruption

    directory = study_directory(study, records, options.out, options.dtype, options.device)
    finished = [finished_cell(cell, records[cell.number], directory) for cell in study.cells]
    known = {entry.cell.number: entry for entry in finished if entry is not None}
    # Cells of a model follow each other, so that each is loaded once, and never two at a time.
    models = [cell.model for cell in study.cells]
    left = sorted((c for c in study.cells if c.number not in known), key=lambda cell: models.index(cell.model))
    if left:
        n_left = {cell.number: float(len(records[cell.number])) for cell in left}
        output.tell(
            f"{len(known)} of {len(study.cells)} cells are measured; {sum(n_left.values()):,.0f} {study.kind.records} "
            "are left"
        )
        backend: Backend | None = None
        loaded: str | None = None
        try:
            with study_progress(n_left) as bar:
                for cell in left:
                    started = time.perf_counter()
                    if backend is None or loaded != cell.model:
                        if isinstance(backend, PartsBackend):
                            backend.close()
                        backend = None
                        backend, loaded = replace(options, model=cell.model).load_backend(), cell.model
                    of_cell, watch = records[cell.number], partial(bar.watching, cell.number)
                    known[cell.number] = measure_cell(study, cell, of_cell, directory, backend, watch, command=command)
                    seconds = time.perf_counter() - started
                    output.tell(f"cell {len(known)} of {len(study.cells)}: {cell.label}: {seconds:.0f} s")
        except KeyboardInterrupt:
            if known:
                cells = [known[number] for number in sorted(known)]
                # Without the quality that takes a model of its own.
                tables, _, _ = _tables(replace(study, quality=Quality()), cells, directory, command)
                interrupted(tables, interruption(len(cells), len(study.cells), "cells"))
            raise
    return directory, _write(study, [known[number] for number in range(len(study.cells))], directory, command)


def _tables(
    study: Study, cells: Sequence[FinishedCell], directory: Path, command: str
) -> tuple[StudyTables, Mapping[str, Sequence[StudyRow]], list[str]]:
    """The tables of some cells, their rows by the names of files, and where the numbers come from."""
    from leakmeter.commands.studies.study_report import StudyTables, extremes
    from leakmeter.commands.studies.table import SEEDS_ABOUT, SEEDS_COLUMNS, SEEDS_TITLE, over_seeds, provenance
    from leakmeter.commands.studies.tables import readable

    kind = study.kind
    study_tables = kind.tables(study, cells, directory, output.tell)
    origin = provenance(study, cells)
    main = readable(study.title, [study.reproduces, *origin], study_tables.summary, kind.columns)
    shown = [main]
    csvs: dict[str, Sequence[StudyRow]] = {"table.csv": study_tables.rows}
    if pairs := study_tables.comparisons:
        csvs["comparisons.csv"] = pairs
        shown.append(readable(study_tables.compared_title, study_tables.compared_by, pairs, kind.columns))
    if seeds := over_seeds(study, study_tables.rows):
        csvs["seeds.csv"] = seeds
        shown.append(readable(SEEDS_TITLE, [SEEDS_ABOUT], seeds, {**kind.columns, **SEEDS_COLUMNS}))
    found = extremes(main, study_tables.summary, kind.columns)
    return StudyTables(tuple(shown), command, headline=found.sentence, advice=found.advice), csvs, origin


def _write(study: Study, cells: Sequence[FinishedCell], directory: Path, command: str) -> StudyTables:
    from leakmeter.commands.studies.cells import write
    from leakmeter.commands.studies.tables import items_to_csv, to_csv

    kind = study.kind
    for finished in cells:
        write(directory / f"cell-{finished.cell.number:02}.csv", items_to_csv(kind.items(finished)))
    tables, rows, origin = _tables(study, cells, directory, command)
    pages = kind.pages(study, cells, [study.reproduces, f"command: {command}", *origin])
    csvs = {name: to_csv(file_rows) for name, file_rows in rows.items()}
    for name, text in {**csvs, **tables.files(), **pages}.items():
        write(directory / name, text)
    try:
        kind.draw(study, rows["table.csv"], footer="; ".join(origin), stem=directory / "figure")
    except UsageError as error:
        output.tell(str(error))
    return tables
