"""Which exemplars to ship: each list that is searched a run of its own, and what the queries that chose none say.

runs/
  icl-plan-9a…/           mode 0700: one directory for the exemplars, the queries, the model and the measure
    icl-1f2e…/            the run of one list before one half of the queries
    plan.json, table.md, exemplars.jsonl      of the last command

The directory's name leaves out the moves, the pool and the number of steps: a longer search goes on from what a shorter
one has measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from leakmeter.core.backend import Backend
from leakmeter.core.written import check_outside_runs
from leakmeter.errors import WindowError
from leakmeter.instruments.icl.draw import fixed_cases
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.moves import Exemplars, Scope
from leakmeter.instruments.icl.prompts import ExemplarSettings
from leakmeter.instruments.icl.result import IclResult, summary
from leakmeter.instruments.icl.search import Cases, Measured, Round, Search
from leakmeter.instruments.icl.study import FIXED_TOGETHER
from leakmeter.instruments.icl.table import loss_of
from leakmeter.runs.fingerprint import spec_of
from leakmeter.runs.measure import measure_cases, n_parts
from leakmeter.runs.rundir import RunDirectory
from leakmeter.stats import stats
from leakmeter.stats.rank_tests import signed_rank_p
from leakmeter.studies.cells import Progress, digest, used_directory
from leakmeter.text.exemplar import Example, Task

FEWEST: Final = 6
"""Queries of which Wilcoxon's two-sided p can fall below 0.05: with n of them it is 2^(1 − n) at least."""
_CHANCE: Final = 0.05


def plan_directory(
    scope: Scope, settings: ExemplarSettings, measure: Icl, model: str, out: Path, **machine: str | None
) -> Path:
    """The plan's directory under `out`, which need not be there.

    Args:
        scope: of which exemplars, queries and seed count.
        settings: how prompts are made.
        measure: what measures.
        model: by its name.
        out: directory of runs.
        machine: precision, device and memory, as given.

    Raises:
        StoreError: `out` lies in a run.
    """
    check_outside_runs(out, "directory of runs")
    told = {
        "exemplars": [asdict(example) for example in scope.exemplars],
        "queries": [asdict(query) for query in scope.queries],
        "settings": asdict(settings),
        "measure": asdict(measure),
        "model": model,
        "seed": scope.seed,
        "machine": machine,
        "version": metadata.version("leakmeter"),
    }
    return out / f"icl-plan-{digest(told)[:16]}"


@dataclass(frozen=True, slots=True)
class Lists:
    """Measures lists of exemplars, and goes on with what was measured before."""

    backend: Backend
    measure: Icl
    settings: ExemplarSettings
    directory: Path
    progress: Progress
    command: str | None

    @property
    def model(self) -> dict[str, Any]:
        """What measures."""
        backend = self.backend
        device = str(getattr(getattr(backend, "model", None), "device", "cpu"))
        told = {"name": backend.name, "weights_sha256": backend.weights_sha256, "dtype": backend.dtype}
        return {**told, "device": device}

    def longest(self, exemplars: Exemplars, queries: Sequence[Example]) -> Example:
        """The query of most tokens, which fits behind a list of exemplars if any query does.

        Raises:
            LeakmeterError: one of the queries cannot be measured behind these exemplars.
        """
        cases = fixed_cases(exemplars, queries)
        prepared = [self.settings.prepare(case, self.backend, self.measure) for case in cases]
        sizes = [len(one.item.prompt.ids) for one in prepared]
        return queries[sizes.index(max(sizes))]

    def fits(self, exemplars: Exemplars, query: Example) -> bool:
        """Whether a query fits the model's window behind these exemplars."""
        (case,) = fixed_cases(exemplars, [query])
        try:
            self.settings.prepare(case, self.backend, self.measure)
        except WindowError:
            return False
        return True

    def measured(self, exemplars: Exemplars, queries: Sequence[Example]) -> list[dict[str, Any]]:
        """The case objects of queries, all behind the same exemplars.

        Raises:
            LeakmeterError: a query cannot be measured so, or the run cannot be written.
        """
        backend, measure, settings, size = self.backend, self.measure, self.settings, FIXED_TOGETHER
        cases = fixed_cases(exemplars, queries)
        prepared = [settings.prepare(case, backend, measure) for case in cases]
        device = self.model["device"]
        spec = spec_of(measure, "icl", settings, backend, device, cases, group_size=size, command=self.command)
        with (
            used_directory(self.directory),
            RunDirectory.open(self.directory, spec) as run,
            self.progress(backend, len(cases)) as callbacks,
        ):
            parts = list(measure_cases(backend, measure, prepared, run, callbacks, group_size=size))
            if not run.is_complete:
                run.finish(spec, n_parts(len(cases), size))
        return [result.case for result in IclResult.from_run(parts, asdict(measure))]


def told_plan(scope: Scope, found: Search, before: Cases, after: Cases) -> dict[str, Any]:
    """What a search found, as one plain object; units stand in the names.

    `warnings` are those of the query, behind the exemplars at the end, whose labels are least likely together.

    Args:
        scope: what was searched.
        found: the search, on the queries that choose.
        before: case objects of the other queries behind the exemplars as given.
        after: of the same queries behind the exemplars at the end.
    """
    path, seed = found.path, scope.seed
    rounds = [_told_round(one) for one in found.rounds]
    return {
        "moves": list(scope.kinds),
        "max_steps": scope.max_steps,
        "seed": seed,
        "candidates": [example.id for example in scope.pool],
        "n_choosing": len(scope.choosing),
        "n_reporting": len(scope.reporting),
        "steps": [{"step": number, **told_list(one)} for number, one in enumerate(path)],
        "rounds": rounds,
        "ended": "no move lowers it" if found.is_exhausted else "max steps",
        "n_lists": 1 + sum(one["n_lists"] for one in rounds),
        "exemplars": [{"id": example.id, "label": example.label} for example in path[-1].exemplars],
        "before": summary(before, seed=seed),
        "after": summary(after, seed=seed),
        **_compared(before, after, n_steps=len(path) - 1, seed=seed),
        "warnings": list(min(after, key=lambda case: float(case["label_mass"]))["warnings"]),
    }


def told_list(one: Measured) -> dict[str, Any]:
    """A list, and what the choosing queries say of it."""
    move = one.move
    return {
        "move": None if move is None else {"kind": move.kind, "positions": move.positions, "new": _id(move.new)},
        "exemplars": [example.id for example in one.exemplars],
        "loss_nats": _plain(one.icl_inf),
        "largest_nats": _plain(max(map(loss_of, one.cases))),
        "accuracy": stats.mean([case["is_right"] for case in one.cases]),
    }


def exemplars_jsonl(exemplars: Exemplars, task: Task) -> str:
    """A list of exemplars as a file of them, in order, which is read as such again."""
    columns = [name for name, _ in task.fields]
    rows = (
        {"id": one.id, **dict(zip(columns, one.texts, strict=True)), task.label_column: one.label} for one in exemplars
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def difference_of_shares(gained: int, lost: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Interval, in [-1, 1], of the difference between two shares of the same items (Bonett and Price 2012).

    (p₊ − p₋) ± z √((p₊ + p₋ − (p₊ − p₋)²) / (n + 2)), with p₊ = (gained + 1) / (n + 2) and p₋ likewise. Unlike the
    bootstrap's it has a width where no item changes.

    Args:
        gained: items that are a hit the second time alone.
        lost: those that are one the first time alone.
        n: all items, 1 or more.
        confidence: in (0, 1).
    """
    more, less = ((count + 1) / (n + 2) for count in (gained, lost))
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    half = z * math.sqrt((more + less - (more - less) ** 2) / (n + 2))
    return (max(more - less - half, -1.0), min(more - less + half, 1.0))


def _told_round(one: Round) -> dict[str, Any]:
    return {"best": [told_list(best) for best in one.best], "n_lists": one.n_lists, "n_too_long": one.n_too_long}


def _compared(before: Cases, after: Cases, *, n_steps: int, seed: int) -> dict[str, Any]:
    """What came of it, query by query, and in one word."""
    first, second = ([loss_of(case) for case in cases] for cases in (before, after))
    is_finite = bool(np.isfinite([*first, *second]).all())
    interval = None
    if is_finite and len(before) > 1:
        interval = stats.bootstrap_interval_of_mean_difference(second, first, seed=seed)
    p = signed_rank_p(second, first)
    pairs = [(one["is_right"], other["is_right"]) for one, other in zip(before, after, strict=True)]
    gained, lost = pairs.count((False, True)), pairs.count((True, False))
    if not n_steps:
        verdict = "unchanged"
    elif len(before) < FEWEST:
        verdict = "too few"
    else:
        verdict = "lower" if interval is not None and interval[1] < 0.0 and p < _CHANCE else "not lower"
    return {
        "verdict": verdict,
        "loss_difference_nats": stats.mean(second) - stats.mean(first) if is_finite else None,
        "loss_difference_interval_nats": None if interval is None else list(interval),
        "wilcoxon_p": p,
        "accuracy_difference": (gained - lost) / len(pairs),
        "accuracy_difference_interval": list(difference_of_shares(gained, lost, len(pairs))),
    }


def _id(example: Example | None) -> str | None:
    return None if example is None else example.id


def _plain(nats: float) -> float | None:
    """JSON has no word for infinity: null stands for it."""
    return nats if math.isfinite(nats) else None
