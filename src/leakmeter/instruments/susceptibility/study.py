"""Studies of Monte Carlo susceptibility: over models, contexts, and what is known of queries that are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Final

from leakmeter.commands.studies import expected
from leakmeter.commands.studies.cells import FinishedCell
from leakmeter.commands.studies.grid import Study, StudyCell
from leakmeter.commands.studies.kind import (
    Axes,
    RecordChoice,
    StudyKind,
    Tables,
    at_least_one,
    field_types,
    lines_over,
    of_kind,
)
from leakmeter.commands.studies.table import COMPARED_COLUMNS, columns, quantile_columns, with_holm
from leakmeter.commands.studies.tables import StudyColumn, StudyRow, measured, share_text
from leakmeter.core.measure import Measure, Statistic
from leakmeter.core.record import JsonObject
from leakmeter.errors import UnknownNameError
from leakmeter.instruments.susceptibility.case import QueryCase
from leakmeter.instruments.susceptibility.math import SusceptibilityStatistics
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.instruments.susceptibility.prompts import TOGETHER, QuerySettings
from leakmeter.instruments.susceptibility.relations import Relation, choose_relations, draw_queries, load_relations
from leakmeter.instruments.susceptibility.result import Memorisation, SusceptibilityResult
from leakmeter.overriding import override
from leakmeter.stats import stats
from leakmeter.stats.clusters import ClusterEstimate, Resamples

ALL: Final = "all"
OPENNESS: Final = "openness"
"""Every table distinguishes it, as the paper's do."""
LEVELS: Final[Mapping[str, tuple[str, str]]] = {
    OPENNESS: ("open", "closed"),
    "form": ("question", "completion"),
    "familiarity": ("real", "invented"),
}
"""Factors of every query, with their levels in the order of tables."""
VALUE: Final = "susceptibility_nats"
SHOWS: Final = {
    "factor": "a mean for each cell, over x",
    "openness": "a mean for all, for open and for closed queries",
    "form": "a mean of questions and of completions",
    "familiarity": "a mean for real and for invented entities",
}
INTERVALS: Final = (
    "intervals: 95 %, over relations, with all queries of a relation together; fewer than eight relations have none"
)
_SHIPPED: Final = "relations"
_NAMES: Final = ".names"
_ALIKE: Final[Mapping[str, tuple[str, ...]]] = {
    OPENNESS: ("relation", "entity", "form"),
    "form": ("relation", "entity", OPENNESS),
    "familiarity": ("relation",),
}
"""Factors that are compared, and those that both of a pair share; an entity is either real or invented."""
_COMPARED_BY: Final = (
    "paired difference: openness and form of the same entity, familiarity of the same relation, cells of the same "
    "query, with a 95 % interval over relations",
    "p: Wilcoxon's signed-rank test of the relations' mean differences, two-sided, with Holm's correction over all "
    "rows; with five relations or fewer, p is above 0.05",
)


# ---- queries that are drawn -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class QueryChoice(RecordChoice):
    """Which queries a cell measures, and behind what."""

    entities: int
    """Of each relation, half of them invented."""
    contexts: int
    """Of each query."""
    mentioning: int
    """Of these, how many say an answer of the query's entity."""
    relation_names: tuple[str, ...]
    """To choose among; empty for all."""


class Susceptibilities(StudyKind):
    """Every form of query about drawn entities of drawn relations, behind drawn contexts."""

    shows: ClassVar = SHOWS
    records = "queries"
    counted = "relations"
    replicated: ClassVar = "draw_seed"
    settings: ClassVar = {
        "relation_names": "tuple[str, ...]",
        "entities": "int",
        "contexts": "int",
        "mentioning": "int",
        "draw_seed": "int",
        **field_types(QuerySettings),
    }
    columns: ClassVar = {
        **StudyKind.columns,
        "n_relations": StudyColumn("relations"),
        VALUE: StudyColumn("susceptibility, nats"),
        **quantile_columns(VALUE),
        "from_bare_nats": StudyColumn("from the bare query, nats"),
        "ceiling_share": StudyColumn("of the ceiling", share_text),
        "n_known_answers": StudyColumn("queries with a known answer"),
        "n_original": StudyColumn("answers as without a context"),
        "n_context": StudyColumn("answers as the context says"),
        **COMPARED_COLUMNS,
    }

    @override
    def group_size(self, measure: Measure) -> int:
        return TOGETHER

    @override
    def choice(self, settings: JsonObject) -> QueryChoice:
        contexts = at_least_one("contexts", settings.get("contexts", 64))
        return QueryChoice(
            at_least_one("relations", settings["relations"]),
            settings.get("draw_seed", 0),
            at_least_one("entities", settings.get("entities", 6)),
            contexts,
            settings.get("mentioning", contexts // 32),  # of the paper: 8 of 256, and 4 of 128
            settings.get("relation_names", ()),
        )

    @override
    def prompts(self, settings: JsonObject) -> QuerySettings:
        name = settings["dataset"]
        if name != _SHIPPED and not name.lower().endswith((".toml", ".json")):
            raise UnknownNameError("set of relations", name, [_SHIPPED, "FILE.toml", "FILE.json"])
        return QuerySettings(**{key: settings[key] for key in field_types(QuerySettings) if key in settings})

    @override
    def datasets(self) -> list[str]:
        return [_SHIPPED]

    @override
    def sources(self, datasets: Sequence[str]) -> list[str]:
        """The name of each set, and for the names that published templates are filled with 'NAME.names'."""
        return [source for name in datasets for source in (name, name + _NAMES)]

    @override
    def load(self, cells: Sequence[StudyCell], paths: Mapping[str, str]) -> list[list[QueryCase]]:
        relations: dict[str, tuple[Relation, ...]] = {}
        drawn: dict[tuple[str, QueryChoice], list[QueryCase]] = {}
        for cell in cells:
            name, choice = cell.dataset, of_kind(cell.choice, QueryChoice)
            if name not in relations:
                path = paths.get(name, None if name == _SHIPPED else name)
                source = name + _NAMES
                relations[name] = load_relations(path, names=paths.get(source), source=source)
            if (name, choice) not in drawn:
                seed, names = choice.choice_seed or 0, choice.relation_names
                n = min(choice.n_records, len(names)) if names else choice.n_records
                drawn[name, choice] = draw_queries(
                    choose_relations(relations[name], names=names, n=n, seed=seed),
                    entities=choice.entities,
                    contexts=choice.contexts,
                    mentioning=choice.mentioning,
                    seed=seed,
                )
        return [drawn[cell.dataset, of_kind(cell.choice, QueryChoice)] for cell in cells]

    @override
    def record(self, record: QueryCase) -> JsonObject:
        return asdict(record)

    @override
    def seed(self, cell: StudyCell) -> int:
        return of_kind(cell.choice, QueryChoice).choice_seed or 0

    @override
    def items(self, finished: FinishedCell) -> Iterator[StudyRow]:
        of = SusceptibilityStatistics
        names = (of.susceptibility, of.from_bare, of.mixture_entropy, of.bare_entropy, of.ceiling, of.noise)
        return rows_of_queries(finished.records, {f"{name}_nats": value_of(finished, name) for name in names})

    @override
    def tables(
        self, study: Study, cells: Sequence[FinishedCell], directory: Path, notify: Callable[[str], None]
    ) -> Tables:
        return tables(
            study,
            [
                QueryValues(
                    finished, dict(finished.cell.factors), value_of(finished, SusceptibilityStatistics.susceptibility)
                )
                for finished in cells
            ],
        )

    @override
    def axes(self, study: Study, rows: Sequence[StudyRow]) -> Axes:
        return Axes(str(study.x) if study.show == "factor" else study.show, (VALUE,))

    @override
    def lines(self, study: Study, x: str) -> list[str]:
        return [*super().lines(study, x), *([OPENNESS] if x != OPENNESS else [])]

    @override
    def about(self, study: Study) -> tuple[str, str]:
        seeds = ", ".join(str(seed) for seed in dict.fromkeys(self.seed(cell) for cell in study.cells))
        return f"seed of relations, entities and contexts: {seeds}", INTERVALS


def rows_of_queries(records: Sequence[QueryCase], numbers: Mapping[str, Sequence[float]]) -> Iterator[StudyRow]:
    """One row a query: its factors, numbers by their names, and its text."""
    for record, *values in zip(records, *numbers.values(), strict=True):
        known = {name: record.known[name] for name in ("relation", "entity", *LEVELS)}
        yield {"id": record.id, **known, **dict(zip(numbers, values, strict=True)), "query": record.query.text}


# ---- rows -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class QueryValues:
    """A number of each query of a cell."""

    finished: FinishedCell
    row: StudyRow
    """Factors of the cell and the like."""
    values: Sequence[float]
    """In the order of the cell's queries, nats."""
    is_comparable: bool = True
    """Whether other cells' values are in the same unit."""


def value_of(finished: FinishedCell, statistic: Statistic, piece: str = "") -> list[float]:
    """A statistic of each query of a cell, in order, nats; `piece` is a Σ for Fisher's."""
    return [
        next(float(each.values[0]) for each in measurements if (each.statistic, each.piece) == (statistic, piece))
        for _, measurements in finished.measured
    ]


def estimated(name: str, estimate: ClusterEstimate) -> StudyRow:
    return measured(name, estimate.value, estimate.interval)


def _rows(study: Study, series: QueryValues) -> Iterator[StudyRow]:
    """A row for all queries and one for each openness, by the levels of the factor that is shown."""
    query_factors = [record.known for record in series.finished.records]
    further = _further(series.finished) if isinstance(series.finished.cell.measure, Susceptibility) else None
    has_levels = study.show in LEVELS and study.show != OPENNESS
    levels: Sequence[str | None] = LEVELS[study.show] if has_levels else (None,)
    for openness in (ALL, *LEVELS[OPENNESS]):
        for level in levels:
            chosen = [
                i
                for i, factors in enumerate(query_factors)
                if openness in (ALL, factors[OPENNESS]) and (level is None or factors[study.show] == level)
            ]
            if not chosen:
                continue
            over = Resamples([query_factors[i]["relation"] for i in chosen], seed=study.seed)
            row: StudyRow = {**series.row, **({} if level is None else {study.show: level}), OPENNESS: openness}
            row |= {"n": len(chosen), "n_relations": over.n_clusters}
            row |= columns(VALUE, _mean([series.values[i] for i in chosen], over), quantiles=True)
            yield row if further is None else row | further(chosen, over)


def _further(finished: FinishedCell) -> Callable[[Sequence[int], Resamples], StudyRow]:
    """Further columns of Monte Carlo susceptibility, for some queries of a cell."""
    measure = of_kind(finished.cell.measure, Susceptibility)
    of = SusceptibilityStatistics
    chi, from_bare, ceiling = (value_of(finished, name) for name in (of.susceptibility, of.from_bare, of.ceiling))
    memorised: list[Memorisation | None] = [None] * len(finished.records)
    if measure.answer_tokens:
        memorised = [
            result.memorisation for result in SusceptibilityResult.from_run(finished.measured, asdict(measure))
        ]

    def columns_of(indices: Sequence[int], over: Resamples) -> StudyRow:
        row: StudyRow = {}
        others = [from_bare[i] for i in indices]
        if all(map(math.isfinite, others)):
            row |= columns("from_bare_nats", _mean(others, over))
        mean, top = (stats.mean([values[i] for i in indices]) for values in (chi, ceiling))
        row["ceiling_share"] = mean / top if top > 0 else None
        counts = [memorised[i] for i in indices]
        return row | (_ratio(counts, over) if any(counts) else {})

    return columns_of


def _ratio(counts: Sequence[Memorisation | None], over: Resamples) -> StudyRow:
    """Original answers / (original + context answers), over all contexts of queries whose answer the model knows."""
    original = [0 if count is None else count.n_original for count in counts]
    context = [0 if count is None else count.n_context for count in counts]
    ratio = over.ratio(original, [sum(pair) for pair in zip(original, context, strict=True)])
    row: StudyRow = {"n_known_answers": sum(count is not None and count.knows for count in counts)}
    row |= {"n_original": sum(original), "n_context": sum(context)}
    return row | estimated("memorisation_ratio", ratio)


def _mean(values: Sequence[float], over: Resamples) -> expected.MeanEstimate:
    estimate = over.mean(values)
    quantiles = stats.quantiles(values, expected.LEVELS)
    return expected.MeanEstimate(stats.mean(values), estimate.interval, tuple(quantiles), len(values))


# ---- levels of a factor against each other --------------------------------------------------------------------------
_Levels = tuple[StudyRow, Sequence[str], Sequence[tuple[Any, Sequence[float]]]]
"""Shared columns; relation of each item; each level with a number of each item, nats."""


def tables(study: Study, series: Sequence[QueryValues]) -> Tables:
    rows = [row for cell_series in series for row in _rows(study, cell_series)]
    pairs = [row for levels in (*_within(series), *_between(study, series)) for row in _pairs(*levels, study.seed)]
    return Tables(rows, rows, with_holm(pairs), _COMPARED_BY)


def _pairs(
    shared: StudyRow, relations: Sequence[str], levels: Sequence[tuple[Any, Sequence[float]]], seed: int
) -> Iterator[StudyRow]:
    """Every two levels of the same items, the later less the earlier."""
    over = Resamples(relations, seed=seed)
    for (first, before), (second, after) in combinations(levels, 2):
        differences = [b - a for a, b in zip(before, after, strict=True)]
        row: StudyRow = {**shared, "level": second, "less": first, "n": len(differences)}
        row |= {"n_relations": over.n_clusters, **estimated("paired_nats", over.mean(differences))}
        yield row | {"wilcoxon_p": over.signed_rank_p(differences)}


def _within(series: Sequence[QueryValues]) -> Iterator[_Levels]:
    """Levels of the queries' factors, of items that have all of them."""
    for cell_series in series:
        for name, alike in _ALIKE.items():
            of_pair: dict[tuple[str, ...], dict[str, list[float]]] = {}
            for record, value in zip(cell_series.finished.records, cell_series.values, strict=True):
                factors = record.known
                key = tuple(factors[other] for other in alike)
                of_pair.setdefault(key, {}).setdefault(factors[name], []).append(value)
            levels = LEVELS[name]
            both = {key: by_level for key, by_level in of_pair.items() if all(level in by_level for level in levels)}
            if both:
                of_level = [(level, [stats.mean(by_level[level]) for by_level in both.values()]) for level in levels]
                # The relation comes first.
                yield {**cell_series.row, "compared": name}, [relation for relation, *_ in both], of_level


def _between(study: Study, series: Sequence[QueryValues]) -> Iterator[_Levels]:
    """Cells that differ in x alone and have the same queries."""
    cells = (
        (numbers.row, [record.id for record in numbers.finished.records], numbers)
        for numbers in series
        if numbers.is_comparable and numbers.row.get(str(study.x)) is not None
    )
    for others, levels in lines_over(str(study.x), cells):
        relations = [record.known["relation"] for record in levels[0][1].finished.records]
        yield {**others, "compared": study.x}, relations, [(level, numbers.values) for level, numbers in levels]


KIND = Susceptibilities()
