"""Runs of many cases that the page starts: measured part by part, watched, cancelled and continued."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leakmeter.commands.cases import log_formats
from leakmeter.core.record import JsonObject
from leakmeter.data.rows import rows_of_text
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.spec import checked_name
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.products.serve import bodies
from leakmeter.products.serve.access import MOST_BYTES
from leakmeter.products.serve.live import TEMPLATES, UNITS
from leakmeter.products.serve.queue import Job
from leakmeter.products.serve.serving import Serving, serving_of, streamed
from leakmeter.products.serve.watching import cancellable
from leakmeter.text.build import PromptSettings

_STARTED: Final = "started runs"


@dataclass(frozen=True, slots=True)
class RunRequest:
    model: str
    records: tuple[JsonObject, ...]
    unit: str
    context_from: str | None
    template: str | None
    max_new_tokens: int
    name: str | None

    @classmethod
    def from_json(cls, body: JsonObject, serving: Serving) -> RunRequest:
        texts = bodies.texts(body, "file", "text", "unit", "context_from", "template", "model", "name", most=MOST_BYTES)
        model = serving.models.checked(texts["model"])
        records = [row.fields for row in rows_of_text(texts["text"], texts["file"])] if texts["text"].strip() else []
        if not records:
            raise DataError("the file has no case")
        return cls(
            model,
            tuple(records),
            bodies.choice(texts["unit"], "unit on this page", UNITS) or UNITS[0],
            texts["context_from"] or None,
            bodies.choice(texts["template"], "template on this page", TEMPLATES) or None,
            bodies.new_tokens(body),
            checked_name(texts["name"].strip() or None),
        )


@dataclass(slots=True)
class Started:
    wanted: RunRequest
    job: Job


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is, in parts: cases, where this server began it."""

    state: str
    """complete, unfinished, measuring: by this server, at this moment; or dropped: it was cancelled before its first
    case was measured, and nothing is kept of it."""
    done: int
    of: int | None
    """None where nothing says it."""


def started(serving: Serving, name: str) -> Started | None:
    held: dict[str, Started] = serving.extras.setdefault(_STARTED, {})
    return held.get(name)


def progress(path: Path, begun: Started | None) -> RunProgress:
    run = RunDirectory(path)
    n_done = len(run.parts)
    if run.is_complete:
        return RunProgress("complete", n_done, n_done)
    n_cases = run.read_begun().get("n_cases")
    measuring = begun is not None and not begun.job.is_over
    return RunProgress(
        "measuring" if measuring else "unfinished", n_done, n_cases if isinstance(n_cases, int) else None
    )


async def measure(request: Request) -> Response:
    serving = serving_of(request)
    wanted = RunRequest.from_json(await bodies.json_object(request), serving)
    return streamed(request, lambda job: _measure(serving, wanted, job), and_cancel=False)


async def go_on(request: Request) -> Response:
    serving = serving_of(request)
    begun = started(serving, request.path_params["run"])
    if begun is None or not begun.job.is_over:
        raise UsageError("only a run that this server began, and that was cancelled, can be continued here")
    return streamed(request, lambda job: _measure(serving, begun.wanted, job), and_cancel=False)


async def cancel(request: Request) -> Response:
    """End a run of this server's; what is measured of it is kept."""
    begun = started(serving_of(request), request.path_params["run"])
    if begun is None or begun.job.is_over:
        raise UsageError("this server does not measure that run")
    begun.job.cancel()
    return JSONResponse({})


def _measure(serving: Serving, wanted: RunRequest, job: Job) -> JsonObject:
    from leakmeter.core.loaded import LoadedCases
    from leakmeter.data.cases import cases_of
    from leakmeter.engine.ready import make_ready
    from leakmeter.instruments.influence.steps import planned

    settings = PromptSettings(unit=wanted.unit, template=wanted.template, group=wanted.unit != "whole").resolved()
    measure = Influence(max_new_tokens=wanted.max_new_tokens)
    loaded = cases_of(list(wanted.records), context_from=wanted.context_from, needs_response=True, logs=log_formats)
    kept = serving.use(wanted.model, job)
    with kept.lock, cancellable(kept, job):
        ready = make_ready(planned(measure, settings, LoadedCases(loaded.cases)), kept.backend)
        n_cases = len(ready.prepared)
        with ready.measure_into(serving.runs, label=wanted.name) as run:
            name = Path(run.directory.place).name
            serving.extras.setdefault(_STARTED, {})[name] = Started(wanted, job)
            job.tell("begun", run=name, of=n_cases)
            for n_done, _ in enumerate(run.parts, 1):
                job.tell("case", done=n_done, of=n_cases)
                if n_done < n_cases:
                    job.check()
    return {"run": name}
