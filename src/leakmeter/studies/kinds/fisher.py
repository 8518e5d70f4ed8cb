"""Studies of Fisher susceptibility: `fisher`, its variants held against Monte Carlo susceptibility."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

from leakmeter.errors import UsageError
from leakmeter.measures.base import Measure
from leakmeter.measures.fisher import Fisher
from leakmeter.measures.susceptibility import Susceptibility
from leakmeter.report import agreement_figure
from leakmeter.studies.agreement import PREDICTOR, QUERIES, lines_of, predictors_of, tables
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Cell, Study
from leakmeter.studies.kinds import susceptibility
from leakmeter.studies.kinds.base import Axes, Row, Tables
from leakmeter.studies.questions import Questions, queries_csv
from leakmeter.types.gradient import Sigma


class FisherSusceptibilities(Questions):
    """The queries of studies of Monte Carlo susceptibility, whose runs they share."""

    shows: ClassVar = {"agreement": "correlations of every variant with Monte Carlo susceptibility"}

    def measure(self, measure: Measure, given: Mapping[str, Any]) -> Measure:
        """With every Σ that its place may have, where the study names none: all come from the same passes."""
        if not isinstance(measure, Fisher) or "sigma" in given:
            return measure
        return replace(measure, sigma=tuple(name for name in get_args(Sigma) if _may_have(measure, name)))

    def yardsticks(self, cells: Sequence[Cell]) -> list[Cell]:
        """The Monte Carlo susceptibility of each model and choice of queries."""
        of_measure = {field.name for field in fields(Fisher)}
        first = {(cell.model, cell.dataset, cell.choice, cell.settings): cell for cell in reversed(cells)}
        return [
            replace(
                cell,
                number=number,
                factors={name: value for name, value in cell.factors.items() if name not in of_measure},
                measure=Susceptibility(),
                measure_name="susceptibility",
            )
            for number, cell in enumerate(reversed(first.values()), len(cells))
        ]

    def items_csv(self, finished: FinishedCell) -> str:
        """One row a query: what is known of it, and its numbers."""
        if isinstance(finished.cell.measure, Susceptibility):
            return susceptibility.KIND.items_csv(finished)
        return queries_csv(finished.records, {one.name: one.values for one in predictors_of(finished)})

    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        """Correlations of all variants and of what is simpler; the best one on queries that did not choose it."""
        return tables(study, cells)

    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """Spearman's correlation of each variant."""
        return Axes(PREDICTOR, ("spearman",))

    def draw(self, study: Study, rows: Sequence[Row], *, footer: str, stem: Path) -> None:
        """A panel for all queries, open ones, closed ones, and means of relations."""
        names = list(dict.fromkeys(name for cell in study.cells if cell.measure_name for name in cell.factors))
        agreement_figure.draw(
            rows, y=PREDICTOR, panels=QUERIES, lines=names, title=study.title, footer=footer, stem=stem
        )

    def about(self, study: Study) -> tuple[str, str]:
        """Seeds of the draws, and of directions; the bootstrap over relations."""
        drawn, _ = susceptibility.KIND.about(study)
        seeds = dict.fromkeys(cell.measure.seed for cell in study.cells if isinstance(cell.measure, Fisher))
        return (
            f"{drawn}; of directions: {', '.join(str(seed) for seed in seeds)}",
            "intervals: 95 %, bootstrap over relations, all queries of each together; partial: of ranks, given query "
            "length, entropy of the bare answer, and openness",
        )

    def pages(self, study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> Mapping[str, str]:
        """Every query with its Monte Carlo susceptibility and all that is held against it."""
        return {
            f"agreement-{line.yardstick.cell.number:02}.csv": queries_csv(
                line.yardstick.records,
                {"susceptibility": line.truth, **{one.name: one.values for one in line.predictors}},
            )
            for line in lines_of(cells)
        }


def _may_have(measure: Fisher, sigma: Sigma) -> bool:
    try:
        replace(measure, sigma=(sigma,))
    except UsageError:
        return False
    return True


KIND = FisherSusceptibilities()
