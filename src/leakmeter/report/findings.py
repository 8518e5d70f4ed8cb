"""What a measure found in many cases: one sentence, their summary, and the figures that a paper would have.

A measure joins with one class method of its result, `findings` (see `report.result`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakmeter.report import charts
from leakmeter.report.blocks import Chart
from leakmeter.report.check_words import interval_text
from leakmeter.report.drawing import Drawing
from leakmeter.report.scale import nats_text
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate


@dataclass(frozen=True, slots=True)
class Findings:
    """Of the cases of a run."""

    headline: str = ""
    """One sentence, or several, as the page of the measure has it; empty where the measure says none."""
    summary: Mapping[str, Any] | None = None
    """One object of all cases together, where the measure has one; units stand in the names."""
    figures: Mapping[str, Drawing | Chart] = field(default_factory=dict)
    """By names that are fit for files."""


def painted(drawing: Drawing | Chart) -> Any:
    """A figure of matplotlib, which a notebook shows."""
    return charts.figure(drawing) if isinstance(drawing, Chart) else drawing.figure()


def encoded(drawing: Drawing | Chart) -> dict[str, bytes]:
    """A figure as PNG and SVG."""
    return charts.files(drawing) if isinstance(drawing, Chart) else drawing.encoded()


def mean_text(values: Sequence[float]) -> str:
    """Mean of numbers of nats with its 95 % interval over the cases."""
    interval = interval_of_aggregate(values, "mean", seed=0)
    return f"{nats_text(aggregate(values, 'mean'))}{interval_text(interval)}\u00a0nats"
