"""Studies of what responses owe to contexts: `influence`, `decode`, and any measure that has no kind of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from leakmeter.core.case import Case
from leakmeter.core.json_object import JsonObject
from leakmeter.core.measure import Measure
from leakmeter.data import named
from leakmeter.data.named.base import Record
from leakmeter.studies.cells import FinishedCell, items_csv
from leakmeter.studies.expected import whole_by_token
from leakmeter.studies.generations import generations_page
from leakmeter.studies.grid import Cell, Study
from leakmeter.studies.kind import Axes, Choice, Kind, Row, Tables, at_least_one, field_types
from leakmeter.studies.table import tables
from leakmeter.text.build import PromptSettings


class Contexts(Kind):
    """Records of a data set by name: a context, a query, and what people answered."""

    records = "records"
    settings: ClassVar = {"choice_seed": "int | None", **field_types(PromptSettings)}
    shows: ClassVar = {
        "factor": "a mean for each cell, over x",
        "position": "a mean for each position of the response",
        "piece": "a mean for each piece of the context, in its order",
    }
    has_quality = True

    def group_size(self, measure: Measure) -> int:
        """See `drawn_together`."""
        return measure.together

    def choice(self, given: JsonObject) -> Choice:
        """So many records: the first ones, or some at random."""
        return Choice(at_least_one("records", given["records"]), given.get("choice_seed"))

    def prompts(self, given: JsonObject) -> PromptSettings:
        """As the data set has it, where the study does not say otherwise."""
        dataset = named.find(given["dataset"])
        settings = PromptSettings(
            unit="whole", template=dataset.template, truncate=True, max_context_tokens=dataset.max_context_tokens
        )
        return replace(settings, **{name: given[name] for name in field_types(PromptSettings) if name in given})

    def datasets(self) -> list[str]:
        """Data sets by name."""
        return named.names()

    def load(self, cells: Sequence[Cell], paths: Mapping[str, str]) -> list[list[Record]]:
        """The records of each cell."""
        known: dict[tuple[str, Choice], list[Record]] = {}
        for cell in cells:
            if (cell.dataset, cell.choice) not in known:
                dataset, choice = named.find(cell.dataset), cell.choice
                records = dataset.load(paths.get(cell.dataset), n=choice.n_records, seed=choice.choice_seed)
                known[cell.dataset, choice] = records
        return [known[cell.dataset, cell.choice] for cell in cells]

    def case(self, record: Record) -> Case:
        """The record without what people answered."""
        return record.case

    def items_csv(self, finished: FinishedCell) -> str:
        """One row a response, with its loss."""
        return items_csv(
            finished, lambda measurements: [float(values.sum()) for values in whole_by_token(measurements)]
        )

    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """Expected influence, regurgitation and quality."""
        return tables(study, cells, directory, notify)

    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """Influence, and over a factor also quality."""
        if study.show == "factor":
            return Axes(str(study.x), ("nats", "rouge_l_f1", "bertscore_f1", "factkb"))
        by_token = study.show == "piece" and all("first_token" in row for row in rows)
        return Axes("first_token" if by_token else study.show, ("nats",))

    def seed(self, cell: Cell) -> int:
        """The measure's."""
        return int(getattr(cell.measure, "seed", 0) or 0)

    def about(self, study: Study) -> tuple[str, str]:
        """The measure's seed; the bootstrap, and Wilson's interval."""
        return f"seed: {study.seed}", "intervals: 95 %, bootstrap over records (counts: Wilson)"

    def pages(self, study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> Mapping[str, str]:
        """Generations side by side, where responses were drawn for themselves."""
        return {"generations.html": generations_page(study, cells, about)} if study.measure == "decode" else {}


KIND = Contexts()
