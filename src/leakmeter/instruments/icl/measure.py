"""ICL influence: the influence of each exemplar of a prompt on the answer to a query, in nats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, Final, Literal, get_args

import numpy as np

from leakmeter.core.item import ContextItem
from leakmeter.core.limits import refuse_bad
from leakmeter.core.measure import Measure, Measurement
from leakmeter.core.needs import ItemNeeds
from leakmeter.core.noise import going_on, of_contrast
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import Labels, TargetLogProbs
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.errors import ScoreError, UnknownNameError, UsageError
from leakmeter.instruments.icl.math import (
    FARTHEST,
    IclStatistics,
    LogRatioFromFirst,
    calibrated,
    log_mean,
    log_ratio,
)
from leakmeter.overriding import override
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.logspace import log_softmax


@dataclass(frozen=True, slots=True, kw_only=True)
class ExemplarItem(ContextItem):
    """A query that is classified behind exemplars, which are the spans."""

    labels: tuple[str, ...]
    label_ids: tuple[tuple[int, ...], ...]
    """Token ids of each label as it follows the prompt."""
    gold: int | None
    """Number of the right label; None where it is not known."""
    answer: int | None = None
    """Number of the label that was answered; None where that is not known."""
    content_free: Mapping[str, Mapping[str, Prompt]]
    """Content-free inputs by name ('blank', 'n/a') to prompts that have one in the query's place: under '' with all
    exemplars, under a span's name without that span."""


Space = Literal["labels", "vocabulary"]
LabelScoring = Literal["first-token", "whole-sequence"]
LabelCalibration = Literal["blank", "n/a", "average"]
CalibrationBaseline = Literal["own", "shared"]

_CONTENT_FREE: Final = {"blank": ("blank",), "n/a": ("n/a",), "average": ("blank", "n/a")}


@dataclass(frozen=True, kw_only=True)
class Icl(Measure):
    """|log A(S, x)(y) − log A(S∖i, x)(y)| for every exemplar i of the set S and every label y, nats.

    Li et al., "Evaluating Privacy Leakage From In-Context Learning", Eq. 4, before its maxima over exemplars and labels
    and its mean over queries. A is the distribution over the labels, renormalised so that nothing else has probability
    (Section 3), or that over the whole vocabulary. S∖i is the prompt without the exemplar, its headings and its label;
    of one exemplar it is the query alone.

    For the noise, the last token of three prompts is run a second time: with all exemplars, without the first, without
    the last. It is twice the most that a log-probability differs, since a loss contrasts two. The largest error of a
    query's losses against full passes was 0.3 to 1.1 times that in float32, 0.5 to 2.8 times, at 0.1 to 0.25 nats, in
    bfloat16 (SmolLM2-135M on a CPU, AG News, 6 and 10 queries). Of a served model, whose noise the run measured, it is
    the most that such noise makes to a loss.
    """

    statistics: ClassVar = IclStatistics

    space: Space = "labels"
    """Set of answers y: labels, or the whole vocabulary, with which the labels are measured too."""
    label_scoring: LabelScoring = "first-token"
    """How likely a label is: first-token takes its first token alone; whole-sequence the product over its tokens."""
    calibration: LabelCalibration | None = None
    """Divide by the distribution for an input without content (App. B): blank, n/a for the text 'N/A', or the average
    of these two distributions; None for no calibration."""
    calibration_baseline: CalibrationBaseline = "own"
    """Exemplars in front of that input: own uses those of each set, S or S∖i; shared uses S for all sets. The paper
    leaves this open."""
    calibration_epsilon: float = 1e-4
    """ε of p̃ / (p_cf + ε), above 0, which the paper leaves open. It limits how far calibration raises a label whose
    content-free probability p_cf is nearly 0, so that rounding errors do not dominate the loss. 1e-4 is below the p_cf
    that occur (5e-4 and more for SmolLM2-135M on the paper's tasks, where it changes losses by less than 0.1 nats)."""
    temperature: float = 1.0
    """Temperature of every token's distribution, above 0."""

    def __post_init__(self) -> None:
        for name, kinds in (
            ("space", Space),
            ("label_scoring", LabelScoring),
            ("calibration", LabelCalibration),
            ("calibration_baseline", CalibrationBaseline),
        ):
            value = getattr(self, name)
            if value not in get_args(kinds) and not (name == "calibration" and value is None):
                raise UnknownNameError(name.replace("_", " "), str(value), get_args(kinds))
        epsilon = self.calibration_epsilon
        refuse_bad(
            logspace.checked_temperature(self.temperature),
            (math.isfinite(epsilon) and epsilon > 0, "calibration-epsilon", epsilon, "above 0"),
        )
        if self.calibration is not None and self.space == "vocabulary":
            raise UsageError("calibration is for labels; leave it out with space 'vocabulary'")

    @override
    def trial(self, item: ExemplarItem) -> Trial[list[Measurement]]:
        self.check(item)
        names = [span.name for span in item.spans]
        prompts = self._prompts(item, names)
        few = self._prompts(item, [names[i] for i in _ends(item)])
        labels = self._requests(item, prompts)
        vocabulary = [Request(prompts, (), LogRatioFromFirst(self.temperature))] if self.space == "vocabulary" else []
        is_known = item.model_noise_nats is not None
        scores = yield [*labels, *vocabulary, *([] if is_known else map(going_on, few))]
        label_scores = self._label_scores(scores[: len(labels)])
        entries = [scored.values[1:, 0] for scored in scores[len(labels) : len(labels) + len(vocabulary)]]
        if is_known:
            measurements = list(self._of_labels(item, label_scores, None))
            noise = self._contrast_noise(item)
            for entry in entries:
                measurements += _of_vocabulary(item, entry, (noise, noise))
            return measurements
        # The last token of a few prompts is run once more, from states that were kept: alone, where it had company.
        labels = self._requests(item, few)
        tokens = [tuple(int(token) for token in entry[:, ::3].ravel()) for entry in entries]
        scores = yield [*labels, *(Request(few, (), Labels(ids, self.temperature)) for ids in tokens)]
        measurements = list(self._of_labels(item, label_scores, self._label_scores(scores[: len(labels)])))
        for entry, again in zip(entries, scores[len(labels) :], strict=True):
            measurements += _of_vocabulary(item, entry, _vocabulary_noises(item, entry, again.values[:, 0]))
        return measurements

    @override
    def needs(self, item: ExemplarItem) -> ItemNeeds:
        few = self._prompts(item, [item.spans[i].name for i in _ends(item)])
        vocabulary = [Request(few, (), LogRatioFromFirst(self.temperature))] if self.space == "vocabulary" else []
        return ItemNeeds(requests=(*self._requests(item, few), *vocabulary))

    @override
    def check(self, item: ExemplarItem) -> None:
        """Refuse labels that cannot be told apart, and a query without exemplars."""
        if not item.spans:
            raise UsageError(f"case '{item.id}' has no exemplars; give at least one")
        for (label, ids), (other, others) in permutations(zip(item.labels, item.label_ids, strict=True), 2):
            if self.label_scoring == "first-token" and ids[0] == others[0]:
                raise UsageError(
                    f"labels '{label}' and '{other}' begin with the same token, so their first tokens do not "
                    "distinguish them; give --label-scoring whole-sequence"
                )
            if self.label_scoring == "whole-sequence" and others[: len(ids)] == ids:
                raise UsageError(
                    f"label '{other}' begins with the tokens of label '{label}', which would always be at least as "
                    "likely; give one of them another word"
                )

    def _prompts(self, item: ExemplarItem, names: Sequence[str]) -> tuple[Prompt, ...]:
        """With all exemplars, without each one named, and likewise with each content-free input."""
        inputs = _CONTENT_FREE[self.calibration] if self.calibration else ()
        keys = ("", *names) if self.calibration_baseline == "own" else ("",)
        return (
            item.prompt,
            *(item.cuts[name] for name in names),
            *(item.content_free[kind][key] for kind in inputs for key in keys),
        )

    def _requests(self, item: ExemplarItem, prompts: tuple[Prompt, ...]) -> list[Request]:
        if self.label_scoring == "first-token":
            return [Request(prompts, (), Labels(tuple(ids[0] for ids in item.label_ids), self.temperature))]
        return [Request(prompts, ids, TargetLogProbs(self.temperature)) for ids in item.label_ids]

    def _label_scores(self, scores: Sequence[Scores]) -> FloatArray:
        """log p of each label, not yet renormalised, nats: (prompt, label)."""
        if self.label_scoring == "first-token":
            return scores[0].values[:, 0]
        return np.stack([score.values.sum(axis=1) for score in scores], axis=-1)

    def _distributions(self, item: ExemplarItem, n_sets: int, scores: FloatArray) -> FloatArray:
        """log A of each exemplar set, nats: (set, label)."""
        if np.isneginf(scores).all(axis=-1).any():
            raise ScoreError(f"case '{item.id}': the model gives none of the labels any probability")
        log_probs: FloatArray = log_softmax(scores)
        if self.calibration is None:
            return log_probs
        n_inputs = len(_CONTENT_FREE[self.calibration])
        content_free = log_mean(log_probs[n_sets:].reshape(n_inputs, -1, log_probs.shape[-1]))
        return np.asarray(calibrated(log_probs[:n_sets], content_free, self.calibration_epsilon))

    def _of_labels(
        self, item: ExemplarItem, scores: FloatArray, scores_again: FloatArray | None
    ) -> Iterator[Measurement]:
        told, log_probs = IclStatistics, self._distributions(item, 1 + len(item.spans), scores)
        if scores_again is None:
            # Each label's score is off by as much as its tokens are; with a calibration, what divides it is off by
            # twice that. To renormalise over the labels doubles it.
            n_tokens = 1 if self.label_scoring == "first-token" else max(map(len, item.label_ids))
            noise = self._contrast_noise(item) * n_tokens * (3.0 if self.calibration else 1.0) * 2.0
        else:
            few = [0, *(1 + i for i in _ends(item))]
            noise = _of_contrast(self._distributions(item, len(few), scores_again), log_probs[few])
        for span, without in zip(item.spans, log_probs[1:], strict=True):
            yield told.label_loss.of(item.id, log_ratio(log_probs[0], without), span.name)
        yield told.label_log_prob.of(item.id, log_probs[0])
        yield told.label_mass.of(item.id, np.logaddexp.reduce(scores[0]))
        yield told.noise.of(item.id, noise)
        yield told.prediction.of(item.id, log_probs[0].argmax())
        for statistic, number in ((told.gold, item.gold), (told.answer, item.answer)):
            if number is not None:
                yield statistic.of(item.id, number)

    def _contrast_noise(self, item: ExemplarItem) -> float:
        """The most that the model's known noise changes the difference of two log-probabilities of a token, nats."""
        return of_contrast(item.model_noise_nats or 0.0, TargetLogProbs(self.temperature))


def _of_vocabulary(item: ExemplarItem, entries: FloatArray, noises: tuple[float, float]) -> Iterator[Measurement]:
    """Measurements of each exemplar's entries, (exemplar, farthest); noises of the farthest and the plausible."""
    for span, of_span in zip(item.spans, entries, strict=True):
        for statistic, value in zip(FARTHEST, of_span, strict=True):
            yield statistic.of(item.id, value, span.name)
    for statistic, noise in zip((IclStatistics.farthest_noise, IclStatistics.plausible_noise), noises, strict=True):
        yield statistic.of(item.id, noise)


def _vocabulary_noises(item: ExemplarItem, entries: FloatArray, again: FloatArray) -> tuple[float, float]:
    """How much the farthest entries moved, and the plausible ones.

    `again` is log p of all of these tokens with all exemplars and without each of `_ends`, (prompt, token).
    """
    ends = _ends(item)

    def noise(i: int) -> float:
        log_prob, log_prob_without = entries[:, 3 * i + 1], entries[ends, 3 * i + 2]
        whole, *without = again[:, i::2]
        apart = [row[end] for row, end in zip(without, ends, strict=True)]
        return _of_contrast(np.concatenate([whole, apart]), np.concatenate([log_prob, log_prob_without]))

    return noise(0), noise(1)


def _ends(item: ExemplarItem) -> list[int]:
    """Numbers of the first exemplar and the last: without them, a prompt parts from the whole soonest and latest."""
    return sorted({0, len(item.spans) - 1})


def _of_contrast(ones: FloatArray, others: FloatArray) -> float:
    """Twice the most that log-probabilities differ, as a loss contrasts two of them."""
    return 2.0 * float(np.abs(log_ratio(ones, others)).max())
