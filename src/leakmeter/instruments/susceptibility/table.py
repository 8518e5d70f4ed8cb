"""Finished cells of queries to rows: mean susceptibility by what is known of the queries, and memorisation ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.instruments.susceptibility.result import SusceptibilityResult
from leakmeter.instruments.susceptibility.studied import LEVELS, known_of
from leakmeter.stats import stats
from leakmeter.stats.clusters import Estimate, Resamples
from leakmeter.studies import expected
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Row
from leakmeter.studies.table import columns

ALL: Final = "all"
OPENNESS: Final = "openness"
"""What every table tells apart: the paper has its open and its closed queries in columns of their own."""
VALUE: Final = "susceptibility_nats"
SHOWS: Final = {
    "factor": "a mean for each cell, over x",
    "openness": "a mean for all, for open and for closed queries",
    "form": "a mean of questions and of completions",
    "familiarity": "a mean for real and for invented entities",
}
"""What tables of susceptibility may show, by either estimator."""
INTERVALS: Final = "intervals: 95 %, bootstrap over relations, all queries of each together; a single one has none"
_NAN: Final = (math.nan, math.nan)
_Counts = Mapping[str, Any] | None
"""See `instruments.susceptibility.result`, of the memorisation of a query."""


@dataclass(frozen=True, slots=True)
class Series:
    """A number of each query of a cell."""

    finished: FinishedCell
    told: Row
    """What tells it from others."""
    values: Sequence[float]
    """In the order of the cell's queries, nats."""
    is_comparable: bool = True
    """Whether those of other cells are in the same unit."""


def value_of(finished: FinishedCell, statistic: str) -> list[float]:
    """A statistic of each query of a cell, in order, nats."""
    return [
        next(
            float(measurement.values[0])
            for measurement in measurements
            if measurement.statistic == statistic and measurement.sample == 0
        )
        for _, measurements in finished.measured
    ]


def rows_of(study: Study, one: Series) -> Iterator[Row]:
    """A row for all queries, and one for each openness; each by the levels of what is shown.

    Args:
        study: says what is shown.
        one: what is averaged. Monte Carlo susceptibility has further columns.
    """
    known = [known_of(record) for record in one.finished.records]
    further = _Further.of(one.finished) if isinstance(one.finished.cell.measure, Susceptibility) else None
    has_levels = study.show in LEVELS and study.show != OPENNESS
    levels: Sequence[str | None] = LEVELS[study.show] if has_levels else (None,)
    for openness in (ALL, *LEVELS[OPENNESS]):
        for level in levels:
            which = [
                i
                for i, of in enumerate(known)
                if openness in (ALL, of[OPENNESS]) and (level is None or of[study.show] == level)
            ]
            if not which:
                continue
            over = Resamples([known[i]["relation"] for i in which], seed=study.seed)
            row: Row = {**one.told, **({} if level is None else {study.show: level}), OPENNESS: openness}
            row |= {"n": len(which), "n_relations": over.n_clusters}
            row |= columns(VALUE, _mean([one.values[i] for i in which], over), quantiles=True)
            yield row if further is None else row | further.columns(which, over)


def estimated(name: str, of: Estimate) -> Row:
    """A statistic with its interval, as columns of a row."""
    low, high = of.interval or _NAN
    return {name: of.value, f"{name}_low": low, f"{name}_high": high}


@dataclass(frozen=True, slots=True)
class _Further:
    """What Monte Carlo susceptibility says beside itself, of each query."""

    susceptibility: Sequence[float]
    from_bare: Sequence[float]
    ceiling: Sequence[float]
    memorised: Sequence[_Counts]

    @classmethod
    def of(cls, finished: FinishedCell) -> _Further:
        chi, from_bare, ceiling = (value_of(finished, name) for name in ("susceptibility", "from_bare", "ceiling"))
        return cls(chi, from_bare, ceiling, _memorised(finished))

    def columns(self, which: Sequence[int], over: Resamples) -> Row:
        """Of some queries."""
        row: Row = {}
        others = [self.from_bare[i] for i in which]
        if all(map(math.isfinite, others)):
            row |= columns("from_bare_nats", _mean(others, over))
        chi, top = (stats.mean([values[i] for i in which]) for values in (self.susceptibility, self.ceiling))
        row["ceiling_share"] = chi / top if top > 0 else None
        counts = [self.memorised[i] for i in which]
        return row | (_ratio(counts, over) if any(counts) else {})


def _memorised(finished: FinishedCell) -> list[_Counts]:
    """What becomes of each query's right answer behind contexts that state another; see `docs/susceptibility.md`."""
    measure = finished.cell.measure
    if not (isinstance(measure, Susceptibility) and measure.answer_tokens):
        return [None] * len(finished.records)
    return [one.case["memorisation"] for one in SusceptibilityResult.from_run(finished.measured, asdict(measure))]


def _ratio(counts: Sequence[_Counts], over: Resamples) -> Row:
    """Original answers / (original + context answers), over all contexts of queries whose answer the model knows."""
    known = [one or {"knows": False, "n_original": 0, "n_context": 0} for one in counts]
    original, context = ([one[name] for one in known] for name in ("n_original", "n_context"))
    found = over.ratio(original, [sum(pair) for pair in zip(original, context, strict=True)])
    row: Row = {"n_known_answers": sum(one["knows"] for one in known)}
    row |= {"n_original": sum(original), "n_context": sum(context)}
    return row | estimated("memorisation_ratio", found)


def _mean(values: Sequence[float], over: Resamples) -> expected.Estimate:
    found = over.mean(values)
    quantiles = stats.quantiles(values, expected.LEVELS)
    return expected.Estimate(stats.mean(values), found.interval or _NAN, tuple(quantiles), len(values))
