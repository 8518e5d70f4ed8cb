"""Studies of what answers owe to exemplars: `icl`, over queries of a classification task with exemplars drawn anew."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from leakmeter.core.measure import Measure
from leakmeter.data import tasks
from leakmeter.instruments.icl.draw import choose_queries, draw_cases
from leakmeter.instruments.icl.prompts import ExemplarSettings
from leakmeter.instruments.icl.table import POSITION, cases_of, loss_of, tables
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Cell, Study
from leakmeter.studies.kind import Axes, Choice, Kind, Row, Tables, at_least_one
from leakmeter.text.exemplar import Example, ExemplarCase

REDRAWN_TOGETHER: Final = 8
"""Queries that are scored together where each has exemplars of its own: they share an instruction."""
FIXED_TOGETHER: Final = 32
"""Likewise where all have the same exemplars."""
_TRAIN: Final = ".train"


@dataclass(frozen=True, slots=True)
class Draw(Choice):
    """Which queries a cell measures, and what is drawn for them."""

    shots: int
    """Exemplars before each."""
    draw_seed: int
    """Of the exemplars."""


class Exemplars(Kind):
    """Queries of a task by name, or of a user's own from a TOML file."""

    records = "queries"
    replicated: ClassVar = "draw_seed"
    settings: ClassVar = {"choice_seed": "int | None", "shots": "int", "draw_seed": "int", "template": "str | None"}
    shows: ClassVar = {
        "factor": "a mean for each cell, over x",
        "position": "a mean for each position of the exemplar that is left out",
    }

    def group_size(self, measure: Measure) -> int:
        """They share the instruction, and may share exemplars."""
        return REDRAWN_TOGETHER

    def choice(self, given: Mapping[str, Any]) -> Draw:
        """Some queries at random, since a file may be ordered by label, and four exemplars each by default."""
        return Draw(
            at_least_one("queries", given["queries"]),
            given.get("choice_seed", 0),
            at_least_one("shots", given.get("shots", 4)),
            given.get("draw_seed", 0),
        )

    def prompts(self, given: Mapping[str, Any]) -> ExemplarSettings:
        """The task's instruction, headings and labels."""
        chosen = {"template": given["template"]} if "template" in given else {}
        return ExemplarSettings(tasks.load_task(given["dataset"]).task, **chosen)

    def datasets(self) -> list[str]:
        """Tasks by name."""
        return tasks.names()

    def sources(self, datasets: Sequence[str]) -> list[str]:
        """Of each task the queries, under its name, and the examples that exemplars are drawn from."""
        return [source for name in datasets for source in (name, name + _TRAIN)]

    def load(self, cells: Sequence[Cell], paths: Mapping[str, str]) -> list[list[ExemplarCase]]:
        """The queries of each cell with their exemplars: the same for cells that differ in what is done with them."""
        known: dict[str, tuple[list[Example], list[Example]]] = {}
        for name in dict.fromkeys(cell.dataset for cell in cells):
            task = tasks.load_task(name)
            known[name] = (task.load(paths.get(name + _TRAIN), "train"), task.load(paths.get(name), "test"))
        drawn: dict[tuple[str, Draw], list[ExemplarCase]] = {}
        for cell in cells:
            draw, (pool, queries) = _draw_of(cell), known[cell.dataset]
            if (cell.dataset, draw) not in drawn:
                chosen = choose_queries(queries, draw.n_records, draw.choice_seed)
                drawn[cell.dataset, draw] = draw_cases(pool, chosen, shots=draw.shots, seed=draw.draw_seed)
        return [drawn[cell.dataset, _draw_of(cell)] for cell in cells]

    def case(self, record: ExemplarCase) -> ExemplarCase:
        """The record."""
        return record

    def items_csv(self, finished: FinishedCell) -> str:
        """One row a query and exemplar, with the loss of either."""
        sink = io.StringIO(newline="")
        # All texts are quoted: a lone carriage return would otherwise stand bare, and end a row for who reads it.
        writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        of_query, of_exemplar = ("id", "query", "gold", "prediction"), ("position", "id", "label", "text")
        writer.writerow([*of_query, "loss_nats", *(f"exemplar_{name}" for name in (*of_exemplar, "loss_nats"))])
        for case in cases_of(finished):
            for exemplar in case["exemplars"]:
                row = [*(case[name] for name in of_query), loss_of(case)]
                writer.writerow([*row, *(exemplar[name] for name in of_exemplar), loss_of(exemplar)])
        return sink.getvalue()

    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """ICLInf and accuracy, or the loss by position; levels of the factor against each other."""
        return tables(study, cells)

    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """ICLInf and accuracy, or the loss by position."""
        if study.show == "factor":
            return Axes(str(study.x), ("loss_nats", "accuracy"))
        return Axes(POSITION, ("position_nats",))

    def seed(self, cell: Cell) -> int:
        """That of the exemplars."""
        return _draw_of(cell).draw_seed

    def about(self, study: Study) -> tuple[str, str]:
        """Seeds of queries and exemplars; the bootstrap, and Wilson's interval."""
        draws = dict.fromkeys((_draw_of(cell).choice_seed, _draw_of(cell).draw_seed) for cell in study.cells)
        chosen = ", ".join(f"{'the first' if of is None else of} and {seed}" for of, seed in draws)
        return f"seeds of queries and exemplars: {chosen}", "intervals: 95 %, bootstrap over queries (accuracy: Wilson)"


def _draw_of(cell: Cell) -> Draw:
    if not isinstance(cell.choice, Draw):
        raise TypeError(f"a {type(cell.choice).__name__} draws no exemplars")
    return cell.choice


KIND = Exemplars()
