"""What is left of a study, in tokens and time: predicted from the first records of each cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leakmeter.engine.prediction import Predictor
from leakmeter.errors import LeakmeterError
from leakmeter.studies.grid import Cell, Study

_FIRST_RECORDS: Final = 5


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a cell will take, at most."""

    cell: Cell
    n_records: int
    n_tokens: float | None
    """To put through the model; None where it cannot be predicted."""
    seconds: float | None
    """None there, and where operations have no meaning."""
    problem: str | None = None
    """Why it cannot be predicted."""


def n_looked_at(study: Study) -> int:
    """Records of each cell that are looked at, at most: whole parts of what is scored together."""
    return max(_FIRST_RECORDS, *(study.kind.group_size(cell.measure) for cell in study.cells))


def forecasts(
    study: Study, cells: Sequence[Cell], records: Sequence[Sequence[Any]], predictor_of: Callable[[str], Predictor]
) -> list[Forecast]:
    """What some cells will take; `records` are of all cells of the study, by their numbers.

    `predictor_of` raises a LeakmeterError where the model is not at hand.
    """
    results = []
    for cell in cells:
        of_cell = records[cell.number]
        try:
            results.append(_forecast(study, cell, of_cell, predictor_of(cell.model)))
        except LeakmeterError as error:
            results.append(Forecast(cell, len(of_cell), None, None, str(error)))
    return results


def _forecast(study: Study, cell: Cell, records: Sequence[Any], predictor: Predictor) -> Forecast:
    kind = study.kind
    cases = [kind.case(record) for record in records[: n_looked_at(study)]]
    prepared = [cell.settings.prepare(case, predictor.backend, cell.measure) for case in cases]
    size = kind.group_size(cell.measure)
    parts = [predictor.predict(cell.measure, *prepared[i : i + size]) for i in range(0, len(prepared), size)]
    share = len(records) / len(cases)
    seconds = [predictor.seconds(part) for part in parts]
    known_seconds = [duration for duration in seconds if duration is not None]
    return Forecast(
        cell,
        len(records),
        share * sum(part.n_tokens_run for part in parts),
        share * sum(known_seconds) if len(known_seconds) == len(seconds) else None,
    )
