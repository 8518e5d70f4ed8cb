"""The numbers of an audited batch, put together from its measurements: what was measured, promised and judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakmeter.core.measurement import Measurement
from leakmeter.core.request import FloatArray
from leakmeter.instruments.generation.measure import MAX_DIVERGENCE, RENYI
from leakmeter.privacy.mechanism import Guarantee, guarantee
from leakmeter.privacy.verdict import Comparison, Verdict, judge


@dataclass(frozen=True, slots=True)
class Audited:
    """The numbers of a batch; tokens of all its sequences stand one behind another."""

    series: Mapping[tuple[int, str, str], FloatArray]
    """Number of a sequence, name of an exemplar and statistic to values."""
    names: list[str]
    """Of the exemplars."""
    lengths: list[int]
    """Tokens of each sequence."""
    orders: list[float]
    losses: FloatArray
    """D_α↔, nats, (token, exemplar, order)."""
    shares: FloatArray
    """The same over its promise."""
    verdict: Verdict
    whole: Guarantee
    """Of the most tokens there may be."""
    spent: Guarantee
    """Of those there came to be."""

    @classmethod
    def of(cls, texts: Mapping[str, Any], measurements: Sequence[Measurement], params: Mapping[str, Any]) -> Audited:
        """From measurements and what they are about (see `runs.measure.texts_of`), and parameters of the measure."""
        series = {(r.sample, r.piece, r.statistic): r.values for r in measurements}
        names = [span["name"] for span in texts["spans"]]
        lengths = [len(series[i, "", "token"]) for i in range(len(texts["responses"]))]

        def stacked(statistic: str) -> FloatArray:
            """(token, exemplar)."""
            rows = [np.stack([series[i, name, statistic] for name in names], axis=-1) for i in range(len(lengths))]
            return np.concatenate(rows)

        measured = {
            math.inf if statistic == MAX_DIVERGENCE else float(statistic.removeprefix(RENYI)): statistic
            for _, piece, statistic in series
            if piece and (statistic == MAX_DIVERGENCE or statistic.startswith(RENYI))
        }
        orders = sorted(measured)
        losses = np.stack([stacked(measured[order]) for order in orders], axis=-1)
        promised_orders = series[0, "", "promised_order"].tolist()
        limits = dict(zip(promised_orders, series[0, "", "promised_rdp"].tolist(), strict=True))
        limits[math.inf] = float(series[0, "", f"promised_{MAX_DIVERGENCE}"][0])

        def promised(of: Sequence[float]) -> FloatArray:
            return np.asarray([limits[float(order)] for order in of])

        # An infinite loss where nothing is promised is NaN, the worst of all.
        with np.errstate(invalid="ignore"):
            shares = losses / promised(orders)
        return cls(
            series,
            names,
            lengths,
            orders,
            losses,
            shares,
            judge(losses, orders, promised, stacked("ratio"), stacked("order")),
            guarantee(promised, params["sequences"] * params["max_new_tokens"], params["delta"], promised_orders),
            guarantee(promised, sum(lengths), params["delta"], promised_orders),
        )

    @property
    def at(self) -> int:
        """Number of the promise's α* among the orders."""
        return self.orders.index(self.whole.order)

    def place(self, token: int) -> tuple[int, int]:
        """Number of a token to its sequence and its number there."""
        sequence = int(np.searchsorted(np.cumsum(self.lengths), token, side="right"))
        return sequence, token - sum(self.lengths[:sequence])

    def worst_token(self, exemplars: Sequence[int]) -> Comparison:
        """Where most of the promise was used: the token, the exemplar of these, and the order."""
        shares = self.shares[:, list(exemplars)]
        token, column, at = (int(i) for i in np.unravel_index(shares.argmax(), shares.shape))
        measured = float(self.losses[token, exemplars[column], at])
        promised = float(self.verdict.promised_per_token[at])
        return Comparison(exemplars[column], token, self.orders[at], measured, promised)
