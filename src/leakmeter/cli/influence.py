"""`leakmeter influence`: what a response owes to each piece of its context."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leakmeter.cli.cases import read_cases, run_cases
from leakmeter.measures.influence import Influence
from leakmeter.prompts.build import PromptSettings

_NO_NEGATIVE = Parameter(negative="")
_TEXT = Parameter(allow_leading_hyphen=True)  # an answer may be a list: "- first …"


def influence(
    *,
    context_file: Annotated[list[Path] | None, _NO_NEGATIVE] = None,
    query: Annotated[str | None, _TEXT] = None,
    response: Annotated[str | None, _TEXT] = None,
    data: Path | None = None,
    messages: Path | None = None,
    prompts: Annotated[PromptSettings | None, Parameter(name="*", negative="")] = None,
    measure: Annotated[Influence | None, Parameter(name="*")] = None,
    model: str = "smollm2-135m",
    dtype: str | None = None,
    device: str | None = None,
    memory: str | None = None,
    out: Path = Path("runs"),
    html: Path | None = None,
    json: Annotated[bool, _NO_NEGATIVE] = False,
    skip_bad: Annotated[bool, _NO_NEGATIVE] = False,
    no_cache: Annotated[bool, _NO_NEGATIVE] = False,
    dry_run: Annotated[bool, _NO_NEGATIVE] = False,
) -> None:
    """Measure, in nats, how much a response owes to each piece of its context.

    Give a context with --context-file and --query, many cases with --data, or a chat with --messages. Without a
    response, one is sampled. The same command continues a run that was interrupted.

    Parameters
    ----------
    context_file
        A text file of context; again for each further document.
    query
        What the model is asked.
    response
        What it answered; left out, a response is sampled.
    data
        JSON lines: 'context' (text or a list of documents) or 'messages', 'query', and optionally 'response', 'id'.
    messages
        A JSON file of chat messages; the last user message asks, the others are context.
    model
        A known name (see `leakmeter models`), hf:ORG/NAME, a directory, or a .gguf file.
    dtype
        float32, bfloat16 or float16; float32 on a CPU and bfloat16 on CUDA by default.
    device
        cpu, cuda, cuda:1 …; CUDA where there is one by default.
    memory
        Memory to use beside the model's weights, such as 512MiB; 1GiB on a CPU, a quarter of a GPU's by default.
    out
        Directory of runs.
    html
        Also write the report to this file.
    json
        Print one JSON object a case instead of the heat map.
    skip_bad
        Leave out lines of --data that cannot be used, and say how many.
    no_cache
        Neither use nor keep scores in the score cache (see `leakmeter cache`).
    dry_run
        Predict tokens, memory and time instead; nothing is run or written.
    """
    cases, problems = read_cases(context_file or [], query, response, data, messages, skip_bad)
    settings = prompts or PromptSettings()
    run_cases(
        cases,
        problems,
        settings,
        measure or Influence(),
        "influence",
        model=model,
        dtype=dtype,
        device=device,
        memory=memory,
        out=out,
        html=html,
        json=json,
        skip_bad=skip_bad,
        cache=not no_cache,
        dry_run=dry_run,
    )
