"""Batches of exemplars built by hand, a model that makes them vote as a test wants, and rules with mistakes in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from helpers.naive import log_softmax
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem, Span
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.generation.measure import PrivateGeneration
from leakmeter.privacy.clipped_logits import Aggregation, average, clipped
from leakmeter.privacy.mechanism import ClippedLogitAggregation

Series = dict[tuple[int, str, str], np.ndarray]


def batch(
    exemplars: Sequence[Sequence[int]],
    *,
    stop_ids: Sequence[int] = (),
    response: Sequence[int] | None = None,
    id_: str = "hand",
) -> ContextItem:
    """Exemplars of these tokens, e1, e2 and so on, each alone between the same frame and query."""
    frame, query = Piece("opening", "frame", (0, 1)), Piece("answer", "frame", (2,))
    pieces = [Piece(f"e{i}", "context", tuple(ids)) for i, ids in enumerate(exemplars, 1)]
    whole = Prompt((frame, *pieces, query))
    return ContextItem(
        id=id_, prompt=whole,
        spans=tuple(Span(p.name, "unit", ((i, i + 1),), (p.name,), f"x{i}", len(p.ids)) for i, p in enumerate(pieces)),
        cuts={p.name: whole.without(p.name) for p in pieces},
        alone={p.name: Prompt((frame, p, query)) for p in pieces}, blank=Prompt((frame, query)), placebos=(),
        response=None if response is None else tuple(response), stop_ids=frozenset(stop_ids),
    )  # fmt: skip


@dataclass(frozen=True)
class Mistaken:
    """A rule that does one thing and claims another; asked row by row."""

    does: Aggregation
    says: Aggregation
    clips: bool = True
    public_first: bool = False
    adjacency: Any = "add-remove"

    def log_probs(self, rows: Any) -> Any:
        return average(clipped(rows, self.does.clip) if self.clips else rows, self.does).log_probs

    def bound(self, orders: Any) -> npt.NDArray[np.float64]:
        return ClippedLogitAggregation(self.says).bound(orders)


def readings_of(backend: object, measure: PrivateGeneration, item: ContextItem) -> Series:
    """(sequence, statistic, exemplar) to values."""
    (measurements,), _ = drive(backend, [measure.trial(item)])  # type: ignore[arg-type]
    series = {(r.sample, r.statistic, r.piece): r.values for r in measurements}
    assert len(series) == len(measurements)
    assert {r.item for r in measurements} == {item.id}
    return series


def tokens_of(series: Series) -> list[tuple[int, ...]]:
    n = 1 + max(number for number, _, _ in series)
    return [tuple(int(token) for token in series[i, "token", ""]) for i in range(n)]


class ByHand:
    """Algorithm 1 and its audit, one full prompt and one row at a time, in plain floats."""

    def __init__(
        self, toy: Toy, item: ContextItem, clip: float, temperature: float, masked: Sequence[int] = ()
    ) -> None:
        self.toy, self.item, self.clip, self.temperature, self.masked = toy, item, clip, temperature, set(masked)
        self.names = [span.name for span in item.spans]

    def votes(self, name: str, written: Sequence[int]) -> dict[int, float]:
        """clip_c of an exemplar's row, of the tokens that may come."""
        ids = np.asarray([*self.item.alone[name].ids.tolist(), *written])
        row = {v: float(z) for v, z in enumerate(self.toy.logits(ids, np.arange(len(ids)))) if v not in self.masked}
        top = max(row.values())
        return {v: max(-self.clip, z - top + self.clip) for v, z in row.items()}

    def log_probs(self, written: Sequence[int], without: str = "") -> dict[int, float]:
        """log softmax(z̄ / τ), divided by as many as there are with all of them."""
        votes = [self.votes(name, written) for name in self.names if name != without]
        tokens = self.votes(self.names[0], written)
        mean = {v: math.fsum(vote[v] for vote in votes) / len(self.names) / self.temperature for v in tokens}
        return dict(zip(mean, log_softmax(mean.values()), strict=True))

    def divergence(self, written: Sequence[int], name: str, order: float) -> float:
        """D_α↔ between the distribution with all exemplars and without one."""
        p, q = self.log_probs(written), self.log_probs(written, name)

        def one_way(a: dict[int, float], b: dict[int, float]) -> float:
            if order == math.inf:
                return max(a[v] - b[v] for v in a)
            return math.log(math.fsum(math.exp(order * a[v] + (1 - order) * b[v]) for v in a)) / (order - 1)

        return max(one_way(p, q), one_way(q, p))
