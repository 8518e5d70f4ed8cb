"""Studies of what a model knows of people: `pii`, over values of people in a file, or of invented ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from leakmeter.core.measure import Measure
from leakmeter.data.named.base import chosen_numbers
from leakmeter.errors import DataError, UnknownNameError
from leakmeter.instruments.pii import charts
from leakmeter.instruments.pii.canaries import canaries_of
from leakmeter.instruments.pii.measure import Pii
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeCase, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.subject import VALUE_TYPES, Subject
from leakmeter.instruments.pii.subjects import load_subjects
from leakmeter.instruments.pii.table import ABOVE, BROUGHT_OUT, KNOWN, LIKELIHOOD, TYPE, cases_of, tables
from leakmeter.models import config_dir
from leakmeter.report.blocks import Chart
from leakmeter.runs.pseudonym import pseudonym, subject_key
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.figure import figure_of
from leakmeter.studies.grid import Cell, Study
from leakmeter.studies.kind import Axes, Choice, Kind, Row, Tables, at_least_one

TOGETHER: Final = 8
"""Values that are asked for together: a step of beam search reads all weights once, for however many beams."""
PEOPLE: Final = "people"
"""Name of the data set: a file of people; without one, invented people."""
_FILES: Final = (".toml", ".jsonl", ".json", ".csv", ".parquet")
_OF_PROMPTS: Final = ("shots", "nulls", "references", "null_seed")
_OF_CASES: Final = ("subject", "kind", "type", "association_nats", LIKELIHOOD, "p_value", "p_value_of_likelihood")


@dataclass(frozen=True, slots=True)
class Asked(Choice):
    """Which people a cell asks for, and what of them."""

    kinds: tuple[str, ...]
    """Of probes; empty for all."""
    types: tuple[str, ...]
    """Of values; empty for all."""
    region: str
    """Of telephone numbers without a country code."""


class People(Kind):
    """Every value of some people, asked for in every way of some kinds. Nothing personal is kept, nor in the cache."""

    records = "values"
    counted = "subjects"
    is_personal: ClassVar = True
    replicated: ClassVar = "null_seed"
    settings: ClassVar = {
        "choice_seed": "int | None",
        "kinds": "tuple[str, ...]",
        "types": "tuple[str, ...]",
        "region": "str",
        **dict.fromkeys(_OF_PROMPTS, "int"),
    }
    shows: ClassVar = {
        "factor": "a row for each type of value, over x",
        "parts": "the shares of values, and of parts of them, that beam search brings out",
        "densities": "the likelihoods of true and of invented values",
    }

    def group_size(self, measure: Measure) -> int:
        """Their beams are searched together."""
        return TOGETHER

    def choice(self, given: Mapping[str, Any]) -> Asked:
        """The first people, by their names alone, where nothing says else."""
        return Asked(
            at_least_one("subjects", given["subjects"]),
            given.get("choice_seed"),
            _known("kind of probe", given.get("kinds", ()), PROBE_KINDS),
            _known("type of value", given.get("types", ()), VALUE_TYPES),
            given.get("region", "US"),
        )

    def prompts(self, given: Mapping[str, Any]) -> ProbeSettings:
        """Templates and invented values; the data set has to be one that can be read."""
        name = given["dataset"]
        if name != PEOPLE and not name.lower().endswith(_FILES):
            raise UnknownNameError("set of people", name, [PEOPLE, *(f"FILE{suffix}" for suffix in _FILES)])
        return ProbeSettings(**{key: given[key] for key in _OF_PROMPTS if key in given})

    def datasets(self) -> list[str]:
        """A file's people, or invented ones."""
        return [PEOPLE]

    def told_dataset(self, name: str) -> str:
        """A file of people may be called by a name: a keyed hash stands for it."""
        return name if name == PEOPLE else f"file {pseudonym(subject_key(config_dir()), 'file', name)[:8]}"

    def load(self, cells: Sequence[Cell], paths: Mapping[str, str]) -> list[list[ProbeCase]]:
        """The values of each cell's people, in every way that they are asked for."""
        asked_of = [(paths.get(cell.dataset, cell.dataset), _asked(cell)) for cell in cells]
        cases = {one: _cases(*one) for one in dict.fromkeys(asked_of)}
        return [cases[one] for one in asked_of]

    def n_found(self, records: Sequence[ProbeCase]) -> int:
        """People, each of whom may have many values."""
        return len({record.subject.id for record in records})

    def case(self, record: ProbeCase) -> ProbeCase:
        """The record."""
        return record

    def told(self, record: ProbeCase) -> dict[str, Any]:
        """Keyed hashes: a plain one of a telephone number is undone by trying all numbers."""
        return record.record()

    def items_csv(self, finished: FinishedCell) -> str:
        """One row a value and way of asking; numbers, and the ids of people."""
        sink = io.StringIO(newline="")
        writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["id", *_OF_CASES, *(f"exact_match_beam_{width}" for width in _measure(finished).beams)])
        for case in cases_of(finished):
            matches = [one["best"]["exact_match"] for one in case["generated"]]
            writer.writerow([case["id"], *(case[name] for name in _OF_CASES), *matches])
        return sink.getvalue()

    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """By type of value, by part of it, or every value."""
        return tables(study, cells)

    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """How far true values stand out, and how many are known."""
        return Axes(str(study.x), (ABOVE, KNOWN))

    def figure(self, study: Study, rows: Sequence[Row], *, footer: str) -> Chart:
        """A line or a panel for each type; of likelihoods, for each type and cell."""
        factors = list(study.cells[0].factors)
        if study.show == "densities":
            return charts.densities(rows, factors, value=LIKELIHOOD, title=study.title, footer=footer)
        if study.show == "parts":
            of = [*dict.fromkeys((*factors, "beams"))]
            return charts.parts(rows, of, value=BROUGHT_OUT, title=study.title, footer=footer)
        axes = self.axes(study, rows)
        lines = [TYPE, *(name for name in factors if name != axes.x)]
        return figure_of(rows, x=axes.x, lines=lines, ys=axes.ys, title=study.title, footer=footer)

    def seed(self, cell: Cell) -> int:
        """That of the invented values."""
        return cell.settings.null_seed if isinstance(cell.settings, ProbeSettings) else 0

    def about(self, study: Study) -> tuple[str, str]:
        """Seeds of people and invented values; the bootstrap, and Wilson's interval."""
        draws = dict.fromkeys((_asked(cell).choice_seed, self.seed(cell)) for cell in study.cells)
        chosen = ", ".join(f"{'the first' if of is None else of} and {seed}" for of, seed in draws)
        intervals = "intervals: 95 %, bootstrap over values (shares: Wilson); p one-sided, Holm's rule among all rows"
        return f"seeds of people and of invented values: {chosen}", intervals


def _cases(path: str, asked: Asked) -> list[ProbeCase]:
    people: Sequence[Subject]
    if path == PEOPLE:
        people = canaries_of(asked.n_records, seed=asked.choice_seed or 0, region=asked.region)
    else:
        everyone = load_subjects(path, region=asked.region).subjects
        people = [everyone[i] for i in chosen_numbers(len(everyone), asked.n_records, asked.choice_seed)]
    kinds = tuple(kind for kind in PROBE_KINDS if kind in (asked.kinds or PROBE_KINDS))
    cases = [case for case in probes_of(people, kinds) if case.type in (asked.types or VALUE_TYPES)]
    if not cases:
        raise DataError(
            f"nothing is known of these people that kinds '{', '.join(kinds)}' and types "
            f"'{', '.join(asked.types or VALUE_TYPES)}' ask for"
        )
    return cases


def _known(what: str, given: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    for one in given:
        if one not in names:
            raise UnknownNameError(what, one, names)
    return given


def _asked(cell: Cell) -> Asked:
    if not isinstance(cell.choice, Asked):
        raise TypeError(f"a {type(cell.choice).__name__} asks for nobody")
    return cell.choice


def _measure(finished: FinishedCell) -> Pii:
    if not isinstance(finished.cell.measure, Pii):
        raise TypeError(f"a {type(finished.cell.measure).__name__} brings out no values")
    return finished.cell.measure


KIND = People()
