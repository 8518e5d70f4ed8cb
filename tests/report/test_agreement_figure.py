"""Figures of agreement and of levels: drawn from any numbers, and the same bytes from the same ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from leakmeter.instruments.susceptibility.fisher import study
from leakmeter.instruments.susceptibility.fisher.study import Scatter
from leakmeter.instruments.susceptibility.study import VALUE
from leakmeter.report import charts

pytest.importorskip("matplotlib")

KNOWN = {"pearson": 0.5, "pearson_low": 0.1, "pearson_high": 0.8}
ALONE = {"spearman": 0.5, "spearman_low": math.nan, "spearman_high": math.nan}
NOTHING = {"spearman": None, "spearman_low": math.nan, "spearman_high": math.nan}


@pytest.mark.long
def test_queries_are_drawn_whatever_their_values(tmp_path: Path) -> None:
    values = {"some": [1.0, 3.0, 0.0, -1.0], "none": [0.0] * 4, "equal": [2.0] * 4, "wide": [1e-9, 1.0, 1e9, 5.0]}
    rows = [KNOWN | ALONE, KNOWN | NOTHING, KNOWN | ALONE, KNOWN | ALONE]
    panels = [Scatter(name, "nats", xs, row) for (name, xs), row in zip(values.items(), rows, strict=True)]
    chart = study.queries(
        panels, [0.0, 0.4, 1.3, 0.2], ["open", "closed"] * 2, ceiling=math.log(4), title="t", footer="f"
    )
    for stem in ("one", "other"):
        charts.write(chart, tmp_path / stem)
    for suffix in (".png", ".svg"):
        one, other = ((tmp_path / stem).with_suffix(suffix).read_bytes() for stem in ("one", "other"))
        assert one == other


@pytest.mark.parametrize(("low", "high"), [(1e-9, 1e9), (0.9, 110.0), (28.0, 33.0), (0.11, 0.4), (800.0, 1300.0)])
def test_an_axis_has_a_few_numbers_within(low: float, high: float) -> None:
    ticks = charts._log_ticks(low, high)
    assert 2 <= len(ticks) <= 5
    assert low <= ticks[0] < ticks[-1] <= high


def test_levels_without_an_interval_are_drawn(tmp_path: Path) -> None:
    rows = [
        {"form": form, "openness": "all", VALUE: 0.3, f"{VALUE}_low": math.nan, f"{VALUE}_high": math.nan}
        for form in ("question", "completion")
    ]
    panels = [("Monte Carlo", "χ", rows), ("Fisher", "nats", rows[:1])]
    chart = study.levels(panels, x="form", lines=["openness"], title="t", footer="f")
    found = charts.write(chart, tmp_path / "levels")
    assert [path.suffix for path in found] == [".png", ".svg"]
