"""`leakmeter susceptibility`: how far contexts move the answers to queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.call import CallOptions, FunctionOptions, RowNames, function, measured
from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import DataPath, FlagOption, RowOptions, RunOptions
from leakmeter.core import registry
from leakmeter.core.files import sample_path
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.fisher.measure import Fisher
from leakmeter.instruments.susceptibility.measure import Susceptibility
from leakmeter.instruments.susceptibility.prompts import TOGETHER, QuerySettings

if TYPE_CHECKING:
    from leakmeter.core.backend import Backend
    from leakmeter.core.request import Sigma
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.susceptibility.case import QueryCase
    from leakmeter.instruments.susceptibility.fisher.result import FisherResult
    from leakmeter.instruments.susceptibility.result import SusceptibilityResult
    from leakmeter.results.results import Results


Estimator = Literal["monte-carlo", "fisher"]


def susceptibility_command(
    *,
    queries: DataPath | None = None,
    contexts: DataPath | None = None,
    estimator: Estimator = "monte-carlo",
    template: Literal["plain", "chat"] = "plain",
    separator: Annotated[str, Parameter(allow_leading_hyphen=True, show_default=False)] = "\n",
    skip_bad: FlagOption = False,
    rows: RowOptions | None = None,
    measure: Annotated[Susceptibility | None, Parameter(name="*", group="With --estimator monte-carlo")] = None,
    fisher: Annotated[Fisher | None, Parameter(name="*", group="With --estimator fisher", negative="")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, how far contexts move the answers to queries.

    Every query is asked after every context, and the answer's distribution is compared with the mixture over all
    contexts. Queries are ranked by their susceptibility, contexts by their persuasion. With --estimator fisher,
    gradients estimate how far the answers would move, without contexts. Without files, a small sample of invented and
    real ones is measured. The same command continues a run that was interrupted.

    Parameters
    ----------
    queries
        JSON lines, JSON, CSV or Parquet, packed or not, or - for standard input: 'query', and optionally 'id',
        'answers', 'answer', and factors under any other name.
    contexts
        Likewise: 'context', and optionally 'id', 'weight', 'answer'. Two or more; none needed with --estimator fisher.
    rows.map
        Map fields of the files that have other names: FIELD=PATH,…, as in query=question,context=page_content; of
        contexts also context.id=PATH and context.answer=PATH.
    estimator
        Estimator: monte-carlo asks every query after every context; fisher takes gradients at the query itself.
    template
        plain, or chat for context and query in one user message.
    separator
        Text between a context and the query; a line break by default.
    skip_bad
        Skip queries that do not fit the model's window, and report how many.
    run.json
        Print one JSON object a query, and a last one with their summary.
    """
    from leakmeter.instruments.susceptibility.case import CONTEXT_FIELDS, QUERY_FIELDS

    run = run or RunOptions()
    is_fisher = estimator == "fisher"
    instrument = registry.instrument("fisher" if is_fisher else "susceptibility")
    _refuse_options(measure if is_fisher else fisher, "monte-carlo" if is_fisher else "fisher")
    if queries is None and contexts is not None:
        raise UsageError("--contexts comes without --queries; give both, or neither for the sample")
    if queries is not None and contexts is None and not is_fisher:
        raise UsageError("--queries comes without --contexts; give both, or neither for the sample")
    mapping = (rows or RowOptions()).mapping((*QUERY_FIELDS, *CONTEXT_FIELDS))
    files = (sample_path("queries.jsonl"), sample_path("contexts.jsonl")) if queries is None else (queries, contexts)
    cases = _cases(*files, mapping, skip_bad=skip_bad)
    chosen: Susceptibility | Fisher = (fisher or Fisher()) if is_fisher else (measure or Susceptibility())
    if is_fisher:
        check_gradients(run.model)

    def accept(backend: Backend) -> None:
        if isinstance(chosen, Fisher):
            check_place(backend, chosen.place)

    shown = run_cases(
        Plan(instrument.name, chosen, QuerySettings(template=template, separator=separator), cases, TOGETHER),
        run,
        accept=accept,
        inputs=[queries, contexts],
    )
    if run.json and shown:
        output.print_json({"summary": instrument.result.summary(shown)})


def _refuse_options(estimator_options: Susceptibility | Fisher | None, estimator: str) -> None:
    """Refuse options of the other estimator; None where there are none."""
    if estimator_options is None:
        return
    usual = type(estimator_options)()
    options = [
        f"--{field.name.replace('_', '-')}"
        for field in fields(estimator_options)
        if getattr(estimator_options, field.name) != getattr(usual, field.name)
    ]
    names = ", ".join(options) or "an option that is given"
    raise UsageError(f"not for this estimator but for --estimator {estimator}: {names}; give that one, or leave it out")


class SusceptibilityOptions(FunctionOptions, CallOptions, RowNames, QuerySettings, Susceptibility):
    contexts: Any


class SusceptibilityCall(ModelOptions, SusceptibilityOptions): ...


@function(SusceptibilityOptions, SusceptibilityCall)
def susceptibility(model: KeptModel, data: Any, options: SusceptibilityOptions) -> Results[SusceptibilityResult]:
    """Measure, in nats, how far contexts move the answers to queries.

    χ(q) = I(C; A | q) = E_c KL(p(A | c, q) ‖ p̂(A | q)), with the mixture p̂ over the contexts c (Liu et al.,
    "Efficiently Computing Susceptibility to Context in Language Models", Eq. 2): what an answer tells, on average, of
    which context it was given behind.

    Args:
        model: see `influence`.
        data: queries: texts, or records with `query`, and optionally `id`, `answers` that are told apart, the right
            `answer`, and factors under any other name; see `instruments.susceptibility.case.queries_of`.
        contexts: texts, or records with `context`, and optionally `id`, `weight`, `answer`; each stands before every
            query in turn. Two or more.
        measure: options of the measure; see `instruments.susceptibility.measure.Susceptibility`.
        settings: template, and what stands between a context and the query.
        names: what the fields of queries and contexts are called, as `--map` has them.
        how: as of `influence`.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each query.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> contexts = ["Emma was written by Poe.", "It rains."]
        >>> found = leakmeter.susceptibility("toy", ["Who wrote Emma?"], contexts=contexts)
        >>> found[0].susceptibility_nats >= 0
        True
    """
    settings, cases = options.part(QuerySettings), _cases_of(data, options)
    return measured(model, Plan("susceptibility", options.part(Susceptibility), settings, cases, TOGETHER), options)


class FisherOptions(FunctionOptions, CallOptions, RowNames, QuerySettings, Fisher):
    contexts: Any = None
    sigma: Sigma | Sequence[Sigma] = "identity"  # type: ignore[assignment]  # one need not be in a tuple


class FisherCall(ModelOptions, FisherOptions): ...


@function(FisherOptions, FisherCall)
def fisher_susceptibility(model: KeptModel, data: Any, options: FisherOptions) -> Results[FisherResult]:
    """Measure, from gradients, how far changes of queries' vectors would move the answers to them.

    ½ (tr(I Σ) + μᵀ I μ), with the Fisher information I of the next token about the vectors of a place (Liu et al.,
    "Efficiently Computing Susceptibility to Context in Language Models", Eq. 9).

    Args:
        model: see `influence`; one that gives gradients, as those of the transformers library do.
        data: queries, as of `susceptibility`; an answer is any next token here.
        contexts: as there, but there may be none: only Σ 'empirical' asks for them, and a slot is as long as the
            longest.
        sigma: one, or several that are found from the same passes; see
            `instruments.susceptibility.fisher.measure.Fisher`.
        measure: options of the measure; see the same.
        settings, names, how: as of `susceptibility`.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each query.

    Raises:
        CapabilityError: the model gives no gradients, or has no such layer.
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> leakmeter.fisher_susceptibility("toy", ["Who wrote Emma?"])
        Traceback (most recent call last):
        leakmeter.errors.CapabilityError: ...
    """
    sigma = options.sigma
    measure = replace(options.part(Fisher), sigma=(sigma,) if isinstance(sigma, str) else tuple(sigma))
    check_gradients(model.source)
    cases = _cases_of(data, options)
    check_place(model.backend, measure.place)
    return measured(model, Plan("fisher", measure, options.part(QuerySettings), cases, TOGETHER), options)


def check_gradients(model: Any) -> None:
    """Refuse, before it is loaded, a model that gives no gradients."""
    from leakmeter.core.backend import Backend, no_gradients

    backend = registry.backend("toy")() if model == "toy" else model
    if isinstance(backend, Backend) and not backend.capabilities.differentiates:
        raise no_gradients(backend.name)


def check_place(backend: Backend, place: str) -> None:
    from leakmeter.core.request import VectorPlace

    backend.check_place(VectorPlace.parse(place))


def _cases_of(data: Any, options: SusceptibilityOptions | FisherOptions) -> LoadedCases[QueryCase]:
    from leakmeter.data.mapping import mapping_of
    from leakmeter.instruments.susceptibility.case import CONTEXT_FIELDS, QUERY_FIELDS

    if data is None:
        raise UsageError("there are no queries; give some as data, the second parameter")
    contexts = options.contexts
    if isinstance(contexts, Sequence) and not len(contexts):
        contexts = None
    mapping = mapping_of(options.map, (*QUERY_FIELDS, *CONTEXT_FIELDS))
    return _cases(data, contexts, mapping, skip_bad=options.skip_bad)


def _cases(queries: Any, contexts: Any, mapping: Mapping[str, str], *, skip_bad: bool) -> LoadedCases[QueryCase]:
    """Every query behind the same contexts, of which there are none for None."""
    from leakmeter.instruments.susceptibility import case

    ours, theirs = case.split_mapping(mapping)
    loaded = case.load_queries(queries, ours)
    before = () if contexts is None else case.load_contexts(contexts, theirs)
    return LoadedCases(tuple(case.QueryCase(query.id, query, before) for query in loaded), skip_bad=skip_bad)
