"""The result of measuring one query's Fisher susceptibility, and what many queries say together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from leakmeter.core.measurement import Measurement
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.fisher.quantities import FISHER
from leakmeter.instruments.susceptibility.summary import levels_of_factors, mean_of
from leakmeter.report.blocks import Provenance, Report
from leakmeter.report.result import CaseResult, Part
from leakmeter.stats import stats

if TYPE_CHECKING:
    import pandas as pd


FEWEST_TO_CORRELATE: Final = 10
"""Queries below which a rank correlation says nothing."""
_CONFIDENCE: Final = 0.95
_WIDE: Final = 0.25  # standard error, of the value
_LEVELS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_TEXTS: Final = (
    *("id", "model", "weights_sha256", "dtype", "template", "separator"),
    *("query", "factors", "answers", "answer"),
)
Cases = Sequence[Mapping[str, Any]]


def case_object(
    texts: Mapping[str, Any], measurements: Sequence[Measurement], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Texts and measurements of a query to one plain object: what `--json` prints and reports are drawn from.

    Args:
        texts: what the measurements are about (see `runs.measure.texts_of` and
            `instruments.susceptibility.prompts.PreparedQuestion`).
        measurements: of this query.
        params: of the measure.
    """
    found = {(measurement.piece, measurement.statistic): float(measurement.values[0]) for measurement in measurements}
    n_probes = int(found["", "n_probes"])
    log_mass = found.get(("", "top_mass"))
    top_mass = None if log_mass is None else math.exp(log_mass)
    values = [_value(sigma, found, n_probes) for sigma in params["sigma"]]
    return {
        **{name: texts[name] for name in _TEXTS},
        "estimator": "fisher",
        **params,
        "sigma": list(params["sigma"]),
        "n_contexts": len(texts["contexts"]),
        "values": values,
        "entropy_nats": found["", "entropy"],
        "n_query_tokens": int(found["", "n_query_tokens"]),
        "n_probes": n_probes,
        "top_mass": top_mass,
        "cost": texts["cost"],
        "warnings": list(_warnings(texts, values, params, n_probes, top_mass)),
    }


def _value(sigma: str, found: Mapping[tuple[str, str], float], n_probes: int) -> dict[str, Any]:
    """What one Σ gives; without probes, as in Eq. 11, nothing says how far off it is."""
    value, error = found[sigma, "fisher"], found[sigma, "standard_error"]
    half = _student(n_probes) * error if n_probes else None
    return {
        "sigma": sigma,
        "fisher_nats": value,
        "spread_nats": found[sigma, "spread"],
        "drift_nats": found[sigma, "drift"],
        "standard_error_nats": error if n_probes else None,
        # I and Σ have no negative eigenvalues.
        "interval_nats": None if half is None else [max(0.0, value - half), value + half],
        "trace_nats_per_square": found.get((sigma, "trace")),
    }


def _student(n_probes: int) -> float:
    """Standard errors to either side: a few probes do not know their own scatter well."""
    from scipy.stats import t

    return float(t.ppf((1 + _CONFIDENCE) / 2, n_probes - 1))


def _warnings(
    texts: Mapping[str, Any],
    values: Sequence[Mapping[str, Any]],
    params: Mapping[str, Any],
    n_probes: int,
    top_mass: float | None,
) -> Iterator[str]:
    if texts["answers"]:
        yield "Fisher susceptibility is that of any next token: the query's answers are not told apart."
    if top_mass is not None:
        yield (
            f"Top-k leaves out all tokens but the {params['top_k']} likeliest, which hold {100 * top_mass:.3g} % of "
            "the probability: the value is too low by what the others add."
        )
        return
    shares = {one["sigma"]: one["standard_error_nats"] / one["fisher_nats"] for one in values if one["fisher_nats"] > 0}
    asked = params["relative_error"]
    for sigma, share in shares.items():
        if asked is not None and n_probes == params["max_probes"] and share > asked:
            yield (
                f"The standard error of sigma {sigma} is {100 * share:.2g} % of the value after {n_probes} probes, the "
                f"most allowed, and not the {100 * asked:.2g} % asked for; give more max-probes."
            )
        elif share > _WIDE:
            yield (
                f"The standard error of sigma {sigma} is {100 * share:.2g} % of the value: ranks among queries as near "
                "as that are left to chance; give more probes."
            )


def summary(cases: Cases, *, seed: int = 0) -> dict[str, Any]:
    """Case objects of queries to one object; units stand in the names.

    For each Σ: mean, standard deviation (which divides by the number of queries), the 95 % percentile bootstrap
    interval of the mean over queries, null for one query; the queries, highest value first; the mean of every level of
    every factor, but of a factor with a level of its own for each query; and the rank correlations of the values with
    the queries' lengths and entropies, null for fewer than ten queries and where all are alike: what these explain is
    not found out by gradients.

    Args:
        cases: one or more; see `case_object`.
        seed: of the bootstrap.

    Raises:
        UsageError: no cases.
    """
    if not cases:
        raise UsageError("there are no queries to sum up; give at least one")
    return {
        "n": len(cases),
        "values": [_of_sigma(cases, number, seed) for number in range(len(cases[0]["values"]))],
        "median_tree_tokens": float(np.median([case["cost"]["tree_tokens"] for case in cases])),
        "median_naive_tokens": float(np.median([case["cost"]["naive_tokens"] for case in cases])),
    }


def _of_sigma(cases: Cases, number: int, seed: int) -> dict[str, Any]:
    told = [case["values"][number] for case in cases]
    values = [one["fisher_nats"] for one in told]
    order = sorted(range(len(cases)), key=lambda i: -values[i])
    return {
        "sigma": told[0]["sigma"],
        **mean_of(values, seed),
        "quantiles_nats": {f"{level:g}": q for level, q in zip(_LEVELS, stats.quantiles(values, _LEVELS), strict=True)},
        "spearman_with_length": _spearman(values, [case["n_query_tokens"] for case in cases]),
        "spearman_with_entropy": _spearman(values, [case["entropy_nats"] for case in cases]),
        "queries": [
            {"id": cases[i]["id"], **{name: told[i][name] for name in ("fisher_nats", "interval_nats")}} for i in order
        ],
        "factors": levels_of_factors(cases, values, seed),
    }


def _spearman(values: Sequence[float], others: Sequence[float]) -> float | None:
    from scipy.stats import spearmanr

    if len(values) < FEWEST_TO_CORRELATE or len(set(values)) == 1 or len(set(others)) == 1:
        return None
    return float(spearmanr(values, others).statistic)


@dataclass(frozen=True, slots=True)
class FisherResult(CaseResult):
    """How far changes of a query's vectors would move the answer to it, nats.

    `case` is as `leakmeter susceptibility --estimator fisher --json` prints it.
    """

    quantities: ClassVar = FISHER

    @classmethod
    def from_run(cls, parts: Iterable[Part], params: Mapping[str, Any]) -> Iterator[FisherResult]:
        """The results of a run's queries, each as soon as its part is there."""
        for texts, measurements in parts:
            yield cls(case_object(texts, measurements, params))

    @property
    def susceptibility(self) -> float:
        """½ (tr(I Σ) + μᵀ I μ) of the first Σ, nats; for identity half the trace, which only ranks queries."""
        return float(self.case["values"][0]["fisher_nats"])

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of that over random directions, nats; None for top-k, which draws none."""
        interval = self.case["values"][0]["interval_nats"]
        return None if interval is None else (interval[0], interval[1])

    def to_frame(self) -> pd.DataFrame:
        """One row a Σ, with the fields of `values` as columns, and the query's entropy and length."""
        import pandas as pd

        frame = pd.DataFrame([dict(one) for one in self.case["values"]])
        return frame.assign(**{name: self.case[name] for name in ("entropy_nats", "n_query_tokens")})

    @classmethod
    def summary(cls, cases: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Values of each Σ over the queries; see `summary`."""
        return summary(cases)

    @classmethod
    def report(
        cls,
        cases: Sequence[Mapping[str, Any]],
        *,
        command: str | None = None,
        provenance: Provenance = Provenance(),  # noqa: B008 (frozen)
    ) -> Report:
        """See `instruments.susceptibility.fisher.report`."""
        from leakmeter.instruments.susceptibility.fisher.report import report

        return report(cases, summary(cases), command=command, provenance=provenance)
