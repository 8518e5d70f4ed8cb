"""Associations of true and invented values as numbers of static drawings: densities, and one value among others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from leakmeter.core.request import FloatArray

WIDTH: Final = 400
HEIGHT: Final = 150
_POINTS: Final = 97
_BANDWIDTHS: Final = 3.0
"""How far beyond the outermost values a curve is drawn."""
_FEWEST: Final = 5
"""Values that a curve is drawn of."""
_TICKS_AT_MOST: Final = 5
_MARGIN: Final = 0.04


@dataclass(frozen=True, slots=True)
class Curve:
    """A density: places 0 to `WIDTH` across, `HEIGHT` down to 0."""

    line: str | None
    """In the language of SVG paths; None where values are too few, or too much alike, for a curve."""
    mean: float
    """Place of the mean."""


@dataclass(frozen=True, slots=True)
class Densities:
    """What the template draws of a type."""

    true: Curve
    invented: Curve
    ticks: tuple[tuple[float, str], ...]
    """Places and numbers of round associations."""


@dataclass(frozen=True, slots=True)
class Strip:
    """What the template draws of a case."""

    rug: str
    """A short line for each invented value, in the language of SVG paths."""
    true: float
    """Place of the true value."""
    ticks: tuple[tuple[float, str], ...]


def densities(true: Sequence[float], invented: Sequence[float]) -> Densities | None:
    """Kernel densities of numbers of nats on common axes; areas under both are the same.

    Gaussian kernels with Scott's bandwidth. Values that a model rules out lie infinitely far to the left, and are left
    out.

    Returns:
        The drawing; None where all values are one, or all true or all invented ones ruled out.
    """
    samples = [_finite(values) for values in (true, invented)]
    whole = np.concatenate(samples)
    if not all(len(values) for values in samples) or np.ptp(whole) == 0.0:
        return None
    reach = _BANDWIDTHS * max(_bandwidth(values) for values in samples)
    margin = _MARGIN * float(np.ptp(whole))
    low, high = float(whole.min()) - max(reach, margin), float(whole.max()) + max(reach, margin)
    grid = np.linspace(low, high, _POINTS)
    heights = [density(values, grid) for values in samples]
    top = max((float(curve.max()) for curve in heights if curve is not None), default=1.0)
    curves = [
        Curve(None if curve is None else _line(curve / top), _place(float(values.mean()), low, high))
        for values, curve in zip(samples, heights, strict=True)
    ]
    return Densities(curves[0], curves[1], _ticks(low, high))


def density(values: FloatArray, grid: FloatArray) -> FloatArray | None:
    """Density at the points of an even grid; None for too few values, or where it would fall between the points."""
    from scipy.stats import gaussian_kde

    if len(values) < _FEWEST or _bandwidth(values) < grid[1] - grid[0]:
        return None
    return np.asarray(gaussian_kde(values)(grid), dtype=np.float64)


def strip(true: float, invented: Sequence[float]) -> Strip | None:
    """One true value among invented ones, nats; None where all values are one, or the true one is ruled out."""
    others = _finite(invented).tolist()
    if not math.isfinite(true) or all(value == true for value in others):
        return None
    low, high = min(true, *others), max(true, *others)
    margin = _MARGIN * (high - low)
    low, high = low - margin, high + margin
    places = sorted({round(_place(value, low, high)) for value in others})
    return Strip("".join(f"M{place} 9v9" for place in places), _place(true, low, high), _ticks(low, high))


def _finite(values: Sequence[float]) -> FloatArray:
    given = np.asarray(values, dtype=np.float64)
    return given[np.isfinite(given)]


def _bandwidth(values: FloatArray) -> float:
    """Scott's, n^(−1/5) standard deviations."""
    return float(values.std(ddof=1)) * len(values) ** -0.2 if len(values) > 1 else 0.0


def _line(heights: FloatArray) -> str:
    places = np.linspace(0, WIDTH, _POINTS)
    return "M" + "L".join(f"{x:.1f} {HEIGHT * (1 - y):.1f}" for x, y in zip(places, heights, strict=True))


def _place(nats: float, low: float, high: float) -> float:
    return round(WIDTH * (nats - low) / (high - low), 1)


def _ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(size for size in (0.2 * power, 0.5 * power, power, 2 * power) if (high - low) / size <= _TICKS_AT_MOST)
    numbers = [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return tuple((_place(number, low, high), f"{number:.6g}".replace("-", "−")) for number in numbers)
