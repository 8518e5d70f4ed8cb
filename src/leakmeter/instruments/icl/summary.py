"""Results of many queries together: ICLInf, accuracy, losses by position, label and exemplar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from leakmeter.core.record import Record, Unbounded
from leakmeter.errors import UsageError
from leakmeter.stats import stats
from leakmeter.studies.expected import LEVELS

if TYPE_CHECKING:
    from leakmeter.instruments.icl.result import IclResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses(Record):
    """Losses of queries; where one is infinite so is their mean, and the rest is missing."""

    mean_nats: Unbounded
    std_nats: float | None
    """Standard deviation over the queries, which divides by their number."""
    interval_nats: tuple[float, float] | None
    """95 % percentile bootstrap interval of the mean; None of one query."""

    @classmethod
    def from_losses(cls, losses: Sequence[float], seed: int, **more: Any) -> Self:
        if not np.isfinite(losses).all():
            return cls(mean_nats=np.inf, std_nats=None, interval_nats=None, **more)
        interval = stats.bootstrap_interval_of_mean(losses, seed=seed) if len(losses) > 1 else None
        return cls(mean_nats=stats.mean(losses), std_nats=float(np.std(losses)), interval_nats=interval, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLosses(Losses):
    """What answers reveal: |log A(S, x)(y) − log A(S∖i, x)(y)| at the label y of each answer."""

    n_given: int
    """Answers that were given; of the other queries y is the likeliest label."""
    max_nats: Unbounded
    share_below_noise_floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Position(Losses):
    """The exemplar that stands at one position: its losses, before the maximum over exemplars."""

    position: int
    """In the prompt, from 1."""
    n: int
    """Queries that have an exemplar there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(Losses):
    """One label y: its |log A(S, x)(y) − log A(S∖i, x)(y)|, mean over a query's exemplars; and how it is answered."""

    label: str
    n_right_label: int
    """Queries of which it is the right label."""
    n_predicted: int
    f1: float | None
    """None where it is neither predicted nor right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedExemplar(Losses):
    """An exemplar that all queries have: its losses over the queries."""

    id: str
    position: int
    text: str = field(repr=False)
    label: str | None
    n_tokens: int
    answers: AnswerLosses
    """What the answers reveal of it; the other numbers are of the worst case."""
    max_nats: Unbounded
    worst_query: str
    """Id of the query that has the largest loss."""
    worst_share: float
    """Share of queries in which no other exemplar has a larger loss."""
    worst_share_interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Losses):
    """Queries together: the mean of their losses is ICLInf (Li et al., Eq. 4).

    The paper prints mean ± std, and does not say by what the latter divides. Intervals are 95 %: percentile bootstrap
    over queries, Wilson's for shares.
    """

    n: int
    """Queries."""
    answers: AnswerLosses
    """What the answers reveal of the exemplar that each reveals most of; the other losses are of the worst case."""
    quantiles_nats: Mapping[str, float | None]
    """Of the losses, by level; None where a loss is infinite."""
    share_below_noise_floor: float
    """Of the queries."""
    n_with_label: int
    """Queries whose right label is known; None of what follows if there are none."""
    accuracy: float | None
    accuracy_interval: tuple[float, float] | None
    macro_f1: float | None
    """Mean F1 of the labels that occur, as right label or as prediction; one that is never right has an F1 of 0."""
    positions: tuple[Position, ...]
    labels: tuple[Label, ...]
    exemplars: tuple[FixedExemplar, ...] | None
    """None where queries have different ones."""
    median_tree_tokens: float
    """Tokens put through the model for a query."""
    median_naive_tokens: float
    """Tokens that full passes would have run."""


def summary(results: Sequence[IclResult], *, seed: int = 0) -> Summary:
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
    return Summary.from_losses(
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
        exemplars=_exemplars(results, seed),
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


def _exemplars(results: Sequence[IclResult], seed: int) -> tuple[FixedExemplar, ...] | None:
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
