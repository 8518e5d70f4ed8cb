"""What runs keep of a batch of exemplars, or of a part of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from leakmeter.core.measurement import WEIGHT, Measurement
from leakmeter.instruments.generation.measure import MAX_DIVERGENCE, RENYI
from leakmeter.overriding import override
from leakmeter.privacy.rdp import to_epsilon
from leakmeter.privacy.renyi import SPREAD
from leakmeter.storage.damage import FieldError
from leakmeter.storage.kept import MOST, KeptCase, Series

_PROMISED_ORDER: Final = "promised_order"
_PROMISED_RDP: Final = "promised_rdp"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch(KeptCase):
    """The texts of a batch; the exemplars are its spans, and the samples its responses."""

    @override
    def __post_init__(self) -> None:
        super(KeptBatch, self).__post_init__()
        if not self.spans or not self.responses:
            raise FieldError("responses" if self.spans else "spans", "has none")

    @override
    def series(self, params: Mapping[str, Any], measurements: Sequence[Measurement]) -> Iterator[Series]:
        names = self.span_names
        promised, limits = (
            next(
                (measurement.values for measurement in measurements if measurement.statistic == statistic), np.empty(0)
            )
            for statistic in (_PROMISED_ORDER, _PROMISED_RDP)
        )
        orders = {f"{RENYI}{order:g}" for order in promised}
        if not ((promised > 1) & np.isfinite(promised)).all() or len(orders) < len(promised):
            raise FieldError(f"value of {_PROMISED_ORDER}", "has to be different orders above 1")
        if not len(promised) == len(limits) > 0:
            raise FieldError(f"statistic {_PROMISED_RDP}", "is not there of each order")
        n_tokens = params["sequences"] * params["max_new_tokens"]
        with np.errstate(over="ignore"):
            _, best = to_epsilon(n_tokens * limits, promised.tolist(), params["delta"])
        yield Series(_PROMISED_ORDER, (len(promised),), unit=WEIGHT)
        yield Series(_PROMISED_RDP, (len(promised),))
        yield Series(f"promised_{MAX_DIVERGENCE}", (1,))
        yield self.response_ids
        yield from self.of_tokens("log_prob", "bare_log_prob")
        yield from self.of_tokens("ratio", pieces=names, unit=WEIGHT)
        yield from self.of_tokens("order", pieces=names, unit=WEIGHT)
        yield from self.of_tokens("verbatim", pieces=names, unit=WEIGHT, below=MOST)
        yield from self.of_tokens(MAX_DIVERGENCE, pieces=names)
        measured = {measurement.statistic for measurement in measurements if measurement.statistic.startswith(RENYI)}
        for statistic in measured | {f"{RENYI}{order:g}" for order in (*SPREAD, best)}:
            if statistic not in orders:
                raise FieldError("statistic", "is a divergence of an order without a bound")
            yield from self.of_tokens(statistic, pieces=names)
        all_orders = {*promised.tolist(), float("inf")}
        for measurement in measurements:
            if measurement.statistic == "order" and not all_orders.issuperset(measurement.values.tolist()):
                raise FieldError("value of order", "is an order without a bound")
