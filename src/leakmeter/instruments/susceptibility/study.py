"""Studies of Monte Carlo susceptibility: `susceptibility`, over models, contexts, and what is known of the queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from leakmeter.instruments.susceptibility.pairs import tables
from leakmeter.instruments.susceptibility.studied import Questions, queries_csv
from leakmeter.instruments.susceptibility.table import INTERVALS, OPENNESS, SHOWS, VALUE, Series, value_of
from leakmeter.report.blocks import Chart
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.figure import figure_of
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Axes, Row, Tables

_STATISTICS = ("susceptibility", "from_bare", "mixture_entropy", "bare_entropy", "ceiling", "noise")


class Susceptibilities(Questions):
    """Queries about relations, each behind drawn contexts."""

    shows: ClassVar = SHOWS

    def items_csv(self, finished: FinishedCell) -> str:
        """One row a query: what is known of it, and its numbers."""
        columns = {f"{name}_nats": value_of(finished, name) for name in _STATISTICS}
        return queries_csv(finished.records, columns)

    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """Mean susceptibility of all, open and closed queries; levels against each other."""
        return tables(study, [Series(one, dict(one.cell.factors), value_of(one, "susceptibility")) for one in cells])

    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """Susceptibility."""
        return Axes(str(study.x) if study.show == "factor" else study.show, (VALUE,))

    def figure(self, study: Study, rows: Sequence[Row], *, footer: str) -> Chart:
        """A line for all, for open and for closed queries."""
        axes = self.axes(study, rows)
        lines = [name for name in (*study.cells[0].factors, OPENNESS) if name != axes.x]
        return figure_of(rows, x=axes.x, lines=lines, ys=axes.ys, title=study.title, footer=footer)

    def about(self, study: Study) -> tuple[str, str]:
        """Seeds of the draws; the bootstrap over relations."""
        seeds = ", ".join(str(seed) for seed in dict.fromkeys(self.seed(cell) for cell in study.cells))
        return f"seed of relations, entities and contexts: {seeds}", INTERVALS


KIND = Susceptibilities()
