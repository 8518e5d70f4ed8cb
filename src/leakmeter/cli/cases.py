"""Cases from a command's options to a finished run: what the commands of all measures share."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from leakmeter import plugins
from leakmeter.cli import output
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.measures.base import Measure
from leakmeter.prompts.build import Prepared, PromptSettings
from leakmeter.types.case import Case, Document

if TYPE_CHECKING:
    from leakmeter.backends.base import Backend
    from leakmeter.results.base import Part, Result


def read_cases(
    context_files: list[Path],
    query: str | None,
    response: str | None,
    data: Path | None,
    messages: Path | None,
    skip_bad: bool,
) -> tuple[list[Case], list[str]]:
    """The cases that options name, and what was wrong with those left out.

    Raises:
        UsageError: not exactly one source of cases, or options that do not go together.
        DataError: a file cannot be read as what it should hold.
    """
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


def run_cases(
    cases: list[Case],
    problems: list[str],
    settings: PromptSettings,
    measure: Measure,
    name: str,
    *,
    results: Callable[[Iterable[Part]], Iterator[Result]] | None = None,
    accept: Callable[[Backend], None] = lambda backend: None,
    model: str,
    dtype: str | None,
    device: str | None,
    memory: str | None,
    out: Path,
    html: Path | None,
    json: bool,
    skip_bad: bool,
    cache: bool,
    dry_run: bool,
) -> None:
    """Measure cases into a run directory under `out`, and show them; or predict what that would take.

    Args:
        cases: what is measured.
        problems: of cases that are left out already; others are added.
        settings: how prompts are made.
        measure: what measures.
        name: the measure's.
        results: texts and readings to what is shown; the measure's own results by default.
        accept: refuses a back end on which the measure would not mean what it promises.
        model: see `api.influence`, as are dtype, device and cache.
        dtype: precision of the weights.
        device: where they are put.
        memory: how much the back end may use.
        out: directory of runs.
        html: a report to write.
        json: print JSON lines instead of the terminal's view.
        skip_bad: leave out cases that cannot be used.
        cache: use the score cache.
        dry_run: predict instead.
    """
    from leakmeter.prompts import templates, units

    if settings.unit is not None:
        units.parse(settings.unit)
    settings = replace(settings, template=templates.resolved(settings.template))
    if settings.unit == "entity":
        from leakmeter.prompts.entities import pattern, phone

        # What cannot be used is said before a model is loaded.
        phone.check_region(settings.region)
        settings = replace(settings, entity_patterns=pattern.resolved(settings.entity_patterns))
    if dry_run:
        from leakmeter.cli.dry_run import predict_cases

        predict_cases(
            cases,
            problems,
            settings,
            measure,
            model=model,
            dtype=dtype,
            device=device,
            memory=memory,
            json=json,
            skip_bad=skip_bad,
        )
        return
    if html is not None:
        output.check_writable(html, "report")
    from leakmeter.api import load_backend
    from leakmeter.cli.progress import progress
    from leakmeter.store.rundir import RunDirectory
    from leakmeter.studies.run import measure_cases, prepare_case, spec_of

    backend = load_backend(model, dtype=dtype, device=device, memory=memory, cache=cache)
    accept(backend)
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
    spec = spec_of(measure, name, settings, backend, where, kept, command=command, problems=problems)
    made = results or partial(plugins.find("results", name).of_run, params=asdict(measure))
    shown: list[Result] = []
    with RunDirectory.open(out, spec) as directory, progress(backend, len(prepared)) as watch:
        for result in made(measure_cases(backend, measure, settings, prepared, directory, watch)):
            shown.append(result)
            if json:
                output.print_json(result.case)
        if not directory.is_complete:
            directory.finish(spec, len(prepared))
    if not json:
        output.print_results(shown)
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
        lines.append(output.left_out(problems))
    sys.stderr.write("".join(f"{line}\n" for line in lines))
