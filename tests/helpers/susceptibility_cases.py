"""Invented queries whose susceptibility was measured by Monte Carlo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from helpers.report_cases import HOSTILE
from leakmeter.core.cost import ResultCost
from leakmeter.instruments.susceptibility.result import ContextSusceptibility, Memorisation, SusceptibilityResult

COUNTS: Final = {"n_original": 3, "n_context": 1, "n_neither": 2, "ratio": 0.75, "ratio_interval": (0.3, 0.95)}
COST: Final = ResultCost(
    requests=4, tree_tokens=60, naive_tokens=120, seconds=0.5,
    out_of_memory_retries=0, scored_together=8,
)  # fmt: skip


def context(i: int, nats: float, **more: Any) -> ContextSusceptibility:
    made = ContextSusceptibility(
        id=f"c{i}", text=f"Context {i} says so.", weight=0.25, answer=None, persuasion_nats=nats,
        persuasion_from_bare_nats=nats + 0.5, susceptibility_without_nats=0.3, rank=i, below_noise_floor=False,
        greedy_answer=None, greedy_answer_is=None,
    )  # fmt: skip
    return replace(made, **more)


def asked(id_: str = "q1", nats: float = 0.5, *, n: int = 4, **more: Any) -> SusceptibilityResult:
    made = SusceptibilityResult(
        id=id_, model="toy", weights_sha256=None, dtype="float32", template="plain", separator="\n",
        query=f"Query {id_} meows.", factors={"form": "question"}, answers=(), answer=None, estimator="monte-carlo",
        temperature=1.0, answer_tokens=0, n_contexts=n, susceptibility_nats=nats, standard_error_nats=0.1,
        interval_nats=(nats / 2, 2 * nats), bias_nats=-0.01, bias_is_small=True, ceiling_nats=1.386,
        share_of_ceiling=nats / 1.386, from_bare_nats=nats + 0.25, mixture_from_bare_nats=0.25, bare_entropy_nats=2.0,
        mixture_entropy_nats=3.0, noise_floor_nats=1e-5, below_noise_floor=nats <= 1e-5,
        contexts=tuple(context(i, nats * 2 / i) for i in range(1, n + 1)), memorisation=None, warnings=(), cost=COST,
    )  # fmt: skip
    return replace(made, **more)


def several(n: int) -> list[SusceptibilityResult]:
    forms = ("question", "completion")
    return [asked(f"q{i}", 0.5 + 0.01 * i, factors={"form": forms[i % 2], "entity": f"e{i}"}) for i in range(n)]


def hostile() -> SusceptibilityResult:
    contexts = tuple(context(i, 0.1, id=HOSTILE, text=HOSTILE, greedy_answer=HOSTILE) for i in (1, 2))
    return asked(
        HOSTILE, model=HOSTILE, query=HOSTILE, template=HOSTILE, separator=HOSTILE, warnings=(HOSTILE,),
        factors={HOSTILE: HOSTILE}, contexts=contexts, memorisation=Memorisation.from_dict({"knows": True, **COUNTS}),
    )  # fmt: skip


def with_greedy_answers() -> SusceptibilityResult:
    """A query with thirty contexts that state other answers, and a warning."""
    contexts = tuple(context(i, 1 / i, greedy_answer=" Poe") for i in range(1, 31))
    counts = Memorisation.from_dict({"knows": True, **COUNTS})
    return asked(n=30, contexts=contexts, memorisation=counts, warnings=("More contexts lessen it.",))
