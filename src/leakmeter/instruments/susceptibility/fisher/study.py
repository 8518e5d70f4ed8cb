"""Studies of Fisher susceptibility: `fisher`, beside or against Monte Carlo susceptibility of the same queries."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

from leakmeter.core.files import read_text
from leakmeter.core.gradient import Sigma
from leakmeter.core.measure import Measure
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility import pairs as question_pairs
from leakmeter.instruments.susceptibility import study as susceptibility
from leakmeter.instruments.susceptibility.fisher import agreement, figure
from leakmeter.instruments.susceptibility.fisher.agreement import PREDICTOR, QUERIES, lines_of, predictors_of
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.fisher.values import (
    ESTIMATOR,
    MONTE_CARLO,
    OF_FISHER,
    fisher_of,
    series_of,
    variant_of,
)
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.instruments.susceptibility.studied import Drawn, Questions, drawn_of, queries_csv
from leakmeter.instruments.susceptibility.table import ALL, INTERVALS, OPENNESS, SHOWS, VALUE
from leakmeter.report import charts
from leakmeter.report.blocks import Chart
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Cell, Study
from leakmeter.studies.kind import Axes, Row, Tables

_AGREEMENT: Final = "agreement"
_TRUTH: Final = "susceptibility"
"""Column of Monte Carlo susceptibility in the file of a line's queries."""
_UNITS: Final = (
    "Fisher susceptibility: nats of Eq. 9; that of identity is of squared embeddings, and ranks queries only"
)


@dataclass(frozen=True, slots=True)
class Answered(Drawn):
    """Queries whose likeliest answers Monte Carlo susceptibility writes out, too."""

    answer_tokens: int


class FisherSusceptibilities(Questions):
    """The queries of studies of Monte Carlo susceptibility, whose runs they share."""

    settings: ClassVar = {**Questions.settings, "answer_tokens": "int"}
    shows: ClassVar = {_AGREEMENT: "correlations of every variant with Monte Carlo susceptibility", **SHOWS}

    def choice(self, given: Mapping[str, Any]) -> Drawn:
        """With the tokens of answers where the study says how many."""
        drawn = super().choice(given)
        if "answer_tokens" not in given:
            return drawn
        return Answered(**asdict(drawn), answer_tokens=given["answer_tokens"])

    def measure(self, measure: Measure, given: Mapping[str, Any]) -> Measure:
        """With every Σ that its place may have, where the study names none: all come from the same passes."""
        if not isinstance(measure, Fisher) or "sigma" in given:
            return measure
        return replace(measure, sigma=tuple(name for name in get_args(Sigma) if _may_have(measure, name)))

    def yardsticks(self, cells: Sequence[Cell]) -> list[Cell]:
        """The Monte Carlo susceptibility of each model and choice of queries."""
        first = {(cell.model, cell.dataset, cell.choice, cell.settings): cell for cell in reversed(cells)}
        return [
            replace(
                cell,
                number=number,
                factors={name: value for name, value in cell.factors.items() if name not in OF_FISHER},
                measure=Susceptibility(answer_tokens=getattr(cell.choice, "answer_tokens", 0)),
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
        """Correlations of all variants, and the best one on queries that did not choose it; or means by a factor."""
        if study.show == _AGREEMENT:
            return agreement.tables(study, cells)
        return question_pairs.tables(study, list(series_of(cells)))

    def axes(self, study: Study, rows: Sequence[Row]) -> Axes:
        """Spearman's correlation of each variant, or susceptibility."""
        return Axes(PREDICTOR, ("spearman",)) if study.show == _AGREEMENT else susceptibility.KIND.axes(study, rows)

    def figure(self, study: Study, rows: Sequence[Row], *, footer: str) -> Chart:
        """Correlations, a panel for each choice of queries; or means, a panel for each variant."""
        shared = [name for name in study.cells[0].factors if name not in OF_FISHER]
        if study.show != _AGREEMENT:
            x = self.axes(study, rows).x
            lines = [name for name in (*shared, OPENNESS) if name != x]
            panels = _panels(study, [row for row in rows if row.get(x) is not None], x)
            return figure.levels(panels, x=x, lines=lines, y=VALUE, title=study.title, footer=footer)
        return figure.agreement(rows, y=PREDICTOR, panels=QUERIES, lines=shared, title=study.title, footer=footer)

    def draw(self, study: Study, rows: Sequence[Row], *, footer: str, stem: Path) -> None:
        """Of agreement a second figure for each Monte Carlo cell, beside the file of its queries (see `pages`).

        It is drawn from that file: every query, a panel for each variant.
        """
        super().draw(study, rows, footer=footer, stem=stem)
        for cell in study.cells if study.show == _AGREEMENT else ():
            if cell.measure_name:
                file = stem.with_name(_file_of(cell))
                charts.write(_queries(study, cell, rows, footer, file.with_suffix(".csv")), file)

    def about(self, study: Study) -> tuple[str, str]:
        """Seeds of the draws, and of directions; the bootstrap over relations."""
        drawn, _ = susceptibility.KIND.about(study)
        seeds = dict.fromkeys(cell.measure.seed for cell in study.cells if isinstance(cell.measure, Fisher))
        partial = "partial: of ranks, given query length, entropy of the bare answer, and openness"
        return (
            f"{drawn}; of directions: {', '.join(str(seed) for seed in seeds)}",
            f"{INTERVALS}; {partial if study.show == _AGREEMENT else _UNITS}",
        )

    def pages(self, study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> Mapping[str, str]:
        """Every query with its Monte Carlo susceptibility and all that is held against it."""
        if study.show != _AGREEMENT:
            return {}
        return {
            f"{_file_of(line.yardstick.cell)}.csv": queries_csv(
                line.yardstick.records,
                {_TRUTH: line.truth, **{one.name: one.values for one in line.predictors}},
            )
            for line in lines_of(cells)
        }


def _panels(study: Study, rows: Sequence[Row], x: str) -> list[figure.Levels]:
    """Rows of each variant; their units differ."""
    names = [ESTIMATOR, "place", *(name for name in study.cells[0].factors if name in OF_FISHER), "sigma"]
    names = [name for name in dict.fromkeys(names) if name != x]
    of_variant: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        of_variant.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return [
        figure.Levels(
            title=", ".join(str(value) for value in variant if value is not None),
            y_label="χ, nats" if variant[0] == MONTE_CARLO else _unit(variant[-1]),
            rows=some,
        )
        for variant, some in of_variant.items()
    ]


def _queries(study: Study, yardstick: Cell, rows: Sequence[Row], footer: str, file: Path) -> Chart:
    queries = list(csv.DictReader(io.StringIO(read_text(file, "file of queries"), newline="")))
    correlations = {
        row[PREDICTOR]: row
        for row in rows
        if row[QUERIES] == ALL and all(row[name] == value for name, value in yardstick.factors.items())
    }
    panels = [
        figure.Scatter(name, _unit(sigma), [float(query[name]) for query in queries], correlations[name])
        for cell in study.cells
        if not cell.measure_name
        for sigma in fisher_of(cell).sigma
        if (name := variant_of(cell, sigma)) in correlations and _is_of(yardstick, cell)
    ]
    return figure.queries(
        panels,
        [float(query[_TRUTH]) for query in queries],
        [query[OPENNESS] for query in queries],
        y_label="Monte Carlo χ, nats",
        ceiling=math.log(drawn_of(yardstick).contexts),
        title=f"{study.title}: {', '.join((yardstick.model, *_said(yardstick)))}",
        footer=footer,
    )


def _is_of(yardstick: Cell, cell: Cell) -> bool:
    return all(cell.factors[name] == value for name, value in yardstick.factors.items())


def _said(cell: Cell) -> list[str]:
    return [f"{name} {value}" for name, value in cell.factors.items() if name != "model"]


def _unit(sigma: str) -> str:
    return "½ tr I, which ranks only" if sigma == "identity" else "Eq. 9, nats"


def _file_of(yardstick: Cell) -> str:
    """Name of the files on the queries of a Monte Carlo cell, without a suffix."""
    return f"agreement-{yardstick.number:02}"


def _may_have(measure: Fisher, sigma: Sigma) -> bool:
    try:
        replace(measure, sigma=(sigma,))
    except UsageError:
        return False
    return True


KIND = FisherSusceptibilities()
