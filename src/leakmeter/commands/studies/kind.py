"""Kinds of studies: where cases come from, and which tables and figures their measurements make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from leakmeter.commands.studies.study_report import figure_of
from leakmeter.commands.studies.tables import StudyColumn, StudyColumns, StudyRow
from leakmeter.core.case import record_of
from leakmeter.core.record import JsonObject
from leakmeter.errors import UsageError
from leakmeter.report import charts
from leakmeter.report.blocks import Chart

if TYPE_CHECKING:
    from leakmeter.commands.studies.cells import FinishedCell
    from leakmeter.commands.studies.grid import Study, StudyCell
    from leakmeter.core.measure import Measure
    from leakmeter.core.registry import AnyCase, Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordChoice:
    """Which records of a data set a cell measures."""

    n_records: int
    choice_seed: int | None
    """Of their choice; None for the first ones."""


@dataclass(frozen=True, slots=True)
class Tables:
    """A row for each point of the figure, and where these are many, fewer rows for people."""

    rows: list[StudyRow]
    """Every number, for `table.csv` and the figure."""
    summary: list[StudyRow]
    """What people are shown."""
    comparisons: Sequence[StudyRow] = ()
    """Levels of a factor against each other, for `comparisons.csv` and people."""
    compared_by: Sequence[str] = ()
    """How, for people."""
    compared_title: str = "Pairs"


@dataclass(frozen=True, slots=True)
class Axes:
    x: str
    ys: tuple[str, ...]
    """A panel each."""


class StudyKind(ABC):
    """A kind of study, such as of contexts or of exemplars."""

    records: ClassVar[str]
    """The word for records; also the setting with their number, unless `counted` names another."""
    counted: ClassVar[str] = ""
    """The setting with the number of what is counted instead, where each has several records."""
    settings: ClassVar[Mapping[str, str]]
    """Further settings, of the choice of records and of the prompts, and their annotations."""
    shows: ClassVar[Mapping[str, str]]
    """Values of `show`, and what they draw."""
    replicated: ClassVar[str] = "seed"
    """The setting that differs between replicates."""
    is_personal: ClassVar[bool] = False
    """Whether records are personal data, of which the score cache keeps nothing."""
    columns: ClassVar[StudyColumns] = {"dataset": StudyColumn("data set")}
    """How people read the columns of its rows."""
    has_quality: ClassVar[bool] = False
    """Whether responses are drawn whose quality may be scored."""

    def group_size(self, measure: Measure) -> int:
        """Records that are scored together; last digits depend on it."""
        return 1

    @abstractmethod
    def choice(self, settings: JsonObject) -> RecordChoice:
        """Which records a cell measures, by all settings of the cell that the study says."""

    @abstractmethod
    def prompts(self, settings: JsonObject) -> Settings:
        """How a cell's prompts are made; `settings` as for `choice`."""

    def measure(self, measure: Measure, settings: JsonObject) -> Measure:
        """A cell's measure, where further settings, `settings` as for `choice`, change it."""
        return measure

    def references(self, cells: Sequence[StudyCell]) -> Sequence[StudyCell]:
        """Further cells, of another measure, with which these are compared; numbered from where they end."""
        return ()

    @abstractmethod
    def datasets(self) -> list[str]:
        """Names of the known data sets."""

    def sources(self, datasets: Sequence[str]) -> list[str]:
        """Names of files for data sets: NAME of `--data NAME=FILE`."""
        return list(datasets)

    def shown_dataset(self, name: str) -> str:
        return name

    @abstractmethod
    def load(self, cells: Sequence[StudyCell], paths: Mapping[str, str]) -> list[list[Any]]:
        """The records of each cell; files are read once, and what has none by the names of `sources` is the hub's."""

    def n_found(self, records: Sequence[Any]) -> int:
        """The number of what is counted; `RecordChoice.n_records` is the number that was asked for."""
        return len(records)

    def case(self, record: Any) -> AnyCase:
        """The case of a record: by default the record itself."""
        case: AnyCase = record
        return case

    def record(self, record: Any) -> JsonObject:
        """The record's part of what names a study."""
        return record_of(record)

    @abstractmethod
    def items(self, finished: FinishedCell) -> Iterator[StudyRow]:
        """The rows of `cell-NN.csv`."""

    @abstractmethod
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """`directory` keeps what took long; `notify` gets what is left out, and why."""

    @abstractmethod
    def axes(self, study: Study, rows: Sequence[StudyRow]) -> Axes:
        """The axes of the figure of these rows."""

    def figure(self, study: Study, rows: Sequence[StudyRow], *, footer: str) -> Chart:
        axes = self.axes(study, rows)
        lines = self.lines(study, axes.x)
        return figure_of(rows, axes.x, axes.ys, lines, columns=self.columns, title=study.title, footer=footer)

    def lines(self, study: Study, x: str) -> list[str]:
        """The columns whose values tell one line of the figure from another."""
        return [name for name in study.cells[0].factors if name != x]

    def draw(self, study: Study, rows: Sequence[StudyRow], *, footer: str, stem: Path) -> None:
        """Write the figure of these rows, and further ones, as '.png' and '.svg' at a stem."""
        charts.write(self.figure(study, rows, footer=footer), stem)

    @abstractmethod
    def seed(self, cell: StudyCell) -> int:
        """Seed of the draws and of the bootstrap."""

    @abstractmethod
    def about(self, study: Study) -> tuple[str, str]:
        """Two lines of a table's provenance: on seeds and on intervals."""

    def pages(self, study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> Mapping[str, str]:
        """Further files, such as HTML pages, by their names; `about` says where the numbers come from."""
        return {}


def lines_over(
    x: str, cells: Iterable[tuple[Mapping[str, object], Sequence[str], T]]
) -> list[tuple[StudyRow, list[tuple[Any, T]]]]:
    """Groups of cells that differ in the factor x alone and have the same records: the other factors, and the levels.

    `cells` are factors, ids of records, and content.
    """
    lines: list[tuple[StudyRow, Sequence[str], list[tuple[Any, T]]]] = []
    for factors, ids, content in cells:
        others: StudyRow = {name: value for name, value in factors.items() if name != x}
        line = next((levels for shared, of_line, levels in lines if (shared, of_line) == (others, ids)), None)
        if line is None:
            lines.append((others, ids, line := []))
        line.append((factors[x], content))
    return [(others, levels) for others, _, levels in lines]


def seeds_text(seeds: Iterable[tuple[int | None, int]]) -> str:
    """Pairs of seeds, of choices (None for the first records) and of draws, each pair once."""
    pairs = dict.fromkeys(seeds)
    return ", ".join(f"{'the first' if choice is None else choice} and {seed}" for choice, seed in pairs)


def of_kind(value: object, kind: type[T]) -> T:
    """A cell's choice or measure, for type checkers."""
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} is no {kind.__name__}")
    return value


def field_types(settings: type) -> dict[str, str]:
    return {field.name: str(field.type) for field in fields(settings)}


def at_least_one(name: str, n: int) -> int:
    if n < 1:
        raise UsageError(f"{name} is {n}; it has to be 1 or more")
    return n
