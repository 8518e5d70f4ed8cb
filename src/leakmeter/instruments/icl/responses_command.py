"""`leakmeter icl-responses`: the influence of input–output exemplars on free responses."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from leakmeter.commands.cases import run_cases
from leakmeter.commands.options import Flag, RowOptions, RunOptions, Text
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.instruments.icl.given import InputFile
from leakmeter.instruments.influence.measure import Influence


def icl_responses(
    *,
    data: InputFile,
    exemplars: InputFile | None = None,
    pool: InputFile | None = None,
    input_column: str = "input",
    output_column: str = "output",
    instruction: Text | None = None,
    rows: RowOptions | None = None,
    max_queries: int = 100,
    shots: int = 4,
    template: Literal["plain", "chat"] = "plain",
    skip_bad: Flag = False,
    measure: Annotated[Influence | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, the influence of each input–output exemplar of a prompt on a free response.

    Exemplars are removed one at a time, and the response is scored again. The response of a query is its output where
    it has one, whichever model gave it, and is drawn from the model that measures where it has none. The same command
    continues a run that was interrupted. For exemplars with labels, see icl.

    Parameters
    ----------
    data
        Queries: CSV, JSON lines, JSON or Parquet, also packed (.gz, .zst), or '-' for standard input.
    exemplars
        Inputs with their outputs, which stand before every query, in the order of the file; or
    pool
        such to draw exemplars from, anew for each query.
    input_column
        Column of inputs; its name is their heading in the prompt.
    output_column
        Column of outputs; its name is their heading in the prompt.
    instruction
        First lines of the prompt.
    max_queries
        Measure so many at most, chosen at random.
    shots
        Exemplars drawn for each query from a pool.
    template
        plain, or chat for the whole prompt in one user message.
    skip_bad
        Leave out queries that do not fit the model's window, and say how many.
    measure.seed
        Of the choice of queries, of the exemplars drawn, and of the responses.
    """
    from leakmeter.instruments.icl.given import response_cases
    from leakmeter.instruments.icl.responses import ResponseSettings, free_form

    measure, run = measure or Influence(), run or RunOptions()
    task = free_form(input_column, output_column, instruction)
    cases = response_cases(
        task,
        queries=data,
        exemplars=exemplars,
        pool=pool,
        map=(rows or RowOptions()).map,
        max_queries=max_queries,
        shots=shots,
        seed=measure.seed,
    )
    loaded = LoadedCases(tuple(cases), skip_bad=skip_bad)
    plan = Plan("influence", measure, ResponseSettings(task, template), loaded)
    run_cases(plan, run, inputs=[data, exemplars, pool])
