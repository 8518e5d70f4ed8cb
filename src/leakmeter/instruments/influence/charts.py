"""Figures of influence: pieces of one response, or by their place over many, and a heat map of pieces and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leakmeter.instruments.influence import findings
from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
from leakmeter.instruments.influence.search_report import is_partial, units_left
from leakmeter.report import blocks as b
from leakmeter.report.scale import nats_text
from leakmeter.stats.aggregates import aggregate, interval_of_aggregate
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

_PIECES_AT_MOST: Final = 30
_TOKENS_AT_MOST: Final = 60


def charts(cases: Sequence[InfluenceResult]) -> Iterator[b.Chart]:
    pieces = _of_one(cases[0]) if len(cases) == 1 else _over_cases(cases)
    if pieces is not None:
        yield pieces
    most = max(cases, key=lambda case: case.whole_nats)
    if _units(most) and most.response.tokens:
        yield _heat_map(most)


def _units(case: InfluenceResult) -> list[PieceInfluence]:
    """The pieces that a context is cut into, in its order: units, and documents whose sentences were not measured."""
    shown = [case.pieces[i] for i in findings.shown_in_context(case.pieces) if case.pieces[i].kind != "value"]
    return sorted(shown, key=lambda piece: piece.start) if findings.has_documents(shown) else shown


def _strongest(case: InfluenceResult) -> list[PieceInfluence]:
    """The pieces of most influence that a figure has room for, in the order of the context."""
    pieces = _units(case)
    order = sorted(range(len(pieces)), key=lambda i: -pieces[i].nats)
    return [pieces[i] for i in sorted(order[:_PIECES_AT_MOST])]


def _name(piece: PieceInfluence) -> b.Phrase:
    return b.Untrusted(f"{piece.name}: {piece.text}", 48)


def _of_one(case: InfluenceResult) -> b.Chart | None:
    shown = _strongest(case)
    if not shown:
        return None
    means = [piece.mean_nats for piece in shown if piece.mean_nats is not None]
    intervals = [piece.interval_nats for piece in shown if piece.interval_nats is not None]
    is_mean, has_intervals = len(means) == len(shown), len(intervals) == len(shown)
    left_out = len(_units(case)) - len(shown)
    unknown = len(units_left(case))
    nats = means if is_mean else [piece.nats for piece in shown]
    series = [
        b.ChartSeries(
            "rows",
            [nats[i] for i in places],
            [float(i) for i in places],
            low=[intervals[i][0] for i in places] if has_intervals else (),
            high=[intervals[i][1] for i in places] if has_intervals else (),
            name=name,
            faded=not of_finding,
            colour=0,
        )
        for of_finding, name in ((True, "above the placebo"), (False, "no finding"))
        if (places := [i for i, piece in enumerate(shown) if findings.is_finding(case, piece) is of_finding])
    ]
    x = b.Axis(f"influence of the piece{', mean over responses' * is_mean}", "nats")
    floor = case.noise_floor_nats
    guides = [b.Guide(floor, f"noise floor, {nats_text(floor)} nats", "x", "dotted")]
    if case.placebo_nats is not None:
        guides.append(b.Guide(case.placebo_nats, f"placebo, {nats_text(case.placebo_nats)} nats", "x"))
    return b.Chart(
        "pieces",
        "Influence of each piece of the context",
        [b.Panel(x, b.Axis("", names=[_name(piece) for piece in shown]), series, guides=guides)],
        footer=_in_one_line(
            "Bars: 95 % intervals over responses that were drawn" if has_intervals else "",
            f"{left_out:,} weaker pieces left out" if left_out else "",
            f"{unknown:,} without an exact value are not shown" if unknown else "",
        ),
        panel_inches=(7.2, 1.1 + 0.24 * max(len(shown), 4)),
        on="files",
    )


def _over_cases(cases: Sequence[InfluenceResult]) -> b.Chart | None:
    """Pieces at the same place of their contexts; None where cases were cut otherwise, or personal data was.

    None too where some pieces have no exact value: those that have one were chosen for it, and means would be too high.
    """
    if len({case.unit for case in cases}) > 1 or any(case.unit == "entity" or is_partial(case) for case in cases):
        return None
    if any(case.n_unmeasured_pieces or case.steps is not None for case in cases):
        return None
    by_name: dict[str, list[float]] = {}
    for case in cases:
        for piece in _units(case):
            by_name.setdefault(piece.name, []).append(piece.nats)
    enough = {name: values for name, values in by_name.items() if 2 * len(values) >= len(cases)}
    shown = dict(list(enough.items())[:_PIECES_AT_MOST])
    if not shown:
        return None
    means = [aggregate(values, "mean") for values in shown.values()]
    ends = [
        interval_of_aggregate(values, "mean", seed=0) or (mean, mean)
        for values, mean in zip(shown.values(), means, strict=True)
    ]
    series = b.ChartSeries("bar", means, low=[low for low, _ in ends], high=[high for _, high in ends])
    x = b.Axis(
        ("piece (", b.Untrusted(cases[0].unit, 40), "), by its place"), names=[b.Untrusted(name) for name in shown]
    )
    later = len(enough) - len(shown)
    intervals = "with 95 % intervals" if len(cases) >= FEWEST_FOR_INTERVAL else "too few for intervals"
    return b.Chart(
        "pieces",
        "Influence by place in the context",
        [b.Panel(x, b.Axis("influence of the piece", "nats"), (series,))],
        footer=_in_one_line(
            f"Means over {len(cases):,} cases, {intervals}; pieces that at least half of them have",
            f"{later:,} later ones left out" if later else "",
        ),
        panel_inches=(max(4.8, 1.0 + 0.32 * len(shown)), 3.8),
        on="files",
    )


def _heat_map(case: InfluenceResult) -> b.Chart:
    shown = _strongest(case)
    tokens = case.response.tokens[:_TOKENS_AT_MOST]
    left_out = len(_units(case)) - len(shown), len(case.response.tokens) - len(tokens)
    unknown = len(units_left(case))
    floors = (case.placebo_per_token_nats or [case.noise_floor_per_token_nats] * len(tokens))[: len(tokens)]
    panel = b.Panel(
        b.Axis("token of the response", names=[b.Untrusted(token, 14) for token in tokens]),
        b.Axis("", names=[_name(piece) for piece in shown]),
        grid=[
            [
                max(0.0, nats - floor) if findings.is_finding(case, piece) else 0.0
                for nats, floor in zip(piece.per_token_nats, floors, strict=False)
            ]
            for piece in shown
        ],
    )
    return b.Chart(
        "tokens",
        "Influence of each piece on each token",
        [panel],
        footer=_in_one_line(
            "The response most influenced by its context; colours are nats above the placebo",
            *(f"{n:,} more {noun} left out" for n, noun in zip(left_out, ("pieces", "tokens"), strict=True) if n),
            f"{unknown:,} pieces without an exact value not shown" if unknown else "",
        ),
        panel_inches=(3.6 + 0.16 * len(tokens), 1.6 + 0.2 * max(len(shown), 4)),
        on="files",
    )


def _in_one_line(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
