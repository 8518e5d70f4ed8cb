"""What influence, decoding and plans of redaction found: bars of pieces, a heat map, and losses that add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.report import scale, words
from leakmeter.report.drawing import Bar, Drawing, columns, inches, label, rows
from leakmeter.report.findings import Findings, mean_text
from leakmeter.report.scale import nats_text
from leakmeter.report.shade import Case
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate

_PIECES_AT_MOST: Final = 30
_TOKENS_AT_MOST: Final = 60


def of_influence(cases: Sequence[Case]) -> Findings:
    """Pieces with intervals, and pieces over the tokens of the response that owes most."""
    values = [case["whole_nats"] for case in cases]
    headline = words.verdict(cases[0])
    if len(cases) > 1:
        headline = (
            f"The contexts changed {len(cases):,} responses by {mean_text(values)} on average, and one by "
            f"{nats_text(max(values))}\u00a0nats."
        )
    figures = {}
    pieces = _of_one(cases[0]) if len(cases) == 1 else _over_cases(cases)
    if pieces is not None:
        figures["pieces"] = pieces
    most = max(cases, key=lambda case: case["whole_nats"])
    if _units(most) and most["response"]["tokens"]:
        figures["tokens"] = _heat_map(most)
    return Findings(headline, figures=figures)


def _units(case: Case) -> list[Mapping[str, Any]]:
    """The pieces that are no values said several times, in the order of the context."""
    return [piece for piece in case["pieces"] if piece["kind"] == "unit"]


def _strongest(case: Case) -> list[Mapping[str, Any]]:
    """As many pieces as can be shown, those that the response owes most, in the order of the context."""
    pieces = _units(case)
    order = sorted(range(len(pieces)), key=lambda i: -pieces[i]["nats"])
    return [pieces[i] for i in sorted(order[:_PIECES_AT_MOST])]


def _of_one(case: Case) -> Drawing | None:
    shown = _strongest(case)
    if not shown:
        return None
    is_mean = all(piece["mean_nats"] is not None for piece in shown)
    bars = [
        Bar(
            f"{piece['name']}: {piece['text']}",
            piece["mean_nats"] if is_mean else piece["nats"],
            piece["interval_nats"] if is_mean else None,
        )
        for piece in shown
    ]
    left_out = len(_units(case)) - len(shown)

    def paint(panel: Any, _: str) -> None:
        rows(panel, bars, x_label=f"nats that the response owes to the piece{', mean over responses' * is_mean}")
        floor = case["noise_floor_nats"]
        panel.axvline(floor, color="0.4", linewidth=1, linestyle="--", label=f"noise floor, {nats_text(floor)} nats")

    return Drawing(
        "Influence of each piece of the context",
        ("pieces",),
        paint,
        footer=_said(
            "Bars: 95 % intervals over responses that were drawn" if is_mean else "",
            f"{left_out:,} weaker pieces left out" if left_out else "",
        ),
        panel_inches=inches(len(bars)),
    )


def _over_cases(cases: Sequence[Case]) -> Drawing | None:
    """Pieces at the same place of their contexts; None where cases were cut otherwise, or personal data was."""
    if len({case["unit"] for case in cases}) > 1 or any(case["unit"] == "entity" for case in cases):
        return None
    found: dict[str, list[float]] = {}
    for case in cases:
        for piece in _units(case):
            found.setdefault(piece["name"], []).append(piece["nats"])
    enough = {name: values for name, values in found.items() if 2 * len(values) >= len(cases)}
    bars = [
        Bar(name, aggregate(values, "mean"), interval_of_aggregate(values, "mean", seed=0))
        for name, values in list(enough.items())[:_PIECES_AT_MOST]
    ]
    if not bars:
        return None
    return Drawing(
        "Influence by place in the context",
        ("pieces",),
        lambda panel, _: columns(
            panel, bars, x_label=f"piece ({cases[0]['unit']}), by its place", y_label="influence of the piece, nats"
        ),
        footer=_said(
            f"Means over {len(cases):,} cases with 95 % bootstrap intervals; pieces that at least half of them have",
            f"{len(enough) - len(bars):,} later ones left out" if len(bars) < len(enough) else "",
        ),
        panel_inches=(max(4.8, 1.0 + 0.32 * len(bars)), 3.8),
    )


def _heat_map(case: Case) -> Drawing:
    shown = _strongest(case)
    tokens = case["response"]["tokens"][:_TOKENS_AT_MOST]
    nats = np.asarray([piece["per_token"][: len(tokens)] for piece in shown], dtype=np.float64)
    left_out = len(_units(case)) - len(shown), len(case["response"]["tokens"]) - len(tokens)

    def paint(panel: Any, _: str) -> None:
        from matplotlib.colors import FuncNorm, ListedColormap

        colours = ListedColormap(["#ffffff", *(swatch.paper for swatch in scale.ramp(dark=False))])
        knee = scale.KNEE_NATS
        norm = FuncNorm(
            (lambda x: np.log1p(np.maximum(x, 0.0) / knee), lambda y: knee * np.expm1(y)), vmin=0.0, vmax=scale.TOP_NATS
        )
        mesh = panel.pcolormesh(nats, cmap=colours, norm=norm, edgecolors="0.93", linewidth=0.4, rasterized=True)
        panel.set_yticks(np.arange(len(shown)) + 0.5, [label(f"{p['name']}: {p['text']}") for p in shown], fontsize=7)
        panel.set_xticks(np.arange(len(tokens)) + 0.5, [label(token, 14) for token in tokens], rotation=90, fontsize=7)
        panel.invert_yaxis()
        bar = panel.figure.colorbar(mesh, ax=panel, ticks=[0.0, *scale.TICKS_NATS], pad=0.01)
        bar.ax.set_yticklabels([f"{tick:g}" for tick in (0.0, *scale.TICKS_NATS)])
        bar.set_label("nats")
        panel.set_xlabel("token of the response")

    return Drawing(
        "Influence of each piece on each token",
        ("tokens",),
        paint,
        footer=_said(
            "The response that owes most to its context",
            *(f"{n:,} more {what} left out" for n, what in zip(left_out, ("pieces", "tokens"), strict=True) if n),
        ),
        panel_inches=(3.6 + 0.16 * len(tokens), 1.6 + 0.2 * max(len(shown), 4)),
    )


def _said(*parts: str) -> str:
    return "; ".join(filter(None, parts))
