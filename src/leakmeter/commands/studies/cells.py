"""Cells of a study to finished runs: each cell is an ordinary run directory, so that a stopped study continues.

runs/
  decode-1f2e…/               the run of a cell; cells of several studies that are alike share it
  study-figure_8-laptop-9a…/  mode 0700: generations and contexts are in it
    cell-00.json              which run belongs to cell 0, and under which weights it was made
    cell-00.csv               its items with their texts: see `StudyKind.items`
    bertscore-00.json         quality that took a model of its own
    table.md, table.json, table.csv, figure.png, figure.svg
    agreement-00.csv …        also .png and .svg: of each Monte Carlo cell of a susceptibility study, beside Fisher's
    seeds.csv                 values over seeds, of a study with replicates
    comparisons.csv           levels of a factor against each other, where the kind of study makes any
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from leakmeter.commands.studies.grid import Study, StudyCell, settings_named
from leakmeter.core import registry
from leakmeter.core.backend import Backend
from leakmeter.core.files import check_outside_runs, clear_left_over, made_for, remove_unused, store_errors, write_whole
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.quantity import watched
from leakmeter.core.record import JsonObject
from leakmeter.engine.measure import Callbacks
from leakmeter.engine.ready import make_ready
from leakmeter.engine.storage.parts import Part, cases_of_run
from leakmeter.engine.storage.pseudonym import NONCE_FILES, made_directory
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import LeakmeterError, StoreError, UsageError
from leakmeter.models import resolve

ShowProgress = Callable[[Backend, int, Mapping[str, float]], AbstractContextManager[Callbacks]]
"""Of a back end, a number of cases, and the findings so far, which change meanwhile."""


@dataclass(frozen=True, slots=True)
class FinishedCell:
    cell: StudyCell
    model: JsonObject
    """Name, weights_sha256, dtype and device."""
    run: str
    """Id of its run directory."""
    records: Sequence[Any]
    """Of the study's kind."""
    measured: Sequence[Part]
    """Texts and measurements of each record, in order."""


def load_records(study: Study, paths: Mapping[str, str]) -> list[list[Any]]:
    """The records of each cell; files, by the names of `StudyKind.sources`, are read once."""
    used = sorted(study.kind.sources(sorted({cell.dataset for cell in study.cells})))
    if unused := sorted(paths.keys() - set(used)):
        raise UsageError(f"--data names '{unused[0]}', which this study does not use; it uses {', '.join(used)}")
    return study.kind.load(study.cells, paths)


def study_directory(
    study: Study, records: Sequence[Sequence[Any]], out: Path, dtype: str | None, device: str | None
) -> Path:
    return directory_of(
        out,
        f"study-{study.name}-{study.size}",
        cells=[cell.record for cell in study.cells],
        records=[digest(list(map(study.kind.record, of_cell))) for of_cell in records],
        quality=asdict(study.quality),
        size=study.size,
        dtype=dtype,
        device=device,
    )


def directory_of(out: Path, name: str, **identity: Any) -> Path:
    """A directory under `out`, which need not be there, for results that `identity` and the version determine."""
    check_outside_runs(out, "directory of runs")
    return out / f"{name}-{digest({**identity, 'version': metadata.version('leakmeter')})[:16]}"


def finished_cell(cell: StudyCell, records: Sequence[Any], directory: Path) -> FinishedCell | None:
    """A cell that was measured before, read without its model; None where there is none, or of another model now."""
    try:
        record = json.loads((directory / f"{cell.stem}.json").read_bytes())
        model, run, files = record["model"], str(record["run"]), record["model_files"]
        is_this = record["cell"] == json.loads(json.dumps(cell.record))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    where = RunDirectory(directory.parent / run)
    if not is_this or not where.is_complete or _model_files(cell.model) not in (None, files):
        return None
    try:
        measured = list(cases_of_run(where))
    except StoreError:
        return None
    with suppress(StoreError):  # what cannot be written can still be read
        where.confirm()
    return FinishedCell(cell, model, run, records, measured)


def measure_cell(
    study: Study,
    cell: StudyCell,
    records: Sequence[Any],
    directory: Path,
    backend: Backend,
    progress: ShowProgress,
    command: str | None,
) -> FinishedCell:
    """Measure a cell, or continue its interrupted run, and write down which run it is."""
    cases = LoadedCases(tuple(study.kind.case(record) for record in records))
    name, size = cell.measure_name or study.measure, study.kind.group_size(cell.measure)
    with settings_named(study):
        ready = make_ready(Plan(name, cell.measure, cell.settings, cases, size), backend)
    spec = ready.spec(command=command)
    kind, findings, measured = registry.instrument(name).result, dict[str, float](), list[Part]()

    def kept(parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            measured.append(part)
            yield part

    with (
        settings_named(study),
        used_directory(directory, directory.parent / spec.id),
        progress(backend, len(cases.cases), findings) as callbacks,
        ready.measure_into(directory.parent, callbacks=callbacks, command=command) as run,
    ):
        make = partial(kind.from_run, params=asdict(run.measure))
        deque(watched(kept(run.parts), make, findings, is_of_run=kind.is_of_run), maxlen=0)
    finished = FinishedCell(cell, dict(spec.model), spec.id, records, measured)
    record = {"run": spec.id, "model": dict(spec.model), "model_files": _model_files(cell.model), "cell": cell.record}
    write(directory / f"{cell.stem}.json", json.dumps(record, ensure_ascii=False, indent=1))
    return finished


def kept_scores(path: Path, about: Mapping[str, object], score: Callable[[], list[float]]) -> list[float]:
    """Scores kept at a path as JSON, computed if there are none for `about`."""
    try:
        kept = json.loads(path.read_bytes())
        if kept["about"] == about:
            return [float(value) for value in kept["values"]]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    values = score()
    write(path, json.dumps({"about": about, "values": values}))
    return values


def write(path: Path, text: str) -> None:
    with store_errors(f"'{path}' cannot be written"):
        # A command that was killed while it wrote a table has left its beginning.
        clear_left_over(path.parent)
        write_whole(path, text.encode(errors="replace"))


def digest(record: Any) -> str:
    """The SHA-256 of its JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


@contextmanager
def used_directory(path: Path, run: Path | None = None) -> Iterator[None]:
    """Make a directory (`made_directory`); remove it again on an error, unless `run` was written."""
    with made_for(path.parent):
        made_directory(path)
        try:
            yield
        except BaseException:
            if run is None or not run.exists():
                remove_unused(path, NONCE_FILES)
            raise


def _model_files(model: str) -> list[str | None] | None:
    """Hashes of a model's files as they are now; None where there are none."""
    if model == "toy":
        return None
    try:
        resolved = resolve(model, notify=lambda line: None, download=False)
    except LeakmeterError:
        # Gone from this machine, its measurements stay what they are.
        return None
    return [resolved.weights_sha256, resolved.settings_sha256]
