"""What a kind of study is: where its cases come from, and what is made of their measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from leakmeter.core.case import record_of
from leakmeter.core.json_object import JsonObject
from leakmeter.errors import UsageError
from leakmeter.report import charts
from leakmeter.report.blocks import Chart
from leakmeter.studies.figure import figure_of
from leakmeter.studies.tables import Column, Columns, Row

if TYPE_CHECKING:
    from leakmeter.core.instrument import AnyCase, Settings
    from leakmeter.core.measure import Measure
    from leakmeter.studies.cells import FinishedCell
    from leakmeter.studies.grid import Cell, Study

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records of a data set a cell measures."""

    n_records: int
    choice_seed: int | None
    """Of their choice; None for the first ones."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What a study gives: a row for each point of the figure, and where these are many, fewer rows for people."""

    rows: list[Row]
    """Every number, for `table.csv` and the figure."""
    summary: list[Row]
    """What people are shown."""
    comparisons: Sequence[Row] = ()
    """Levels of a factor against each other, for `comparisons.csv` and people."""
    compared_by: Sequence[str] = ()
    """What is to be known of them."""
    compared_title: str = "Pairs"
    """What they are called."""


@dataclass(frozen=True, slots=True)
class Axes:
    """What a figure shows."""

    x: str
    ys: tuple[str, ...]
    """A panel each."""


class Kind(ABC):
    """What tells studies of one kind from those of another."""

    records: ClassVar[str]
    """What records are called: also the setting that says how many, where `counted` is none."""
    counted: ClassVar[str] = ""
    """What is counted instead, of which each has several records: the setting that says how many."""
    settings: ClassVar[Mapping[str, str]]
    """Further settings, of the choice of records and of the prompts, and their annotations."""
    shows: ClassVar[Mapping[str, str]]
    """What may be drawn."""
    replicated: ClassVar[str] = "seed"
    """The setting that is another in each of several replicates."""
    is_personal: ClassVar[bool] = False
    """Whether records are personal data, of which the score cache keeps nothing."""
    columns: ClassVar[Columns] = {"dataset": Column("data set")}
    """How people read the columns of its rows."""
    has_quality: ClassVar[bool] = False
    """Whether responses are drawn whose quality may be scored."""

    def group_size(self, measure: Measure) -> int:
        """Records that are scored together; last digits depend on it."""
        return 1

    @abstractmethod
    def choice(self, settings: JsonObject) -> Choice:
        """Which records a cell measures, by all settings of the cell that the study says."""

    @abstractmethod
    def prompts(self, settings: JsonObject) -> Settings:
        """How a cell's prompts are made; `settings` as for `choice`."""

    def measure(self, measure: Measure, settings: JsonObject) -> Measure:
        """What a cell measures, where further settings, `settings` as for `choice`, say something of it."""
        return measure

    def references(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Further cells, of another measure, that these are held against; numbered from where they end."""
        return ()

    @abstractmethod
    def datasets(self) -> list[str]:
        """Names of the data sets that are known."""

    def sources(self, datasets: Sequence[str]) -> list[str]:
        """What files may be given for data sets: NAME of `--data NAME=FILE`."""
        return list(datasets)

    def shown_dataset(self, name: str) -> str:
        return name

    @abstractmethod
    def load(self, cells: Sequence[Cell], paths: Mapping[str, str]) -> list[list[Any]]:
        """The records of each cell; files are read once, and what has none by the names of `sources` is the hub's."""

    def n_found(self, records: Sequence[Any]) -> int:
        """How many there are of what is counted; `Choice.n_records` says how many were asked for."""
        return len(records)

    def case(self, record: Any) -> AnyCase:
        """What is measured of a record: by default the record itself."""
        case: AnyCase = record
        return case

    def record(self, record: Any) -> JsonObject:
        """A record as that by which studies of it are known again."""
        return record_of(record)

    @abstractmethod
    def items(self, finished: FinishedCell) -> Iterator[Row]:
        """The items of a cell, as `cell-NN.csv` holds them."""

    @abstractmethod
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """The tables of a study; `directory` keeps what took long, `notify` gets what is left out, and why."""

    @abstractmethod
    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """What the figure of these rows shows."""

    def figure(self, study: Study, rows: Sequence[Row], *, footer: str) -> Chart:
        """The figure of these rows, see `tables`, with a small footer under it."""
        axes = self.axes(study, rows)
        lines = self.lines(study, axes.x)
        return figure_of(rows, axes.x, axes.ys, lines, columns=self.columns, title=study.title, footer=footer)

    def lines(self, study: Study, x: str) -> list[str]:
        """The columns whose values tell one line of the figure from another."""
        return [name for name in study.cells[0].factors if name != x]

    def draw(self, study: Study, rows: Sequence[Row], *, footer: str, stem: Path) -> None:
        """Write the figure of these rows, and what further ones there are, as '.png' and '.svg' at a stem."""
        charts.write(self.figure(study, rows, footer=footer), stem)

    @abstractmethod
    def seed(self, cell: Cell) -> int:
        """Seed of the draws and of the bootstrap."""

    @abstractmethod
    def about(self, study: Study) -> tuple[str, str]:
        """Of a table's provenance the line on seeds and the line on intervals."""

    def pages(self, study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> Mapping[str, str]:
        """Further files, such as HTML pages, by their names; `about` says where the numbers come from."""
        return {}


def lines_over(
    x: str, cells: Iterable[tuple[Mapping[str, object], Sequence[str], T]]
) -> list[tuple[Row, list[tuple[Any, T]]]]:
    """What differs in the factor x alone and is of the same records: of each line what it has in common, and its
    levels; `cells` are factors, ids of records, and content."""
    lines: list[tuple[Row, Sequence[str], list[tuple[Any, T]]]] = []
    for factors, ids, content in cells:
        others: Row = {name: value for name, value in factors.items() if name != x}
        line = next((levels for shared, of_line, levels in lines if (shared, of_line) == (others, ids)), None)
        if line is None:
            lines.append((others, ids, line := []))
        line.append((factors[x], content))
    return [(others, levels) for others, _, levels in lines]


def seeds_text(seeds: Iterable[tuple[int | None, int]]) -> str:
    """Seeds of choices, None where the first records were taken, and of draws; each pair once."""
    pairs = dict.fromkeys(seeds)
    return ", ".join(f"{'the first' if choice is None else choice} and {seed}" for choice, seed in pairs)


def of_kind(value: object, kind: type[T]) -> T:
    """The choice or the measure of a cell, which has to be of a kind."""
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} is no {kind.__name__}")
    return value


def field_types(settings: type) -> dict[str, str]:
    return {field.name: str(field.type) for field in fields(settings)}


def at_least_one(name: str, n: int) -> int:
    if n < 1:
        raise UsageError(f"{name} is {n}; it has to be 1 or more")
    return n
