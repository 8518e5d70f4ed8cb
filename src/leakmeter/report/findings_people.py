"""What probing for people's values found: densities of true and invented values, and p-values against chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.report import pii, pii_people
from leakmeter.report.drawing import Drawing
from leakmeter.report.findings import Findings
from leakmeter.report.pii_density import density
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case
from leakmeter.report.small_multiples import COLOURS
from leakmeter.types.request import FloatArray

Summary = Mapping[str, Any]
_POINTS: Final = 200
_MARGIN: Final = 0.15


def of_pii(cases: Sequence[Case], summary: Summary) -> Findings:
    """Associations of true and invented values, and the shares of p-values, by type of value."""
    headline = pii_people.headline(summary) if len(cases) > 1 else pii.verdict(cases[0])
    values = [value for subject in summary["subjects"] for value in subject["values"]]
    types = {type_: [value for value in values if value["type"] == type_] for type_ in pii_people.types_of(summary)}
    figures = {
        "densities": Drawing(
            "Values of people and invented ones",
            list(types),
            lambda panel, type_: _densities(panel, types[type_], type_),
            footer="Gaussian kernels with Scott's bandwidth, scaled to their heights; ticks are values",
        ),
        "p_values": Drawing(
            "p-values, and where they would be by chance",
            list(types),
            lambda panel, type_: _p_values(panel, types[type_], type_),
            panel_inches=(3.8, 3.8),
        ),
    }
    return Findings(headline, summary, figures)


def _densities(panel: Any, values: Sequence[Mapping[str, Any]], type_: str) -> None:
    true = _finite([value["association_nats"] for value in values])
    invented = _finite([nats for value in values for nats in value["null_associations_nats"]])
    both = np.concatenate([true, invented])
    width = float(np.ptp(both)) if both.size else 0.0
    for sample, colour, height, name in ((invented, COLOURS[0], -0.06, "invented"), (true, COLOURS[1], -0.14, "true")):
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
    panel.set_title(type_, fontsize=9)
    panel.set_ylim(-0.22, 1.25)
    panel.set_yticks([])
    panel.set_xlabel("association with the person's name, nats")
    panel.set_ylabel("density")


def _p_values(panel: Any, values: Sequence[Mapping[str, Any]], type_: str) -> None:
    ps = np.sort([value["p_value"] for value in values])
    shares = np.arange(1, len(ps) + 1) / len(ps)
    panel.step([0.0, *ps, 1.0], [0.0, *shares, 1.0], where="post", color=COLOURS[1], linewidth=1.6, label="values")
    panel.plot([0, 1], [0, 1], color="0.4", linewidth=1, linestyle="--", label="where nothing is known")
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    panel.set_title(f"{type_}, {len(ps):,} value{'s' * (len(ps) > 1)}", fontsize=9)
    panel.set_xlabel("p-value at most")
    panel.set_ylabel("share of values")


def _finite(values: Sequence[float | None]) -> FloatArray:
    """Null stands for a value that the model rules out."""
    given = np.asarray([np.nan if value is None else value for value in values], dtype=np.float64)
    return given[np.isfinite(given)]
