"""What a search for exemplars may take at most: every move measured, on lists of the longest exemplars there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from leakmeter.instruments.icl.draw import fixed_cases
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.moves import Exemplars, Scope
from leakmeter.instruments.icl.prompts import ExemplarSettings, prepare_exemplars
from leakmeter.instruments.icl.study import FIXED_TOGETHER
from leakmeter.runs.prediction import PredictedCases, Predictor, predicted_cases
from leakmeter.text.exemplar import Example


def predicted_plan(predictor: Predictor, scope: Scope, settings: ExemplarSettings, measure: Icl) -> dict[str, Any]:
    """What a search would take at most, as `--dry-run --json` prints it.

    Args:
        predictor: of the model.
        scope: what would be searched.
        settings: how prompts are made.
        measure: what would measure.

    Raises:
        LeakmeterError: a query cannot be measured behind the exemplars as given.
    """
    for case in fixed_cases(scope.exemplars, scope.queries):
        settings.prepare(case, predictor.backend, measure)

    def cost(exemplars: Exemplars, queries: Sequence[Example]) -> PredictedCases:
        # A list that does not fit the window is passed over, so that none costs more without one.
        prepared = [
            prepare_exemplars(case, predictor.backend.tokenizer, settings, window=None)
            for case in fixed_cases(exemplars, queries)
        ]
        return predicted_cases(predictor, measure, prepared, group_size=FIXED_TOGETHER)

    rounds = list(_rounds(scope))
    ascending = _by_tokens(predictor, scope, settings)
    longest = [ascending[-n_exemplars:] for _, n_exemplars in rounds]
    last = cost(longest[-1], scope.reporting)
    costs = [(1, cost(scope.exemplars, queries)) for queries in (scope.choosing, scope.reporting)]
    costs += [(n, cost(list_, scope.choosing)) for (n, _), list_ in zip(rounds, longest, strict=True)]
    costs.append((1, last))
    seconds = None if last.seconds is None else sum(n * (one.seconds or 0.0) for n, one in costs)
    return {
        **{name: getattr(last, name) for name in ("model", "dtype", "device")},
        "memory_bytes": None if last.memory_bytes is None else asdict(last.memory_bytes),
        "n_lists": 1 + sum(n for n, _ in rounds),
        "n_choosing": len(scope.choosing),
        "n_reporting": len(scope.reporting),
        "tree_tokens": sum(n * one.tree_tokens for n, one in costs),
        "seconds": seconds,
        "at_most": True,
    }


def _rounds(scope: Scope) -> Iterator[tuple[int, int]]:
    """Of each round how many lists it has, and of how many exemplars, at most."""
    n_pool = len(scope.pool)
    for number in range(scope.max_steps):
        n = len(scope.exemplars) + (min(number, n_pool) if "add" in scope.kinds else 0)
        n_moves = {"reorder": n * (n - 1) // 2, "drop": n, "replace": n * n_pool, "add": n_pool}
        longer = 1 if "add" in scope.kinds and number < n_pool else 0
        yield sum(n_moves[kind] for kind in scope.kinds), n + longer


def _by_tokens(predictor: Predictor, scope: Scope, settings: ExemplarSettings) -> Exemplars:
    """All exemplars and candidates, the longest last: the later one stands, the more lists without another hold it."""
    known = (*scope.exemplars, *scope.pool)
    (case,) = fixed_cases(known, scope.queries[:1])
    spans = prepare_exemplars(case, predictor.backend.tokenizer, settings, window=None).item.spans
    order = sorted(range(len(known)), key=lambda number: spans[number].n_tokens)
    return tuple(known[number] for number in order)
