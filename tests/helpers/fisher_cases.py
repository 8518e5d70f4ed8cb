"""Invented queries whose susceptibility was measured by gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helpers.report_cases import HOSTILE
from helpers.susceptibility_cases import COST
from leakmeter.instruments.susceptibility.fisher.result import FisherResult, SigmaValue


def value(sigma: str, nats: float, **more: Any) -> SigmaValue:
    made = SigmaValue(
        sigma=sigma, fisher_nats=nats, spread_nats=nats / 4, drift_nats=0.75 * nats, standard_error_nats=0.1,
        interval_nats=(nats / 2, 2 * nats), trace_nats_per_square=2 * nats if sigma == "identity" else None,
    )  # fmt: skip
    return replace(made, **more)


def asked(id_: str = "q1", nats: float = 0.5, **more: Any) -> FisherResult:
    made = FisherResult(
        id=id_, model="tiny", weights_sha256=None, dtype="float32", template="plain", separator="\n",
        query=f"Query {id_} meows.", factors={"form": "question"}, answers=(), answer=None, estimator="fisher",
        method="deflated", sigma=("identity", "empirical"), place="layer:3", probes=8, directions=8, top_k=16,
        slot_tokens=16, relative_error=None, max_probes=256, seed=0, n_contexts=4,
        values=(value("identity", 100 * nats), value("empirical", nats)), entropy_nats=3.0, n_query_tokens=9,
        n_probes=8, top_mass=None, warnings=(),
        cost=replace(COST, requests=1, naive_tokens=60),
    )  # fmt: skip
    return replace(made, **more)


def several(n: int) -> list[FisherResult]:
    forms = ("question", "completion")
    return [
        asked(f"q{i}", 0.5 + 0.01 * i, factors={"form": forms[i % 2], "entity": f"e{i}"}, n_query_tokens=40 - i)
        for i in range(n)
    ]


def hostile() -> FisherResult:
    return asked(
        HOSTILE, model=HOSTILE, query=HOSTILE, template=HOSTILE, warnings=(HOSTILE,), factors={HOSTILE: HOSTILE}
    )
