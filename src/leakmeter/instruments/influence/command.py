"""`leakmeter influence`: the influence of each piece of a context on a response."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from leakmeter.commands.cases import run_cases
from leakmeter.commands.given import read_cases
from leakmeter.commands.options import RunOptions, Source, Text
from leakmeter.core.loaded import Plan
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings


def influence(
    *,
    source: Source | None = None,
    response: Text | None = None,
    prompts: Annotated[PromptSettings | None, Parameter(name="*", negative="")] = None,
    measure: Annotated[Influence | None, Parameter(name="*")] = None,
    run: RunOptions | None = None,
) -> None:
    """Measure, in nats, the influence of each piece of a context on a response.

    Give a context with --context-file and --query, many cases with --data, or a chat with --messages. Without a
    response, one is sampled. The same command continues a run that was interrupted.

    Parameters
    ----------
    response
        What it answered; left out, a response is sampled.
    """
    loaded = read_cases(source or Source(), response)
    prompts, run = prompts or PromptSettings(), run or RunOptions()
    run_cases(Plan("influence", measure or Influence(), prompts, loaded), run, inputs=[source])
