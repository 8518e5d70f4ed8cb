"""The library: labelled exemplars, queries, and the influence of each exemplar on the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.instruments.icl.result import IclResult
from leakmeter.instruments.icl.summary import Summary, summary
from leakmeter.models import DEFAULT_MODEL
from leakmeter.runs.result import Results

if TYPE_CHECKING:
    import pandas as pd

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class IclInfluence(Results[IclResult]):
    """The influence of exemplars on the answers to queries, nats."""

    @cached_property
    def summary(self) -> Summary:
        """ICLInf, accuracy, losses by position, label and exemplar."""
        return summary(self.results)

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
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
    **parameters: Any,
) -> IclInfluence:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.

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
        dtype, device, model_id, cache: see `influence`.
        parameters: space, label_scoring, calibration, calibration_baseline, calibration_epsilon, temperature; see
            `instruments.icl.measure.Icl`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.data.tasks import load_task, task_of
    from leakmeter.instruments.icl.draw import FIXED_TOGETHER, REDRAWN_TOGETHER, draw_cases, fixed_cases
    from leakmeter.instruments.icl.measure import Icl
    from leakmeter.instruments.icl.prompts import ExemplarSettings
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases

    if bool(exemplars) == bool(pool):
        raise UsageError("give either exemplars, which stand before every query, or a pool to draw them from")
    measure = Icl(**parameters)
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
