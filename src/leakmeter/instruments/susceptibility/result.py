"""The results of measuring how far contexts move the answers to queries: of one, and what many say together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import numpy as np

from leakmeter.core.measure import NATS, Measurement, Over, Params, Texts
from leakmeter.core.quantity import NOISE, Quantities, Quantity, SoFar, at, most
from leakmeter.core.record import JsonObject, Record, Unbounded, frame_of
from leakmeter.core.self_check import carried, noise_beyond_rounding, noise_of_contrast, noise_of_entropy
from leakmeter.engine.storage.kept import Amount, FieldError, KeptCase, Series
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.math import Spread, SusceptibilityStatistics, spread
from leakmeter.instruments.susceptibility.measure import Susceptibility, noise_of_persuasion
from leakmeter.overriding import override
from leakmeter.results.result import PartContent, PieceFields, Result
from leakmeter.stats import stats
from leakmeter.stats.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd


AnswerOrigin = Literal["original", "context", "neither"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts(Record):
    n_original: int
    """Number of contexts behind which the answer is the one that the model gives without them."""
    n_context: int
    """Number of contexts behind which the answer is the one that the context states."""
    n_neither: int
    """Number of contexts behind which the answer is neither the model's own nor the context's."""
    ratio: float | None
    """Memorisation ratio: original / (original + context); None where neither occurs."""
    ratio_interval: tuple[float, float] | None
    """95 % interval of the memorisation ratio, by Wilson's method; None where the ratio is None."""

    @classmethod
    def counted(cls, kinds: Sequence[AnswerOrigin | None], **more: Any) -> Self:
        n_original, n_context = kinds.count("original"), kinds.count("context")
        n = n_original + n_context
        return cls(
            n_original=n_original,
            n_context=n_context,
            n_neither=kinds.count("neither"),
            ratio=n_original / n if n else None,
            ratio_interval=stats.interval_of_share(n_original, n) if n else None,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memorisation(_Counts):
    """Whose answers to one query are given behind contexts that state another."""

    knows: bool
    """Whether the model gives the right answer without a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorisationOfAll(_Counts):
    """The same of many queries."""

    n: int
    """Number of queries whose right answer is known."""
    n_knows: int
    """Number of queries, of those whose right answer is known, to which the model gives it without a context."""


def kinds_of(
    right: str | None, stated: Sequence[str | None], answered: Sequence[str]
) -> tuple[AnswerOrigin | None, ...]:
    """Whose answer a model gives to a query behind each context; None where that is no question.

    The model knows the answer where the one it gives without a context begins with the right one, whatever its case and
    white space, and no letter or digit follows. Behind each context that states another answer it then gives the
    `original` one, that of the `context`, or `neither`, by the same rule, the longer of two that both fit. Greedy
    answers are that to the query alone first; empty where none were written.
    """
    if right is None or not answered or not begins(answered[0], right):
        return (None,) * len(stated)
    return tuple(
        None if answer is None or _plain(answer) == _plain(right) else _kind(reply, right, answer)
        for reply, answer in zip(answered[1:], stated, strict=True)
    )


def begins(response: str, answer: str) -> bool:
    """Whether a text gives an answer; see `kinds_of`."""
    text, start = _plain(response), _plain(answer)
    return bool(start) and text.startswith(start) and not text[len(start) : len(start) + 1].isalnum()


def _kind(text: str, right: str, stated: str) -> AnswerOrigin:
    fits = [len(_plain(answer)) if begins(text, answer) else 0 for answer in (right, stated)]
    if not any(fits):
        return "neither"
    return "original" if fits[0] > fits[1] else "context"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContext(Record):
    """A context; see `instruments.susceptibility.case.Context`."""

    id: str
    text: str
    weight: Amount
    answer: str | None

    def __post_init__(self) -> None:
        if not self.weight:
            raise FieldError("weight", "has to be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContexts(KeptCase):
    separator: str
    answers: tuple[str, ...]
    answer: str | None
    factors: Mapping[str, str]
    contexts: tuple[KeptContext, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMixture(KeptContexts):
    """Responses are the greedy answers, that to the query alone first."""

    @override
    def lengths(self, params: Params, measurements: Sequence[Measurement]) -> Mapping[Over, Sequence[int]]:
        return {**super(KeptMixture, self).lengths(params, measurements), "context": (len(self.contexts),)}

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterable[Series]:
        n_contexts = len(self.contexts)
        if n_contexts < 2 or len(self.responses) not in (0, 1 + n_contexts):
            raise FieldError(f"statistic {SusceptibilityStatistics.persuasion}", "is of other contexts than the texts")
        return ()


_LEVELS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)

_QUANTITIES: Final[Quantities] = (
    Quantity(
        "susceptibility",
        NATS,
        "How far contexts move the answer to a query: mutual information of context and answer.",
        at("susceptibility_nats"),
        floor=NOISE,
        sense="neither",
    ),
    Quantity(
        "susceptibility.share_of_ceiling",
        "share",
        "How far contexts move the answer to a query, as a share of the maximum for this number of contexts.",
        at("share_of_ceiling"),
        sense="neither",
    ),
    Quantity(
        "susceptibility.from_bare",
        NATS,
        "How far the answer after a context is from the answer to the query alone, on average over contexts.",
        at("from_bare_nats"),
        floor=NOISE,
        sense="neither",
    ),
    Quantity(
        "susceptibility.worst_context",
        NATS,
        "How far the context that moves the answer most moves it.",
        lambda case: most(context.persuasion_nats for context in case.contexts),
        floor=NOISE,
        sense="neither",
    ),
)


# ---- one query ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Result):
    """What was measured of one query, by either estimator."""

    template: str
    """Name of the prompt's template: 'plain', 'chat' …"""
    separator: str
    """Text that stands between a context and the query."""
    query: str = field(repr=False)
    """Query that the model was asked."""
    factors: Mapping[str, str]
    """Levels of the factors that the data give for the query, by the factor's name."""
    answers: tuple[str, ...]
    """Answers that are told apart, all else being the rest; empty where every next token is."""
    answer: str | None
    """Right answer to the query; None where it is not known."""
    estimator: str
    """Name of the estimator: 'monte-carlo' or 'fisher'."""
    n_contexts: int
    """Number of contexts that the query was asked behind."""

    @staticmethod
    @override
    def common(texts: Texts, warnings: Iterable[str] = ()) -> JsonObject:
        """The fields that both estimators have, but `estimator`, for a constructor."""
        return {
            **Result.common(texts, warnings),
            **{name: texts[name] for name in ("template", "separator", "query", "factors", "answer")},
            "answers": tuple(texts["answers"]),
            "n_contexts": len(texts["contexts"]),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSusceptibility(Record):
    """One context and how far it moves the answer."""

    id: str
    """Id of the context in the data."""
    text: str = field(repr=False)
    """First 300 characters of the context."""
    weight: float
    """Weight of the context; the weights of all contexts add up to 1."""
    answer: str | None
    """Answer to the query that the context states; None where the data do not give it."""
    persuasion_nats: float
    """Persuasion of the context, nats: ψ = KL(p_c ‖ p̂), p_c the answer behind it and p̂ the mixture over contexts."""
    persuasion_from_bare_nats: Unbounded
    """Divergence of the answer behind the context from the answer to the query alone, nats: KL(p_c ‖ p₀)."""
    susceptibility_without_nats: float
    """Susceptibility χ of the query with all contexts but this one, nats."""
    rank: int
    """Rank of the context by its persuasion, from 1, most persuasive first."""
    below_noise_floor: bool
    """Whether the persuasion is at or below the noise floor: other ways to compute the same move it as much."""
    greedy_answer: str | None = field(repr=False)
    """Likeliest answer behind the context; None where no answers were written."""
    greedy_answer_is: AnswerOrigin | None
    """Origin of the greedy answer: 'original' for the answer to the query alone, 'context' for the one that the context
    states, or 'neither'; None where the question does not arise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SusceptibilityResult(QueryResult):
    """How far contexts move the answers to one query, in nats."""

    schema: ClassVar = "susceptibility-1"
    kept: ClassVar = KeptMixture
    quantities: ClassVar = _QUANTITIES
    so_far: ClassVar = (SoFar("up to {:.3g} nats", at("susceptibility_nats")),)
    pieces_at: ClassVar = PieceFields("contexts", nats="persuasion_nats", name="id")

    temperature: float
    """Temperature T of every token's distribution."""
    answer_tokens: int
    """Largest number of tokens of a greedy answer; 0 where none were written."""
    susceptibility_nats: float
    """Susceptibility of the query, nats: χ = Σ w ψ(c) = I(C; A), the mutual information of context and answer."""
    standard_error_nats: float | None
    """Standard error of χ over the contexts that might have been drawn, nats; None for two contexts."""
    interval_nats: tuple[float, float] | None
    """95 % interval of χ less its bias, over the contexts that might have been drawn, nats; None for few contexts."""
    bias_nats: float | None
    """Bias of χ, nats: by how much it is too large on average, below 0 where it is too small; None for two contexts."""
    bias_is_small: bool | None
    """Whether the bias is at most 5 % of χ and at most the standard error; None for two contexts."""
    ceiling_nats: float
    """Ceiling that χ cannot exceed, nats: the entropy of the weights."""
    share_of_ceiling: float | None
    """Share of the ceiling that χ reaches; None where the ceiling is 0."""
    from_bare_nats: Unbounded
    """Mean divergence of the answer behind a context from the answer to the query alone, nats: Σ w KL(p_c ‖ p₀)."""
    mixture_from_bare_nats: Unbounded
    """Divergence of the mixture over contexts from the answer to the query alone, nats: KL(p̂ ‖ p₀), by which
    `from_bare_nats` is larger than χ."""
    bare_entropy_nats: float
    """Entropy of the answer to the query alone, nats."""
    mixture_entropy_nats: float
    """Entropy of the mixture p̂ of the answers over contexts, nats."""
    noise_floor_nats: Unbounded
    """Noise floor of the susceptibility and of persuasions, nats: a measurement at or below it is no finding."""
    below_noise_floor: bool
    """Whether the susceptibility is at or below the noise floor, so that it is no finding."""
    contexts: tuple[ContextSusceptibility, ...]
    """Contexts that the query was asked behind, in their order."""
    memorisation: Memorisation | None
    """Counts of whose answers the model gives; None where no answers were written, or the right one is not known."""

    @classmethod
    def from_run(cls, parts: Iterable[PartContent], params: Params) -> Iterator[Self]:
        """The results of a run's queries, each as soon as its part is there."""
        measure = Susceptibility(**params)
        for texts, measurements in carried(parts):
            yield cls._from_part(texts, measurements, measure)

    @classmethod
    def _from_part(cls, texts: Texts, measurements: Sequence[Measurement], measure: Susceptibility) -> Self:
        series = {each.statistic: each.values for each in measurements if each.sample == 0}
        numbers = {name: float(values[0]) for name, values in series.items()}
        told = SusceptibilityStatistics
        value, ceiling = numbers[told.susceptibility], numbers[told.ceiling]
        largest = max(float(series[name].max()) for name in (told.persuasion, told.persuasion_from_bare))
        if texts["answers"]:
            found = noise_of_persuasion(noise_of_contrast(texts, 1) / measure.temperature, largest)
        else:
            of_sharing = noise_of_persuasion(noise_beyond_rounding(texts) / measure.temperature, largest)
            found = max(of_sharing, noise_of_entropy(texts) / measure.temperature)
        floor = max(numbers[told.noise], found)
        uncertainty = spread(value, series[told.susceptibility_without])
        is_small = (
            None if uncertainty is None else abs(uncertainty.bias) <= min(0.05 * value, uncertainty.standard_error)
        )
        right, answered = texts["answer"], [response["text"] for response in texts["responses"]]
        kinds = kinds_of(right, [context["answer"] for context in texts["contexts"]], answered)
        memorisation = None
        if right is not None and answered:
            memorisation = Memorisation.counted(kinds, knows=begins(answered[0], right))
        return cls(
            **cls.common(texts, _warnings(value, floor, ceiling, len(texts["contexts"]), uncertainty, is_small)),
            estimator="monte-carlo",
            temperature=measure.temperature,
            answer_tokens=measure.answer_tokens,
            susceptibility_nats=value,
            standard_error_nats=None if uncertainty is None else uncertainty.standard_error,
            interval_nats=None if uncertainty is None else uncertainty.interval,
            bias_nats=None if uncertainty is None else uncertainty.bias,
            bias_is_small=is_small,
            ceiling_nats=ceiling,
            share_of_ceiling=value / ceiling if ceiling > 0 else None,
            from_bare_nats=numbers[told.from_bare],
            mixture_from_bare_nats=numbers[told.mixture_from_bare],
            bare_entropy_nats=numbers[told.bare_entropy],
            mixture_entropy_nats=numbers[told.mixture_entropy],
            noise_floor_nats=floor,
            below_noise_floor=value <= floor,
            contexts=_contexts(texts, series, floor, answered, kinds),
            memorisation=memorisation,
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a context, with the fields of `ContextSusceptibility` as columns."""
        return frame_of(ContextSusceptibility, self.contexts)

    @classmethod
    @override
    def summary(cls, results: Sequence[Self], *, seed: int = 0) -> SusceptibilitySummary:
        """Queries, contexts and factors over all queries; the seed is the bootstrap's over queries."""
        cost = usual_cost(results)
        values = [result.susceptibility_nats for result in results]
        counts = [result.memorisation for result in results if result.memorisation is not None]
        kinds = [context.greedy_answer_is for result in results for context in result.contexts]
        return SusceptibilitySummary.of_queries(
            results,
            values,
            seed,
            **cost,
            mean_from_bare_nats=stats.mean([result.from_bare_nats for result in results]),
            share_below_noise_floor=sum(result.below_noise_floor for result in results) / len(results),
            n_bias_not_small=sum(result.bias_is_small is False for result in results),
            queries=tuple(
                RankedQuery(
                    id=result.id,
                    susceptibility_nats=result.susceptibility_nats,
                    interval_nats=result.interval_nats,
                    share_of_ceiling=result.share_of_ceiling,
                )
                for result in sorted(results, key=lambda result: -result.susceptibility_nats)
            ),
            contexts=_ranked_contexts(results),
            memorisation=None
            if not counts
            else MemorisationOfAll.counted(kinds, n=len(counts), n_knows=sum(count.knows for count in counts)),
        )


def _contexts(
    texts: Texts,
    series: Mapping[str, FloatArray],
    floor: float,
    answered: Sequence[str],
    kinds: Sequence[AnswerOrigin | None],
) -> tuple[ContextSusceptibility, ...]:
    told = SusceptibilityStatistics
    persuasion, contexts = series[told.persuasion], texts["contexts"]
    ranks = np.empty(len(persuasion), dtype=int)
    ranks[np.argsort(-persuasion, kind="stable")] = np.arange(1, len(persuasion) + 1)
    total = sum(context["weight"] for context in contexts)
    return tuple(
        ContextSusceptibility(
            id=context["id"],
            text=context["text"],
            weight=context["weight"] / total,
            answer=context["answer"],
            persuasion_nats=float(persuasion[i]),
            persuasion_from_bare_nats=float(series[told.persuasion_from_bare][i]),
            susceptibility_without_nats=float(series[told.susceptibility_without][i]),
            rank=int(ranks[i]),
            below_noise_floor=bool(persuasion[i] <= floor),
            greedy_answer=answered[i + 1] if answered else None,
            greedy_answer_is=kinds[i],
        )
        for i, context in enumerate(contexts)
    )


def _warnings(
    value: float, floor: float, ceiling: float, n: int, known: Spread | None, is_small: bool | None
) -> Iterator[str]:
    if known is None or (known.interval is None and n < stats.FEWEST_FOR_INTERVAL):
        yield f"{n} contexts are too few for statements about others: there is no interval."
    if known is not None and is_small is False and value > floor:
        allowed = "The interval allows for this bias; more" if known.interval is not None else "More"
        yield (
            f"Over contexts that were not measured, the susceptibility is likely higher: the value from {n} contexts "
            f"is too small by {abs(known.bias):.2g} nats on average. {allowed} contexts reduce it."
        )
    if ceiling > 0 and value > 0.9 * ceiling:
        yield (
            f"The susceptibility is near {ceiling:.2f} nats, the most that {n} contexts can show: more contexts may "
            "show more."
        )


# ---- many queries ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Record):
    """Mean of some queries' values."""

    n: int
    """Number of queries."""
    mean_nats: float
    std_nats: float
    """Standard deviation over queries, which divides by their number."""
    interval_nats: tuple[float, float] | None
    """95 % interval of the mean; None of fewer than eight queries, and of equal values."""

    @classmethod
    def from_values(cls, values: Sequence[float], seed: int, **more: Any) -> Self:
        return cls(
            n=len(values),
            mean_nats=stats.mean(values),
            std_nats=float(np.std(values)),
            interval_nats=stats.interval_of_mean(values, seed=seed),
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorLevel(Mean):
    """Queries of one level of a factor."""

    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanByFactor(Mean):
    """All queries, and the levels of what is known of them."""

    quantiles_nats: Mapping[str, float]
    """Quantiles of the values at 5, 25, 50, 75 and 95 %, nats, by level: '0.05' …"""
    factors: Mapping[str, tuple[FactorLevel, ...]]
    """Levels of each factor, in the order in which they come; without factors that have a level for each query."""

    @classmethod
    def of_queries(cls, results: Sequence[QueryResult], values: Sequence[float], seed: int, **more: Any) -> Self:
        levels: dict[str, dict[str, list[float]]] = {}
        for result, value in zip(results, values, strict=True):
            for name, level in result.factors.items():
                levels.setdefault(name, {}).setdefault(level, []).append(value)
        factors = {
            name: tuple(FactorLevel.from_values(some, seed, level=level) for level, some in of_factor.items())
            for name, of_factor in levels.items()
            if len(of_factor) < sum(map(len, of_factor.values()))
        }
        quantiles = {f"{level:g}": q for level, q in zip(_LEVELS, stats.quantiles(values, _LEVELS), strict=True)}
        return cls.from_values(values, seed, quantiles_nats=quantiles, factors=factors, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedQuery(Record):
    """A query among all."""

    id: str
    susceptibility_nats: float
    interval_nats: tuple[float, float] | None
    share_of_ceiling: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedContext(Record):
    """A context over the queries that it stands before."""

    id: str
    text: str = field(repr=False)
    n: int
    """Number of queries that the context stands before."""
    mean_persuasion_nats: float
    mean_from_bare_nats: Unbounded


@dataclass(frozen=True, slots=True, kw_only=True)
class SusceptibilitySummary(MeanByFactor):
    """What many queries say together of their susceptibility."""

    mean_from_bare_nats: Unbounded
    share_below_noise_floor: float
    n_bias_not_small: int
    """Number of queries whose bias is more than 5 % of χ or more than the standard error."""
    queries: tuple[RankedQuery, ...]
    """Queries, most susceptible first."""
    contexts: tuple[RankedContext, ...]
    """Contexts, most persuasive first."""
    memorisation: MemorisationOfAll | None
    median_tree_tokens: float
    """Median number of tokens put through the model for a query."""
    median_naive_tokens: float


def usual_cost(results: Sequence[QueryResult]) -> dict[str, float]:
    """Medians of tokens, for the constructor of a summary; refuses no results."""
    if not results:
        raise UsageError("there are no queries to sum up; give at least one")
    names = ("tree_tokens", "naive_tokens")
    return {f"median_{name}": float(np.median([getattr(result.cost, name) for result in results])) for name in names}


def _ranked_contexts(results: Sequence[SusceptibilityResult]) -> tuple[RankedContext, ...]:
    by_context: dict[tuple[str, str], list[ContextSusceptibility]] = {}
    for result in results:
        for context in result.contexts:
            by_context.setdefault((context.id, context.text), []).append(context)
    rows = [
        RankedContext(
            id=id_,
            text=text,
            n=len(alike),
            mean_persuasion_nats=stats.mean([occurrence.persuasion_nats for occurrence in alike]),
            mean_from_bare_nats=stats.mean([occurrence.persuasion_from_bare_nats for occurrence in alike]),
        )
        for (id_, text), alike in by_context.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.mean_persuasion_nats))
