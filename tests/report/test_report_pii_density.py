"""Drawings of log-likelihoods: densities against kernels summed one by one, places on the axes."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from leakmeter.report.pii_density import HEIGHT, WIDTH, densities, density, strip


def by_hand(values: list[float], at: float) -> float:
    """Scott's rule: a bandwidth of n^(−1/5) standard deviations."""
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    bandwidth = spread * len(values) ** -0.2
    kernels = (math.exp(-(((at - value) / bandwidth) ** 2) / 2) for value in values)
    return sum(kernels) / (len(values) * bandwidth * math.sqrt(2 * math.pi))


def points(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", line)]


def test_a_density_is_the_sum_of_its_kernels() -> None:
    values = np.random.default_rng(0).normal(-3.0, 0.7, size=40)
    grid = np.linspace(-6.0, 0.0, 61)
    found = density(values, grid)
    assert found is not None
    assert found.tolist() == pytest.approx([by_hand(values.tolist(), at) for at in grid.tolist()], rel=1e-9)


def test_both_curves_share_their_axes() -> None:
    rng = np.random.default_rng(1)
    true, invented = rng.normal(-2.0, 0.3, size=30).tolist(), rng.normal(-4.0, 0.6, size=900).tolist()
    drawn = densities(true, invented)
    assert drawn is not None
    lines = [points(curve.line or "") for curve in (drawn.true, drawn.invented)]
    for line in lines:
        assert len(line) == len(lines[0])
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in line)
    heights = [[HEIGHT - y for _, y in line] for line in lines]
    # The narrow one is higher and reaches the top; what lies under each is the same.
    assert max(heights[0]) == pytest.approx(HEIGHT, abs=0.1)
    assert max(heights[1]) < max(heights[0])
    assert sum(heights[0]) == pytest.approx(sum(heights[1]), rel=0.02)
    # Means and ticks lie on one linear axis.
    (x1, first), (x2, second) = drawn.ticks[0], drawn.ticks[-1]
    number = [float(text.replace("−", "-")) for text in (first, second)]
    for curve, values in ((drawn.true, true), (drawn.invented, invented)):
        at = number[0] + (curve.mean - x1) / (x2 - x1) * (number[1] - number[0])
        assert at == pytest.approx(float(np.mean(values)), abs=0.02)
    assert 2 <= len(drawn.ticks) <= 6


def test_axes_reach_beyond_all_values_on_both_sides() -> None:
    drawn = densities([1.0, 2.0, 1.5, 1.2, 3.0], [-1.0, -2.0, -1.5, -1.2, -1.7])
    assert drawn is not None
    (x1, first), (x2, second) = drawn.ticks[0], drawn.ticks[-1]
    low, high = (float(text.replace("−", "-")) for text in (first, second))
    a_nat = (x2 - x1) / (high - low)
    assert x1 + (-2.0 - low) * a_nat > 0
    assert x1 + (3.0 - low) * a_nat < WIDTH


def test_too_few_values_or_no_spread_have_no_curve() -> None:
    assert densities([-1.0] * 5, [-1.0] * 9) is None
    few = densities([-1.0, -2.0], [-3.0, -4.0, -5.0, -6.0, -7.0])
    assert few is not None
    assert few.true.line is None
    assert few.invented.line is not None
    alike = densities([-1.0] * 9, [-2.0] * 9)
    assert alike is not None
    assert (alike.true.line, alike.invented.line) == (None, None)
    assert alike.true.mean > alike.invented.mean
    assert densities([-1.0], [-1.0 - 1e-15]) is not None


def test_a_strip_has_a_line_for_each_place_in_order() -> None:
    drawn = strip(-1.0, [-2.0, -3.0, -3.0, -5.0])
    assert drawn is not None
    places = [int(x) for x in re.findall(r"M(\d+) 9v9", drawn.rug)]
    assert len(places) == 3
    assert places == sorted(places)
    assert places[-1] < drawn.true < WIDTH
    assert [text for _, text in drawn.ticks] == ["−5", "−4", "−3", "−2", "−1"]
    assert strip(-1.0, [-1.0, -1.0]) is None


def test_values_that_a_model_rules_out_are_left_out() -> None:
    values, out = [-1.0, -1.5, -2.0, -2.5, -3.0, -3.5], -math.inf
    assert densities([*values, out], [out, *values]) == densities(values, values)
    assert densities([out], values) is None
    assert strip(-1.2, [*values, out]) == strip(-1.2, values)
    assert strip(out, values) is None
    assert strip(-1.0, [out]) is None
