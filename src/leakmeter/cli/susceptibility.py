"""`leakmeter susceptibility`: how far contexts move the answers to queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from leakmeter.cli import output
from leakmeter.cli.cases import run_cases
from leakmeter.cli.given import Given
from leakmeter.cli.options import Flag, RunOptions
from leakmeter.errors import UsageError
from leakmeter.measures.susceptibility import Susceptibility

if TYPE_CHECKING:
    from leakmeter.results.base import Part
    from leakmeter.results.susceptibility import SusceptibilityResult

_SAMPLES: Final = ("questions.jsonl", "contexts.jsonl")
_MEASURES: Final = {"monte-carlo": "susceptibility"}
"""Name of each estimator's measure."""


def susceptibility(
    *,
    queries: Path | None = None,
    contexts: Path | None = None,
    estimator: Literal["monte-carlo"] = "monte-carlo",
    template: Literal["plain", "chat"] = "plain",
    separator: Annotated[str, Parameter(allow_leading_hyphen=True, show_default=False)] = "\n",
    skip_bad: Flag = False,
    measure: Annotated[Susceptibility | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, how far contexts move the answers to queries.

    Every query is asked behind every context, and what comes next is compared with the mixture over all contexts.
    Queries are ranked by their susceptibility, contexts by their persuasion. Without any option, a few invented and a
    few real ones are measured. The same command continues a run that was interrupted.

    Parameters
    ----------
    queries
        JSON lines, JSON, CSV or Parquet: 'query', and optionally 'id', 'answers', 'answer', and factors under any other
        name.
    contexts
        Likewise: 'context', and optionally 'id', 'weight', 'answer'. Two or more.
    estimator
        monte-carlo asks every query behind every context.
    template
        plain, or chat for context and query in one user message.
    separator
        What stands between a context and the query; a line break by default.
    skip_bad
        Leave out queries that do not fit the model's window, and say how many.
    run.json
        Print one JSON object a query, and a last one with their summary.
    """
    from leakmeter.api.susceptibility import QUERIES_TOGETHER
    from leakmeter.data.questions import load_contexts, load_questions
    from leakmeter.prompts.questions import QuestionSettings
    from leakmeter.results.susceptibility import SusceptibilityResult, summary
    from leakmeter.types.question import QuestionCase

    measure, run = measure or Susceptibility(), run or RunOptions()
    if (queries is None) != (contexts is None):
        missing, given = ("--contexts", "--queries") if contexts is None else ("--queries", "--contexts")
        raise UsageError(f"{given} comes without {missing}; give both, or neither for the sample")
    asked = load_questions(_sample(_SAMPLES[0]) if queries is None else queries)
    before = load_contexts(_sample(_SAMPLES[1]) if contexts is None else contexts)
    found: list[SusceptibilityResult] = []

    def results(parts: Iterable[Part]) -> Iterator[SusceptibilityResult]:
        for result in SusceptibilityResult.of_run(parts, asdict(measure)):
            found.append(result)
            yield result

    run_cases(
        Given(tuple(QuestionCase(one.id, one, before) for one in asked), skip_bad=skip_bad),
        QuestionSettings(template, separator),
        measure,
        _MEASURES[estimator],
        run,
        group_size=QUERIES_TOGETHER,
        results=results,
    )
    if run.json and found:
        output.print_json({"summary": summary([result.case for result in found])})


def _sample(name: str) -> Path:
    return Path(str(resources.files("leakmeter.samples").joinpath(name)))
