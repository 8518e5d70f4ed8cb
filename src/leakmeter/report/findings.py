"""What a measure found in many cases: one sentence, their summary, and the figures that a paper would have.

A measure joins with one class method of its result, `findings` (see `results.result`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakmeter.report.blocks import Chart
from leakmeter.report.scale import nats_in
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate


@dataclass(frozen=True, slots=True)
class Findings:
    """Of the cases of a run."""

    headline: str = ""
    """One sentence, or several, as the page of the measure has it; empty where the measure says none."""
    summary: Mapping[str, Any] | None = None
    """One object of all cases together, where the measure has one; units stand in the names."""
    figures: Mapping[str, Chart] = field(default_factory=dict)
    """By names that are fit for files."""


def mean_text(values: Sequence[float]) -> str:
    """Mean of numbers of nats with its 95 % interval over the cases."""
    interval = interval_of_aggregate(values, "mean", seed=0)
    return f"{nats_in(aggregate(values, 'mean'), interval)}\u00a0nats"
