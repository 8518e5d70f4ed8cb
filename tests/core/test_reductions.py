"""Labels and divergences against sums written out one entry at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.core.reductions import DivergenceFromFirst, Labels

LOGITS = st.lists(
    st.lists(st.lists(st.floats(-60, 60), min_size=5, max_size=5), min_size=2, max_size=2), min_size=2, max_size=4
)


def log_softmax(row: list[float], temperature: float) -> list[float]:
    scaled = [z / temperature for z in row]
    top = max(scaled)
    total = math.fsum(math.exp(z - top) for z in scaled)
    return [z - top - math.log(total) for z in scaled]


def kl(p: list[float], q: list[float]) -> float:
    return math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("make", [np.asarray, lambda x: torch.tensor(x, dtype=torch.float64)], ids=["numpy", "torch"])
@given(LOGITS, st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=examples(60))
@seed(3)
def test_divergences_are_the_sums_they_say(make, logits: list[list[list[float]]], temperature: float) -> None:  # type: ignore[no-untyped-def]
    got = np.asarray(DivergenceFromFirst(temperature).reduce(make(logits), make([0, 0])))
    assert got.shape == (len(logits), 2, 2)
    for i, prompt in enumerate(logits):
        for t, row in enumerate(prompt):
            p0, p = log_softmax(logits[0][t], temperature), log_softmax(row, temperature)
            np.testing.assert_allclose(got[i, t], [max(kl(p0, p), 0), max(kl(p, p0), 0)], rtol=1e-9, atol=1e-12)
    assert (got[0] == 0).all()
    assert (got >= 0).all()


def test_an_impossible_token_costs_infinity_one_way_and_nothing_the_other() -> None:
    got = DivergenceFromFirst().reduce(np.asarray([[[0.0, 0.0]], [[0.0, -np.inf]]]), np.asarray([0]))
    assert got[1, 0, 0] == np.inf
    assert got[1, 0, 1] == pytest.approx(math.log(2))


@given(LOGITS, st.sampled_from([0.5, 1.0, 2.0]), st.permutations(range(5)))
@settings(max_examples=examples(60))
@seed(4)
def test_labels_are_the_vocabulary_s_own_log_probabilities(
    logits: list[list[list[float]]], temperature: float, order: list[int]
) -> None:
    labels = tuple(order[:3])
    array = np.asarray(logits)[:, :1]
    got = Labels(labels, temperature).reduce(array, np.asarray([0]))
    on_torch = Labels(labels, temperature).reduce(torch.tensor(array), torch.tensor([0]))
    expected = [[[log_softmax(row, temperature)[v] for v in labels] for row in prompt[:1]] for prompt in logits]
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(on_torch.numpy(), expected, rtol=1e-12, atol=1e-12)
