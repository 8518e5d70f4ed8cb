"""The page of the doctor: a model of the server is examined, each check is told of, and what was found is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from leakmeter.backends.served import names_a_server
from leakmeter.core.record import JsonObject
from leakmeter.errors import UsageError
from leakmeter.products.doctor.api import examine, examined
from leakmeter.products.doctor.checks import CHECKS
from leakmeter.products.doctor.report import report
from leakmeter.products.doctor.result import DoctorResult
from leakmeter.products.doctor.subject import CheckedModel
from leakmeter.products.serve.bodies import json_object
from leakmeter.products.serve.pages import show
from leakmeter.products.serve.queue import Job
from leakmeter.products.serve.serving import Serving, serving_of, streamed
from leakmeter.products.serve.watching import cancellable
from leakmeter.report import html

_LAST: Final = "doctor"


async def page(request: Request) -> Response:
    serving = serving_of(request)
    found = serving.extras.get(_LAST, "")
    return show(request, "doctor.html.j2", models=serving.models.names, found=found, n_checks=len(CHECKS))


async def run(request: Request) -> Response:
    serving = serving_of(request)
    body = await json_object(request)
    name = body.get("model", "")
    if not isinstance(name, str):
        raise UsageError("model has to be the name of one of the server's models")
    model = serving.models.checked(name[:200])
    return streamed(request, lambda job: _examined(serving, model, job))


def _examined(serving: Serving, model: str, job: Job) -> JsonObject:
    numbers = {name: number for number, (_, name, _) in enumerate(CHECKS, 1)}

    def on_check(name: str) -> None:
        job.check()
        job.tell("check", name=name, number=numbers[name], of=len(numbers))

    if names_a_server(model):
        result = _of_server(serving, model, job, on_check)
    else:
        kept = serving.use(model, job)
        with cancellable(kept, job):
            result = examine(CheckedModel.from_backend(kept.backend), model, on_check=on_check)
    # Texts of the doctor's own were examined, so that every browser of the server may see what was found.
    serving.extras[_LAST] = html.fragment(report([result]).blocks)
    return {"html": serving.extras[_LAST], "is_sound": result.is_sound}


def _of_server(serving: Serving, model: str, job: Job, on_check: Callable[[str], None]) -> DoctorResult:
    """A model behind a server, which need not be one that can be measured; requests end when the job is cancelled."""

    def on_loaded(subject: CheckedModel) -> None:
        if subject.connection is not None:
            subject.connection.on_request = job.check

    options = serving.models.options
    return examined(
        model,
        on_check=on_check,
        on_loaded=on_loaded,
        notify=lambda line: None,
        tokenizer=options.tokenizer,
        allow_remote=options.allow_remote,
    )


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/doctor", page),
    Route("/doctor/run", run, methods=["POST"]),
)
