"""Finished cells of exemplars to rows: ICLInf and accuracy, positions, and levels of a factor against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any, Final

from leakmeter.instruments.icl.result import IclResult, summary
from leakmeter.stats import stats
from leakmeter.stats.rank_tests import holm, signed_rank_p
from leakmeter.studies.cells import FinishedCell
from leakmeter.studies.grid import Study
from leakmeter.studies.kind import Row, Tables

POSITION: Final = "exemplar_position"
"""Column of the place of the exemplar that is left out, from 1."""
Case = Mapping[str, Any]
Level = tuple[Any, Sequence[float]]
"""What a level is called, and a loss of each query, nats."""
_COMPARED_BY = (
    "difference: of the same queries, with a 95 % interval by bootstrap over them",
    "p: Wilcoxon's signed-rank test, two-sided; Holm's rule among all rows",
)
_NO_INTERVAL = (math.nan, math.nan)


def cases_of(finished: FinishedCell) -> list[dict[str, Any]]:
    """The case objects of a cell's queries, in order; see `instruments.icl.result`."""
    return [result.case for result in IclResult.from_run(finished.measured, asdict(finished.cell.measure))]


def loss_of(told: Case) -> float:
    """The loss of a query or of an exemplar, nats."""
    return math.inf if told["loss_nats"] is None else float(told["loss_nats"])


def tables(study: Study, cells: Sequence[FinishedCell]) -> Tables:
    """The tables of a study.

    Args:
        study: says what is shown.
        cells: all of them, in order.
    """
    found = [cases_of(one) for one in cells]
    sums = [summary(cases, seed=study.seed) for cases in found]
    rows: list[Row] = []
    for one, told in zip(cells, sums, strict=True):
        if study.show == "factor":
            rows.append({**one.cell.factors, **_row(told)})
        else:
            rows += [
                {**one.cell.factors, POSITION: at["position"], "n": at["n"], **_mean("position_nats", at)}
                for at in told["positions"]
            ]
    groups = _lines(study, cells, found) if study.show == "factor" else _positions(cells, found)
    return Tables(rows, rows, compared(study.x or POSITION, groups, seed=study.seed), _COMPARED_BY)


def compared(x: str, groups: Sequence[tuple[Row, Sequence[Level]]], *, seed: int) -> list[Row]:
    """Every two levels of each group against each other, query by query.

    A row has the mean of the later less the earlier with its interval, Wilcoxon's p, and what Holm's rule makes of that
    p among all rows. Where a loss is infinite, there is no mean.

    Args:
        x: what the levels are of.
        groups: what else tells levels apart, and those that have the same queries.
        seed: of the bootstrap.
    """
    rows: list[Row] = []
    for others, levels in groups:
        for (first, before), (second, after) in combinations(levels, 2):
            row: Row = {**others, x: second, "less": first, "n": len(after)}
            by: dict[str, Any] = {"mean_nats": None, "interval_nats": None}
            if all(map(math.isfinite, (*before, *after))):
                interval = stats.bootstrap_interval_of_mean_difference(after, before, seed=seed)
                by = {"mean_nats": stats.mean(after) - stats.mean(before), "interval_nats": interval}
            rows.append({**row, **_mean("paired_nats", by), "wilcoxon_p": signed_rank_p(after, before)})
    adjusted = holm([row["wilcoxon_p"] for row in rows])
    return [{**row, "holm_p": p} for row, p in zip(rows, adjusted, strict=True)]


def _row(told: Mapping[str, Any]) -> Row:
    row: Row = {"n": told["n"], **_mean("loss_nats", told)}
    row |= {f"loss_nats_q{round(100 * float(level)):02}": nats for level, nats in told["quantiles_nats"].items()}
    row["below_noise_share"] = told["share_below_noise_floor"]
    low, high = told["accuracy_interval"] or _NO_INTERVAL
    row |= {"accuracy": told["accuracy"], "accuracy_low": low, "accuracy_high": high}
    return row | {"macro_f1": told["macro_f1"], "tree_tokens_median": told["median_tree_tokens"]}


def _mean(name: str, told: Mapping[str, Any]) -> Row:
    """A mean with its interval, and the standard deviation where it has one."""
    low, high = told["interval_nats"] or _NO_INTERVAL
    row: Row = {name: told["mean_nats"], f"{name}_low": low, f"{name}_high": high}
    return row | ({f"{name}_std": told["std_nats"]} if "std_nats" in told else {})


def _positions(cells: Sequence[FinishedCell], found: Sequence[Sequence[Case]]) -> list[tuple[Row, list[Level]]]:
    """The positions of each cell: its queries have as many exemplars each."""
    return [
        (
            dict(one.cell.factors),
            [
                (exemplar["position"], [loss_of(case["exemplars"][i]) for case in cases])
                for i, exemplar in enumerate(cases[0]["exemplars"])
            ],
        )
        for one, cases in zip(cells, found, strict=True)
    ]


def _lines(
    study: Study, cells: Sequence[FinishedCell], found: Sequence[Sequence[Case]]
) -> list[tuple[Row, list[Level]]]:
    """Cells that differ in x alone and have the same queries."""
    lines: list[tuple[Row, list[str], list[Level]]] = []
    for one, cases in zip(cells, found, strict=True):
        others = dict(one.cell.factors)
        level = (others.pop(str(study.x)), [loss_of(case) for case in cases])
        ids = [case["id"] for case in cases]
        line = next((levels for known, of_known, levels in lines if (known, of_known) == (others, ids)), None)
        if line is None:
            lines.append((others, ids, [level]))
        else:
            line.append(level)
    return [(others, levels) for others, _, levels in lines]
