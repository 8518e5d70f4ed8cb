"""Charts of private generation: bound and measurement over the order, and each exemplar against its bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from leakmeter.instruments.generation import words
from leakmeter.instruments.generation.result import PrivateGenerationResult
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text

_BATCHES_AT_MOST: Final = 6
"""In a figure."""
_INK, _ORANGE = 6, 1  # colours of bounds, and of measurements
_SEEN: Final = 1.05
"""Ratio from which on one line is seen beside another."""
_TICKS_APART: Final = 0.2  # log-ratio


def of_batch(case: PrivateGenerationResult) -> b.Chart | None:
    """Bound and measurement over the order, for the page of a batch; None where nothing can be drawn."""
    panel = _panel_of_orders(case, "")
    if not panel.series:
        return None
    return b.Chart(
        "orders-of-batch",
        "Rényi divergence of all tokens together, bound and measured, over its order",
        (panel,),
        footer="Both axes logarithmic: what is 0 or infinite is not drawn.",
        panel_inches=(6.4, 3.4),
        on="pages",
    )


def figures(cases: Sequence[PrivateGenerationResult]) -> Iterator[b.Chart]:
    """Bound and measurement over the order, and each exemplar against its bound; batches beside one another."""
    shown = {f"batch {number}: ": case for number, case in enumerate(cases[:_BATCHES_AT_MOST], 1)}
    footer = f"{len(cases) - len(shown):,} more batches left out" if len(shown) < len(cases) else ""
    yield b.Chart(
        "orders",
        "Bound against measurement, all tokens together",
        [_panel_of_orders(case, (name, b.Untrusted(case.id, 48))) for name, case in shown.items()],
        footer=footer,
        columns=3,
        panel_inches=(4.4, 3.6),
        on="files",
    )
    yield b.Chart(
        "exemplars",
        "What each exemplar paid of its bound",
        [_panel_of_exemplars(case, (name, b.Untrusted(case.id, 48))) for name, case in shown.items()],
        footer=footer,
        columns=3,
        panel_inches=(4.4, 3.8),
        on="files",
    )


def _panel_of_orders(case: PrivateGenerationResult, title: b.Phrase) -> b.Panel:
    """Rényi divergences of all tokens together; what is 0 or infinite is on no logarithmic axis."""
    looks = (
        ("bound", "bound", partial(b.Series, colour=_INK)),
        ("sum_of_maxima", "measured, sum of maxima", partial(b.Series, faded=True)),
        ("measured", "measured, worst exemplar", partial(b.Series, colour=_ORANGE)),
    )
    series = []
    for what, name, drawn in looks:
        if what == "sum_of_maxima" and not any(
            row.sum_of_maxima_nats > _SEEN * row.measured_nats for row in case.by_order
        ):
            continue
        points = _drawable((row.order, getattr(row, f"{what}_nats")) for row in case.by_order)
        if points:
            captions = [f"order {words.order_text(x)}: {name} {nats_text(y)} nats" for x, y in points]
            xs, ys = zip(*points, strict=True)
            series.append(drawn("line", ys, xs, name=name, said=captions))
    return b.Panel(
        b.Axis("order α", scale="log", ticks=_ticks(case)),
        b.Axis("Rényi divergence", "nats", scale="log"),
        series,
        title=title,
        guides=(b.Guide(case.bounds.order, "order of the guaranteed ε", across="x"),),
    )


def _ticks(case: PrivateGenerationResult) -> list[float]:
    """The order of the guarantee, and those of the others whose numbers do not stand on one another."""
    orders = sorted(row.order for row in case.by_order if row.order < math.inf)
    kept = [case.bounds.order]
    for order in orders:
        if all(abs(math.log(order / other)) > _TICKS_APART for other in kept):
            kept.append(order)
    return sorted(kept)


def _panel_of_exemplars(case: PrivateGenerationResult, title: b.Phrase) -> b.Panel:
    """Each exemplar at each finite order; above the diagonal the guarantee is broken."""
    points = _drawable(
        (row.bound_nats, nats)
        for exemplar in case.exemplars
        for row, nats in zip(case.by_order, exemplar.by_order_nats, strict=True)
        if row.order < math.inf
    )
    xs, ys = [x for x, _ in points], [y for _, y in points]
    ends = (min(xs), max(xs)) if xs else (1.0, 10.0)
    series = [b.Series("line", ends, ends, name="all of the bound", faded=True)]
    if points:
        series.append(b.Series("scatter", ys, xs, name="an exemplar, at an order", colour=_ORANGE))
    return b.Panel(b.Axis("bound", "nats", scale="log"), b.Axis("measured", "nats", scale="log"), series, title=title)


def _drawable(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if 0.0 < x < math.inf and 0.0 < y < math.inf]
