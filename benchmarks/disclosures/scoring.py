"""How much of what is planted a method finds, and how much of what it finds is planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.disclosures.corpus import KINDS, NAMEABLE, Example, Planted
from benchmarks.disclosures.methods import Predicted

COVERED: Final = {"value": 0.5, "phrase": 0.3}
"""Share of the characters of a planted value, or of a planted phrase, that a prediction has to have."""


@dataclass(frozen=True, slots=True)
class Score:
    """Of a method at a threshold."""

    threshold: float
    recall: Mapping[str, tuple[int, int]]
    """Found and planted, by kind."""
    precision: tuple[int, int]
    """Predictions of something personal or secret that have a character of a leak, and all of them."""
    clean: tuple[int, int]
    """Clean answers of which nothing personal or secret is predicted, and all of them."""

    @property
    def f1(self) -> float:
        """Of all planted leaks."""
        found, planted = (sum(pair[i] for pair in self.recall.values()) for i in range(2))
        right, predicted = self.precision
        recall, precision = found / max(planted, 1), right / max(predicted, 1)
        return 2 * recall * precision / max(recall + precision, 1e-12)


def score(cases: Sequence[Example], predictions: Mapping[str, Sequence[Predicted]], threshold: float) -> Score:
    """Recall and precision of predictions that score as much as a threshold, or more."""
    recall = dict.fromkeys(KINDS[:-1], (0, 0))
    right = predicted = silent = n_clean = 0
    for case in cases:
        kept = [p for p in predictions[case.id] if p.score >= threshold]
        named = [p for p in kept if p.is_named]
        leaks = [planted for planted in case.planted if planted.is_leak]
        right += sum(any(_overlap(p, leak) for leak in leaks) for p in named)
        predicted += len(named)
        if case.kind == "clean":
            n_clean += 1
            silent += not named
            continue
        asked = named if case.kind in NAMEABLE else kept
        least = COVERED["value" if case.kind in NAMEABLE else "phrase"]
        found, n = recall[case.kind]
        hits = sum(sum(_overlap(p, leak) for p in asked) >= least * (leak.end - leak.start) for leak in leaks)
        recall[case.kind] = found + hits, n + len(leaks)
    return Score(threshold, recall, (right, predicted), (silent, n_clean))


def best(cases: Sequence[Example], predictions: Mapping[str, Sequence[Predicted]]) -> Score:
    """The score at the threshold with the largest F1."""
    thresholds = sorted({p.score for predicted in predictions.values() for p in predicted})
    if len(thresholds) > MOST_THRESHOLDS:
        thresholds = thresholds[:: len(thresholds) // MOST_THRESHOLDS]
    scores = [score(cases, predictions, threshold) for threshold in thresholds or [0.0]]
    return max(scores, key=lambda made: made.f1)


MOST_THRESHOLDS: Final = 200


def _overlap(predicted: Predicted, planted: Planted) -> int:
    """Characters that both have."""
    return max(0, min(predicted.end, planted.end) - max(predicted.start, planted.start))
