"""Labels against sums written out one entry at a time."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.core.reductions import Labels

LOGITS = st.lists(
    st.lists(st.lists(st.floats(-60, 60), min_size=5, max_size=5), min_size=2, max_size=2), min_size=2, max_size=4
)


def log_softmax(row: list[float], temperature: float) -> list[float]:
    scaled = [z / temperature for z in row]
    top = max(scaled)
    total = math.fsum(math.exp(z - top) for z in scaled)
    return [z - top - math.log(total) for z in scaled]


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
