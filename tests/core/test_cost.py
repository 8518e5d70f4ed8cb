"""What work takes, from counts of it; and what measuring a case took, as results have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leakmeter.core import cost
from leakmeter.core.cost import ModelSize, ResultCost, Speed, Work

SIZE = ModelSize(
    n_parameters=1000,
    n_layer_parameters=600,
    n_head_parameters=400,
    n_vocab=40,
    n_layers=4,
    query_width=8,
    state_width=8,
    bytes_per_number=4,
    n_pass_tokens=16,
    n_slice_logits=100,
    most_state_bytes=10**9,
)
SPEED = Speed(operations_per_second=1e6, bytes_per_second=1e6, layer_seconds=0.0)
WRITTEN: dict[str, Any] = {"requests": 3, "tree_tokens": 40, "naive_tokens": 90, "seconds": 0.25}


def test_no_work_takes_no_time_and_no_memory() -> None:
    assert cost.seconds(SIZE, replace(SPEED, layer_seconds=1e-3), Work()) == 0.0
    assert cost.state_bytes(SIZE, Work()) == cost.logit_bytes(SIZE, Work()) == 0


def test_every_pass_takes_the_time_of_each_of_its_layers() -> None:
    work = Work(n_tokens=100, n_seen=1000, n_rows=10, n_passes=3, n_slices=1)
    without = cost.seconds(SIZE, SPEED, work)
    for layer_seconds in (1e-3, 1.0):
        with_it = cost.seconds(SIZE, replace(SPEED, layer_seconds=layer_seconds), work)
        assert with_it - without == pytest.approx(12 * layer_seconds)


def test_a_run_of_an_early_version_ran_out_of_no_memory_and_predicted_nothing() -> None:
    read = ResultCost.of({"cost": WRITTEN})
    assert read.out_of_memory_retries == 0
    assert (read.predicted_tree_tokens, read.predicted_seconds, read.scored_together) == (None, None, None)
    told = {**WRITTEN, "halvings": 2, "predicted": {"tree_tokens": 44, "seconds": 0.5}, "scored_together": 8}
    later = ResultCost.of({"cost": told})
    assert (later.out_of_memory_retries, later.predicted_tree_tokens, later.predicted_seconds) == (2, 44, 0.5)
    assert later.scored_together == 8
