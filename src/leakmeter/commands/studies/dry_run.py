"""`leakmeter study run --dry-run`: what each cell of a study would take; nothing is measured or written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leakmeter.commands import output
from leakmeter.commands.dry_run import load_predictor
from leakmeter.commands.studies.grid import settings_named
from leakmeter.errors import LeakmeterError

if TYPE_CHECKING:
    from leakmeter.commands.options import RunOptions
    from leakmeter.commands.studies.grid import Study, StudyCell
    from leakmeter.engine.prediction import Predictor


@dataclass(frozen=True, slots=True)
class Forecast:
    """The most that a cell will take."""

    cell: StudyCell
    n_records: int
    n_tokens: float | None
    """To put through the model; None where it cannot be predicted."""
    seconds: float | None
    """None also of a served model."""
    problem: str | None = None
    """Why it cannot be predicted."""


def predict_study(study: Study, records: Sequence[Sequence[Any]], options: RunOptions) -> None:
    """Print what each cell takes; `records` are those of all cells, by their numbers."""
    from rich.text import Text

    from leakmeter.report.words import about_seconds

    rows = []
    found = forecasts(study, records, options)
    for forecast in found:
        if forecast.problem is not None:
            output.tell(forecast.problem)
        tokens = "not predicted" if forecast.n_tokens is None else f"{forecast.n_tokens:,.0f}"
        time = "not predicted" if forecast.seconds is None else about_seconds(forecast.seconds)
        rows.append((Text(forecast.cell.label), f"{forecast.n_records:,}", tokens, time))
    known = [forecast.seconds for forecast in found if forecast.seconds is not None]
    is_known = len(known) == len(found)
    time = f"at most {about_seconds(sum(known))} once models are loaded" if is_known else "time not predicted"
    console = output.console()
    console.print(Text(f"{study.title}; {study.size} size; nothing was measured", style="bold"))
    console.print(output.table(("cell", study.kind.records, "tokens to run", "time"), rows, right=(1, 2, 3)))
    console.print(Text(f"all cells: {time},\nfrom the first {n_looked_at(study)} {study.kind.records} of each"))


def n_looked_at(study: Study) -> int:
    """The most records of a cell that a forecast looks at: whole parts of what is scored together."""
    return max(5, *(study.kind.group_size(cell.measure) for cell in study.cells))


def forecasts(study: Study, records: Sequence[Sequence[Any]], options: RunOptions) -> list[Forecast]:
    """One a cell, in their order. Cells of one model follow each other, so that one model at a time is in memory."""
    results: dict[int, Forecast] = {}
    model, predictor = "", None
    for cell in sorted(study.cells, key=lambda cell: cell.model):
        of_cell = records[cell.number]
        try:
            with settings_named(study):
                if predictor is None or cell.model != model:
                    predictor = None  # which frees its memory before another is loaded
                    predictor, model = load_predictor(replace(options, model=cell.model)), cell.model
                results[cell.number] = _forecast(study, cell, of_cell, predictor)
        except LeakmeterError as error:
            results[cell.number] = Forecast(cell, len(of_cell), None, None, str(error))
    return [results[cell.number] for cell in study.cells]


def _forecast(study: Study, cell: StudyCell, records: Sequence[Any], predictor: Predictor) -> Forecast:
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
