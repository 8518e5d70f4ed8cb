"""`leakmeter influence`: what a response owes to each piece of its context."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leakmeter.cli import output
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.measures.influence import Influence
from leakmeter.prompts.build import Prepared, PromptSettings
from leakmeter.types.case import Case, Document

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
    out: Path = Path("runs"),
    html: Path | None = None,
    json: Annotated[bool, _NO_NEGATIVE] = False,
    skip_bad: Annotated[bool, _NO_NEGATIVE] = False,
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
    out
        Directory of runs.
    html
        Also write the report to this file.
    json
        Print one JSON object a case instead of the heat map.
    skip_bad
        Leave out lines of --data that cannot be used, and say how many.
    """
    cases, problems = _cases(context_file or [], query, response, data, messages, skip_bad)
    settings = prompts or PromptSettings()
    run_cases(
        cases,
        problems,
        settings,
        measure or Influence(),
        model=model,
        dtype=dtype,
        device=device,
        out=out,
        html=html,
        json=json,
        skip_bad=skip_bad,
    )


def run_cases(
    cases: list[Case],
    problems: list[str],
    settings: PromptSettings,
    measure: Influence,
    *,
    model: str,
    dtype: str | None,
    device: str | None,
    out: Path,
    html: Path | None,
    json: bool,
    skip_bad: bool,
) -> None:
    """Measure cases into a run directory under `out`, and show them."""
    from leakmeter.prompts import templates, units

    if settings.unit is not None:
        units.parse(settings.unit)
    settings = replace(settings, template=templates.resolved(settings.template))
    if html is not None:
        output.check_writable(html, "report")
    from leakmeter.api import load_backend
    from leakmeter.cli.progress import progress
    from leakmeter.results.influence import case_object
    from leakmeter.store.rundir import RunDirectory
    from leakmeter.studies.run import measure_cases, prepare_case, spec_of

    backend = load_backend(model, dtype=dtype, device=device)
    prepared: list[Prepared] = []
    kept: list[Case] = []
    for case in cases:
        try:
            prepared.append(prepare_case(case, backend, settings, measure))
            kept.append(case)
        except LeakmeterError as error:
            if not skip_bad:
                raise
            problems.append(str(error))
    if not prepared:
        raise UsageError(f"none of {len(cases)} cases can be used; the first: {problems[0]}")
    where = str(getattr(getattr(backend, "model", None), "device", "cpu"))
    command = _unicode(shlex.join(["leakmeter", *sys.argv[1:]]))
    spec = spec_of(measure, "influence", settings, backend, where, kept, command=command, problems=problems)
    shown = []
    with RunDirectory.open(out, spec) as directory, progress(backend, len(prepared)) as watch:
        for texts, readings in measure_cases(backend, measure, settings, prepared, directory, watch):
            case_json = case_object(texts, readings, asdict(measure))
            shown.append(case_json)
            if json:
                output.print_json(case_json)
        if not directory.is_complete:
            directory.finish(spec, len(prepared))
    if not json:
        output.print_cases(shown)
    if html is not None:
        output.write_page(html, shown, command, directory.path)
    _report(directory.path, html, problems)


def _unicode(name: str) -> str:
    """What the operating system calls something; bytes that are no UTF-8 become the replacement character."""
    return os.fsencode(name).decode(errors="replace")


def _report(run: Path, html: Path | None, problems: list[str]) -> None:
    lines = [f"run: {run}"]
    if html is not None:
        lines.append(f"report: {html}")
    if problems:
        lines.append(f"left out {len(problems)} bad case{'s' if len(problems) > 1 else ''}; the first: {problems[0]}")
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def _cases(
    context_files: list[Path],
    query: str | None,
    response: str | None,
    data: Path | None,
    messages: Path | None,
    skip_bad: bool,
) -> tuple[list[Case], list[str]]:
    from leakmeter.data import chat, jsonl, text

    given = [
        name for name, value in (("--context-file", context_files), ("--data", data), ("--messages", messages)) if value
    ]
    if len(given) != 1:
        expected = "one of --context-file, --data and --messages"
        raise UsageError(
            f"give {expected}" if not given else f"{' and '.join(given)} do not go together; give {expected}"
        )
    if data is not None:
        if query is not None or response is not None:
            raise UsageError("--query and --response stand in the lines of --data; leave them out")
        loaded = jsonl.load(data, skip_bad=skip_bad)
        return list(loaded.cases), list(loaded.problems)
    if skip_bad:
        raise UsageError("--skip-bad is for --data")
    if messages is not None:
        if query is not None:
            raise UsageError("the last user message of --messages is the query; leave --query out")
        return [Case(_unicode(messages.stem), response=response, messages=chat.load_messages(messages))], []
    documents = [Document(_unicode(path.name), text.read_text(path, "context file")) for path in context_files]
    for document, path in zip(documents, context_files, strict=True):
        if not document.text.strip():
            raise UsageError(f"context file '{path}' is empty; there is nothing whose influence could be measured")
    named = tuple(jsonl.unique_names(documents))
    return [Case(_unicode(context_files[0].stem), documents=named, query=query or "", response=response)], []
