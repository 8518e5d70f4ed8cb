"""What the pages of one server share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from leakmeter.engine.loading import KeptModel
from leakmeter.serve.access import Access
from leakmeter.serve.models import Models
from leakmeter.serve.queue import Job, Queue

MOST_REMEMBERED: Final = 64


class Remembered:
    """What later requests may need of earlier ones; the oldest goes where there are too many.

    Only the worker's thread uses it.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Any] = OrderedDict()

    def put(self, key: Hashable, value: Any) -> None:
        self._held[key] = value
        self._held.move_to_end(key)
        while len(self._held) > MOST_REMEMBERED:
            self._held.popitem(last=False)

    def get(self, key: Hashable) -> Any:
        return self._held.get(key)


@dataclass(frozen=True)
class Serving:
    """The models, the work, and where results are kept."""

    access: Access
    models: Models
    queue: Queue
    runs: Path
    ledger: Path
    answers: Remembered = field(default_factory=Remembered)
    """That models drew: the tokens, since a text says neither what ended it nor how it was cut, and what it was drawn
    from."""
    wholes: Remembered = field(default_factory=Remembered)
    """Influences of whole contexts, nats, by what was typed."""
    extras: dict[str, Any] = field(default_factory=dict)
    """Of pages that have options of their own, by name."""

    def use(self, model: str, job: Job) -> KeptModel:
        """A model for a job, which shows that it is loading where it has to be loaded."""
        if self.models.loaded != model:
            job.tell("loading", model=model)
        return self.models.use(model)


def serving_of(request: Request) -> Serving:
    serving: Serving = request.app.state.serving
    return serving


def session_of(request: Request) -> str:
    """The session of a request, which owns its jobs; "" of a program's."""
    session: str = request.state.session
    return session
