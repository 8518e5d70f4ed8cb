"""Susceptibility of queries against each other: levels of what is known of them, and cells, by relation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from leakmeter.instruments.susceptibility.studied import LEVELS, known_of
from leakmeter.instruments.susceptibility.table import Series, estimated, rows_of
from leakmeter.stats.clusters import Resamples
from leakmeter.stats.rank_tests import holm
from leakmeter.stats.stats import mean
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Row, Tables

_ALIKE: Final[Mapping[str, tuple[str, ...]]] = {
    "openness": ("relation", "entity", "form"),
    "form": ("relation", "entity", "openness"),
    "familiarity": ("relation",),
}
"""What is compared, and what both of a pair have in common; an entity is either real or invented."""
_COMPARED_BY: Final = (
    "paired difference: openness and form of the same entity, familiarity of the same relation, cells of the same "
    "query, with a 95 % interval by bootstrap over relations",
    "p: Wilcoxon's signed-rank test of the relations' mean differences, two-sided, which for five relations is above "
    "0.05; Holm's rule among all rows",
)


@dataclass(frozen=True, slots=True)
class Levels:
    """The same items under each level of what is compared."""

    told: Row
    """What tells them from others."""
    relations: Sequence[str]
    """Of the items."""
    of_level: Sequence[tuple[Any, Sequence[float]]]
    """What a level is called, and a number of each item, nats."""


def tables(study: Study, series: Sequence[Series]) -> Tables:
    """The tables of a study.

    Args:
        study: says what is shown.
        series: of all its cells, in the order of rows.
    """
    rows = [row for one in series for row in rows_of(study, one)]
    found = [row for levels in (*_within(series), *_between(study, series)) for row in _pairs(levels, study.seed)]
    adjusted = holm([row["wilcoxon_p"] for row in found])
    comparisons = [{**row, "holm_p": p} for row, p in zip(found, adjusted, strict=True)]
    return Tables(rows, rows, comparisons, _COMPARED_BY)


def _pairs(levels: Levels, seed: int) -> Iterator[Row]:
    """Every two levels, the later less the earlier."""
    over = Resamples(levels.relations, seed=seed)
    for (first, before), (second, after) in combinations(levels.of_level, 2):
        differences = [b - a for a, b in zip(before, after, strict=True)]
        row: Row = {**levels.told, "level": second, "less": first, "n": len(differences)}
        row |= {"n_relations": over.n_clusters, **estimated("paired_nats", over.mean(differences))}
        yield row | {"wilcoxon_p": over.signed_rank_p(differences)}


def _within(series: Sequence[Series]) -> Iterator[Levels]:
    """Levels of what is known of the queries; what has one of them alone is left out."""
    for one in series:
        for name, alike in _ALIKE.items():
            of_pair: dict[tuple[str, ...], dict[str, list[float]]] = {}
            for record, value in zip(one.finished.records, one.values, strict=True):
                known = known_of(record)
                key = tuple(known[other] for other in alike)
                of_pair.setdefault(key, {}).setdefault(known[name], []).append(value)
            levels = LEVELS[name]
            both = {key: of for key, of in of_pair.items() if all(level in of for level in levels)}
            if both:
                of_level = [(level, [mean(of[level]) for of in both.values()]) for level in levels]
                # The relation comes first.
                yield Levels({**one.told, "compared": name}, [relation for relation, *_ in both], of_level)


def _between(study: Study, series: Sequence[Series]) -> Iterator[Levels]:
    """Cells that differ in x alone and have the same queries."""
    lines: list[tuple[Row, list[str], list[Series]]] = []
    for one in series:
        if study.x is None or one.told.get(study.x) is None or not one.is_comparable:
            continue
        others = {name: value for name, value in one.told.items() if name != study.x}
        ids = [record.id for record in one.finished.records]
        line = next((of for known, of_line, of in lines if (known, of_line) == (others, ids)), None)
        if line is None:
            lines.append((others, ids, [one]))
        else:
            line.append(one)
    for others, _, of_line in lines:
        relations = [known_of(record)["relation"] for record in of_line[0].finished.records]
        yield Levels(
            {**others, "compared": study.x}, relations, [(one.told[str(study.x)], one.values) for one in of_line]
        )
