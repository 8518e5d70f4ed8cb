"""What probing for people's values found: densities of true and invented values, and p-values against chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leakmeter.report import pii, pii_people
from leakmeter.report.density_panel import FOOTER, paint_densities
from leakmeter.report.drawing import Drawing
from leakmeter.report.findings import Findings
from leakmeter.report.shade import Case
from leakmeter.report.small_multiples import COLOURS

Summary = Mapping[str, Any]


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
            footer=FOOTER,
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
    true = [value["association_nats"] for value in values]
    invented = [nats for value in values for nats in value["null_associations_nats"]]
    paint_densities(panel, true, invented, title=type_, x_label="association with the person's name, nats")


def _p_values(panel: Any, values: Sequence[Mapping[str, Any]], type_: str) -> None:
    ps = np.sort([value["p_value"] for value in values])
    shares = np.arange(1, len(ps) + 1) / len(ps)
    panel.step([0.0, *ps, 1.0], [0.0, *shares, 1.0], where="post", color=COLOURS[1], linewidth=1.6, label="values")
    panel.plot([0, 1], [0, 1], color="0.4", linewidth=1, linestyle="--", label="where nothing is known")
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    panel.set_title(f"{type_}, {len(ps):,} value{'s' * (len(ps) > 1)}", fontsize=9)
    panel.set_xlabel("p-value at most")
    panel.set_ylabel("share of values")
