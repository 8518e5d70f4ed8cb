"""The page of the doctor: whether the numbers of one of the server's models can be measured with."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from leakmeter.backends.served import names_a_server
from leakmeter.checkup.api import doctor
from leakmeter.checkup.result import DoctorResult
from leakmeter.report import html
from leakmeter.serve.bodies import json_object
from leakmeter.serve.pages import show
from leakmeter.serve.queue import Job
from leakmeter.serve.serving import Serving, serving_of, session_of
from leakmeter.serve.watching import cancellable


async def page(request: Request) -> Response:
    """The page with nothing examined yet."""
    return show(request, "doctor.html.j2", models=serving_of(request).models.names)


async def examine(request: Request) -> Response:
    """Examine a model."""
    serving = serving_of(request)
    given = (await json_object(request)).get("model")
    model = serving.models.checked(given if isinstance(given, str) else None)
    job = serving.queue.submit(lambda job: _examined(serving, model, job), session_of(request))
    return StreamingResponse(job.stream(), media_type="text/event-stream")


def _examined(serving: Serving, model: str, job: Job) -> dict[str, Any]:
    if serving.models.loaded != model:
        job.tell("loading", model=model)
    if names_a_server(model):
        job.tell("examining", model=model)
        result = doctor(model, notify=lambda line: None, **serving.models.served_options)
    else:
        kept = serving.models.use(model)
        job.tell("examining", model=model)
        with kept.lock, cancellable(kept, job):
            result = doctor(kept.backend)
    report = DoctorResult.report([result])
    return {"html": html.fragment([*report.blocks, *report.notes]), "sound": result.is_sound}


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/doctor", page),
    Route("/doctor/examine", examine, methods=["POST"]),
)
