"""The library: queries, contexts, and how far the contexts move the answers, or would by the gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakmeter.instruments.susceptibility.fisher.result import FisherResult, FisherSummary
from leakmeter.instruments.susceptibility.result import Summary, SusceptibilityResult
from leakmeter.models import DEFAULT_MODEL
from leakmeter.runs.result import Results

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.core.backend import Backend
    from leakmeter.core.gradient import Sigma
    from leakmeter.instruments.susceptibility.fisher.measure import Fisher
    from leakmeter.instruments.susceptibility.measure import Susceptibility
    from leakmeter.runs.result import Part


@dataclass(frozen=True)
class Susceptibilities(Results[SusceptibilityResult]):
    """How far contexts move the answers to queries, nats."""

    @cached_property
    def summary(self) -> Summary:
        """Mean, ranks of queries and contexts, levels of factors."""
        return SusceptibilityResult.summary(self.results)

    def to_frame(self) -> pd.DataFrame:
        """One row a query and context: the query's id, and what `SusceptibilityResult.to_frame` says of the context."""
        return self.joined((result.to_frame() for result in self.results), "query")


@dataclass(frozen=True)
class FisherSusceptibilities(Results[FisherResult]):
    """How far changes of queries' vectors would move the answers to them, nats."""

    @cached_property
    def summary(self) -> FisherSummary:
        """Of each Σ: mean, ranks of queries, what else explains them, factors."""
        return FisherResult.summary(self.results)

    def to_frame(self) -> pd.DataFrame:
        """One row a query and Σ: the query's id, and what `FisherResult.to_frame` says."""
        return self.joined((result.to_frame() for result in self.results), "query")


def susceptibility(model: Any = DEFAULT_MODEL, *, queries: Any, contexts: Any, **options: Any) -> Susceptibilities:
    """Measure, in nats, how far contexts move the answers to queries.

    χ(q) = I(C; A | q) = E_c KL(p(A | c, q) ‖ p̂(A | q)), with the mixture p̂ over the contexts c (Liu et al.,
    "Efficiently Computing Susceptibility to Context in Language Models", Eq. 2): what an answer tells, on average, of
    which context it was given behind.

    Args:
        model: see `influence`.
        queries: texts, a data frame, a file, or records with `query`, and optionally `id`, `answers` that are told
            apart, the right `answer`, and factors under any other name; see
            `instruments.susceptibility.case.queries_of`.
        contexts: likewise, with `context`, and optionally `id`, `weight`, `answer`; each stands before every
            query in turn. Two or more.
        options: `temperature` and `answer_tokens` of `instruments.susceptibility.measure.Susceptibility`, `template`
            and `separator` of `instruments.susceptibility.prompts.QuerySettings`, and `dtype`, `device`, `model_id`
            and `cache` as in `influence`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.susceptibility.measure import Susceptibility
    from leakmeter.runs.loading import made_of

    measure = made_of(Susceptibility, options)
    parts = _parts(measure, model, queries, contexts, options)
    return Susceptibilities(tuple(SusceptibilityResult.from_run(parts, asdict(measure))))


def fisher_susceptibility(
    model: Any = DEFAULT_MODEL,
    *,
    queries: Any,
    contexts: Any = (),
    sigma: Sigma | Sequence[Sigma] = "identity",
    **options: Any,
) -> FisherSusceptibilities:
    """Measure, from gradients, how far changes of queries' vectors would move the answers to them.

    ½ (tr(I Σ) + μᵀ I μ), with the Fisher information I of the next token about the vectors of a place (Liu et al.,
    "Efficiently Computing Susceptibility to Context in Language Models", Eq. 9).

    Args:
        model: see `influence`; one that gives gradients, as those of the transformers library do.
        queries: see `susceptibility`; an answer is any next token here.
        contexts: as there, but there may be none: only Σ 'empirical' asks for them, and a slot is as long as the
            longest.
        sigma: one, or several that are found from the same passes; see
            `instruments.susceptibility.fisher.measure.Fisher`.
        options: `method`, `place`, `probes`, `directions`, `top_k`, `slot_tokens`, `relative_error`, `max_probes` and
            `seed` of the same, and `template` to `cache` as in `susceptibility`.

    Raises:
        CapabilityError: the model gives no gradients, or has no such layer.
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.susceptibility.fisher.measure import Fisher
    from leakmeter.runs.loading import made_of

    sigmas = (sigma,) if isinstance(sigma, str) else tuple(sigma)
    measure = made_of(Fisher, options, sigma=sigmas)
    check_gradients(model)
    parts = _parts(measure, model, queries, contexts, options)
    return FisherSusceptibilities(tuple(FisherResult.from_run(parts, asdict(measure))))


def check_gradients(model: Any) -> None:
    """Refuse, before it is loaded, a model that gives no gradients.

    Raises:
        CapabilityError: it gives none.
    """
    from leakmeter.core import registry
    from leakmeter.core.backend import Backend, check_differentiates

    if isinstance(model, Backend):
        check_differentiates(model, model.name)
    elif model == "toy":
        check_differentiates(registry.backend("toy"), "toy")


def check_place(backend: Backend, place: str) -> None:
    """Refuse a layer that the model does not have.

    Args:
        backend: of the model.
        place: see `instruments.susceptibility.fisher.measure.Fisher`.

    Raises:
        CapabilityError: it has none of that number.
    """
    from leakmeter.core.gradient import Place

    where, model = Place.of(place), getattr(backend, "model", None)
    if where.kind == "layer" and model is not None:
        from leakmeter.backends.hf.places import layer_of

        layer_of(model, where.layer, backend.name)


def _parts(
    measure: Susceptibility | Fisher,
    model: Any,
    queries: Any,
    contexts: Any,
    options: dict[str, Any],
) -> Iterator[Part]:
    """Texts and measurements of each query, once all of them can be used."""
    from leakmeter.instruments.susceptibility.case import QueryCase, load_contexts, load_queries
    from leakmeter.instruments.susceptibility.prompts import TOGETHER, QuerySettings
    from leakmeter.runs import loading
    from leakmeter.runs.measure import Callbacks, measure_cases

    settings = loading.made_of(QuerySettings, options)
    asked = load_queries(queries)
    before = () if isinstance(contexts, Sequence) and not contexts else load_contexts(contexts)
    backend = loading.load_backend(model, **options)
    prepared = [settings.prepare(QueryCase(query.id, query, before), backend, measure) for query in asked]
    return measure_cases(backend, measure, prepared, None, Callbacks(), group_size=TOGETHER)
