"""What work takes, from counts of it; and what measuring a case took, as results have it."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import pytest

from helpers.model_sizes import SIZE
from leakmeter.core import cost
from leakmeter.core.cost import ResultCost, Speed, Work

SPEED = Speed(operations_per_second=1e6, bytes_per_second=1e6, layer_seconds=0.0)
WRITTEN: dict[str, Any] = {
    "requests": 3,
    "tree_tokens": 40,
    "naive_tokens": 90,
    "seconds": 0.25,
    "out_of_memory_retries": 0,
}


def test_no_work_takes_no_time() -> None:
    assert cost.seconds(SIZE, replace(SPEED, layer_seconds=1e-3), Work()) == 0.0


def test_every_pass_takes_the_time_of_each_of_its_layers() -> None:
    work = Work(n_tokens=100, n_seen=1000, n_rows=10, n_passes=3, n_slices=1)
    without = cost.seconds(SIZE, SPEED, work)
    for layer_seconds in (1e-3, 1.0):
        with_it = cost.seconds(SIZE, replace(SPEED, layer_seconds=layer_seconds), work)
        assert with_it - without == pytest.approx(3 * 2 * layer_seconds)


def test_what_was_not_predicted_is_none() -> None:
    read = ResultCost.of({"cost": WRITTEN})
    assert read.out_of_memory_retries == 0
    assert (read.predicted_tree_tokens, read.predicted_seconds, read.scored_together) == (None, None, None)
    told = {
        **WRITTEN,
        "out_of_memory_retries": 2,
        "predicted": {"tree_tokens": 44, "seconds": 0.5},
        "scored_together": 8,
    }
    later = ResultCost.of({"cost": told})
    assert (later.out_of_memory_retries, later.predicted_tree_tokens, later.predicted_seconds) == (2, 44, 0.5)
    assert later.scored_together == 8


def test_nothing_counts_nothing() -> None:
    assert set(astuple(Work())) == {0}


def test_weights_are_read_in_every_pass_and_the_head_for_every_slice() -> None:
    reading = Speed(float("inf"), 1e3, 0.0)
    read = (2 * SIZE.n_layer_parameters + 3 * SIZE.n_head_parameters) * SIZE.bytes_per_number
    assert cost.seconds(SIZE, reading, Work(n_passes=2, n_slices=3)) == pytest.approx(read / 1e3)


def test_seconds_grow_with_tokens_and_passes_and_shrink_with_speed() -> None:
    slow, fast = Speed(1e6, 1e6, 1e-3), Speed(2e6, 2e6, 5e-4)
    work = Work(n_tokens=100, n_seen=1000, n_rows=10, n_passes=3, n_slices=1)
    seconds = cost.seconds(SIZE, slow, work)
    assert cost.seconds(SIZE, fast, work) == pytest.approx(seconds / 2)
    assert cost.seconds(SIZE, slow, replace(work, n_passes=50)) > seconds
    assert cost.seconds(SIZE, slow, replace(work, n_tokens=500)) > seconds
