"""Studies measured in memory, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from leakmeter.backends.toy import Toy
from leakmeter.commands.studies.cells import FinishedCell, finished_cell, load_records, measure_cell, study_directory
from leakmeter.commands.studies.grid import Study
from leakmeter.core.backend import Backend
from leakmeter.engine.measure import Callbacks


@contextmanager
def unwatched(backend: Backend, n_cases: int, findings: Mapping[str, float]) -> Iterator[Callbacks]:
    yield Callbacks()


def measured(study: Study, paths: dict[str, str], backend: Toy | None = None) -> tuple[list[FinishedCell], Path]:
    records = load_records(study, paths)
    directory = study_directory(study, records, Path("runs"), None, None)
    cells = []
    for cell in study.cells:
        found = finished_cell(cell, records[cell.number], directory)
        given = (study, cell, records[cell.number], directory, backend or Toy(), unwatched)
        cells.append(found or measure_cell(*given, command=None))
    return cells, directory
