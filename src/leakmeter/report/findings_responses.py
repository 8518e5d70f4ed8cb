"""What decoding and plans of redaction found: losses that add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from leakmeter.report import plans, receipts
from leakmeter.report.drawing import Drawing
from leakmeter.report.findings import Findings, mean_text
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case
from leakmeter.report.small_multiples import COLOURS
from leakmeter.stats.aggregates import aggregate

_LINES_AT_MOST: Final = 200
_FADED: Final = {"color": "0.55", "linewidth": 0.9, "alpha": 0.7}


def of_decode(cases: Sequence[Case]) -> Findings:
    """Loss that adds up over the response, with its bound."""
    if len(cases) == 1:
        said = receipts.headline(cases[0])
        headline = f"{said[0].upper()}{said[1:]}."
    else:
        values = [case["private"]["whole_nats"] for case in cases]
        headline = (
            f"{len(cases):,} responses told {mean_text(values)} of their contexts on average, and one "
            f"{nats_text(max(values))}\u00a0nats."
        )
    worst = max(cases, key=lambda case: case["private"]["whole_nats"])
    each = None if worst["epsilon"] is None else worst["epsilon"]["per_token"]

    def paint(panel: Any, _: str) -> None:
        others = [case for case in cases if case is not worst][:_LINES_AT_MOST]
        for number, case in enumerate(others):
            panel.plot(*_added_up(case, "loss_nats"), label=None if number else "other cases", **_FADED)
        panel.plot(
            *_added_up(worst, "loss_nats"), color=COLOURS[1], linewidth=1.8, label="told, by the case that told most"
        )
        if each is not None:
            spent = _added_up(worst, "spent_epsilon")
            panel.plot(*spent, color=COLOURS[0], linewidth=1.4, linestyle=":", label="spent by it")
            n = max(len(case["response"]["tokens"]) for case in cases)
            panel.plot([0, n], [0.0, each * n], color="0.15", linewidth=1.2, linestyle="--", label="promised at most")
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_xlabel("tokens of the response")
        panel.set_ylabel("added up, nats")

    return Findings(
        headline,
        figures={
            "loss": Drawing("What responses told of their contexts", ("loss",), paint, panel_inches=(6.4, 4.2)),
        },
    )


def _added_up(case: Case, name: str) -> tuple[range, list[float]]:
    """Tokens so far, and the sum of their nats; an infinite one ends the line."""
    nats = [receipts.infinite(value) for value in case["private"]["per_token"][name]]
    sums = [0.0, *np.cumsum(nats).tolist()]
    return range(len(sums)), [value if math.isfinite(value) else math.nan for value in sums]


def of_plans(cases: Sequence[Case]) -> Findings:
    """Loss that is left over the pieces that are cut."""
    headline = plans.verdict(cases[0])
    if len(cases) > 1:
        n, left = sum(case["reached"] for case in cases), [case["left_nats"] for case in cases]
        share = 100 * aggregate([case["redacted_share"] for case in cases], "mean")
        headline = (
            f"{n:,} of {len(cases):,} plans reach their limit; they leave {mean_text(left)} and cut {share:.0f}\u00a0% "
            "of the text on average."
        )

    def paint(panel: Any, _: str) -> None:
        one = {"color": COLOURS[0], "linewidth": 1.8, "marker": "o", "markersize": 3.5}
        for case in cases[:_LINES_AT_MOST]:
            left = [case["whole_nats"], *(step["left_nats"] for step in case["steps"])]
            panel.step(range(len(left)), left, where="post", **(one if len(cases) == 1 else _FADED))
        for number, limit in enumerate(sorted({case["max_loss_nats"] for case in cases})):
            panel.axhline(limit, color=COLOURS[1], linewidth=1.2, linestyle="--", label=None if number else "limit")
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_xlabel("steps: pieces cut, and put back")
        panel.set_ylabel("left of what the response owes, nats")

    return Findings(
        headline, figures={"left": Drawing("What cutting leaves", ("left",), paint, panel_inches=(5.6, 3.8))}
    )
