"""Runs of a made-up measure, by hand: what a comparison and a gate look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from leakmeter.core.quantity import SHARE_OF_CASES, AnyQuantity, LowerBound, Quantity, RunQuantity
from leakmeter.results.results import MeasuredCases


@dataclass(frozen=True)
class Leak:
    """The result of a case."""

    defining: ClassVar[tuple[str, ...]] = ()
    id: str
    leak: float | None
    floor: float
    right: float | None
    whole: float | None
    is_least: bool = False
    spans: float | None = None
    length: float | None = None
    cluster: str | None = None


QUANTITIES: tuple[AnyQuantity, ...] = (
    Quantity(
        "leak",
        "nats",
        "What leaks.",
        lambda case: case.leak,
        floor=lambda case: case.floor,
        lower_bound=LowerBound(lambda case: case.is_least, "not all was scored", "score all"),
    ),
    Quantity(
        *("leak.right", SHARE_OF_CASES, "Whether it is right.", lambda case: case.right),
        worse="less",
        usual="mean",
        sense="quality",
    ),
    Quantity(
        "leak.spans",
        "disclosures",
        "How many spans leak.",
        lambda case: case.spans,
        lower_bound=LowerBound(
            lambda case: case.is_least and case.spans is not None, "not all was scored", "score all"
        ),
        usual="max",
        predicate="leak spans",
        decides=True,
    ),
    Quantity("leak.length", "tokens", "How long it is.", lambda case: case.length, sense="neither"),
    RunQuantity("leak.whole", "share", "What leaks of all.", lambda cases: max(case.whole for case in cases)),
)


def run(
    leaks: Sequence[float | None],
    *,
    ids: Sequence[str] | None = None,
    right: Sequence[float | None] | None = None,
    spans: Sequence[float | None] | None = None,
    length: Sequence[float | None] | None = None,
    clusters: Sequence[str | None] | None = None,
    whole: float | None = 0.5,
    floor: float = 0.0,
    least: Sequence[int] = (),
    measure: str = "leak",
    texts: str = "same",
    **settings: Any,
) -> MeasuredCases:
    names = [f"case {number}" for number in range(len(leaks))] if ids is None else list(ids)
    cases = tuple(
        Leak(id_, leak, floor, is_right, whole, number in least, n_spans, n_tokens, cluster)
        for number, (id_, leak, is_right, n_spans, n_tokens, cluster) in enumerate(
            zip(
                names,
                leaks,
                *(values or [None] * len(leaks) for values in (right, spans, length, clusters)),
                strict=True,
            )
        )
    )
    spec = {
        "model": {"name": "toy", "dtype": settings.pop("dtype", "float64")},
        "params": {"seed": settings.pop("seed", 0), "temperature": settings.pop("temperature", 1.0)},
        "prompts": {"template": settings.pop("template", "plain")},
        "version": settings.pop("version", "0.1.0"),
        "cases": [{"id": id_, "text": texts} for id_ in names],
    }
    assert not settings
    return MeasuredCases(measure, spec, cases, QUANTITIES)
