"""Clipped votes: their average against one written out, each leave-one-out against a vote without that row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.examples import examples
from helpers.neighbours import without_each
from leakmeter.errors import UsageError
from leakmeter.privacy.clipped_logits import Aggregation, NormaliseBy, average, clipped

LIBRARIES = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)

entries = st.floats(-60, 60) | st.sampled_from([-np.inf, -3.4e38, 1e5, 0.0])
shapes = st.tuples(st.integers(2, 6), st.integers(1, 12))
rows_of = shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=entries)).filter(
    lambda z: bool(np.isfinite(z).any(axis=-1).all())
)
clips = st.sampled_from([0.1, 1.0, 10.0, 500.0])
temperatures = st.sampled_from([0.05, 0.94, 4.8, 68.58])
NORMALISE_BY: tuple[NormaliseBy, ...] = ("fixed", "present")


def slow_clip(row: list[float], clip: float) -> list[float]:
    return [max(-clip, z - max(row) + clip) for z in row]


def slow_vote(rows: np.ndarray, clip: float, divisor: int, temperature: float) -> np.ndarray:
    """Algorithm 1 written out, log-probabilities, (vocab,)."""
    votes = [slow_clip(row.tolist(), clip) for row in rows]
    mean = [math.fsum(column) / divisor / temperature for column in zip(*votes, strict=True)]
    total = math.fsum(math.exp(z - max(mean)) for z in mean)
    return np.asarray([z - max(mean) - math.log(total) for z in mean])


@seed(60)
@settings(max_examples=examples(100))
@given(rows_of, clips)
def test_the_clip_is_its_definition_and_every_row_s_maximum_is_c(rows: np.ndarray, clip: float) -> None:
    expected = np.asarray([slow_clip(row, clip) for row in rows.tolist()])
    for library in LIBRARIES.values():
        found = np.asarray(clipped(library(rows), clip))
        np.testing.assert_array_equal(found, expected)
        assert (found.max(axis=-1) == clip).all()
        assert (found >= -clip).all()


@libraries
@seed(62)
@settings(max_examples=examples(100))
@given(rows=rows_of, clip=clips, temperature=temperatures)
def test_a_missing_row_is_a_vote_without_it(library: Any, rows: np.ndarray, clip: float, temperature: float) -> None:
    n = len(rows)
    room = 1e-14 * (1.0 + clip / temperature)
    for normalise_by, divisor in (("fixed", n), ("present", n - 1)):
        vote = average(clipped(library(rows), clip), Aggregation(clip, n, temperature, normalise_by))
        np.testing.assert_allclose(vote.log_probs, slow_vote(rows, clip, n, temperature), rtol=0, atol=room)
        each = np.asarray(without_each(vote))
        for i in range(n):
            expected = slow_vote(np.delete(rows, i, axis=0), clip, divisor, temperature)
            np.testing.assert_allclose(each[i], expected, rtol=0, atol=room)


@seed(63)
@settings(max_examples=examples(150))
@given(rows=rows_of, clip=clips, temperature=temperatures)
def test_no_neighbour_is_farther_than_the_sensitivity(rows: np.ndarray, clip: float, temperature: float) -> None:
    n, votes = len(rows), clipped(rows, clip)
    total, fixed, present = votes.sum(axis=0), *(Aggregation(clip, n, temperature, by) for by in NORMALISE_BY)
    for i in range(n):
        others = np.delete(votes, i, axis=0).sum(axis=0)
        for neighbour, limit in (
            (others / n, fixed.sensitivity()),
            (others / (n - 1), present.sensitivity()),
            ((others + votes[(i + 1) % n]) / n, fixed.sensitivity("replace-one")),
        ):
            assert float(np.abs(total / n - neighbour).max()) / temperature <= limit * (1 + 1e-12)


def test_sensitivities_by_hand_and_rows_that_reach_them() -> None:
    assert Aggregation(10.0, 50, 4.8).sensitivity() == pytest.approx(10 / (50 * 4.8), rel=1e-15)
    assert Aggregation(10.0, 50, 4.8).sensitivity("replace-one") == pytest.approx(20 / (50 * 4.8), rel=1e-15)
    assert Aggregation(10.0, 50, 4.8, "present").sensitivity() == pytest.approx(20 / (50 * 4.8), rel=1e-15)
    # One row says the opposite of all others: their mean without it moves by all of 2c / s.
    votes = clipped(np.asarray([[100.0, 0.0]] * 49 + [[0.0, 100.0]]), 10.0)
    for normalise_by, divisor in zip(NORMALISE_BY, (50, 49), strict=True):
        moved = np.abs(votes.mean(axis=0) - votes[:-1].sum(axis=0) / divisor) / 4.8
        assert moved.max() == pytest.approx(Aggregation(10.0, 50, 4.8, normalise_by).sensitivity(), rel=1e-12)


def test_what_has_no_meaning_is_refused() -> None:
    for arguments, said in (
        ((0.0, 5, 1.0), "clip is 0.0; it has to be above 0"),
        *(((of, 5, 1.0), f"clip is {of}") for of in (math.nan, math.inf)),
        ((1.0, 0, 1.0), "subset-size is 0; it has to be 1 or more"),
        ((1.0, 1, 1.0, "present"), "subset-size is 1; it has to be 2 or more"),
        ((1.0, 5, 0.0), "temperature is 0.0; it has to be above 0"),
        ((1.0, 5, math.inf), "temperature is inf"),
        ((1.0, 5, 1.0, "least"), "no normalise-by named 'least'; known: 'fixed', 'present'"),
    ):
        with pytest.raises(UsageError, match=said):
            Aggregation(*arguments)  # type: ignore[arg-type]
    # Where those present count, fewer votes than were promised for.
    votes = np.zeros((4, 3))
    with pytest.raises(ValueError, match="4 rows; the bound is for 5"):
        average(votes, Aggregation(1.0, 5, 1.0, "present"))
    # With a fixed s, absent rows are rows of zeros, and the bound stands.
    assert average(votes, Aggregation(1.0, 5, 1.0)).tilts.shape == (4, 3)


def test_half_precision_is_widened() -> None:
    half = torch.from_numpy(np.random.default_rng(2).normal(size=(4, 101)) * 5).to(torch.bfloat16)
    np.testing.assert_array_equal(clipped(half, 3.0).numpy(), clipped(half.to(torch.float64), 3.0).numpy())
