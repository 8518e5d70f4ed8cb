"""Runs written by hand: two cases, one with two responses, and names that are no friends of SQL or of terminals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leakmeter.core.measure import NATS, RESPONSE, TOKEN_ID, Measurement
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import RunSpec

HOSTILE = "'); DROP TABLE measurements; --\x1b[31m"
CASES: tuple[dict[str, Any], ...] = (
    {"id": HOSTILE, "query": "Wer? 🙂", "context": "Anna Ek lives in Graz."},
    {"id": "b", "query": "Who?", "context": "Bo ate."},
)
SPEC = RunSpec(
    measure="handmade", params={"temperature": 0.5, "seed": 77, "unit": "sentence"},
    prompts={"instruction": "Ask Anna.", "samples": 2, "template": None},
    model={"name": "toy of Anna", "weights_sha256": None, "dtype": "float64", "device": "cpu"}, cases=CASES,
    version="0.2.0", environment={"numpy": "2"}, command="leakmeter influence", problems=("line 3 is not JSON",),
)  # fmt: skip
TEXTS: dict[str, Any] = {
    "model": "toy of Anna", "weights_sha256": None, "dtype": "float64", "unit": "sentence", "removal": "drop",
    "template": "plain", "documents": [], "truncated_tokens": 0, "sampled": True, "spans": [],
}  # fmt: skip
COST = {"seconds": 0.25, "requests": 3, "tree_tokens": 40, "naive_tokens": 90, "out_of_memory_retries": 1}


def readings_of(case: str) -> list[Measurement]:
    n = 1 if case == "b" else 2
    return [
        *(Measurement(case, i, "", RESPONSE, TOKEN_ID, np.array([65.0, 66.0])) for i in range(n)),
        *(Measurement(case, i, "Anna's note", "without_this", NATS, np.array([0.1, -np.inf, 1 / 3])) for i in range(n)),
        Measurement(case, 0, "s2", "without_this", NATS, np.array([np.nan])),
    ]


def texts_of(case: dict[str, Any], seconds: float = COST["seconds"]) -> dict[str, Any]:
    responses = [{"text": "AB", "tokens": ["A", "B"]} for _ in range(1 if case["id"] == "b" else 2)]
    return {**TEXTS, **case, "responses": responses, "cost": {**COST, "seconds": seconds}}


def written(root: Path, spec: RunSpec = SPEC, *, together: bool = False, seconds: float = 0.25, parts: int = 2) -> Path:
    """A run of the two cases, perhaps both in one part; with fewer parts than all it is left unfinished."""
    groups = [list(CASES)] if together else [[case] for case in CASES]
    with RunDirectory(root / spec.id).opened(spec) as run:
        for number, group in enumerate(groups[:parts]):
            readings = [r for c in group for r in readings_of(c["id"])]
            run.write_part(number, [texts_of(c, seconds) for c in group], readings)
        if parts >= len(groups):
            run.finish(spec, len(groups))
    return run.path


def other(version: str = "0.3.0") -> RunSpec:
    return replace(SPEC, version=version)


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """Every number of a run as the view `measurements` has it, the slow way."""
    return [
        (path.name, r.item, r.sample, r.piece, r.statistic, position, value, r.unit)
        for number in RunDirectory(path).parts
        for r in RunDirectory(path).read_part(number)[1]
        for position, value in enumerate(r.values.tolist())
    ]
