"""What audits of private generation found: promised against measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leakmeter.report import audit_words
from leakmeter.report.audit_words import infinite
from leakmeter.report.drawing import Drawing, label
from leakmeter.report.findings import Findings
from leakmeter.report.shade import Case
from leakmeter.report.small_multiples import COLOURS, MARKERS

Summary = Mapping[str, Any]
_BATCHES_AT_MOST: Final = 6


def of_audit(cases: Sequence[Case], summary: Summary) -> Findings:
    """Promised and measured over the order, and each exemplar against its promise."""
    shown = {f"batch {number}": case for number, case in enumerate(cases[:_BATCHES_AT_MOST], 1)}
    footer = f"{len(cases) - len(shown):,} more batches left out" if len(shown) < len(cases) else ""
    figures = {
        "orders": Drawing(
            "Promised against measured, all tokens together",
            list(shown),
            lambda panel, name: _orders(panel, shown[name], name),
            footer=footer,
            columns=3,
            panel_inches=(4.4, 3.6),
        ),
        "exemplars": Drawing(
            "What each exemplar paid of its promise",
            list(shown),
            lambda panel, name: _exemplars(panel, shown[name], name),
            footer=footer,
            columns=3,
            panel_inches=(4.4, 3.8),
        ),
    }
    return Findings(audit_words.verdict(cases), summary, figures)


def _orders(panel: Any, case: Case, name: str) -> None:
    """Rényi divergences over their order, both axes logarithmic; what is 0 or infinite is not on them."""
    by_order = [row for row in case["by_order"] if row["order"] is not None]
    looks = {
        "promised": {"color": "0.15", "marker": MARKERS[0], "label": "promised"},
        "sum_of_maxima": {"color": "0.5", "marker": MARKERS[2], "linestyle": ":", "label": "measured, sum of maxima"},
        "measured": {"color": COLOURS[1], "marker": MARKERS[3], "label": "measured, worst exemplar"},
    }
    for what, look in looks.items():
        points = [(row["order"], infinite(row[f"{what}_nats"])) for row in by_order]
        points = [(order, nats) for order, nats in points if 0.0 < nats < math.inf]
        if points:
            panel.plot(*zip(*points, strict=True), linewidth=1.4, markersize=4, **look)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.axvline(case["promise"]["order"], color="0.75", linewidth=0.8)
    panel.set_title(_title(case, name), fontsize=9)
    panel.set_xlabel("order α; the line is the promise's")
    panel.set_ylabel("Rényi divergence, nats")


def _exemplars(panel: Any, case: Case, name: str) -> None:
    """Each exemplar at each finite order; above the diagonal the promise is broken."""
    promised = [infinite(row["promised_nats"]) for row in case["by_order"]]
    points = [
        (x, infinite(y))
        for one in case["exemplars"]
        for row, x, y in zip(case["by_order"], promised, one["by_order_nats"], strict=True)
        if row["order"] is not None
    ]
    points = [(x, y) for x, y in points if 0.0 < x < math.inf and 0.0 < y < math.inf]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    look = {"color": COLOURS[1], "marker": MARKERS[0], "s": 14, "alpha": 0.5, "linewidths": 0}
    panel.scatter(xs, ys, label="an exemplar, at an order", **look)
    ends = [min(xs), max(xs)] if xs else [1.0, 10.0]
    panel.plot(ends, ends, color="0.15", linewidth=1.2, linestyle="--", label="all of the promise")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(_title(case, name), fontsize=9)
    panel.set_xlabel("promised, nats")
    panel.set_ylabel("measured, nats")


def _title(case: Case, name: str) -> str:
    return f"{name}: {label(case['id'])}"
