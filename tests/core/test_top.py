"""The likeliest tokens against a sort of the whole vocabulary, on NumPy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, seed
from hypothesis import strategies as st

from helpers.examples import few
from leakmeter.core.reductions import Top
from leakmeter.stats.logspace import log_softmax

MAKERS: dict[str, Any] = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
# Around the size of a block, and of one token.
SIZES = (1, 5, 127, 128, 129, 1000)
INF = float("inf")


def slow(logits: np.ndarray, k: int) -> np.ndarray:
    """Every token, sorted by logit and then by id."""
    ids = np.argsort(-logits, axis=-1, kind="stable")[..., :k]
    return np.stack([ids, np.take_along_axis(np.asarray(log_softmax(logits)), ids, axis=-1)], axis=-1)


@libraries
@pytest.mark.parametrize("n_vocab", SIZES)
@pytest.mark.parametrize("k", [1, 3, 200])
def test_the_same_as_a_sort(make: Any, n_vocab: int, k: int) -> None:
    logits = np.random.default_rng(n_vocab).normal(scale=4, size=(3, 1, n_vocab)).astype(np.float32)
    got = np.asarray(Top(k).reduce(make(logits), None))
    assert got.dtype == np.float64
    assert got.shape == (3, 1, min(k, n_vocab), 2)
    # The same sums; torch's exponentials differ. Worst measured: 3e-8.
    np.testing.assert_allclose(got, slow(logits, k), rtol=0, atol=5e-7 if make is torch.from_numpy else 0)


@libraries
@seed(120)
@given(
    st.lists(st.sampled_from([-INF, -1.0, 0.0, 2.0]), min_size=1, max_size=300).filter(lambda row: max(row) > -INF),
    st.integers(1, 12),
)
def test_ties_go_to_the_lowest_id_and_no_token_comes_twice(make: Any, row: list[float], k: int) -> None:
    got = np.asarray(Top(k).reduce(make(np.asarray([[row]])), None))[0, 0]
    expected = slow(np.asarray([[row]]), k)[0, 0]
    assert got[:, 0].tolist() == expected[:, 0].tolist()
    np.testing.assert_allclose(got[:, 1], expected[:, 1], rtol=0, atol=1e-14)


@pytest.mark.parametrize("make", few(MAKERS.values()), ids=MAKERS)
def test_wide_vocabularies_and_large_logits(make: Any) -> None:
    rng = np.random.default_rng(1)
    for n_vocab in (50_257, 262_144):
        logits = (1e4 + rng.normal(size=(2, 1, n_vocab))).astype(np.float32)
        got = np.asarray(Top(10).reduce(make(logits), None))
        np.testing.assert_allclose(got, slow(logits, 10), rtol=0, atol=2e-6)
    # Half precision is widened.
    half = torch.from_numpy(rng.normal(size=(2, 1, 300))).to(torch.bfloat16)
    np.testing.assert_allclose(Top(5).reduce(half, None).numpy(), slow(half.float().numpy(), 5), rtol=0, atol=5e-7)


@libraries
def test_what_is_not_a_number_stays_so(make: Any) -> None:
    logits = np.zeros((1, 1, 300), dtype=np.float32)
    logits[0, 0, 7] = np.nan
    assert np.isnan(np.asarray(Top(3).reduce(make(logits), None))[..., 1]).all()
