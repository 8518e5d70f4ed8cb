"""Finished cells of Fisher susceptibility against Monte Carlo susceptibility of the same queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from leakmeter.core.request import FloatArray
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.fisher.values import fisher_of, of_sigma, variant_of
from leakmeter.instruments.susceptibility.studied import LEVELS, known_of
from leakmeter.instruments.susceptibility.table import ALL, OPENNESS, estimated, value_of
from leakmeter.stats.agreement import held_out, partial_spearman, pearson, spearman
from leakmeter.stats.clusters import Estimate, Resamples
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Row, Tables

PREDICTOR: Final = "predictor"
"""Column of what is held against Monte Carlo susceptibility."""
QUERIES: Final = "queries"
"""Column of which queries."""
RELATIONS: Final = "means of relations"
_EQ_10: Final = ("query", "identity")
"""Place and Σ of the paper's Fisher susceptibility."""
_NOTHING: Final = Estimate(None, None)
_COMPARED_BY: Final = (
    "chosen: the variant with the largest Spearman correlation with Monte Carlo susceptibility on one half of the "
    "relations; all other numbers are of the other half",
    "Eq. 10: place query, Σ = 1, of the same queries; difference: what the chosen one has more",
)


@dataclass(frozen=True, slots=True)
class Predictor:
    """What may say how susceptible queries are."""

    name: str
    values: Sequence[float]
    """One a query."""
    is_variant: bool = True
    """Of Fisher susceptibility, and not one of the simpler things."""
    is_eq_10: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """The queries of one Monte Carlo cell, and all that is held against it."""

    yardstick: FinishedCell
    predictors: tuple[Predictor, ...]
    """Variants first."""

    @property
    def truth(self) -> list[float]:
        """χ of each query, nats."""
        return value_of(self.yardstick, "susceptibility")

    @property
    def relations(self) -> list[str]:
        """Of each query."""
        return [known_of(record)["relation"] for record in self.yardstick.records]

    @property
    def openness(self) -> list[str]:
        """Of each query."""
        return [known_of(record)[OPENNESS] for record in self.yardstick.records]


def lines_of(cells: Sequence[FinishedCell]) -> list[Line]:
    """The Monte Carlo cells of a study, each with the predictors of its queries."""
    lines = []
    for yardstick in cells:
        if isinstance(yardstick.cell.measure, Fisher):
            continue
        of_it = [one for one in cells if isinstance(one.cell.measure, Fisher) and _queries(one) == _queries(yardstick)]
        variants = [predictor for one in of_it for predictor in predictors_of(one)]
        lines.append(Line(yardstick, (*variants, *_simpler(of_it[0]))))
    return lines


def predictors_of(finished: FinishedCell) -> Iterator[Predictor]:
    """The variants of a Fisher cell: Eq. 9 for each Σ, and where μ is not 0 its first term alone."""
    measure = fisher_of(finished.cell)
    for sigma in measure.sigma:
        whole, spread = (of_sigma(finished, sigma, statistic) for statistic in ("fisher", "spread"))
        name = variant_of(finished.cell, sigma)
        yield Predictor(name, whole, is_eq_10=(measure.place, sigma) == _EQ_10)
        if whole != spread:
            yield Predictor(f"{name}, spread", spread)


def tables(study: Study, cells: Sequence[FinishedCell]) -> Tables:
    """The tables of a study.

    Args:
        study: of which they are.
        cells: all of them, in order.
    """
    lines = lines_of(cells)
    rows = [row for line in lines for row in _rows(line, study.seed)]
    chosen = [row for line in lines for row in _chosen(line, study.seed)]
    return Tables(rows, rows, chosen, _COMPARED_BY, "The best variant, held out")


def _queries(finished: FinishedCell) -> tuple[Any, ...]:
    cell = finished.cell
    return (cell.model, cell.dataset, cell.choice, cell.settings)


def _simpler(finished: FinishedCell) -> tuple[Predictor, ...]:
    """What is known of a query without any gradient: the controls of partial correlations, too."""
    is_closed = [float(known_of(record)[OPENNESS] == LEVELS[OPENNESS][1]) for record in finished.records]
    return (
        Predictor("query length in tokens", value_of(finished, "n_query_tokens"), is_variant=False),
        Predictor("entropy of the bare answer", value_of(finished, "entropy"), is_variant=False),
        Predictor("query is closed", is_closed, is_variant=False),
    )


def _rows(line: Line, seed: int) -> Iterator[Row]:
    truth, relations, openness = np.asarray(line.truth), np.asarray(line.relations), np.asarray(line.openness)
    values = np.asarray([one.values for one in line.predictors])
    n_simpler = sum(not one.is_variant for one in line.predictors)
    for which in (ALL, *LEVELS[OPENNESS], RELATIONS):
        if which == RELATIONS:
            of_which, y, clusters = _by_relation(values, relations), _by_relation(truth[None], relations)[0], None
        else:
            chosen = np.flatnonzero((openness == which) | (which == ALL))
            of_which, y, clusters = values[:, chosen], truth[chosen], relations[chosen]
        over = Resamples(range(len(y)) if clusters is None else clusters.tolist(), seed=seed)
        for one, x in zip(line.predictors, of_which, strict=True):
            row: Row = {**line.yardstick.cell.factors, PREDICTOR: one.name, QUERIES: which}
            row |= {"n": len(y), "n_relations": over.n_clusters, **estimated("pearson", pearson(x, y, over))}
            row |= estimated("spearman", spearman(x, y, over))
            partial = partial_spearman(x, y, list(of_which[-n_simpler:]), over) if one.is_variant else _NOTHING
            yield row | estimated("partial_spearman", partial)


def _by_relation(values: FloatArray, relations: Any) -> FloatArray:
    """Means over the queries of each relation, (row, relation)."""
    return np.stack([values[:, relations == name].mean(axis=1) for name in dict.fromkeys(relations.tolist())], axis=1)


def _chosen(line: Line, seed: int) -> Iterator[Row]:
    """The best variant on half of the relations, tried on the other half beside Eq. 10."""
    variants = [one for one in line.predictors if one.is_variant]
    reference = next((i for i, one in enumerate(variants) if one.is_eq_10), None)
    if reference is None:
        return
    found = held_out([one.values for one in variants], line.truth, line.relations, reference=reference, seed=seed)
    if found is None:
        return
    row: Row = {**line.yardstick.cell.factors, "chosen": variants[found.chosen].name, "of": len(variants)}
    row |= {"n": found.n_items, "n_relations": found.n_clusters}
    row |= estimated("chosen_by_spearman", Estimate(found.chosen_by, None))
    row |= estimated("spearman", found.there)
    yield row | estimated("eq_10_spearman", found.reference) | estimated("spearman_difference", found.difference)
