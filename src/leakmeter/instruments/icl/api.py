"""The library: labelled exemplars, queries, and the influence of each exemplar on the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakmeter.errors import UsageError
from leakmeter.instruments.icl.result import IclResult
from leakmeter.instruments.icl.summary import Summary, summary
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.models import DEFAULT_MODEL
from leakmeter.runs.result import Results

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.data.records import Fields


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
    queries: Any,
    exemplars: Any = None,
    pool: Any = None,
    task: str | Fields | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    instruction: str | None = None,
    map: str | Mapping[str, str] | None = None,
    shots: int = 4,
    seed: int = 0,
    **options: Any,
) -> IclInfluence:
    """Measure, in nats, the influence of each exemplar of a prompt on the answer to a query.

    ICLInf = mean_j max_i max_y |log A(S_j, x_j)(y) − log A(S_j∖i, x_j)(y)| over queries x_j, exemplars i of S_j and
    labels y (Li et al., "Evaluating Privacy Leakage From In-Context Learning", Eq. 4).

    Args:
        model: see `influence`.
        queries: what is classified: texts, mappings of columns to values, a data frame, a path …; see
            `data.rows.read_rows`. Without a label they have no accuracy; `response` is the label that was answered.
        exemplars: likewise, labelled examples that stand before every query, in their order; or
        pool: labelled examples to draw exemplars from, anew for each query.
        task: 'agnews', 'dbpedia14', 'trec', a file NAME.toml, or what such a file says: {'instruction': …, 'fields':
            {column: heading}, 'answer': heading of the label, 'labels': [word, …] or {name in the data: word},
            'label_column': …}. Without a task the columns say all:
        text_column: of texts, 'text' by default; its name is their heading in the prompt.
        label_column: of labels, 'label' by default; the labels are those that occur in it.
        instruction: first lines of the prompt; by default they list the labels.
        map: columns and the paths at which they stand in the data, as of --map.
        shots: exemplars drawn for each query.
        seed: of the draws.
        options: `space`, `label_scoring`, `calibration`, `calibration_baseline`, `calibration_epsilon` and
            `temperature` of `instruments.icl.measure.Icl`, `template` of `instruments.icl.prompts.ExemplarSettings`,
            and `dtype`, `device`, `model_id` and `cache` as in `influence`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> shots = [{"review": "A delight.", "mood": "good"}, {"review": "Two hours lost.", "mood": "bad"}]
        >>> found = leakmeter.icl(
        ...     "toy", exemplars=shots, queries=["I slept through it."], text_column="review", label_column="mood",
        ...     label_scoring="whole-sequence",
        ... )
        >>> found.results[0].answer_exemplar
        'record 1'
    """
    from leakmeter.data.tasks import task_of
    from leakmeter.instruments.icl.draw import FIXED_TOGETHER, REDRAWN_TOGETHER, draw_cases, fixed_cases
    from leakmeter.instruments.icl.given import Given, TaskOptions
    from leakmeter.instruments.icl.measure import Icl
    from leakmeter.instruments.icl.prompts import ExemplarSettings
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases

    if (exemplars is None) == (pool is None):
        raise UsageError("give either exemplars, which stand before every query, or a pool to draw them from")
    measure = loading.made_of(Icl, options)
    named, own = (task, None) if task is None or isinstance(task, str) else (None, task_of(task, "task"))
    told = TaskOptions(None, named, text_column, label_column, instruction)
    given = Given(told, exemplars=exemplars, pool=pool, queries=queries, task=own, map=map)
    asked = given.examples(queries, "test", "queries", labelled=False, answered=True)
    if exemplars is not None:
        cases = fixed_cases(given.examples(exemplars, "train", "exemplars"), asked)
    else:
        cases = draw_cases(given.examples(pool, "train", "a pool"), asked, shots=shots, seed=seed)
    settings = loading.made_of(ExemplarSettings, options, task=given.task.task)
    backend = loading.load_backend(model, **options)
    prepared = [settings.prepare(case, backend, measure) for case in cases]
    size = FIXED_TOGETHER if exemplars is not None else REDRAWN_TOGETHER
    measured = measure_cases(backend, measure, prepared, None, Callbacks(), group_size=size)
    return IclInfluence(tuple(IclResult.from_run(measured, asdict(measure))))


@dataclass(frozen=True)
class ResponseInfluence(Results[InfluenceResult]):
    """The influence of input–output exemplars on the responses to queries, nats."""

    def to_frame(self) -> pd.DataFrame:
        """One row a query and exemplar: the query's id, and what `InfluenceResult.to_frame` says of the exemplar."""
        return self.joined((result.to_frame() for result in self.results), "query")


def icl_responses(
    model: Any = DEFAULT_MODEL,
    *,
    queries: Any,
    exemplars: Any = None,
    pool: Any = None,
    input_column: str = "input",
    output_column: str = "output",
    instruction: str | None = None,
    map: str | Mapping[str, str] | None = None,
    shots: int = 4,
    seed: int = 0,
    **options: Any,
) -> ResponseInfluence:
    """Measure, in nats, the influence of each input–output exemplar of a prompt on a free response.

    Of exemplar i and response y it gives Σ_t |log p(y_t | S, x, y_<t) − log p(y_t | S∖i, x, y_<t)| (Flemings et al.,
    Definition 3.2, with exemplars as the pieces of the context) and the same sum with signs, the log-likelihood ratio.

    Args:
        model: see `influence`.
        queries: inputs: texts, mappings of columns to values, a data frame, a path …; see `data.rows.read_rows`. The
            output of one is the response that was given; without it, one is drawn.
        exemplars: inputs with outputs, which stand before every query, in their order; or
        pool: such to draw exemplars from, anew for each query.
        input_column: of inputs; its name is their heading in the prompt.
        output_column: of outputs; its name is their heading in the prompt.
        instruction: first lines of the prompt.
        map: columns and the paths at which they stand in the data, as of --map.
        shots: exemplars drawn for each query.
        seed: of the draws, of exemplars and of responses.
        options: fields of `instruments.influence.measure.Influence` (temperature, samples, max_new_tokens …),
            `template` of `instruments.icl.responses.ResponseSettings`, and `dtype`, `device`, `model_id` and `cache`
            as in `influence`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> shots = [{"input": "2 + 2", "output": "four"}, {"input": "3 + 3", "output": "six"}]
        >>> found = leakmeter.icl_responses("toy", exemplars=shots, queries=[{"input": "1 + 1", "output": "two"}])
        >>> [piece.name for piece in found.results[0].pieces]
        ['record 1', 'record 2']
    """
    from leakmeter.instruments.icl.given import response_cases
    from leakmeter.instruments.icl.responses import ResponseSettings, free_form
    from leakmeter.instruments.influence.measure import Influence
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases

    measure = loading.made_of(Influence, options, seed=seed)
    task = free_form(input_column, output_column, instruction)
    cases = response_cases(
        task, queries=queries, exemplars=exemplars, pool=pool, map=map, max_queries=None, shots=shots, seed=seed
    )
    settings = loading.made_of(ResponseSettings, options, task=task)
    backend = loading.load_backend(model, **options)
    prepared = [settings.prepare(case, backend, measure) for case in cases]
    measured = measure_cases(backend, measure, prepared, None, Callbacks())
    return ResponseInfluence(tuple(InfluenceResult.from_run(measured, asdict(measure))))
