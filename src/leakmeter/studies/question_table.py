"""Finished cells of queries behind contexts to rows: mean susceptibility by what is known of the queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.kernels import stats
from leakmeter.kernels.paired import holm
from leakmeter.kernels.unpaired import bootstrap_interval_of_difference, rank_sum_p
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.exemplar_table import Level, compared
from leakmeter.studies.expected import estimate
from leakmeter.studies.grid import Study
from leakmeter.studies.kinds.base import Row, Tables
from leakmeter.studies.questions import LEVELS, known_of
from leakmeter.studies.table import columns

ALL: Final = "all"
OPENNESS: Final = "openness"
"""What every table tells apart: the paper has its open and its closed queries in columns of their own."""
VALUE: Final = "susceptibility_nats"
_PAIRED: Final = ("openness", "form")
_COMPARED_BY: Final = (
    "paired difference: openness and form of the same entity, cells of the same query, with a 95 % interval by "
    "bootstrap over these",
    "unpaired difference: of entities that have nothing in common, each level resampled by itself",
    "p: Wilcoxon's signed-rank test of pairs, his rank-sum test of others, two-sided; Holm's rule among all rows",
)


def value_of(finished: FinishedCell, statistic: str) -> list[float]:
    """A statistic of each query of a cell, in order, nats."""
    return [
        next(float(reading.values[0]) for reading in readings if reading.statistic == statistic and reading.sample == 0)
        for _, readings in finished.measured
    ]


def tables(study: Study, cells: Sequence[FinishedCell]) -> Tables:
    """The tables of a study.

    Args:
        study: says what is shown.
        cells: all of them, in order.
    """
    rows = [row for one in cells for row in _rows(study, one)]
    pairs = compared("level", [*_within(cells), *_between(study, cells)], seed=study.seed)
    both = [*pairs, *_unpaired(cells, seed=study.seed)]
    adjusted = holm([row["wilcoxon_p"] for row in both])
    comparisons = [{**row, "holm_p": p} for row, p in zip(both, adjusted, strict=True)]
    return Tables(rows, rows, comparisons, _COMPARED_BY)


def _rows(study: Study, finished: FinishedCell) -> Iterator[Row]:
    """A row for all queries, and one for each openness; each by the levels of what is shown."""
    known = [known_of(record) for record in finished.records]
    chi, from_bare, ceiling = (value_of(finished, name) for name in ("susceptibility", "from_bare", "ceiling"))
    levels: Sequence[str | None] = (None,) if study.show == "factor" else LEVELS[study.show]
    for openness in (ALL, *LEVELS[OPENNESS]):
        for level in levels:
            which = [
                i
                for i, of in enumerate(known)
                if openness in (ALL, of[OPENNESS]) and (level is None or of[study.show] == level)
            ]
            if not which:
                continue
            row: Row = {**finished.cell.factors, **({} if level is None else {study.show: level}), OPENNESS: openness}
            of_these = [chi[i] for i in which]
            row |= {"n": len(which), **columns(VALUE, estimate(of_these, seed=study.seed), quantiles=True)}
            others = [from_bare[i] for i in which]
            if all(map(math.isfinite, others)):
                row |= columns("from_bare_nats", estimate(others, seed=study.seed))
            top = stats.mean([ceiling[i] for i in which])
            yield {**row, "ceiling_share": stats.mean(of_these) / top if top > 0 else None}


def _within(cells: Sequence[FinishedCell]) -> Iterator[tuple[Row, list[Level]]]:
    """Open and closed queries, and questions and completions, of the same entity and alike in the other."""
    for finished in cells:
        values = value_of(finished, "susceptibility")
        for name in _PAIRED:
            by_entity: dict[tuple[str, ...], dict[str, list[float]]] = {}
            for record, value in zip(finished.records, values, strict=True):
                known = known_of(record)
                key = (known["relation"], known["entity"], *(known[other] for other in _PAIRED if other != name))
                by_entity.setdefault(key, {}).setdefault(known[name], []).append(value)
            first, second = LEVELS[name]
            pairs = [of for of in by_entity.values() if first in of and second in of]
            if pairs:
                levels: list[Level] = [(level, [stats.mean(of[level]) for of in pairs]) for level in (first, second)]
                yield {**finished.cell.factors, "compared": name}, levels


def _between(study: Study, cells: Sequence[FinishedCell]) -> Iterator[tuple[Row, list[Level]]]:
    """Cells that differ in x alone and have the same queries."""
    if study.x is None:
        return
    lines: list[tuple[Row, list[str], list[Level]]] = []
    for finished in cells:
        others = dict(finished.cell.factors)
        level = (others.pop(study.x), value_of(finished, "susceptibility"))
        ids = [record.id for record in finished.records]
        line = next((levels for known, of_line, levels in lines if (known, of_line) == (others, ids)), None)
        if line is None:
            lines.append((others, ids, [level]))
        else:
            line.append(level)
    for others, _, levels in lines:
        yield {**others, "compared": study.x}, levels


def _unpaired(cells: Sequence[FinishedCell], *, seed: int) -> Iterator[Row]:
    """Queries about real and about invented entities."""
    first, second = LEVELS["familiarity"]
    for finished in cells:
        of_level: dict[str, list[float]] = {first: [], second: []}
        for record, value in zip(finished.records, value_of(finished, "susceptibility"), strict=True):
            of_level[known_of(record)["familiarity"]].append(value)
        before, after = of_level[first], of_level[second]
        if not before or not after:
            continue
        low, high = bootstrap_interval_of_difference(after, before, seed=seed)
        yield {
            **finished.cell.factors,
            "compared": "familiarity",
            "level": second,
            "less": first,
            "n": len(after),
            "unpaired_nats": stats.mean(after) - stats.mean(before),
            "unpaired_nats_low": low,
            "unpaired_nats_high": high,
            "wilcoxon_p": rank_sum_p(after, before),
        }
