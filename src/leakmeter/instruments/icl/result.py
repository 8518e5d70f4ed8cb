"""The result of measuring ICL influence on one query; and of many together: ICLInf, accuracy, losses by position, label
and exemplar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from leakmeter.commands.studies.expected import LEVELS
from leakmeter.core.measure import NATS, TOKEN_ID, Measurement, Over, Params, Texts
from leakmeter.core.quantity import NOISE, SHARE_OF_CASES, Quantities, Quantity, RunQuantity, SoFar, at
from leakmeter.core.record import Record, Unbounded, frame_of
from leakmeter.core.self_check import carried, noise_of_contrast
from leakmeter.engine.storage.kept import Count, FieldError, KeptCase, Series
from leakmeter.errors import UsageError
from leakmeter.instruments.icl.math import FARTHEST, IclStatistics, farthest_losses, log_ratio
from leakmeter.instruments.icl.measure import Icl
from leakmeter.overriding import override
from leakmeter.results.result import DEFINING, PartContent, PieceFields, Result
from leakmeter.stats import stats
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.stats import GIVEN, posterior_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses(Record):
    """Losses of queries; where one is infinite so is their mean, and the rest is missing."""

    mean_nats: Unbounded
    std_nats: float | None
    """Standard deviation over the queries, which divides by their number."""
    interval_nats: tuple[float, float] | None
    """95 % interval of the mean; None of fewer than eight queries, and of equal losses."""

    @classmethod
    def from_losses(cls, losses: Sequence[float], seed: int, **more: Any) -> Self:
        if not np.isfinite(losses).all():
            return cls(mean_nats=np.inf, std_nats=None, interval_nats=None, **more)
        interval = stats.interval_of_mean(losses, seed=seed)
        return cls(mean_nats=stats.mean(losses), std_nats=float(np.std(losses)), interval_nats=interval, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLosses(Losses):
    """What answers reveal: |log A(S, x)(y) − log A(S∖i, x)(y)| at the label y of each answer."""

    n_given: int
    """Number of answers that were given; for the other queries y is the likeliest label."""
    max_nats: Unbounded
    share_below_noise_floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Position(Losses):
    """The exemplar that stands at one position: its losses, before the maximum over exemplars."""

    position: int
    """Position of the exemplar in the prompt, from 1."""
    n: int
    """Number of queries that have an exemplar at the position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Losses):
    """One label y: its |log A(S, x)(y) − log A(S∖i, x)(y)|, mean over a query's exemplars; and how it is answered."""

    label: str
    n_right_label: int
    """Number of queries of which the label is the right one."""
    n_predicted: int
    f1: float | None
    """F1 of the label; None where it is neither predicted nor right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedExemplar(Losses):
    """An exemplar that all queries have: its losses over the queries."""

    id: str
    position: int
    text: str = field(repr=False)
    label: str | None
    n_tokens: int
    answers: AnswerLosses
    """Losses of the exemplar at the answers; the other numbers are of the worst case."""
    max_nats: Unbounded
    worst_query: str
    """Id of the query that has the largest loss."""
    worst_share: float
    """Share of queries in which no other exemplar has a larger loss."""
    worst_share_interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class IclSummary(Losses):
    """Queries together: the mean of their losses is ICLInf (Li et al., Eq. 4).

    The paper prints mean ± std, and does not say by what the latter divides. Intervals are 95 %, over queries;
    Wilson's for shares.
    """

    n: int
    """Number of queries."""
    answers: AnswerLosses
    """Losses at the answers, of the exemplar that each reveals most of; the other losses are of the worst case."""
    quantiles_nats: Mapping[str, float | None]
    """Quantiles of the losses by level, nats; None where a loss is infinite."""
    share_below_noise_floor: float
    """Share of the queries whose loss is at or below the noise floor."""
    n_with_label: int
    """Number of queries whose right label is known; accuracy and F1 are None if there are none."""
    accuracy: float | None
    accuracy_interval: tuple[float, float] | None
    macro_f1: float | None
    """Mean F1 of the labels that occur, as right label or as prediction; one that is never right has an F1 of 0."""
    positions: tuple[Position, ...]
    labels: tuple[Label, ...]
    exemplars: tuple[FixedExemplar, ...] | None
    """Exemplars that all queries have; None where queries have different ones."""
    median_tree_tokens: float
    """Median number of tokens put through the model for a query."""
    median_naive_tokens: float
    """Median number of tokens that full passes would have run for a query."""


def summary(results: Sequence[IclResult], *, seed: int = 0) -> IclSummary:
    """One or more queries with the same labels together; the seed is the bootstrap's."""
    if not results:
        raise UsageError("there are no queries to sum up; give at least one")
    labels = results[0].labels
    for result in results:
        if result.labels != labels:
            raise UsageError(f"case '{result.id}' has other labels than case '{results[0].id}'; sum them up apart")
    losses = [result.loss_nats for result in results]
    quantiles = stats.quantiles(losses, LEVELS) if np.isfinite(losses).all() else [None] * len(LEVELS)
    labelled = [result for result in results if result.gold is not None]
    n_right = sum(bool(result.is_right) for result in labelled)
    f1 = [value for label in labels if (value := _f1(labelled, label)) is not None]
    return IclSummary.from_losses(
        losses,
        seed,
        n=len(results),
        answers=_answers(results, [result.answer_nats for result in results], seed),
        quantiles_nats={f"{level:g}": value for level, value in zip(LEVELS, quantiles, strict=True)},
        share_below_noise_floor=sum(result.loss_nats <= result.noise_floor_nats for result in results) / len(results),
        n_with_label=len(labelled),
        accuracy=n_right / len(labelled) if labelled else None,
        accuracy_interval=stats.interval_of_share(n_right, len(labelled)) if labelled else None,
        macro_f1=stats.mean(f1) if labelled else None,
        positions=tuple(_positions(results, seed)),
        labels=tuple(_label(results, labelled, number, seed) for number in range(len(labels))),
        exemplars=_fixed_exemplars(results, seed),
        median_tree_tokens=float(np.median([result.cost.tree_tokens for result in results])),
        median_naive_tokens=float(np.median([result.cost.naive_tokens for result in results])),
    )


def _answers(results: Sequence[IclResult], nats: Sequence[float], seed: int) -> AnswerLosses:
    return AnswerLosses.from_losses(
        nats,
        seed,
        n_given=sum(result.answer_given for result in results),
        max_nats=max(nats),
        share_below_noise_floor=stats.mean(
            [loss <= result.answer_noise_floor_nats for result, loss in zip(results, nats, strict=True)]
        ),
    )


def _f1(known: Sequence[IclResult], label: str) -> float | None:
    """2 TP / (2 TP + FP + FN) of a label; None where it does not occur."""
    n_both = sum(result.gold == label == result.prediction for result in known)
    n_either = sum((result.gold == label) + (result.prediction == label) for result in known)
    return 2.0 * n_both / n_either if n_either else None


def _positions(results: Sequence[IclResult], seed: int) -> list[Position]:
    by_position = [
        [result.exemplars[i].loss_nats for result in results if i < len(result.exemplars)]
        for i in range(max(len(result.exemplars) for result in results))
    ]
    return [Position.from_losses(losses, seed, position=i, n=len(losses)) for i, losses in enumerate(by_position, 1)]


def _label(results: Sequence[IclResult], known: Sequence[IclResult], number: int, seed: int) -> Label:
    label = results[0].labels[number]
    return Label.from_losses(
        [stats.mean([abs(exemplar.signed_nats[number]) for exemplar in result.exemplars]) for result in results],
        seed,
        label=label,
        n_right_label=sum(result.gold == label for result in known),
        n_predicted=sum(result.prediction == label for result in results),
        f1=_f1(known, label),
    )


def _fixed_exemplars(results: Sequence[IclResult], seed: int) -> tuple[FixedExemplar, ...] | None:
    shown = [[(exemplar.id, exemplar.text) for exemplar in result.exemplars] for result in results]
    if any(other != shown[0] for other in shown):
        return None
    fixed = []
    for i, exemplar in enumerate(results[0].exemplars):
        losses = [result.exemplars[i].loss_nats for result in results]
        n_worst = sum(result.worst_exemplar == exemplar.id for result in results)
        fixed.append(
            FixedExemplar.from_losses(
                losses,
                seed,
                **{name: getattr(exemplar, name) for name in ("id", "position", "text", "label", "n_tokens")},
                answers=_answers(results, [result.exemplars[i].answer_nats for result in results], seed),
                max_nats=max(losses),
                worst_query=results[losses.index(max(losses))].id,
                worst_share=n_worst / len(results),
                worst_share_interval=stats.interval_of_share(n_worst, len(results)),
            )
        )
    return tuple(fixed)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptQuery(KeptCase):
    """Texts of a query; the exemplars are its spans, each a document."""

    same: ClassVar = ("labels",)
    labels: tuple[str, ...]
    label_tokens: Count = 1
    """Of the longest label."""

    @override
    def __post_init__(self) -> None:
        # Slots make this another class than the one that a bare `super` knows.
        super(KeptQuery, self).__post_init__()
        if not self.labels or not self.spans:
            raise FieldError("spans" if self.labels else "labels", "has none")
        for number, span in enumerate(self.spans):
            if len(span.ranges) != 1 or span.document is None:
                raise FieldError(f"spans.{number}", "is no document of its own")

    @override
    def lengths(self, params: Params, measurements: Sequence[Measurement]) -> Mapping[Over, Sequence[int]]:
        return {**super(KeptQuery, self).lengths(params, measurements), "label": (len(self.labels),)}

    @override
    def series(self, params: Params, measurements: Sequence[Measurement]) -> Iterator[Series]:
        told, n_labels, is_vocabulary = IclStatistics, len(self.labels), params["space"] == "vocabulary"
        yield Series(told.prediction, (1,), below=n_labels)
        for statistic in (told.gold, told.answer):
            yield Series(statistic, (1,), is_needed=False, below=n_labels)
        for statistic in (told.farthest_noise, told.plausible_noise):
            yield Series(statistic, (1,), is_needed=is_vocabulary)
        for statistic in FARTHEST:
            yield Series(statistic, (1,), self.span_names, is_needed=is_vocabulary)
        for measurement in measurements:
            if (
                measurement.statistic in FARTHEST
                and measurement.unit == TOKEN_ID
                and not {f"{value:.0f}" for value in measurement.values} <= self.words.keys()
            ):
                raise FieldError(f"value of {measurement.statistic}", "is of a token that has no words")


ExemplarSeries = Mapping[tuple[str, str], FloatArray]
"""By (statistic, piece)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedToken(Record):
    """The token whose probability an exemplar changes most."""

    token: str
    """Text of the token."""
    token_id: int
    """Id of the token in the model's vocabulary."""
    log_prob_nats: Unbounded
    """Log-probability of the token with all exemplars, nats."""
    log_prob_without_nats: Unbounded
    """Log-probability of the token without this exemplar, nats."""
    loss_nats: Unbounded
    """Absolute difference of the token's log-probability with all exemplars and without this one, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary(Record):
    """Where an exemplar changes the distribution over the whole vocabulary most."""

    farthest: MovedToken
    """Token that changes most of the whole vocabulary."""
    plausible: MovedToken
    """Token that changes most of those with a probability of 1e-6 or more, with or without the exemplar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExemplarInfluence(Record):
    """One exemplar of the prompt and its influence on the answer."""

    id: str
    """Id of the exemplar in the data, in reports, and as the piece of its measurements."""
    position: int
    """Position of the exemplar in the prompt, from 1."""
    text: str = field(repr=False)
    """Text of the exemplar, with its headings and its label."""
    label: str | None
    """Label of the exemplar; None where the text was cut off before it."""
    n_tokens: int
    """Number of tokens of the exemplar's text."""
    answer_nats: Unbounded
    """Leakage of the exemplar through the answer, nats: |s|, s = log A(S, x)(y) − log A(S∖i, x)(y) at the label y that
    was answered, A being renormalised over the labels."""
    answer_signed_nats: Unbounded
    """Signed leakage s of the exemplar through the answer, nats, above 0 where the exemplar makes the answer
    likelier."""
    answer_posterior: float | None
    """Probability, from even odds, that an observer of the answer gives to the exemplar having been there. Always None:
    1 / (1 + e^−s) is right of a label that was drawn from the scoring model, and none was. The likeliest label may be
    the same with the exemplar and without it, and tell an observer nothing; a given answer may be another model's."""
    answer_posterior_note: str | None
    """Reason why there is no `answer_posterior`."""
    answer_below_noise_floor: bool
    """Whether `answer_nats` is at or below its noise floor: other ways to compute the same move it as much."""
    loss_nats: Unbounded
    """Worst-case loss of the exemplar, nats: max_y |log A(S, x)(y) − log A(S∖i, x)(y)|, over labels or the vocabulary,
    however seldom y is answered."""
    rank: int
    """Rank of the exemplar by `loss_nats`, from 1, largest first."""
    worst_posterior: float | None
    """Probability, from even odds, that an observer of the label or token that changes most gives to the exemplar
    having been there. Always None: it was not drawn either."""
    worst_posterior_note: str | None
    """Reason why there is no `worst_posterior`."""
    below_noise_floor: bool
    """Whether `loss_nats` is at or below the noise floor: other ways to compute the same move it as much."""
    worst_label: str
    """Label whose probability the exemplar changes most."""
    worst_label_nats: Unbounded
    """Absolute change of the log-probability of `worst_label`, nats: the loss itself, where y runs over labels."""
    signed_nats: tuple[Unbounded, ...]
    """Signed change of the log-probability of each label y, nats: log A(S, x)(y) − log A(S∖i, x)(y), in the order of
    `labels`."""
    vocabulary: Vocabulary | None
    """Tokens of the whole vocabulary that the exemplar changes most; None where only labels were measured."""
    repeats: tuple[str, ...]
    """Ids of other exemplars that say the same."""


_QUANTITIES: Final[Quantities] = (
    Quantity("icl", NATS, "Largest influence of an exemplar on any answer to a query.", at("loss_nats"), floor=NOISE),
    Quantity(
        "icl.answer",
        NATS,
        "Largest leakage of an exemplar through the answer to a query.",
        at("answer_nats"),
        floor=at("answer_noise_floor_nats"),
    ),
    Quantity(
        "icl.accuracy",
        SHARE_OF_CASES,
        "Whether the likeliest label is the right one, of queries whose label is known.",
        at("is_right"),
        worse="less",
        usual="mean",
        sense="quality",
    ),
    RunQuantity(
        "icl.macro_f1",
        "F1",
        "Mean F1 of the labels, over the queries whose label is known.",
        lambda results: summary(results).macro_f1,
        worse="less",
        sense="quality",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IclResult(Result):
    """The influence of each exemplar of a prompt on the answer to one query, in nats."""

    schema: ClassVar = "icl-2"
    kept: ClassVar = KeptQuery
    quantities: ClassVar = _QUANTITIES
    so_far: ClassVar = (SoFar("loss up to {:.3g} nats", at("loss_nats")),)
    defining: ClassVar = (
        *DEFINING,
        *(f"params.{name}" for name in ("space", "label_scoring", "calibration", "calibration_baseline")),
    )
    pieces_at: ClassVar = PieceFields("exemplars", nats="answer_nats", name="id", prefix="answer_")

    template: str
    """Name of the prompt's template: 'plain' or 'chat'."""
    query: str = field(repr=False)
    """Text that is classified."""
    context: str = field(repr=False)
    """Exemplars of the prompt, as people read them."""
    space: str
    """Set of answers y that the worst case is taken over: 'labels' or 'vocabulary'."""
    label_scoring: str
    """Part of a label that is scored: 'first-token' or 'whole-sequence'."""
    calibration: str | None
    """Content-free input that label probabilities are calibrated by: 'blank', 'n/a' or 'average'; None without
    calibration."""
    calibration_baseline: str
    """Exemplars in front of the content-free input: 'own' for those of each set, S or S∖i; 'shared' for S in all."""
    calibration_epsilon: float
    """Constant ε of the calibration p̃ / (p_cf + ε)."""
    temperature: float
    """Temperature T of every token's distribution."""
    labels: tuple[str, ...]
    """Labels of the task, in order."""
    label_probabilities: tuple[float, ...]
    """Probability A(S, x) of each label with all exemplars, in the order of `labels`."""
    label_mass: float
    """Probability of all labels together before they are renormalised."""
    prediction: str
    """Likeliest label."""
    gold: str | None
    """Right label; None where it is not known."""
    is_right: bool | None
    """Whether the likeliest label is the right one; None where the right one is not known."""
    answer: str
    """Label that was answered; where none was given, the likeliest one."""
    answer_given: bool
    """Whether the answer was given. A given answer may be another model's; its numbers are those of the model that
    measures."""
    exemplars: tuple[ExemplarInfluence, ...]
    """Exemplars, in the order of the prompt."""
    answer_nats: Unbounded
    """Largest leakage of an exemplar through the answer, nats."""
    answer_exemplar: str
    """Id of the exemplar that the answer reveals most of."""
    loss_nats: Unbounded
    """Worst-case loss of the query, nats, its term of Eq. 4: the largest loss of an exemplar at any answer."""
    worst_exemplar: str
    """Id of the exemplar with the largest worst-case loss."""
    noise_floor_nats: float
    """Noise floor of `loss_nats`, nats: a loss at or below it is no finding."""
    answer_noise_floor_nats: float
    """Noise floor of `answer_nats`, nats: a leakage at or below it is no finding."""

    @classmethod
    def from_run(cls, parts: Iterable[PartContent], params: Params) -> Iterator[Self]:
        """The results of a run's queries, each as soon as its part is there."""
        told = IclStatistics
        for texts, measurements in carried(parts):
            series = {(measurement.statistic, measurement.piece): measurement.values for measurement in measurements}
            # Each label's score is off by as much as its tokens are, and what renormalises over the labels is off by
            # as much again; so it is with what a calibration divides by.
            n_tokens = texts.get("label_tokens", 1) if params["label_scoring"] == "whole-sequence" else 1
            n_terms = 2 if params["calibration"] is None else 4
            found = noise_of_contrast(texts, n_tokens, n_terms=n_terms) / params["temperature"]
            of_loss = told.noise if params["space"] == "labels" else told.farthest_noise
            floor = max(found, float(series[of_loss, ""][0]))
            labels, is_given = tuple(texts["labels"]), (told.answer, "") in series
            answered = int(series[told.answer if is_given else told.prediction, ""][0])
            answer_floor = max(found, float(series[told.noise, ""][0]))
            exemplars = _exemplars(texts, series, answered, floor=floor, answer_floor=answer_floor)
            worst = min(exemplars, key=lambda exemplar: exemplar.rank)
            revealed = max(exemplars, key=lambda exemplar: exemplar.answer_nats)
            prediction = labels[int(series[told.prediction, ""][0])]
            gold = labels[int(series[told.gold, ""][0])] if (told.gold, "") in series else None
            mass = float(np.exp(series[told.label_mass, ""][0]))
            yield cls(
                **cls.common(texts, _warnings(texts, mass, params["label_scoring"])),
                **{name: params[name] for name in (part.name for part in fields(Icl))},
                template=texts["template"],
                query=texts["query"],
                context=texts["context"],
                labels=labels,
                label_probabilities=tuple(np.exp(series[told.label_log_prob, ""]).tolist()),
                label_mass=mass,
                prediction=prediction,
                gold=gold,
                is_right=None if gold is None else prediction == gold,
                answer=labels[answered],
                answer_given=is_given,
                exemplars=exemplars,
                answer_nats=revealed.answer_nats,
                answer_exemplar=revealed.id,
                loss_nats=worst.loss_nats,
                worst_exemplar=worst.id,
                noise_floor_nats=floor,
                answer_noise_floor_nats=answer_floor,
            )

    @property
    def worst(self) -> ExemplarInfluence:
        """The exemplar with the largest loss."""
        return next(exemplar for exemplar in self.exemplars if exemplar.id == self.worst_exemplar)

    @property
    def revealed(self) -> ExemplarInfluence:
        """The exemplar that the answer reveals most of."""
        return next(exemplar for exemplar in self.exemplars if exemplar.id == self.answer_exemplar)

    def to_frame(self) -> pd.DataFrame:
        """One row an exemplar, with the numbers and texts of an `ExemplarInfluence`, and the nats of each label."""
        frame = frame_of(ExemplarInfluence, self.exemplars)
        for number, label in enumerate(self.labels):
            frame[f"signed_nats: {label}"] = [exemplar.signed_nats[number] for exemplar in self.exemplars]
        return frame

    @classmethod
    @override
    def summary(cls, results: Sequence[IclResult]) -> IclSummary:
        """ICLInf, accuracy, losses by position, label and exemplar; see `summary`."""
        return summary(results)


def _exemplars(
    texts: Texts, series: ExemplarSeries, answered: int, *, floor: float, answer_floor: float
) -> tuple[ExemplarInfluence, ...]:
    labels, spans = texts["labels"], texts["spans"]
    ids = {span["name"]: span["document"] for span in spans}
    vocabularies = [_vocabulary(span["name"], series, texts) for span in spans]
    by_label = [series[IclStatistics.label_loss, span["name"]] for span in spans]
    worst = [int(np.abs(signed).argmax()) for signed in by_label]
    # The signed change of the answer that changes most.
    signed_nats = [
        float(of_labels[label])
        if vocabulary is None
        else float(log_ratio(*(series[statistic, span["name"]][0] for statistic in FARTHEST[1:3])))
        for span, of_labels, label, vocabulary in zip(spans, by_label, worst, vocabularies, strict=True)
    ]
    order = sorted(range(len(spans)), key=lambda i: -abs(signed_nats[i]))
    is_given = (IclStatistics.answer, "") in series
    exemplars = []
    for i, span in enumerate(spans):
        ((start, end),) = span["ranges"]
        text = texts["context"][start:end]
        at_answer = float(by_label[i][answered])
        exemplars.append(
            ExemplarInfluence(
                id=ids[span["name"]],
                position=i + 1,
                text=text,
                # Of several labels that it ends with, the longest.
                label=max((label for label in labels if text.endswith(f" {label}")), key=len, default=None),
                n_tokens=span["n_tokens"],
                answer_nats=abs(at_answer),
                answer_signed_nats=at_answer,
                answer_posterior=None,
                answer_posterior_note=_why_no_posterior(at_answer, answer_floor, is_given=is_given),
                answer_below_noise_floor=abs(at_answer) <= answer_floor,
                loss_nats=abs(signed_nats[i]),
                rank=order.index(i) + 1,
                worst_posterior=None,
                worst_posterior_note=_why_no_posterior(signed_nats[i], floor, is_given=is_given),
                below_noise_floor=abs(signed_nats[i]) <= floor,
                worst_label=labels[worst[i]],
                worst_label_nats=abs(float(by_label[i][worst[i]])),
                signed_nats=tuple(by_label[i].tolist()),
                vocabulary=vocabularies[i],
                repeats=tuple(ids[name] for name in span["repeats"]),
            )
        )
    return tuple(exemplars)


LIKELIEST: Final = "the answer is the likeliest label, not drawn"


def _why_no_posterior(signed_nats: float, noise_nats: float, *, is_given: bool) -> str | None:
    """No label is drawn, and a posterior is right of what was drawn alone."""
    note = posterior_of(signed_nats, noise_nats=noise_nats, is_drawn=False).note
    return LIKELIEST if note == GIVEN and not is_given else note


def _vocabulary(name: str, series: ExemplarSeries, texts: Texts) -> Vocabulary | None:
    if (FARTHEST[0], name) not in series:
        return None
    entries = np.concatenate([series[statistic, name] for statistic in FARTHEST])
    all_tokens, plausible = (
        MovedToken(
            token=texts["words"][str(int(token))],
            token_id=int(token),
            log_prob_nats=float(log_prob),
            log_prob_without_nats=float(without),
            loss_nats=float(loss),
        )
        for (token, log_prob, without), loss in zip(entries.reshape(2, 3), farthest_losses(entries), strict=True)
    )
    return Vocabulary(farthest=all_tokens, plausible=plausible)


def _warnings(texts: Texts, mass: float, label_scoring: str) -> Iterator[str]:
    # Below that, what labels share says little of the answer.
    if mass < 0.1:
        scored = "first tokens of the labels" if label_scoring == "first-token" else "labels"
        yield (
            f"The model gives all {scored} together a probability of only {mass:.2g}, and other answers the rest. Try "
            "--template chat, or other words for the labels."
        )
    if any(span["repeats"] for span in texts["spans"]):
        yield "Some exemplars repeat each other: removing one leaves the others, so each may read near zero."
