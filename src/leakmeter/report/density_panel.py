"""Densities of true values and of invented ones, drawn into a panel of matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from leakmeter.core.request import FloatArray
from leakmeter.report.pii_density import density
from leakmeter.report.scale import nats_text
from leakmeter.report.small_multiples import COLOURS

FOOTER: Final = "Gaussian kernels with Scott's bandwidth, scaled to their heights; ticks are values"
_POINTS: Final = 200
_MARGIN: Final = 0.15


def paint_densities(
    panel: Any, true: Sequence[float | None], invented: Sequence[float | None], *, title: str, x_label: str
) -> None:
    """Draw both densities, every value as a tick, and means in words.

    Args:
        panel: axes of matplotlib.
        true: numbers of true values, nats; None for one that the model rules out.
        invented: likewise of invented ones.
        title: over the panel.
        x_label: what the numbers are, with their unit.
    """
    samples = {"invented": _finite(invented), "true": _finite(true)}
    both = np.concatenate(list(samples.values()))
    width = float(np.ptp(both)) if both.size else 0.0
    for (name, sample), colour, height in zip(samples.items(), COLOURS[:2], (-0.06, -0.14), strict=True):
        said = f"{name}, mean {nats_text(float(sample.mean()))} nats" if sample.size else f"{name}: none is finite"
        curve = None
        if width > 0.0:
            grid = np.linspace(both.min() - _MARGIN * width, both.max() + _MARGIN * width, _POINTS)
            curve = density(sample, grid)
        if curve is not None:
            panel.plot(grid, curve / curve.max(), color=colour, linewidth=1.6)
            panel.fill_between(grid, curve / curve.max(), color=colour, alpha=0.15, linewidth=0)
        panel.plot(sample, np.full(len(sample), height), "|", color=colour, markersize=7, label=name)
        panel.text(
            0.02, 0.97 if name == "true" else 0.9, said, color=colour, fontsize=8, transform=panel.transAxes, va="top"
        )
    panel.set_title(title, fontsize=9)
    panel.set_ylim(-0.22, 1.25)
    panel.set_yticks([])
    panel.set_xlabel(x_label)
    panel.set_ylabel("density")


def _finite(values: Sequence[float | None]) -> FloatArray:
    given = np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
    return given[np.isfinite(given)]
