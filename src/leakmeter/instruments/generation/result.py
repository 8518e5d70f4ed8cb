"""The result of private generation: texts, their guarantee, the measured losses, and the verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from leakmeter.core.cost import ResultCost
from leakmeter.core.measure import NATS, Measurement, Over, Params, Statistic, Texts
from leakmeter.core.quantity import CaseResult, Quantities, Quantity, SoFar, at, most
from leakmeter.core.record import Record, Unbounded, frame_of
from leakmeter.core.self_check import SelfCheck, carried, warnings_of
from leakmeter.engine.storage.kept import FieldError, KeptCase, Series
from leakmeter.errors import UsageError
from leakmeter.instruments.generation import math as formulas
from leakmeter.instruments.generation.math import GenerationStatistics
from leakmeter.overriding import override
from leakmeter.privacy import verdict
from leakmeter.privacy.draws import draws_of
from leakmeter.privacy.rdp import Guarantee, composed, to_epsilon
from leakmeter.privacy.renyi import SPREAD
from leakmeter.results.result import AnyResult, PartContent, PieceFields, Result
from leakmeter.stats.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch(KeptCase):
    """Texts of a batch; the exemplars are its spans, and the samples its responses."""

    @override
    def __post_init__(self) -> None:
        super(KeptBatch, self).__post_init__()
        if not self.spans or not self.responses:
            raise FieldError("responses" if self.spans else "spans", "has none")

    @override
    def lengths(self, params: Params, measurements: Sequence[Measurement]) -> Mapping[Over, Sequence[int]]:
        n_orders = len(_first(measurements, GenerationStatistics.promised_order))
        return {**super(KeptBatch, self).lengths(params, measurements), "order": (n_orders,)}

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterator[Series]:
        told = GenerationStatistics
        promised, limits = (_first(measurements, statistic) for statistic in (told.promised_order, told.promised_rdp))
        bounded = {told.divergence(order) for order in promised}
        if not ((promised > 1) & np.isfinite(promised)).all() or len(bounded) < len(promised):
            raise FieldError(f"value of {told.promised_order}", "has to be different orders above 1")
        if not len(promised) == len(limits) > 0:
            raise FieldError(f"statistic {told.promised_rdp}", "is not there of each order")
        n_tokens = params["sequences"] * params["max_new_tokens"]
        with np.errstate(over="ignore"):
            _, best = to_epsilon(n_tokens * limits, promised.tolist(), params["delta"])
        kept = {measurement.statistic for measurement in measurements if measurement.statistic.startswith(told.renyi)}
        needed = {told.divergence(order) for order in (*SPREAD, best)}
        if not kept | needed <= bounded:
            raise FieldError("statistic", "is a divergence of an order without a bound")
        for statistic in (one for one in bounded if one in kept | needed):
            yield Series(statistic, self.token_counts, self.span_names)
        all_orders = {*promised.tolist(), math.inf}
        for measurement in measurements:
            if measurement.statistic == told.order and not all_orders.issuperset(measurement.values.tolist()):
                raise FieldError(f"value of {told.order}", "is an order without a bound")


def _first(measurements: Sequence[Measurement], statistic: Statistic) -> FloatArray:
    """The first series of a statistic; empty where there is none."""
    return next((each.values for each in measurements if each.statistic == statistic), np.empty(0))


VERBATIM: Final = 5
"""Tokens from which on a run that an exemplar has too counts as copied."""


# ---- records --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedLogits(Record):
    """The mechanism of the paper, and its settings."""

    name: str
    """Name of the mechanism."""
    clip: float
    """Clipping bound c of the logits, nats."""
    temperature: float
    """Temperature τ of the average."""
    normalise_by: str
    """Divisor of a sum without an exemplar: 'fixed', the number before; 'present', the number that is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMechanism(Record):
    """A mechanism of the user's."""

    name: str
    """Name of the mechanism's class."""
    settings: Mapping[str, object] = field(repr=False)
    """Values of the mechanism's fields, where it is a dataclass; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDraws(Record):
    """How tokens were drawn."""

    random_bits: str
    """Source of the random bits that tokens are drawn with: 'operating system' or 'seed'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBound(Record):
    """The most that a token may tell of an exemplar."""

    order: Unbounded
    """Order α of the Rényi divergence."""
    nats: Unbounded
    """Bound on the divergence D_α↔ of a token, the larger of both directions, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds(Record):
    """What the mechanism guarantees of the texts, whatever they came to be, and what their tokens cost."""

    order: float
    """Order α* of the Rényi divergence at which the conversion gives the least ε."""
    guarantee: Guarantee | None
    """Guarantee for the largest number of tokens that the texts may have; None of texts that have no guarantee."""
    spent: Guarantee
    """Bounds for the tokens that the texts have, which are no guarantee."""
    per_token: tuple[OrderBound, ...]
    """Bound on a token at each measured order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenNumbers(Record):
    """Numbers of a text, one a token."""

    log_prob_nats: tuple[Unbounded, ...]
    """Log-probability of each token by the mechanism, nats."""
    bare_log_prob_nats: tuple[Unbounded, ...]
    """Log-probability of each token by the model without exemplars, nats."""
    most_nats: tuple[Unbounded, ...]
    """Largest divergence D_α*↔ of an exemplar at each token, nats."""
    most_exemplar: tuple[str, ...]
    """Name of the exemplar with the largest divergence D_α*↔ at each token."""
    share_of_bound: tuple[Unbounded, ...]
    """Largest ratio of measured divergence to bound at each token, over exemplars and measured orders."""
    share_exemplar: tuple[str, ...]
    """Name of the exemplar with the largest ratio to the bound at each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnText(Record):
    """One text that was drawn from the batch."""

    text: str = field(repr=False)
    """Text that was drawn."""
    tokens: tuple[str, ...] = field(repr=False)
    """Text that each token adds."""
    token_ids: tuple[int, ...] = field(repr=False)
    """Ids of the text's tokens in the model's vocabulary."""
    per_token: TokenNumbers
    perplexity: Unbounded
    """Perplexity of the text under the model without exemplars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundComparison(Record):
    """A measurement beside its bound."""

    exemplar: str
    """Name of the exemplar in the batch."""
    exemplar_id: str | None
    """Id of the exemplar in the data; None where it has none."""
    sample: int | None
    """Number of the text, from 0; None where all tokens are compared together."""
    token: int | None
    """Number of the token in its text, from 0; None where all tokens are compared together."""
    token_text: str | None = field(repr=False)
    """Text of the token; None where all tokens are compared together."""
    order: Unbounded
    """Order α of the Rényi divergence."""
    measured_nats: Unbounded
    """Measured Rényi divergence D_α↔, nats."""
    bound_nats: Unbounded
    """Bound on the Rényi divergence D_α↔, nats."""
    ratio: Unbounded
    """Ratio of the measured divergence to its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundVerdict(Record):
    """Whether a measurement is above its bound."""

    holds: bool
    """Whether no measurement is above its bound: false proves that the mechanism does not do what it guarantees; true
    proves nothing."""
    failures: tuple[BoundComparison, ...]
    """Comparisons of the measurements above their bound, the worst first."""
    worst_token: BoundComparison
    """Comparison of the token nearest to its bound, at any measured order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOrder(Record):
    """Bound and measurement of all tokens together, at one order."""

    order: Unbounded
    """Order α of the Rényi divergence."""
    bound_nats: Unbounded
    """Bound on the divergence D_α↔ of all tokens of the texts together, nats."""
    measured_nats: Unbounded
    """Measured divergence Σ_t D_α↔ of the exemplar with the largest sum, nats."""
    ratio: Unbounded
    """Ratio of the measured divergence to its bound."""
    exemplar: str
    """Name of the exemplar with the largest sum."""
    sum_of_maxima_nats: Unbounded
    """Sum over tokens of the largest divergence of an exemplar, Σ_t max_i D_α↔, nats, which the paper takes: an upper
    bound on every exemplar's sum."""
    worst_token_ratio: Unbounded
    """Largest ratio of a token's divergence to its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperConvention(verdict.PaperFigure):
    """ε as the paper gives it, beside the guarantee; it is no verdict."""

    guaranteed_epsilon: Unbounded
    """ε of the guarantee, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExemplarDivergence(Record):
    """An exemplar, and what all tokens told of it."""

    name: str
    """Name of the exemplar in the batch."""
    position: int
    """Position of the exemplar in the batch, from 1."""
    id: str | None
    """Id of the exemplar in the data; None where it has none."""
    text: str = field(repr=False)
    """Text of the exemplar."""
    n_tokens: int
    """Number of tokens of the exemplar's text."""
    repeats: tuple[str, ...]
    """Names of other exemplars that say the same."""
    measured_nats: Unbounded
    """Measured divergence of the exemplar at the guarantee's order, of all tokens together, nats: Σ_t D_α*↔."""
    ratio: Unbounded
    """Ratio of the measured divergence to its bound."""
    rank: int
    """Rank of the exemplar by its measured divergence, from 1, largest first."""
    by_order_nats: tuple[Unbounded, ...]
    """Measured divergence of the exemplar at each measured order, of all tokens together, nats: Σ_t D_α↔."""
    worst_token: BoundComparison
    copied_tokens: int
    """Number of tokens of the texts that are copied from the exemplar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPassage(Record):
    """A passage of a text that an exemplar has too, word for word."""

    sample: int
    """Number of the text, from 0."""
    start: int
    """Number of the passage's first token in the text, from 0."""
    end: int
    """Number of the token just after the passage's last in the text, from 0."""
    longest_run_tokens: int
    """Length of the passage's longest run of tokens that the exemplar has too, tokens."""
    text: str = field(repr=False)
    """Text of the passage."""
    exemplar: str
    """Name of the exemplar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextQuality(Record):
    """How good the texts are, and how much of them was copied."""

    perplexity: Unbounded
    """Perplexity of the texts under the model without exemplars."""
    distinct_1: float | None
    """Share of distinct tokens among all tokens of the texts; None where there are none."""
    distinct_2: float | None
    """Share of distinct pairs of neighbouring tokens among all such pairs; None where there are none."""
    distinct_3: float | None
    """Share of distinct triples of neighbouring tokens among all such triples; None where there are none."""
    verbatim_from_tokens: int
    """Length from which a run of tokens counts as copied, tokens."""
    verbatim_share: float
    """Share of the texts' tokens that are copied from an exemplar."""
    longest_verbatim_tokens: int
    """Length of the longest run of tokens that an exemplar has too, tokens."""
    verbatim: tuple[CopiedPassage, ...]
    """Passages that are copied from an exemplar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTexts(Record, AnyResult):
    """What may be published of a batch: its texts and their guarantee, and nothing that was measured."""

    is_public: ClassVar[bool] = True

    model: str
    """Name of the model, as it was given."""
    weights_sha256: str | None
    """SHA-256 hash of the model's weights; None where it is not known."""
    dtype: str
    """Number type of the model's arithmetic."""
    template: str
    """Name of the prompt's template: 'plain', 'chat' …"""
    query: str
    """Label of the texts that are written; empty where there is none."""
    mechanism: ClippedLogits | OwnMechanism
    """Rule by which tokens were drawn, with its settings."""
    subset_size: int
    """Number of exemplars of the batch."""
    n_samples: int
    """Number of texts of the batch."""
    min_new_tokens: int
    """Smallest number of tokens of a text."""
    max_new_tokens: int
    """Largest number of tokens of a text."""
    delta: float
    """δ of the guarantee."""
    adjacency: str
    """Rule that says which sets of exemplars are neighbours: 'add-remove'."""
    sampled: bool
    """Whether the texts were drawn; else they were given."""
    texts: tuple[str, ...] = field(repr=False)
    """Texts of the batch, in their order."""
    guarantee: Guarantee
    draws: GenerationDraws


def _ratio(case: CaseResult) -> float:
    """1 where it is above that by rounding alone, so that a bound of 1 says what the audit's verdict says."""
    verdict = case.verdict
    largest: float = max(row.ratio for row in (verdict.worst_token, *verdict.failures, *case.by_order))
    return min(largest, 1.0) if verdict.holds else largest


_QUANTITIES: Final[Quantities] = (
    Quantity(
        "generate.ratio",
        "measured over bound",
        "The largest measured divergence over its bound, of a token and of all, at any order; above 1 the guarantee is "
        "broken.",
        _ratio,
        usual="max",
    ),
    Quantity(
        "generate.measured",
        NATS,
        "The largest measured divergence of an exemplar: Rényi divergence at the guarantee's order.",
        lambda case: most(exemplar.measured_nats for exemplar in case.exemplars),
        usual="max",
    ),
    Quantity(
        "generate.epsilon",
        NATS,
        "The guaranteed epsilon of a batch's texts, where they have a guarantee.",
        at("bounds", "guarantee", "epsilon"),
        usual="max",
        sense="quality",
    ),
    Quantity(
        "generate.verbatim",
        "share of tokens",
        "How much of a batch's texts is copied from an exemplar word for word.",
        at("text_quality", "verbatim_share"),
        usual="max",
    ),
    Quantity(
        "generate.perplexity",
        "perplexity",
        "Perplexity of a batch's texts under the model without exemplars.",
        at("text_quality", "perplexity"),
        sense="quality",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateGenerationResult(Result):
    """Texts drawn from a batch of exemplars, their guarantee, and what was measured. Private, but for `publishable`."""

    schema: ClassVar = "private_generation-1"
    kept: ClassVar = KeptBatch
    quantities: ClassVar = _QUANTITIES
    so_far: ClassVar = (
        SoFar("measured up to {:.3g} nats", at("at_guarantee", "measured_nats")),
        SoFar("bound up to {:.3g} nats", at("at_guarantee", "bound_nats")),
    )
    defining: ClassVar = ("params.delta",)
    pieces_at: ClassVar = PieceFields("exemplars", nats="measured_nats")

    template: str
    """Name of the prompt's template: 'plain', 'chat' …"""
    query: str
    """Label of the texts that are written; empty where there is none."""
    mechanism: ClippedLogits | OwnMechanism
    """Rule by which tokens were drawn, with its settings."""
    subset_size: int
    """Number of exemplars of the batch."""
    n_samples: int
    """Number of texts of the batch."""
    min_new_tokens: int
    """Smallest number of tokens of a text."""
    max_new_tokens: int
    """Largest number of tokens of a text."""
    delta: float
    """δ of the guarantee."""
    adjacency: str
    """Rule that says which sets of exemplars are neighbours: 'add-remove'."""
    sampled: bool
    """Whether the texts were drawn; else they were given."""
    samples: tuple[DrawnText, ...]
    """Texts of the batch, in their order."""
    bounds: Bounds
    verdict: BoundVerdict
    by_order: tuple[AtOrder, ...]
    """Bound and measurement of all tokens together at each measured order."""
    paper_convention: PaperConvention
    exemplars: tuple[ExemplarDivergence, ...]
    """Exemplars, in the order of the batch."""
    text_quality: TextQuality
    publishable: PublicTexts | None
    """Part without measurements; None where the texts have no guarantee. Where the guarantee is broken, nothing may be
    published: see `public`."""
    seed: int | None = field(repr=False)
    """Seed of the draws, to be kept secret; None where there is none."""
    draws: GenerationDraws | None
    """How tokens were drawn; None for texts that were given."""

    @classmethod
    def from_run(cls, parts: Iterable[PartContent], params: Params) -> Iterator[Self]:
        """The results of a run's batches, each as soon as its last part is there."""
        part = params["sequences_a_part"]
        n_parts = 1 if part is None else params["sequences"] // part
        rest = carried(parts)
        # Of a run that was interrupted the last batch may lack parts.
        while len(of_batch := list(islice(rest, n_parts))) == n_parts:
            yield cls._from_parts(of_batch, params)

    @classmethod
    def _from_parts(cls, parts: Sequence[PartContent], params: Params) -> Self:
        texts, measurements = parts[0] if len(parts) == 1 else _joined(parts)
        numbers = _Numbers.from_measurements(texts, measurements, params)
        # Texts that were not drawn by the mechanism have no guarantee, nor have those whose draws anybody can repeat.
        has_known_seed = params["seed"] is None and params.get("nonce") is None
        whole = numbers.whole if texts["sampled"] and not has_known_seed else None
        settings = dict(
            **{name: texts[name] for name in ("model", "weights_sha256", "dtype", "template", "query", "sampled")},
            **{name: params[name] for name in ("min_new_tokens", "max_new_tokens", "delta")},
            mechanism=_mechanism(params),
            subset_size=len(numbers.names),
            n_samples=len(numbers.lengths),
            adjacency="add-remove",
        )
        draws = GenerationDraws(**draws_of(params))
        by_order = tuple(numbers.at_order(k) for k in range(len(numbers.orders)))
        at_guarantee = by_order[numbers.at]
        return cls(
            **settings,
            id=texts["id"],
            cost=_cost([ResultCost.from_texts(own) for own, _ in parts]),
            warnings=(*warnings_of(texts), *_warnings(texts, has_known_seed)),
            self_check=SelfCheck.from_texts(texts),
            samples=tuple(numbers.sample(i) for i in range(len(numbers.lengths))),
            bounds=Bounds(
                order=numbers.whole.order,
                guarantee=whole,
                spent=numbers.spent,
                per_token=tuple(
                    OrderBound(order=order, nats=float(nats))
                    for order, nats in zip(numbers.orders, numbers.judged.bound_per_token, strict=True)
                ),
            ),
            verdict=BoundVerdict(
                holds=numbers.judged.holds,
                failures=tuple(numbers.compared(failure) for failure in numbers.judged.failures),
                worst_token=numbers.worst_token(range(len(numbers.names))),
            ),
            by_order=by_order,
            paper_convention=PaperConvention(
                **asdict(verdict.paper_figure(at_guarantee.sum_of_maxima_nats, at_guarantee.order, params["delta"])),
                guaranteed_epsilon=numbers.whole.epsilon,
            ),
            exemplars=tuple(numbers.exemplars()),
            text_quality=numbers.text_quality(),
            publishable=None
            if whole is None
            else PublicTexts(
                **settings,
                texts=tuple(response["text"] for response in texts["responses"]),
                guarantee=whole,
                draws=draws,
            ),
            seed=params["seed"],
            draws=draws if texts["sampled"] else None,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """What was drawn."""
        return tuple(sample.text for sample in self.samples)

    @property
    def holds(self) -> bool:
        """Whether no measurement is above its bound."""
        return self.verdict.holds

    @property
    def at_guarantee(self) -> AtOrder:
        """All tokens together, at the order of the guaranteed ε."""
        return next(row for row in self.by_order if row.order == self.bounds.order)

    @property
    def public(self) -> PublicTexts:
        """What may be published: the texts and their guarantee, unless it is refuted."""
        if self.publishable is None:
            raise UsageError("these texts have no guarantee: they were given, or drawn with a known seed")
        if not self.holds:
            raise UsageError("a measurement exceeds its bound; publish nothing from this run")
        return self.publishable

    def to_frame(self) -> pd.DataFrame:
        """One row an exemplar, with its fields that are numbers or texts, and what was measured at each order, nats."""
        frame = frame_of(ExemplarDivergence, self.exemplars)
        for k, row in enumerate(self.by_order):
            name = "max_divergence" if row.order == math.inf else f"renyi_{row.order:g}"
            frame[f"{name}_nats"] = [exemplar.by_order_nats[k] for exemplar in self.exemplars]
        return frame

    @classmethod
    @override
    def summary(cls, results: Sequence[Self]) -> GenerationSummary:
        """All batches together; see `GenerationSummary`."""
        return GenerationSummary.from_results(results)


# ---- all batches ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchComparison(BoundComparison):
    """A measurement beside its bound, of a batch."""

    batch: str
    """Id of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAtOrder(AtOrder):
    """All tokens of a batch together, at one order."""

    batch: str
    """Id of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSummary(Record):
    """Disjoint batches together.

    An exemplar has a part in the texts of one batch alone, so that its guarantee is that of its batch: of all together,
    the weakest (parallel composition). The same goes for what was measured. That holds of exemplars that stand in one
    batch only; how many texts do not is `n_repeated_texts`.
    """

    n_batches: int
    n_texts: int
    guarantee: Guarantee | None
    """Weakest guarantee of a batch; None where a batch has none."""
    holds: bool
    """Whether no measurement is above its bound."""
    failures: tuple[BatchComparison, ...]
    most: BatchAtOrder
    """Sum over tokens that came nearest to its bound, of all batches."""
    n_repeated_texts: int
    """Number of exemplars whose text stands in several batches."""

    @classmethod
    def from_results(cls, results: Sequence[PrivateGenerationResult]) -> Self:
        if not results:
            raise UsageError("there are no batches to sum up; give at least one")
        guarantees = [result.bounds.guarantee for result in results]
        guaranteed = [bound for bound in guarantees if bound is not None]
        failures = [
            BatchComparison(batch=result.id, **asdict(row)) for result in results for row in result.verdict.failures
        ]
        rows = [BatchAtOrder(batch=result.id, **asdict(row)) for result in results for row in result.by_order]
        batches_of = Counter(text for result in results for text in {exemplar.text for exemplar in result.exemplars})
        return cls(
            n_batches=len(results),
            n_texts=sum(len(result.samples) for result in results),
            guarantee=max(guaranteed, key=lambda bound: bound.epsilon) if len(guaranteed) == len(results) else None,
            holds=not failures,
            failures=tuple(failures),
            most=max(rows, key=lambda row: row.ratio),
            n_repeated_texts=sum(n > 1 for n in batches_of.values()),
        )


# ---- from measurements ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of a batch, with the tokens of its samples in one row."""

    texts: Texts
    series: Mapping[tuple[int, str, str], FloatArray]
    """By (sample, exemplar, statistic)."""
    names: list[str]
    """Of the exemplars."""
    lengths: list[int]
    """Tokens of each sample."""
    orders: list[float]
    losses: FloatArray
    """D_α↔, nats, (token, exemplar, order)."""
    shares: FloatArray
    """The same over its bound."""
    judged: verdict.DivergenceVerdict
    whole: Guarantee
    """Of the most tokens there may be."""
    spent: Guarantee
    """Of those there came to be."""

    @classmethod
    def from_measurements(cls, texts: Texts, measurements: Sequence[Measurement], params: Params) -> Self:
        series = {(r.sample, r.piece, r.statistic): r.values for r in measurements}
        names = [span["name"] for span in texts["spans"]]
        told = GenerationStatistics
        lengths = [len(series[i, "", told.token]) for i in range(len(texts["responses"]))]

        def stacked(statistic: str) -> FloatArray:
            """(token, exemplar)."""
            rows = [np.stack([series[i, name, statistic] for name in names], axis=-1) for i in range(len(lengths))]
            return np.concatenate(rows)

        measured = {
            math.inf if statistic == told.max_divergence else float(statistic.removeprefix(told.renyi)): statistic
            for _, piece, statistic in series
            if piece and (statistic == told.max_divergence or statistic.startswith(told.renyi))
        }
        orders = sorted(measured)
        losses = np.stack([stacked(measured[order]) for order in orders], axis=-1)
        bounded = series[0, "", told.promised_order].tolist()
        limits = dict(zip(bounded, series[0, "", told.promised_rdp].tolist(), strict=True))
        limits[math.inf] = float(series[0, "", told.promised_max_divergence][0])

        def bound(at: Sequence[float]) -> FloatArray:
            return np.asarray([limits[float(order)] for order in at])

        # An infinite loss where there is no bound is NaN, the worst of all.
        with np.errstate(invalid="ignore"):
            shares = losses / bound(orders)
        return cls(
            texts,
            series,
            names,
            lengths,
            orders,
            losses,
            shares,
            verdict.judge(losses, orders, bound, stacked(told.ratio), stacked(told.order)),
            composed(bound, params["sequences"] * params["max_new_tokens"], params["delta"], bounded),
            composed(bound, sum(lengths), params["delta"], bounded),
        )

    @property
    def at(self) -> int:
        """Number of the guarantee's α* among the orders."""
        return self.orders.index(self.whole.order)

    def ids(self, number: int) -> tuple[int, ...]:
        return tuple(self.series[number, "", GenerationStatistics.token].astype(int).tolist())

    def sample(self, number: int) -> DrawnText:
        start = sum(self.lengths[:number])
        rows = slice(start, start + self.lengths[number])
        losses, shares = self.losses[rows, :, self.at], self.shares[rows]
        response, bare = self.texts["responses"][number], self.series[number, "", GenerationStatistics.bare_log_prob]
        return DrawnText(
            text=response["text"],
            tokens=tuple(response["tokens"]),
            token_ids=self.ids(number),
            per_token=TokenNumbers(
                log_prob_nats=tuple(self.series[number, "", GenerationStatistics.log_prob].tolist()),
                bare_log_prob_nats=tuple(bare.tolist()),
                most_nats=_all(losses.max(axis=1)),
                most_exemplar=tuple(self.names[i] for i in losses.argmax(axis=1)),
                share_of_bound=_all(shares.max(axis=(1, 2))),
                share_exemplar=tuple(self.names[i] for i in shares.max(axis=2).argmax(axis=1)),
            ),
            perplexity=_number(formulas.perplexity(bare)),
        )

    def worst_token(self, exemplars: Sequence[int]) -> BoundComparison:
        """Of these exemplars."""
        shares = self.shares[:, list(exemplars)]
        token, column, at = (int(i) for i in np.unravel_index(shares.argmax(), shares.shape))
        measured, bound = float(self.losses[token, exemplars[column], at]), float(self.judged.bound_per_token[at])
        return self.compared(verdict.DivergenceComparison(exemplars[column], token, self.orders[at], measured, bound))

    def compared(self, worst: verdict.DivergenceComparison) -> BoundComparison:
        span = self.texts["spans"][worst.exemplar]
        sample = token = text = None
        if worst.token is not None:
            sample = int(np.searchsorted(np.cumsum(self.lengths), worst.token, side="right"))
            token = worst.token - sum(self.lengths[:sample])
            text = self.texts["responses"][sample]["tokens"][token]
        return BoundComparison(
            exemplar=span["name"],
            exemplar_id=span["document"],
            sample=sample,
            token=token,
            token_text=text,
            order=worst.order,
            measured_nats=_number(worst.measured),
            bound_nats=_number(worst.bound),
            ratio=_number(worst.ratio),
        )

    def at_order(self, k: int) -> AtOrder:
        return AtOrder(
            order=self.orders[k],
            bound_nats=_number(self.judged.bound[k]),
            measured_nats=_number(self.judged.measured[k]),
            ratio=_number(self.judged.ratio[k]),
            exemplar=self.names[self.judged.worst_exemplar[k]],
            sum_of_maxima_nats=_number(self.judged.sum_of_maxima[k]),
            worst_token_ratio=_number(self.judged.worst_tokens[k].ratio),
        )

    def exemplars(self) -> Iterator[ExemplarDivergence]:
        totals = self.judged.per_exemplar[:, self.at]
        ranks = {int(i): rank for rank, i in enumerate(np.argsort(-totals, kind="stable"), 1)}
        for i, (name, span) in enumerate(zip(self.names, self.texts["spans"], strict=True)):
            runs = [self.series[k, name, GenerationStatistics.verbatim] for k in range(len(self.lengths))]
            yield ExemplarDivergence(
                name=name,
                position=i + 1,
                id=span["document"],
                text="\n\n".join(self.texts["context"][start:end] for start, end in span["ranges"]),
                n_tokens=span["n_tokens"],
                repeats=tuple(span["repeats"]),
                measured_nats=_number(totals[i]),
                ratio=_number(totals[i] / self.judged.bound[self.at]),
                rank=ranks[i],
                by_order_nats=_all(self.judged.per_exemplar[i]),
                worst_token=self.worst_token([i]),
                copied_tokens=int(sum((run >= VERBATIM).sum() for run in runs)),
            )

    def text_quality(self) -> TextQuality:
        numbers = range(len(self.lengths))
        runs = [np.stack([self.series[i, name, GenerationStatistics.verbatim] for name in self.names]) for i in numbers]
        ids = [self.ids(i) for i in numbers]
        distinct = {n: formulas.distinct(ids, n) for n in (1, 2, 3)}
        n_copied = sum(int((sample_runs.max(axis=0) >= VERBATIM).sum()) for sample_runs in runs)
        copies = (
            CopiedPassage(
                sample=i,
                start=start,
                end=end,
                longest_run_tokens=int(sample_runs[k, start:end].max()),
                text="".join(self.texts["responses"][i]["tokens"][start:end]),
                exemplar=name,
            )
            for i, sample_runs in zip(numbers, runs, strict=True)
            for k, name in enumerate(self.names)
            for start, end in formulas.stretches(sample_runs[k].tolist(), VERBATIM)
        )
        bare = np.concatenate([self.series[i, "", GenerationStatistics.bare_log_prob] for i in numbers])
        return TextQuality(
            perplexity=_number(formulas.perplexity(bare)),
            **{f"distinct_{n}": None if math.isnan(share) else share for n, share in distinct.items()},
            verbatim_from_tokens=VERBATIM,
            verbatim_share=n_copied / sum(self.lengths),
            longest_verbatim_tokens=int(max(sample_runs.max() for sample_runs in runs)),
            verbatim=tuple(copies),
        )


def _joined(parts: Sequence[PartContent]) -> PartContent:
    """The parts of a batch as one."""
    texts, _ = parts[0]
    responses: list[Texts] = []
    together: list[Measurement] = []
    promised = GenerationStatistics.promised()
    for number, (own, measurements) in enumerate(parts):
        # Every part says those of the batch again.
        kept = [r for r in measurements if not number or r.statistic not in promised]
        together += [replace(r, sample=r.sample + len(responses)) for r in kept]
        responses += own["responses"]
    return {**texts, "id": texts["id"].rpartition(", part ")[0], "responses": responses}, together


def _cost(costs: Sequence[ResultCost]) -> ResultCost:
    """Of a batch's parts together; what one of them does not know, the batch does not."""
    if len(costs) == 1:
        return costs[0]
    totals: dict[str, Any] = {}
    for name in asdict(costs[0]).keys() - {"scored_together"}:
        numbers = [getattr(cost, name) for cost in costs]
        totals[name] = None if None in numbers else round(sum(numbers), 3)
    return replace(costs[0], **totals)


def _mechanism(params: Params) -> ClippedLogits | OwnMechanism:
    if params["mechanism"] is None:
        options = {name: params[name] for name in ("clip", "temperature", "normalise_by")}
        return ClippedLogits(name="clipped-logit aggregation", **options)
    settings = dict(params["mechanism"])
    return OwnMechanism(name=str(settings.pop("name", "")), settings=settings)


def _warnings(texts: Texts, has_known_seed: bool) -> Iterator[str]:
    if texts["sampled"] and has_known_seed:
        yield (
            "These texts were drawn with seed 0, a known seed, so they have no guarantee. `PrivateGeneration.seeded` "
            "draws with a secret one."
        )
    if any(span["repeats"] for span in texts["spans"]):
        yield "Some exemplars repeat each other: removing one leaves the others, so each may read near zero."


def _number(value: float) -> float:
    """A loss or a share; NaN is as bad as infinity."""
    return math.inf if math.isnan(value) else float(value)


def _all(values: FloatArray) -> tuple[float, ...]:
    return tuple(map(_number, values))
