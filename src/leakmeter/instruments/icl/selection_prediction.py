"""What a search for exemplars takes at most, before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass

from leakmeter.commands.dry_run import load_predictor
from leakmeter.commands.options import RunOptions
from leakmeter.core.record import Record
from leakmeter.engine.prediction import Predictor, predicted_cases
from leakmeter.instruments.icl.given import FIXED_TOGETHER, fixed_cases
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.icl.prompts import ExemplarSettings, prepare_exemplars
from leakmeter.instruments.icl.search import SearchScope
from leakmeter.instruments.icl.selection import search_rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedSelection(Record):
    """The most that a search may take, as `--dry-run --json` prints it."""

    model: str
    dtype: str
    device: str
    n_lists: int
    n_choosing: int
    n_reporting: int
    tree_tokens: int
    seconds: float | None
    at_most: bool


def of_run(run: RunOptions, scope: SearchScope, settings: ExemplarSettings, measure: Icl) -> PredictedSelection:
    return predicted_selection(load_predictor(run), scope, settings, measure)


def predicted_selection(
    predictor: Predictor, scope: SearchScope, settings: ExemplarSettings, measure: Icl
) -> PredictedSelection:
    """What a search would take at most: every move measured, on lists of the longest exemplars there are."""
    tokenizer = predictor.backend.tokenizer
    for case in fixed_cases(scope.exemplars, scope.queries):
        settings.prepare(case, predictor.backend, measure)
    # The longest last: the later one stands, the more lists without another hold it.
    examples = (*scope.exemplars, *scope.pool)
    (case,) = fixed_cases(examples, scope.queries[:1])
    spans = prepare_exemplars(case, tokenizer, settings, window=None).item.spans
    ascending = [examples[number] for number in sorted(range(len(examples)), key=lambda number: spans[number].n_tokens)]
    rounds = list(search_rounds(scope))
    longest = [ascending[-n_exemplars:] for _, n_exemplars in rounds]
    lists = [
        (1, scope.exemplars, scope.choosing),
        (1, scope.exemplars, scope.reporting),
        *((n, tuple(exemplars), scope.choosing) for (n, _), exemplars in zip(rounds, longest, strict=True)),
        (1, tuple(longest[-1]), scope.reporting),
    ]
    tokens, seconds = 0, 0.0
    for n, exemplars, queries in lists:
        # A list that does not fit the window is passed over, so that none costs more without one.
        prepared = [
            prepare_exemplars(case, tokenizer, settings, window=None) for case in fixed_cases(exemplars, queries)
        ]
        last = predicted_cases(predictor, measure, prepared, group_size=FIXED_TOGETHER)
        tokens += n * last.tree_tokens
        seconds += n * (last.seconds or 0.0)
    return PredictedSelection(
        model=last.model,
        dtype=last.dtype,
        device=last.device,
        n_lists=1 + sum(n for n, _ in rounds),
        n_choosing=len(scope.choosing),
        n_reporting=len(scope.reporting),
        tree_tokens=tokens,
        seconds=None if last.seconds is None else seconds,
        at_most=True,
    )
