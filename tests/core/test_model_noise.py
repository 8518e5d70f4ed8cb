"""The noise floor of a result: of neighbourhoods, and what a served model's noise makes to it at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.icl_items import LABELS, icl_item
from helpers.measure_items import make_item
from helpers.naive import random_prompt
from helpers.query_items import ANSWERS, query_item
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.measure import Measure, Measurement
from leakmeter.core.noise import neighbourhood_noise
from leakmeter.core.prompt import CONTEXT
from leakmeter.core.reductions import PartialRows, TargetLogProbs
from leakmeter.core.request import Scores
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.stats import logspace
from leakmeter.stats.arrays import FloatArray

NATS = 0.01
SEEDS = range(6)


def noisy(seed: int) -> Toy:
    """A toy whose log-probabilities are off by up to `NATS`, each row in its own way."""
    rng = np.random.default_rng(seed)

    class Noisy(Toy):
        def logits(self, ids: Any, positions: Any) -> Any:
            log_probs = np.asarray(logspace.log_softmax(super().logits(ids, positions)))
            # To normalise it again moves a row by half as much once more.
            return log_probs + rng.choice([-0.5, 0.5], size=log_probs.shape) * NATS

    return Noisy()


def measured(backend: Toy, measure: Measure, item: Any) -> list[Measurement]:
    ((found,), _) = drive(backend, [measure.trial(item)])
    return list(found)


def check(measure: Measure, item: Any, statistic: str, noise: str = "noise", least: float = 0.03) -> None:
    known = replace(item, model_noise_nats=NATS)
    exact = values_of(measured(Toy(), measure, known), statistic)
    largest = 0.0
    for seed in SEEDS:
        found = measured(noisy(seed), measure, known)
        (floor,) = values_of(found, noise)
        for ours, theirs in zip(values_of(found, statistic), exact, strict=True):
            moved = np.abs(ours - theirs)
            assert (moved <= floor).all()
            largest = max(largest, float((moved / floor).max()))
    # Nor is it far above what occurs.
    assert largest > least


def values_of(found: Sequence[Measurement], statistic: str) -> list[FloatArray]:
    values = [one.values for one in found if one.statistic == statistic]
    if statistic == "farthest":
        pairs = (values_of(found, f"farthest_{name}") for name in ("log_prob", "log_prob_without"))
        values = [np.abs(with_ - without) for with_, without in zip(*pairs, strict=True)]
    assert values
    return values


@pytest.mark.parametrize(("context_weight", "temperature"), [(1.0, 0.5), (0.5, 1.0), (1.5, 0.8)])
def test_influence(context_weight: float, temperature: float) -> None:
    item = make_item(random_prompt(np.random.default_rng(0), 200, (3, 4)), (5, 6, 7, 8))
    check(Influence(temperature=temperature, cid_lambda=context_weight), item, "whole")


@pytest.mark.parametrize(
    ("scoring", "calibration", "temperature"),
    [("first-token", None, 0.7), ("first-token", "average", 1.0), ("whole-sequence", None, 1.0)],
)
def test_exemplars(scoring: Any, calibration: Any, temperature: float) -> None:
    item = icl_item(200, labels=LABELS[scoring])
    check(Icl(label_scoring=scoring, calibration=calibration, temperature=temperature), item, "label_loss")


def test_exemplars_over_the_vocabulary() -> None:
    check(Icl(space="vocabulary"), icl_item(200), "farthest", "farthest_noise")


@pytest.mark.parametrize(("temperature", "answers"), [(1.0, ()), (0.7, ANSWERS)], ids=["next token", "answers"])
def test_susceptibility(temperature: float, answers: Any) -> None:
    item = query_item(200, answers=answers)
    # Errors of random signs mostly cancel in an expectation.
    check(Susceptibility(temperature=temperature), item, "persuasion", least=0.0003)


@pytest.mark.parametrize(("among_others", "token_by_token"), [(0.5, 0.125), (0.125, 0.5)])
def test_the_larger_difference_counts(among_others: float, token_by_token: float) -> None:
    item = make_item(random_prompt(np.random.default_rng(0), 20, (3, 4)), None)
    scores = np.random.default_rng(1).normal(size=(2, 6))
    trial = neighbourhood_noise(item, tuple(range(6)), TargetLogProbs(), scores)
    requests = next(trial)
    # What runs beside the prompt differs from it in the context alone.
    frames = {tuple(piece for piece in request.prompts[-1].pieces if piece.role != CONTEXT) for request in requests}
    assert frames == {tuple(piece for piece in item.prompt.pieces if piece.role != CONTEXT)}
    with pytest.raises(StopIteration) as ended:  # noqa: PT012
        while True:
            moved = token_by_token if isinstance(requests[0].reduction, PartialRows) else among_others
            rows = requests[0].reduction.rows(len(requests[0].response))
            requests = trial.send([Scores(scores[:, rows.start : rows.stop] + moved) for _ in requests])
    # The bare prompt and the full one differ alike, and their differences add up.
    np.testing.assert_allclose(ended.value.value, np.ones(6), rtol=1e-12)
