"""Finished cells of people's values to rows: how far true values stand out, what was brought out, and every value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from leakmeter.instruments.pii.matching import EDITS, HIT, STATISTICS
from leakmeter.instruments.pii.result import PiiResult, summary
from leakmeter.instruments.pii.subject import VALUE_TYPES
from leakmeter.stats import stats
from leakmeter.stats.rank_tests import holm, rank_sum_p
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Row, Tables

TYPE: Final = "type"
PART: Final = "part"
"""Column of what of a value was brought out."""
ABOVE: Final = "above_invented_nats"
KNOWN: Final = "known"
BROUGHT_OUT: Final = "brought_out"
LIKELIHOOD: Final = "normalised_log_likelihood_nats"
NULLS: Final = "null_normalised_log_likelihoods_nats"
_EDITS: Final = (1, 2, 3)
_TESTS: Final = ("ranks_p", "rank_sum_p", "likelihood_rank_sum_p")
_NAN: Final = (float("nan"), float("nan"))
Case = Mapping[str, Any]


def cases_of(finished: FinishedCell) -> list[dict[str, Any]]:
    """The case objects of a cell's values, in order; see `instruments.pii.result`."""
    return [result.case for result in PiiResult.from_run(finished.measured, asdict(finished.cell.measure))]


def tables(study: Study, cells: Sequence[FinishedCell]) -> Tables:
    """The tables of a study.

    Args:
        study: says what is shown.
        cells: all of them, in order.
    """
    found = [(one, cases_of(one)) for one in cells]
    if study.show == "parts":
        rows = [row for one, cases in found for row in _parts(one, cases)]
        return Tables(rows, rows)
    by_type = _adjusted([row for one, cases in found for row in _types(one, cases, study.seed)])
    if study.show == "factor":
        return Tables(by_type, by_type)
    return Tables([row for one, cases in found for row in values_of(cases, one.cell.factors)], by_type)


def _types(finished: FinishedCell, cases: Sequence[Case], seed: int) -> Iterator[Row]:
    """A row for each type of value, over people: each value by its largest association in any way of asking."""
    for told in summary(cases, seed=seed)["types"]:
        row: Row = {**finished.cell.factors, TYPE: told["type"], "n_values": told["n"]}
        low, high = told["difference_interval_nats"] or _NAN
        row |= {ABOVE: told["mean_nats"] - told["null_mean_nats"], f"{ABOVE}_low": low, f"{ABOVE}_high": high}
        low, high = told["share_p_at_most_0.05_interval"]
        row |= {KNOWN: told["share_p_at_most_0.05"], f"{KNOWN}_low": low, f"{KNOWN}_high": high}
        row |= {"exposure_bits_mean": told["mean_exposure_bits"]}
        row |= {name: told[name] for name in ("ranks_p", "rank_sum_p")}
        yield row | _likelihoods([case for case in cases if case["type"] == told["type"]], seed)


def _likelihoods(cases: Sequence[Case], seed: int) -> Row:
    """What the paper compares: of each case the true value and one invented one, drawn by the seed."""
    true = [case["log_likelihood_nats"] for case in cases]
    drawn = np.random.default_rng(seed)
    others = [case["null_log_likelihoods_nats"] for case in cases]
    one_each = [of[drawn.integers(len(of))] for of in others]
    row: Row = {f"{LIKELIHOOD}_mean": stats.mean([case[LIKELIHOOD] for case in cases])}
    row |= {f"invented_{LIKELIHOOD}_mean": stats.mean([stats.mean(case[NULLS]) for case in cases])}
    p = rank_sum_p(true, one_each, alternative="greater") if len(cases) > 1 else None
    return row | {"likelihood_rank_sum_p": p}


def _adjusted(rows: Sequence[Row]) -> list[Row]:
    """Behind each p-value the one by Holm's rule among those of all rows."""
    adjusted: list[Row] = [{} for _ in rows]
    for name in _TESTS:
        known = [number for number, row in enumerate(rows) if row[name] is not None]
        for number, p in zip(known, holm([rows[number][name] for number in known]), strict=True):
            adjusted[number][name] = p
    return [
        {
            column: value
            for name, of in row.items()
            for column, value in ((name, of), *([(f"{name[:-1]}holm_p", found[name])] if name in found else []))
        }
        for row, found in zip(rows, adjusted, strict=True)
    ]


def _parts(finished: FinishedCell, cases: Sequence[Case]) -> Iterator[Row]:
    """For each width of the beam search, type and part of a value the share of cases in which it was brought out."""
    for number, first in enumerate(cases[0]["generated"]):
        for type_ in VALUE_TYPES:
            best = [case["generated"][number]["best"] for case in cases if case["type"] == type_]
            for part, hits in _hits(best, STATISTICS[type_]):
                low, high = stats.interval_of_share(sum(hits), len(hits))
                row: Row = {**finished.cell.factors, "beams": first["beams"], TYPE: type_, PART: part, "n": len(hits)}
                row |= {BROUGHT_OUT: sum(hits) / len(hits)}
                yield row | {f"{BROUGHT_OUT}_low": low, f"{BROUGHT_OUT}_high": high}


def _hits(best: Sequence[Case], units: Mapping[str, str]) -> Iterator[tuple[str, list[bool]]]:
    """Each part of a value, and of which cases it was brought out; those where there is no such part are left out."""
    for name, unit in units.items():
        found = [one[name] for one in best if one[name] is not None]
        if unit == HIT and found:
            yield name, [value == 1.0 for value in found]
        elif unit == EDITS and found:
            yield from ((f"edit distance ≤ {most}", [value <= most for value in found]) for most in _EDITS)


def values_of(cases: Sequence[Case], known: Mapping[str, Any]) -> Iterator[Row]:
    """A row for every true and every invented value; nothing of them but numbers.

    Args:
        cases: see `instruments.pii.result`.
        known: columns that tell these cases from others.
    """
    for case in cases:
        row: Row = {**known, "id": case["id"], TYPE: case["type"]}
        yield {**row, "value": "true", LIKELIHOOD: case[LIKELIHOOD], "association_nats": case["association_nats"]}
        for nats, association in zip(case[NULLS], case["null_associations_nats"], strict=True):
            yield {**row, "value": "invented", LIKELIHOOD: nats, "association_nats": association}
