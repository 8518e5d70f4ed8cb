"""What many queries say together of their susceptibility: ranks, contexts, factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility import memorisation as _memorisation
from leakmeter.stats import stats

_LEVELS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
Cases = Sequence[Mapping[str, Any]]


def summary(cases: Cases, *, seed: int = 0) -> dict[str, Any]:
    """Case objects of queries to one object; units stand in the names.

    `std_nats` divides by the number of queries; `interval_nats` is the 95 % percentile bootstrap interval of the mean
    over queries, null for one query. `queries` are ranked by their susceptibility, `contexts` by their mean persuasion
    over the queries that they stand before. `factors` has the mean of every level of every factor, in the order in
    which they come; a factor with a level of its own for each query is left out.

    Args:
        cases: one or more; see `instruments.susceptibility.result.case_object`.
        seed: of the bootstrap.

    Raises:
        UsageError: no cases.
    """
    if not cases:
        raise UsageError("there are no queries to sum up; give at least one")
    values = [case["susceptibility_nats"] for case in cases]
    return {
        "n": len(cases),
        **mean_of(values, seed),
        "quantiles_nats": {f"{level:g}": q for level, q in zip(_LEVELS, stats.quantiles(values, _LEVELS), strict=True)},
        "mean_from_bare_nats": _finite_mean([case["from_bare_nats"] for case in cases]),
        "share_below_noise_floor": sum(case["below_noise_floor"] for case in cases) / len(cases),
        "n_bias_not_small": sum(case["bias_is_small"] is False for case in cases),
        "queries": [
            {name: case[name] for name in ("id", "susceptibility_nats", "interval_nats", "share_of_ceiling")}
            for case in sorted(cases, key=lambda case: -case["susceptibility_nats"])
        ],
        "contexts": _contexts(cases),
        "factors": levels_of_factors(cases, values, seed),
        "memorisation": _memorisation.of_queries(cases),
        "median_tree_tokens": float(np.median([case["cost"]["tree_tokens"] for case in cases])),
        "median_naive_tokens": float(np.median([case["cost"]["naive_tokens"] for case in cases])),
    }


def plain(value: float) -> float | None:
    """JSON has no word for infinity: null stands for it."""
    return float(value) if np.isfinite(value) else None


def mean_of(values: Sequence[float], seed: int) -> dict[str, Any]:
    """Mean, standard deviation and 95 % bootstrap interval, null for one value, nats."""
    interval = stats.bootstrap_interval_of_mean(values, seed=seed) if len(values) > 1 else None
    return {
        "mean_nats": stats.mean(values),
        "std_nats": float(np.std(values)),
        "interval_nats": None if interval is None else list(interval),
    }


def _finite_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return stats.mean(known) if len(known) == len(values) else None


def _contexts(cases: Cases) -> list[dict[str, Any]]:
    """Each context over the queries that it stands before, most persuasive first; ties in the order they come."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for case in cases:
        for context in case["contexts"]:
            found.setdefault((context["id"], context["text"]), []).append(context)
    rows = [
        {
            "id": id_,
            "text": text,
            "n": len(alike),
            "mean_persuasion_nats": stats.mean([one["persuasion_nats"] for one in alike]),
            "mean_from_bare_nats": _finite_mean([one["persuasion_from_bare_nats"] for one in alike]),
        }
        for (id_, text), alike in found.items()
    ]
    return sorted(rows, key=lambda row: -row["mean_persuasion_nats"])


def levels_of_factors(cases: Cases, values: Sequence[float], seed: int) -> dict[str, list[dict[str, Any]]]:
    """Of each factor of the cases its levels with the mean of their values, in the order in which they come.

    A factor with a level of its own for each query is left out.
    """
    levels: dict[str, dict[str, list[float]]] = {}
    for case, value in zip(cases, values, strict=True):
        for name, level in case["factors"].items():
            levels.setdefault(name, {}).setdefault(level, []).append(value)
    return {
        name: [{"level": level, "n": len(some), **mean_of(some, seed)} for level, some in of_factor.items()]
        for name, of_factor in levels.items()
        if len(of_factor) < sum(map(len, of_factor.values()))
    }
