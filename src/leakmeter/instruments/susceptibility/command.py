"""`leakmeter susceptibility`: how far contexts move the answers to queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import DataPath, Flag, RowOptions, RunOptions
from leakmeter.core import registry
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.measure import Susceptibility

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.results.result import AnyResult, Part

_SAMPLES: Final = ("queries.jsonl", "contexts.jsonl")
Estimator = Literal["monte-carlo", "fisher"]


def susceptibility(
    *,
    queries: DataPath | None = None,
    contexts: DataPath | None = None,
    estimator: Estimator = "monte-carlo",
    template: Literal["plain", "chat"] = "plain",
    separator: Annotated[str, Parameter(allow_leading_hyphen=True, show_default=False)] = "\n",
    skip_bad: Flag = False,
    rows: RowOptions | None = None,
    measure: Annotated[Susceptibility | None, Parameter(name="*", group="With --estimator monte-carlo")] = None,
    fisher: Annotated[Fisher | None, Parameter(name="*", group="With --estimator fisher", negative="")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, how far contexts move the answers to queries.

    Every query is asked behind every context, and what comes next is compared with the mixture over all contexts.
    Queries are ranked by their susceptibility, contexts by their persuasion. With --estimator fisher, gradients say
    how far the answers would move, and contexts are not needed. Without files, a few invented and a few real ones are
    measured. The same command continues a run that was interrupted.

    Parameters
    ----------
    queries
        JSON lines, JSON, CSV or Parquet, packed or not, or - for standard input: 'query', and optionally 'id',
        'answers', 'answer', and factors under any other name.
    contexts
        Likewise: 'context', and optionally 'id', 'weight', 'answer'. Two or more; none needed with --estimator fisher.
    rows.map
        Fields of the files that have other names: FIELD=PATH,…, as in query=question,context=page_content; of contexts
        also context.id=PATH and context.answer=PATH.
    estimator
        monte-carlo asks every query behind every context; fisher takes gradients at the query itself.
    template
        plain, or chat for context and query in one user message.
    separator
        What stands between a context and the query; a line break by default.
    skip_bad
        Leave out queries that do not fit the model's window, and say how many.
    run.json
        Print one JSON object a query, and a last one with their summary.
    """
    from leakmeter.instruments.susceptibility.api import check_gradients, check_place
    from leakmeter.instruments.susceptibility.case import (
        CONTEXT_FIELDS,
        QUERY_FIELDS,
        QueryCase,
        load_contexts,
        load_queries,
        split_mapping,
    )
    from leakmeter.instruments.susceptibility.prompts import TOGETHER, QuerySettings

    run = run or RunOptions()
    is_fisher = estimator == "fisher"
    instrument = registry.instrument("fisher" if is_fisher else "susceptibility")
    _refuse_options(measure if is_fisher else fisher, "monte-carlo" if is_fisher else "fisher")
    if queries is None and contexts is not None:
        raise UsageError("--contexts comes without --queries; give both, or neither for the sample")
    if queries is not None and contexts is None and not is_fisher:
        raise UsageError("--queries comes without --contexts; give both, or neither for the sample")
    ours, theirs = split_mapping((rows or RowOptions()).mapping((*QUERY_FIELDS, *CONTEXT_FIELDS)))
    loaded_queries = load_queries(_sample(_SAMPLES[0]) if queries is None else queries, ours)
    before = load_contexts(contexts or _sample(_SAMPLES[1]), theirs) if queries is None or contexts is not None else ()
    chosen: Susceptibility | Fisher = (fisher or Fisher()) if is_fisher else (measure or Susceptibility())
    if is_fisher:
        check_gradients(run.model)

    def accept(backend: Backend) -> None:
        if isinstance(chosen, Fisher):
            check_place(backend, chosen.place)

    collected: list[AnyResult] = []

    def results(parts: Iterable[Part]) -> Iterator[AnyResult]:
        for result in instrument.result.from_run(parts, asdict(chosen)):
            collected.append(result)
            yield result

    cases = LoadedCases(tuple(QueryCase(query.id, query, before) for query in loaded_queries), skip_bad=skip_bad)
    run_cases(
        Plan(instrument.name, chosen, QuerySettings(template, separator), cases, TOGETHER),
        run,
        results=results,
        accept=accept,
        inputs=[queries, contexts],
    )
    if run.json and collected:
        output.print_json({"summary": instrument.result.summary(collected)})


def _refuse_options(given: Susceptibility | Fisher | None, estimator: str) -> None:
    """Refuse options of the estimator that was not asked for; None where none of them was given."""
    if given is None:
        return
    usual = type(given)()
    options = [
        f"--{field.name.replace('_', '-')}"
        for field in fields(given)
        if getattr(given, field.name) != getattr(usual, field.name)
    ]
    which = ", ".join(options) or "an option that is given"
    raise UsageError(f"not for this estimator but for --estimator {estimator}: {which}; give that one, or leave it out")


def _sample(name: str) -> Path:
    return Path(str(resources.files("leakmeter.samples").joinpath(name)))
