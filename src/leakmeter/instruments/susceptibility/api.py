"""The library: queries, contexts, and how far the contexts move the answers, or would by the gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leakmeter.instruments.susceptibility.fisher import result as gradients
from leakmeter.instruments.susceptibility.fisher.result import FisherResult
from leakmeter.instruments.susceptibility.result import SusceptibilityResult, summary
from leakmeter.models import DEFAULT_MODEL
from leakmeter.report.result import Results

if TYPE_CHECKING:
    import pandas as pd

    from leakmeter.core.backend import Backend
    from leakmeter.core.gradient import Sigma
    from leakmeter.instruments.susceptibility.fisher.measure import Fisher, Method
    from leakmeter.instruments.susceptibility.measure import Susceptibility
    from leakmeter.report.result import Part

Rows = Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True)
class Susceptibilities(Results[SusceptibilityResult]):
    """How far contexts move the answers to queries, nats."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Mean, ranks of queries and contexts, levels of factors; see `instruments.susceptibility.result.summary`."""
        return summary([result.case for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        """One row a query and context: the query's id, and what `SusceptibilityResult.to_frame` says of the context."""
        return self.joined((result.to_frame() for result in self.results), "query")


@dataclass(frozen=True)
class FisherSusceptibilities(Results[FisherResult]):
    """How far changes of queries' vectors would move the answers to them, nats."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Of each Σ: mean, ranks of queries, what else explains them, factors; see
        `instruments.susceptibility.fisher.result.summary`."""
        return gradients.summary([result.case for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        """One row a query and Σ: the query's id, and what `FisherResult.to_frame` says."""
        return self.joined((result.to_frame() for result in self.results), "query")


def susceptibility(
    model: Any = DEFAULT_MODEL,
    *,
    queries: Rows,
    contexts: Rows,
    template: str | None = "plain",
    separator: str = "\n",
    temperature: float = 1.0,
    answer_tokens: int = 0,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> Susceptibilities:
    """Measure, in nats, how far contexts move the answers to queries.

    χ(q) = I(C; A | q) = E_c KL(p(A | c, q) ‖ p̂(A | q)), with the mixture p̂ over the contexts c (Liu et al.,
    "Efficiently Computing Susceptibility to Context in Language Models", Eq. 2): what an answer tells, on average, of
    which context it was given behind.

    Args:
        model: see `influence`.
        queries: texts, or mappings with `query`, and optionally `id`, `answers` that are told apart, the right
            `answer`, and factors under any other name; see `instruments.susceptibility.reading.questions_of`.
        contexts: texts, or mappings with `context`, and optionally `id`, `weight`, `answer`; each stands before every
            query in turn. Two or more.
        template: 'plain', 'chat' for context and query in one user message, or None for chat where the model has it.
        separator: what stands between a context and the query.
        temperature, answer_tokens: see `instruments.susceptibility.measure.Susceptibility`.
        dtype, device, model_id, cache: see `influence`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.susceptibility.measure import Susceptibility

    measure = Susceptibility(temperature, answer_tokens)
    asked = _Asked(queries, contexts, template, separator)
    loaded = {"dtype": dtype, "device": device, "model_id": model_id, "cache": cache}
    parts = asked.parts(measure, model, loaded)
    return Susceptibilities(tuple(SusceptibilityResult.from_run(parts, asdict(measure))))


def fisher_susceptibility(
    model: Any = DEFAULT_MODEL,
    *,
    queries: Rows,
    contexts: Rows = (),
    template: str | None = "plain",
    separator: str = "\n",
    method: Method = "deflated",
    sigma: Sigma | Sequence[Sigma] = "identity",
    place: str = "query",
    probes: int = 8,
    directions: int = 8,
    top_k: int = 16,
    slot_tokens: int = 16,
    relative_error: float | None = None,
    max_probes: int = 256,
    seed: int = 0,
    dtype: str | None = None,
    device: str | None = None,
    model_id: str | None = None,
    cache: bool = True,
) -> FisherSusceptibilities:
    """Measure, from gradients, how far changes of queries' vectors would move the answers to them.

    ½ (tr(I Σ) + μᵀ I μ), with the Fisher information I of the next token about the vectors of a place (Liu et al.,
    "Efficiently Computing Susceptibility to Context in Language Models", Eq. 9).

    Args:
        model: see `influence`; one that gives gradients, as those of the transformers library do.
        queries: see `susceptibility`; an answer is any next token here.
        contexts: as there, but there may be none: only Σ 'empirical' asks for them, and a slot is as long as the
            longest.
        template, separator: see `susceptibility`.
        sigma: one, or several that are found from the same passes; see
            `instruments.susceptibility.fisher.measure.Fisher`.
        method, place, probes, directions, top_k, slot_tokens, relative_error, max_probes, seed: see there.
        dtype, device, model_id, cache: see `influence`.

    Raises:
        CapabilityError: the model gives no gradients, or has no such layer.
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.susceptibility.fisher.measure import Fisher

    sigmas = (sigma,) if isinstance(sigma, str) else tuple(sigma)
    measure = Fisher(*(method, sigmas, place, probes, directions, top_k, slot_tokens, relative_error, max_probes, seed))
    asked = _Asked(queries, contexts, template, separator)
    check_gradients(model)
    loaded = {"dtype": dtype, "device": device, "model_id": model_id, "cache": cache}
    parts = asked.parts(measure, model, loaded)
    return FisherSusceptibilities(tuple(FisherResult.from_run(parts, asdict(measure))))


def check_gradients(model: Any) -> None:
    """Refuse, before it is loaded, a model that gives no gradients.

    Args:
        model: see `influence`.

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


@dataclass(frozen=True, slots=True)
class _Asked:
    """Queries and contexts as they were given."""

    queries: Rows
    contexts: Rows
    template: str | None
    separator: str

    def parts(self, measure: Susceptibility | Fisher, model: Any, loaded: Mapping[str, Any]) -> Iterator[Part]:
        """Texts and measurements of each query, once all of them can be used.

        Args:
            measure: what is measured.
            model: see `influence`.
            loaded: how it is loaded, by the names of `runs.loading.load_backend`.
        """
        from leakmeter.instruments.susceptibility.prompts import QuestionSettings
        from leakmeter.instruments.susceptibility.question import QuestionCase
        from leakmeter.instruments.susceptibility.reading import contexts_of, questions_of
        from leakmeter.instruments.susceptibility.studied import TOGETHER
        from leakmeter.runs import loading
        from leakmeter.runs.measure import Callbacks, measure_cases

        settings = QuestionSettings(self.template, self.separator)
        questions = questions_of(_records(self.queries, "query"), "queries")
        before = contexts_of(_records(self.contexts, "context"), "contexts") if self.contexts else ()
        backend = loading.load_backend(model, **loaded)
        prepared = [
            settings.prepare(QuestionCase(question.id, question, before), backend, measure) for question in questions
        ]
        return measure_cases(backend, measure, prepared, None, Callbacks(), group_size=TOGETHER)


def _records(rows: Rows, column: str) -> list[Mapping[str, Any]]:
    """A text stands for a record of nothing else."""
    return [{column: row} if isinstance(row, str) else row for row in rows]
