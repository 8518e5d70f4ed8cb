"""The library: labelled exemplars, queries, and what the answers owe to each exemplar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.instruments.icl.result import IclResult, summary
from leakmeter.models import DEFAULT_MODEL
from leakmeter.report.result import Results

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.instruments.icl.measure import Baseline, Calibration, LabelScoring, Space

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class IclInfluence(Results[IclResult]):
    """What the answers to queries owe to the exemplars of their prompts, nats."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """ICLInf, accuracy, losses by position, label and exemplar; see `instruments.icl.result.summary`."""
        return summary([result.case for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        """One row a query and exemplar: the query's id, and what `IclResult.to_frame` says of the exemplar."""
        return self.joined((result.to_frame() for result in self.results), "query")


def icl(
    model: Any = DEFAULT_MODEL,
    *,
    task: str | Mapping[str, Any],
    queries: Rows,
    exemplars: Rows = (),
    pool: Rows = (),
    shots: int = 4,
    seed: int = 0,
    template: str | None = "plain",
    space: Space = "labels",
    label_scoring: LabelScoring = "first-token",
    calibration: Calibration | None = None,
    calibration_baseline: Baseline = "own",
    calibration_epsilon: float = 1e-4,
    temperature: float = 1.0,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> IclInfluence:
    """Measure, in nats, how much the answer to a query owes to each exemplar that stands before it.

    ICLInf = mean_j max_i max_y |log A(S_j, x_j)(y) − log A(S_j∖i, x_j)(y)| over queries x_j, exemplars i of S_j and
    labels y (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Eq. 4).

    Args:
        model: see `influence`.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml, or what such a file says: {'instruction': …, 'fields':
            {column: heading}, 'answer': heading of the label, 'labels': [word, …] or {name in the data: word},
            'label_column': …}.
        queries: what is classified, a mapping of columns to values each; without a label they have no accuracy.
        exemplars: labelled examples that stand before every query, in their order; or
        pool: labelled examples to draw exemplars from, anew for each query.
        shots: exemplars drawn for each query.
        seed: of the draws.
        template: 'plain', 'chat' for the whole prompt in one user message, or None for chat where the model has it.
        space, label_scoring, calibration, calibration_baseline, calibration_epsilon, temperature: see
            `instruments.icl.measure.Icl`.
        dtype, device, model_id, cache: see `influence`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from dataclasses import asdict

    from leakmeter.data.tasks import load_task, task_of
    from leakmeter.instruments.icl.draw import draw_cases, fixed_cases
    from leakmeter.instruments.icl.measure import Icl
    from leakmeter.instruments.icl.prompts import ExemplarSettings
    from leakmeter.instruments.icl.study import FIXED_TOGETHER, REDRAWN_TOGETHER
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases

    if bool(exemplars) == bool(pool):
        raise UsageError("give either exemplars, which stand before every query, or a pool to draw them from")
    measure = Icl(space, label_scoring, calibration, calibration_baseline, calibration_epsilon, temperature)
    described = load_task(task) if isinstance(task, str) else task_of(task, "task")
    asked = described.examples(queries, "queries", labelled=False)
    if exemplars:
        cases = fixed_cases(described.examples(exemplars, "exemplars"), asked)
    else:
        cases = draw_cases(described.examples(pool, "pool"), asked, shots=shots, seed=seed)
    settings = ExemplarSettings(described.task, template)
    backend = loading.load_backend(model, dtype=dtype, device=device, model_id=model_id, cache=cache)
    prepared = [settings.prepare(case, backend, measure) for case in cases]
    size = FIXED_TOGETHER if exemplars else REDRAWN_TOGETHER
    measured = measure_cases(backend, measure, prepared, None, Callbacks(), group_size=size)
    return IclInfluence(tuple(IclResult.from_run(measured, asdict(measure))))
