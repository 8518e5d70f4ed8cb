"""The library: queries, contexts, and how far the contexts move the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from leakmeter.models import DEFAULT_MODEL
from leakmeter.results.base import Results
from leakmeter.results.susceptibility import SusceptibilityResult, summary

if TYPE_CHECKING:
    import pandas as pd

QUERIES_TOGETHER: Final = 8
"""Queries that are scored together: each context that stands before all of them is run once for the eight."""

Rows = Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True)
class Susceptibilities(Results[SusceptibilityResult]):
    """How far contexts move the answers to queries, nats."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Mean, ranks of queries and contexts, levels of factors; see `results.susceptibility.summary`."""
        return summary([result.case for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        """One row a query and context: the query's id, and what `SusceptibilityResult.to_frame` says of the context."""
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
            `answer`, and factors under any other name; see `data.questions.questions_of`.
        contexts: texts, or mappings with `context`, and optionally `id`, `weight`, `answer`; each stands before every
            query in turn. Two or more.
        template: 'plain', 'chat' for context and query in one user message, or None for chat where the model has it.
        separator: what stands between a context and the query.
        temperature, answer_tokens: see `measures.susceptibility.Susceptibility`.
        dtype, device, model_id, cache: see `influence`.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from dataclasses import asdict

    from leakmeter.api import loading
    from leakmeter.data.questions import contexts_of, questions_of
    from leakmeter.measures.susceptibility import Susceptibility
    from leakmeter.prompts.questions import QuestionSettings
    from leakmeter.studies.run import Watch, measure_cases, prepare_case
    from leakmeter.types.question import QuestionCase

    measure = Susceptibility(temperature, answer_tokens)
    settings = QuestionSettings(template, separator)
    questions = questions_of(_records(queries, "query"), "queries")
    before = contexts_of(_records(contexts, "context"), "contexts")
    backend = loading.load_backend(model, dtype=dtype, device=device, model_id=model_id, cache=cache)
    prepared = [
        prepare_case(QuestionCase(question.id, question, before), backend, settings, measure) for question in questions
    ]
    measured = measure_cases(backend, measure, settings, prepared, None, Watch(), group_size=QUERIES_TOGETHER)
    return Susceptibilities(tuple(SusceptibilityResult.of_run(measured, asdict(measure))))


def _records(rows: Rows, column: str) -> list[Mapping[str, Any]]:
    """A text stands for a record of nothing else."""
    return [{column: row} if isinstance(row, str) else row for row in rows]
