"""What work takes, from counts of it; and what measuring a case took, as results have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from helpers.model_sizes import SIZE
from leakmeter.core import cost
from leakmeter.core.cost import ResultCost, Speed, Work


def test_what_was_not_predicted_is_none() -> None:
    written: dict[str, Any] = {"requests": 3, "tree_tokens": 40, "naive_tokens": 90, "seconds": 0.25}
    read = ResultCost.from_texts({"cost": {**written, "out_of_memory_retries": 0}})
    assert (read.predicted_tree_tokens, read.predicted_seconds, read.scored_together) == (None, None, None)
    more = {"out_of_memory_retries": 2, "predicted": {"tree_tokens": 44, "seconds": 0.5}, "scored_together": 8}
    told = {"predicted_tree_tokens": 44, "predicted_seconds": 0.5, "out_of_memory_retries": 2, "scored_together": 8}
    assert ResultCost.from_texts({"cost": written | more}) == ResultCost(**written, **told)


def test_arithmetic_reading_and_the_time_of_each_layer_are_added() -> None:
    work = Work(n_tokens=100, n_seen=1000, n_rows=10, n_passes=3, n_slices=2)
    endless = Speed(float("inf"), float("inf"), 0.0)
    arithmetic = 2.0 * (600 * 100 + 400 * 10) + 4.0 * 2 * 8 * 1000
    # A logit moves 40 bytes on its way to a log-probability.
    moved = (3 * 600 + 2 * 400) * 4 + 10 * 40 * 40
    parts = [
        (replace(endless, operations_per_second=1e6), arithmetic / 0.68 / 1e6),
        (replace(endless, bytes_per_second=1e3), moved / 1e3),
        (replace(endless, layer_seconds=1e-3), 3 * 2 * 1e-3),
    ]
    for speed, expected in [*parts, (Speed(1e6, 1e3, 1e-3), sum(seconds for _, seconds in parts))]:
        assert cost.seconds(SIZE, speed, work) == pytest.approx(expected)
        assert cost.seconds(SIZE, speed, Work()) == 0.0
