"""The results of measuring queries' Fisher susceptibility: of one, and what many say together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Final, Self

from leakmeter.core.measure import NATS, Measurement, Params, Per, Texts
from leakmeter.core.quantity import Quantities, Quantity, SoFar
from leakmeter.core.record import Record, frame_of
from leakmeter.core.self_check import carried
from leakmeter.engine.storage.kept import Series
from leakmeter.instruments.susceptibility.fisher.measure import Fisher, FisherStatistics
from leakmeter.instruments.susceptibility.result import KeptContexts, MeanByFactor, QueryResult, usual_cost
from leakmeter.overriding import override
from leakmeter.results.result import PartContent, PieceFields

if TYPE_CHECKING:
    import pandas as pd

FEWEST_TO_CORRELATE: Final = 10
"""Queries below which a rank correlation says nothing."""
_CONFIDENCE: Final = 0.95
_WIDE: Final = 0.25  # standard error, of the value
_QUANTITIES: Final[Quantities] = (
    Quantity(
        "fisher",
        NATS,
        "How far changes of a query's vectors would move the answer to it, for the first covariance.",
        lambda case: float(case.values[0].fisher_nats),
        sense="neither",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGradients(KeptContexts):
    """No responses; a number for each Σ."""

    @override
    def pieces(self, params: Params, measurements: Sequence[Measurement]) -> Mapping[Per, Collection[str] | None]:
        return {**super(KeptGradients, self).pieces(params, measurements), "sigma": params["sigma"]}

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterator[Series]:
        yield Series(FisherStatistics.trace, (1,), ("identity",), is_needed="identity" in params["sigma"])
        yield Series(FisherStatistics.top_mass, (1,), is_needed=params["method"] == "top-k")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigmaValue(Record):
    """What one Σ gives."""

    sigma: str
    """Choice of the covariance Σ: 'identity', 'embedding' or 'empirical'."""
    fisher_nats: float
    """Fisher susceptibility, nats: ½ (tr(I Σ) + μᵀ I μ); for identity half the trace, which only ranks queries."""
    spread_nats: float
    """Part of the Fisher susceptibility that the covariance makes, nats: ½ tr(I Σ)."""
    drift_nats: float
    """Part of the Fisher susceptibility that the mean makes, nats: ½ μᵀ I μ."""
    standard_error_nats: float | None
    """Standard error of `fisher_nats` over other random directions, nats; None for top-k, which draws none."""
    interval_nats: tuple[float, float] | None
    """95 % interval of `fisher_nats` by Student's t, cut at 0, nats; None for top-k."""
    trace_nats_per_square: float | None
    """Trace of the Fisher information, tr I, in nats per squared length, for identity; None for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FisherResult(QueryResult):
    """How far changes of a query's vectors would move the answer to it, nats; most fields are as they were given."""

    schema: ClassVar = "fisher-1"
    kept: ClassVar = KeptGradients
    quantities: ClassVar = _QUANTITIES
    so_far: ClassVar = (SoFar("up to {:.3g} for the first covariance", _QUANTITIES[0].compute),)
    defining: ClassVar = ("params.sigma", "params.place")
    pieces_at: ClassVar = PieceFields("values", nats="fisher_nats", name="sigma")

    method: str
    """Method of the estimate: 'deflated', 'sketch' or 'top-k'."""
    sigma: tuple[str, ...]
    """Choices of the covariance Σ: 'identity', 'embedding' or 'empirical'."""
    place: str
    """Place of the vectors that vary: 'query', 'slot' or 'layer:N'."""
    probes: int
    """Number of random directions that were asked for."""
    directions: int
    """Number of dimensions in which a deflated estimate is exact."""
    top_k: int
    """Number of answers that top-k keeps."""
    slot_tokens: int
    """Number of tokens of a slot, unless the longest context has more."""
    relative_error: float | None
    """Standard error that was aimed at, as a share of the value; None for a fixed number of probes."""
    max_probes: int
    """Largest number of probes that may be taken to reach `relative_error`."""
    seed: int
    """Seed of the random directions."""
    values: tuple[SigmaValue, ...]
    """Fisher susceptibility for each Σ, in the order given."""
    entropy_nats: float
    """Entropy of the next token's distribution, nats."""
    n_query_tokens: int
    """Number of tokens of the query."""
    n_probes: int
    """Number of random directions that were averaged; 0 for top-k."""
    top_mass: float | None
    """Probability of the tokens that top-k keeps; None for the other methods."""

    @classmethod
    def from_run(cls, parts: Iterable[PartContent], params: Params) -> Iterator[Self]:
        """The results of a run's queries, each as soon as its part is there."""
        measure = Fisher(**{**params, "sigma": tuple(params["sigma"])})
        for texts, measurements in carried(parts):
            numbers = {(each.piece, each.statistic): float(each.values[0]) for each in measurements}
            n_probes, log_mass = (
                int(numbers["", FisherStatistics.n_probes]),
                numbers.get(("", FisherStatistics.top_mass)),
            )
            top_mass = None if log_mass is None else math.exp(log_mass)
            values = tuple(_value(sigma, numbers, n_probes) for sigma in measure.sigma)
            yield cls(
                **cls.common(texts, _warnings(texts, values, measure, n_probes, top_mass)),
                **{field.name: getattr(measure, field.name) for field in fields(Fisher)},
                estimator="fisher",
                values=values,
                entropy_nats=numbers["", FisherStatistics.entropy],
                n_query_tokens=int(numbers["", FisherStatistics.n_query_tokens]),
                n_probes=n_probes,
                top_mass=top_mass,
            )

    def to_frame(self) -> pd.DataFrame:
        """One row a Σ, with the fields of `SigmaValue` as columns, and the query's entropy and length."""
        import pandas as pd

        intervals = pd.Series([value.interval_nats for value in self.values], dtype=object)
        numbers = {"entropy_nats": self.entropy_nats, "n_query_tokens": self.n_query_tokens}
        return frame_of(SigmaValue, self.values).assign(interval_nats=intervals, **numbers)

    @classmethod
    @override
    def summary(cls, results: Sequence[Self], *, seed: int = 0) -> FisherSummary:
        """Values of each Σ over the queries; the seed is the bootstrap's over queries."""
        cost = usual_cost(results)
        values = tuple(_of_sigma(results, number, seed) for number in range(len(results[0].values)))
        return FisherSummary(n=len(results), values=values, **cost)


def _value(sigma: str, numbers: Mapping[tuple[str, str], float], n_probes: int) -> SigmaValue:
    from scipy.stats import t

    value, error = numbers[sigma, FisherStatistics.fisher], numbers[sigma, FisherStatistics.standard_error]
    # Student's: a few probes do not know their own scatter well.
    half = float(t.ppf((1 + _CONFIDENCE) / 2, n_probes - 1)) * error if n_probes else None
    return SigmaValue(
        sigma=sigma,
        fisher_nats=value,
        spread_nats=numbers[sigma, FisherStatistics.spread],
        drift_nats=numbers[sigma, FisherStatistics.drift],
        standard_error_nats=error if n_probes else None,
        # The value is never below 0: I and Σ have no negative eigenvalues.
        interval_nats=None if half is None else (max(0.0, value - half), value + half),
        trace_nats_per_square=numbers.get((sigma, FisherStatistics.trace)),
    )


def _warnings(
    texts: Texts, values: Sequence[SigmaValue], measure: Fisher, n_probes: int, top_mass: float | None
) -> Iterator[str]:
    if texts["answers"]:
        yield "Fisher susceptibility covers every next token; the query's answers play no part."
    if top_mass is not None:
        yield (
            f"Top-k leaves out all tokens but the {measure.top_k} likeliest, which hold {100 * top_mass:.3g} % of "
            "the probability; the value is too low by the contribution of the others."
        )
        return
    target = measure.relative_error
    for value in values:
        if value.standard_error_nats is None or value.fisher_nats <= 0:
            continue
        sigma, share = value.sigma, value.standard_error_nats / value.fisher_nats
        if target is not None and n_probes == measure.max_probes and share > target:
            yield (
                f"The standard error of sigma {sigma} is {100 * share:.2g} % of the value after {n_probes} probes, the "
                f"most allowed, and not the {100 * target:.2g} % asked for; give more max-probes."
            )
        elif share > _WIDE:
            yield (
                f"The standard error of sigma {sigma} is {100 * share:.2g} % of the value; queries that close to each "
                "other are ranked by chance. Give more probes."
            )


# ---- many queries ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class RankedValue(Record):
    """A query among all."""

    id: str
    fisher_nats: float
    interval_nats: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesOfSigma(MeanByFactor):
    """All queries' values of one Σ."""

    sigma: str
    spearman_with_length: float | None
    """Rank correlation with the queries' lengths in tokens: what these explain is not found out by gradients. None
    below ten queries, and where all are alike."""
    spearman_with_entropy: float | None
    """Rank correlation with the entropies of the next tokens. None below ten queries, and where all are alike."""
    queries: tuple[RankedValue, ...]
    """Queries, highest value first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FisherSummary(Record):
    """What many queries say together of their Fisher susceptibility."""

    n: int
    """Number of queries."""
    values: tuple[ValuesOfSigma, ...]
    """Values of all queries for each Σ."""
    median_tree_tokens: float
    """Median number of tokens put through the model for a query."""
    median_naive_tokens: float


def _of_sigma(results: Sequence[FisherResult], number: int, seed: int) -> ValuesOfSigma:
    values = [result.values[number].fisher_nats for result in results]
    ranked = sorted(results, key=lambda result: -result.values[number].fisher_nats)
    return ValuesOfSigma.of_queries(
        results,
        values,
        seed,
        sigma=results[0].values[number].sigma,
        spearman_with_length=_spearman(values, [result.n_query_tokens for result in results]),
        spearman_with_entropy=_spearman(values, [result.entropy_nats for result in results]),
        queries=tuple(
            RankedValue(id=result.id, fisher_nats=value.fisher_nats, interval_nats=value.interval_nats)
            for result, value in ((result, result.values[number]) for result in ranked)
        ),
    )


def _spearman(values: Sequence[float], others: Sequence[float]) -> float | None:
    from scipy.stats import spearmanr

    if len(values) < FEWEST_TO_CORRELATE or len(set(values)) == 1 or len(set(others)) == 1:
        return None
    return float(spearmanr(values, others).statistic)
