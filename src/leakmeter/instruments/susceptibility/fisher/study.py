"""Studies of Fisher susceptibility: `fisher`, beside or against Monte Carlo susceptibility of the same queries."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

import numpy as np

from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.grid import Study, StudyCell
from leakmeter.commands.studies.kind import Axes, Tables, of_kind
from leakmeter.commands.studies.study_report import beside, groups_of, intervals
from leakmeter.commands.studies.tables import StudyColumn, StudyRow, cell_text, items_to_csv
from leakmeter.core.files import read_text
from leakmeter.core.measure import Measure
from leakmeter.core.record import JsonObject
from leakmeter.core.request import Sigma
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.fisher.measure import Fisher, FisherStatistics
from leakmeter.instruments.susceptibility.math import SusceptibilityStatistics
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.instruments.susceptibility.study import (
    ALL,
    INTERVALS,
    LEVELS,
    OPENNESS,
    SHOWS,
    VALUE,
    QueryChoice,
    QueryValues,
    Susceptibilities,
    estimated,
    rows_of_queries,
    tables,
    value_of,
)
from leakmeter.overriding import override
from leakmeter.report import blocks as b
from leakmeter.report import charts
from leakmeter.report.blocks import Chart
from leakmeter.stats.agreement import held_out, pearson, spearman
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.clusters import ClusterEstimate, Resamples

_AGREEMENT: Final = "agreement"
_TRUTH: Final = "susceptibility"
_ESTIMATOR: Final = "estimator"
_MONTE_CARLO: Final = "Monte Carlo"
_PREDICTOR: Final = "predictor"
_QUERIES: Final = "queries"
_RELATIONS: Final = "means of relations"
_UNITS: Final = (
    "Fisher susceptibility: nats of Eq. 9; that of identity is of squared embeddings, and ranks queries only"
)
_COMPARED_BY: Final = (
    "chosen: the variant with the largest Spearman correlation with Monte Carlo susceptibility on one half of the "
    "relations; all other numbers are of the other half",
    "Eq. 10: place query, Σ = 1, of the same queries; difference: what the chosen one has more",
)
_OF_FISHER: Final = tuple(field.name for field in fields(Fisher))
"""Factors that Monte Carlo susceptibility does not have."""


@dataclass(frozen=True, slots=True)
class Scatter:
    name: str
    x_label: str
    xs: Sequence[float]
    """Of each item; on the logarithmic axis, those above 0."""
    row: StudyRow
    """Correlations of the items: `pearson` and `spearman`, each with its '_low' and '_high'."""


def queries(
    panels: Sequence[Scatter], ys: Sequence[float], groups: Sequence[str], *, ceiling: float, title: str, footer: str
) -> b.Chart:
    """Each predictor against Monte Carlo susceptibility, with its correlations.

    `ys` and `groups`, which have their own colours and marks, are of each item. `ceiling`, which no y exceeds, is drawn
    where a y comes near.
    """
    near = max(ys, default=0.0) > 0.7 * ceiling
    guides = (b.Guide(ceiling, f"ceiling, {ceiling:.2f} nats"),) if near else ()
    drawn = []
    for panel in panels:
        series = []
        for group in dict.fromkeys(groups):
            points = [
                (x, y) for x, y, item_group in zip(panel.xs, ys, groups, strict=True) if item_group == group and x > 0
            ]
            xs, heights = [x for x, _ in points], [y for _, y in points]
            series.append(b.ChartSeries("scatter", heights, xs, name=b.Untrusted(group)))
        n_left_out = sum(not x > 0 for x in panel.xs)
        label = panel.x_label + (f" ({n_left_out} at 0 or below not shown)" if n_left_out else "")
        scale: Any = "log" if n_left_out < len(panel.xs) else "linear"
        correlations = [f"{name.capitalize()} {cell_text(panel.row, name)}" for name in ("pearson", "spearman")]
        axes = b.Axis(label, scale=scale), b.Axis("Monte Carlo χ, nats")
        drawn.append(b.Panel(*axes, series, title=b.Untrusted(panel.name), notes=correlations, guides=guides))
    return b.Chart("queries", title, drawn, footer=footer, columns=3, panel_inches=(3.2, 2.8))


def agreement(rows: Sequence[StudyRow], *, lines: Sequence[str], title: str, footer: str) -> b.Chart:
    """Spearman's correlation of each predictor; `lines` are columns whose values have a colour each."""
    names = list(dict.fromkeys(row[_PREDICTOR] for row in rows))
    groups = list(groups_of(rows, lines))
    drawn = []
    for (panel,), of_panel in groups_of(rows, (_QUERIES,)).items():
        shown = [row for row in of_panel if row["spearman"] is not None]
        series = _beside("rows", shown, "spearman", _PREDICTOR, names, lines, groups)
        axis = b.Axis(("Spearman, ", b.Untrusted(str(panel))), ends=(-1.05, 1.05))
        zero = (b.Guide(0.0, "", across="x", line="dotted"),)
        drawn.append(b.Panel(axis, b.Axis("", names=[b.Untrusted(name) for name in names]), series, guides=zero))
    return b.Chart("agreement", title, drawn, footer=footer, panel_inches=(4.6, 4.0))


def levels(
    panels: Sequence[tuple[str, str, Sequence[StudyRow]]], *, x: str, lines: Sequence[str], title: str, footer: str
) -> b.Chart:
    """Mean susceptibility of levels; each panel has a title, a label of y, and rows."""
    rows = [row for _, _, of_panel in panels for row in of_panel]
    places = list(dict.fromkeys(row[x] for row in rows))
    groups = list(groups_of(rows, lines))
    axis = b.Axis(x.replace("_", " "), names=[b.Untrusted(str(level)) for level in places])
    drawn = []
    for name, y_label, of_panel in panels:
        series = _beside("scatter", of_panel, VALUE, x, places, lines, groups)
        drawn.append(b.Panel(axis, b.Axis(y_label), series, title=b.Untrusted(name)))
    return b.Chart("levels", title, drawn, footer=footer, columns=3, panel_inches=(3.1, 2.7))


def _beside(
    draws: b.SeriesStyle,
    rows: Sequence[StudyRow],
    value: str,
    column: str,
    places: Sequence[object],
    lines: Sequence[str],
    groups: Sequence[tuple[Any, ...]],
) -> list[b.ChartSeries]:
    """A series for each group of rows, side by side at the place of what the rows have in a column."""
    of_group = groups_of(rows, lines)
    series = []
    for number, group in enumerate(groups):
        shown = of_group.get(group, [])
        at = [beside(places.index(row[column]), number, len(groups)) for row in shown]
        series.append(intervals(draws, shown, value, at, ", ".join(map(str, group)), number))
    return series


# ---- values of each place and Σ -------------------------------------------------------------------------------------
def _varied(cell: StudyCell) -> StudyRow:
    """Place, and other factors of a Fisher cell that Monte Carlo cells do not have."""
    factors = {name: value for name, value in cell.factors.items() if name in _OF_FISHER and name != "sigma"}
    return {"place": of_kind(cell.measure, Fisher).place, **factors}


def _variant_of(cell: StudyCell, sigma: str) -> str:
    varied = [f"{name} {value}" for name, value in _varied(cell).items() if name != "place"]
    return ", ".join([of_kind(cell.measure, Fisher).place, *varied, sigma])


def _series_of(cells: Sequence[FinishedCell]) -> Iterator[QueryValues]:
    """The Monte Carlo susceptibility of a study's queries, then Eq. 9 for each place and Σ.

    That of Σ = 1 is in units of squared embeddings or states, which differ from model to model and place to place.
    """
    for finished in cells:
        if not isinstance(finished.cell.measure, Fisher):
            row = {**finished.cell.factors, _ESTIMATOR: _MONTE_CARLO, "place": None, "sigma": None}
            yield QueryValues(finished, row, value_of(finished, SusceptibilityStatistics.susceptibility))
    for finished in cells:
        if isinstance(finished.cell.measure, Fisher):
            shared = {name: value for name, value in finished.cell.factors.items() if name not in _OF_FISHER}
            for sigma in finished.cell.measure.sigma:
                row = {**shared, _ESTIMATOR: "Fisher", "place": None, "sigma": sigma, **_varied(finished.cell)}
                yield QueryValues(
                    finished, row, value_of(finished, FisherStatistics.fisher, sigma), is_comparable=sigma != "identity"
                )


# ---- agreement with Monte Carlo -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Line:
    """The queries of one Monte Carlo cell, with what may predict their susceptibility."""

    reference: FinishedCell
    truth: Sequence[float]
    """χ of each query, nats."""
    variants: Mapping[str, Sequence[float]]
    """Values of each query by each variant of Fisher susceptibility."""
    eq_10: str | None
    """The variant of the paper."""
    controls: Mapping[str, Sequence[float]]
    """Predictors without gradients, which are the controls of partial correlations."""

    def known(self, factor: str) -> list[str]:
        return [record.known[factor] for record in self.reference.records]


def _lines_of(cells: Sequence[FinishedCell]) -> list[_Line]:
    """The Monte Carlo cells of a study whose queries have Fisher cells."""
    of_queries: dict[tuple[Any, ...], list[FinishedCell]] = {}
    for finished in cells:
        if isinstance(finished.cell.measure, Fisher):
            of_queries.setdefault(_queries(finished.cell), []).append(finished)
    lines = []
    for reference in cells:
        if isinstance(reference.cell.measure, Fisher) or _queries(reference.cell) not in of_queries:
            continue
        fisher_cells = of_queries[_queries(reference.cell)]
        variants = {name: values for finished in fisher_cells for name, values in _variants_of(finished).items()}
        eq_10 = [
            _variant_of(finished.cell, "identity")
            for finished in fisher_cells
            if (measure := of_kind(finished.cell.measure, Fisher)).place == "query" and "identity" in measure.sigma
        ]
        controls = {
            "query length in tokens": value_of(fisher_cells[0], FisherStatistics.n_query_tokens),
            "entropy of the bare answer": value_of(fisher_cells[0], FisherStatistics.entropy),
            "query is closed": [float(record.known[OPENNESS] == LEVELS[OPENNESS][1]) for record in reference.records],
        }
        truth = value_of(reference, SusceptibilityStatistics.susceptibility)
        lines.append(_Line(reference, truth, variants, eq_10[0] if eq_10 else None, controls))
    return lines


def _variants_of(finished: FinishedCell) -> dict[str, list[float]]:
    """Values of a Fisher cell: Eq. 9 for each Σ, and where μ is not 0 its first term alone."""
    variants = {}
    for sigma in of_kind(finished.cell.measure, Fisher).sigma:
        whole, spread = (
            value_of(finished, statistic, sigma) for statistic in (FisherStatistics.fisher, FisherStatistics.spread)
        )
        name = _variant_of(finished.cell, sigma)
        variants[name] = whole
        if whole != spread:
            variants[f"{name}, spread"] = spread
    return variants


def _queries(cell: StudyCell) -> tuple[Any, ...]:
    return cell.model, cell.dataset, cell.choice, cell.settings


def _rows(line: _Line, seed: int) -> Iterator[StudyRow]:
    truth, relations, openness = map(np.asarray, (line.truth, line.known("relation"), line.known(OPENNESS)))
    predictors = {**line.variants, **line.controls}
    values = np.asarray(list(predictors.values()))
    for group in (ALL, *LEVELS[OPENNESS], _RELATIONS):
        if group == _RELATIONS:
            of_which, y, clusters = _by_relation(values, relations), _by_relation(truth[None], relations)[0], None
        else:
            chosen = np.flatnonzero((openness == group) | (group == ALL))
            of_which, y, clusters = values[:, chosen], truth[chosen], relations[chosen]
        over = Resamples(range(len(y)) if clusters is None else clusters.tolist(), seed=seed)
        for name, x in zip(predictors, of_which, strict=True):
            row: StudyRow = {**line.reference.cell.factors, _PREDICTOR: name, _QUERIES: group}
            row |= {"n": len(y), "n_relations": over.n_clusters, **estimated("pearson", pearson(x, y, over))}
            row |= estimated("spearman", spearman(x, y, over))
            partial = ClusterEstimate(None, None)
            if name in line.variants:
                partial = spearman(x, y, over, controls=list(of_which[len(line.variants) :]))
            yield row | estimated("partial_spearman", partial)


def _by_relation(values: FloatArray, relations: Any) -> FloatArray:
    """Means over the queries of each relation, (row, relation)."""
    return np.stack([values[:, relations == name].mean(axis=1) for name in dict.fromkeys(relations.tolist())], axis=1)


def _chosen(line: _Line, seed: int) -> Iterator[StudyRow]:
    if line.eq_10 is None:
        return
    names, values = list(line.variants), list(line.variants.values())
    reference = names.index(line.eq_10)
    outcome = held_out(values, line.truth, line.known("relation"), reference=reference, seed=seed)
    if outcome is None:
        return
    row: StudyRow = {**line.reference.cell.factors, "chosen": names[outcome.chosen], "of": len(names)}
    row |= {"n": outcome.n_items, "n_relations": outcome.n_clusters}
    row |= estimated("chosen_by_spearman", ClusterEstimate(outcome.chosen_by, None))
    row |= estimated("spearman", outcome.held_out)
    yield row | estimated("eq_10_spearman", outcome.reference) | estimated("spearman_difference", outcome.difference)


# ---- the study ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Answered(QueryChoice):
    answer_tokens: int


class FisherSusceptibilities(Susceptibilities):
    """The queries of studies of Monte Carlo susceptibility, whose runs they share."""

    settings: ClassVar = {**Susceptibilities.settings, "answer_tokens": "int"}
    columns: ClassVar = {
        **Susceptibilities.columns,
        "sigma": StudyColumn("Σ"),
        "partial_spearman": StudyColumn("Spearman given length, entropy, openness"),
        "chosen_by_spearman": StudyColumn("Spearman it was chosen by"),
        "eq_10_spearman": StudyColumn("of Eq. 10"),
        "spearman_difference": StudyColumn("difference"),
    }
    shows: ClassVar = {_AGREEMENT: "correlations of every variant with Monte Carlo susceptibility", **SHOWS}

    @override
    def choice(self, settings: JsonObject) -> QueryChoice:
        drawn = super().choice(settings)
        if "answer_tokens" not in settings:
            return drawn
        return Answered(**asdict(drawn), answer_tokens=settings["answer_tokens"])

    @override
    def measure(self, measure: Measure, settings: JsonObject) -> Measure:
        """With every Σ that the place allows where the study names none: all come from the same passes."""
        if not isinstance(measure, Fisher) or "sigma" in settings:
            return measure
        return replace(measure, sigma=tuple(name for name in get_args(Sigma) if _may_have(measure, name)))

    @override
    def references(self, cells: Sequence[StudyCell]) -> list[StudyCell]:
        """The Monte Carlo susceptibility of each model and choice of queries."""
        first = {_queries(cell): cell for cell in reversed(cells)}
        return [
            replace(
                cell,
                number=number,
                factors={name: value for name, value in cell.factors.items() if name not in _OF_FISHER},
                measure=Susceptibility(answer_tokens=getattr(cell.choice, "answer_tokens", 0)),
                measure_name="susceptibility",
            )
            for number, cell in enumerate(reversed(first.values()), len(cells))
        ]

    @override
    def items(self, finished: FinishedCell) -> Iterator[StudyRow]:
        if isinstance(finished.cell.measure, Susceptibility):
            return super().items(finished)
        return rows_of_queries(finished.records, _variants_of(finished))

    @override
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        if study.show == _AGREEMENT:
            lines = _lines_of(cells)
            rows = [row for line in lines for row in _rows(line, study.seed)]
            chosen = [row for line in lines for row in _chosen(line, study.seed)]
            return Tables(rows, rows, chosen, _COMPARED_BY, "The best variant, held out")
        return tables(study, list(_series_of(cells)))

    @override
    def axes(self, study: Study, rows: Sequence[StudyRow]) -> Axes:
        return Axes(_PREDICTOR, ("spearman",)) if study.show == _AGREEMENT else super().axes(study, rows)

    @override
    def figure(self, study: Study, rows: Sequence[StudyRow], *, footer: str) -> Chart:
        shared = [name for name in study.cells[0].factors if name not in _OF_FISHER]
        if study.show != _AGREEMENT:
            x = self.axes(study, rows).x
            lines = [name for name in (*shared, OPENNESS) if name != x]
            panels = _panels(study, [row for row in rows if row.get(x) is not None], x)
            return levels(panels, x=x, lines=lines, title=study.title, footer=footer)
        return agreement(rows, lines=shared, title=study.title, footer=footer)

    @override
    def draw(self, study: Study, rows: Sequence[StudyRow], *, footer: str, stem: Path) -> None:
        """Of agreement also a figure for each Monte Carlo cell, drawn from the file of its queries (see `pages`)."""
        super().draw(study, rows, footer=footer, stem=stem)
        for cell in study.cells if study.show == _AGREEMENT else ():
            if cell.measure_name:
                file = stem.with_name(_file_of(cell))
                charts.write(_queries_chart(study, cell, rows, footer, file.with_suffix(".csv")), file)

    @override
    def about(self, study: Study) -> tuple[str, str]:
        drawn, _ = super().about(study)
        seeds = dict.fromkeys(cell.measure.seed for cell in study.cells if isinstance(cell.measure, Fisher))
        partial = "partial: of ranks, given query length, entropy of the bare answer, and openness"
        return (
            f"{drawn}; of directions: {', '.join(str(seed) for seed in seeds)}",
            f"{INTERVALS}; {partial if study.show == _AGREEMENT else _UNITS}",
        )

    @override
    def pages(self, study: Study, cells: Sequence[FinishedCell], about: Sequence[str]) -> Mapping[str, str]:
        if study.show != _AGREEMENT:
            return {}
        files = {}
        for line in _lines_of(cells):
            rows = rows_of_queries(line.reference.records, {_TRUTH: line.truth, **line.variants, **line.controls})
            files[f"{_file_of(line.reference.cell)}.csv"] = items_to_csv(rows)
        return files


def _panels(study: Study, rows: Sequence[StudyRow], x: str) -> list[tuple[str, str, Sequence[StudyRow]]]:
    """A panel for each variant: their units differ."""
    names = [_ESTIMATOR, "place", *(name for name in study.cells[0].factors if name in _OF_FISHER), "sigma"]
    names = [name for name in dict.fromkeys(names) if name != x]
    return [
        (
            ", ".join(str(value) for value in variant if value is not None),
            "χ, nats" if variant[0] == _MONTE_CARLO else _unit(variant[-1]),
            some,
        )
        for variant, some in groups_of(rows, names).items()
    ]


def _queries_chart(study: Study, reference: StudyCell, rows: Sequence[StudyRow], footer: str, file: Path) -> Chart:
    query_rows = list(csv.DictReader(io.StringIO(read_text(file, "file of queries"), newline="")))

    def is_of(row: Mapping[str, object]) -> bool:
        return all(row[name] == value for name, value in reference.factors.items())

    correlations = {row[_PREDICTOR]: row for row in rows if row[_QUERIES] == ALL and is_of(row)}
    factors = [f"{name} {value}" for name, value in reference.factors.items() if name != "model"]
    panels = [
        Scatter(name, _unit(sigma), [float(query[name]) for query in query_rows], correlations[name])
        for cell in study.cells
        if not cell.measure_name
        for sigma in of_kind(cell.measure, Fisher).sigma
        if (name := _variant_of(cell, sigma)) in correlations and is_of(cell.factors)
    ]
    return queries(
        panels,
        [float(query[_TRUTH]) for query in query_rows],
        [query[OPENNESS] for query in query_rows],
        ceiling=math.log(of_kind(reference.choice, QueryChoice).contexts),
        title=f"{study.title}: {', '.join((reference.model, *factors))}",
        footer=footer,
    )


def _unit(sigma: str) -> str:
    return "½ tr I, which ranks only" if sigma == "identity" else "Eq. 9, nats"


def _file_of(reference: StudyCell) -> str:
    return f"agreement-{reference.number:02}"


def _may_have(measure: Fisher, sigma: Sigma) -> bool:
    try:
        replace(measure, sigma=(sigma,))
    except UsageError:
        return False
    return True


KIND = FisherSusceptibilities()
