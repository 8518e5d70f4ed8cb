"""What the pages of one server share."""

from __future__ import annotations

import gc
import json
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from leakmeter.engine.loading import KeptModel
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import UnknownNameError
from leakmeter.products.serve.access import Access
from leakmeter.products.serve.queue import Job, JobWork, Queue


class Models:
    """Models by name, the first by default; only the worker's thread asks for one."""

    def __init__(self, names: Sequence[str], options: ModelOptions) -> None:
        self.names = tuple(dict.fromkeys(names))
        self.options = options
        self._kept: KeptModel | None = None

    @property
    def loaded(self) -> str | None:
        return None if self._kept is None else str(self._kept.source)

    def checked(self, name: str | None) -> str:
        if not name:
            return self.names[0]
        if name not in self.names:
            raise UnknownNameError("model here", name, self.names)
        return name

    def use(self, name: str | None = None) -> KeptModel:
        """A model, loaded; another that was in memory is freed before."""
        name = self.checked(name)
        if self._kept is None or self._kept.source != name:
            if self._kept is not None:
                self._kept = None
                gc.collect()
                torch = sys.modules.get("torch")
                if torch is not None and torch.cuda.is_available():
                    torch.cuda.empty_cache()
            kept = KeptModel(name, self.options)
            _ = kept.backend
            self._kept = kept
        return self._kept


MOST_REMEMBERED: Final = 64
T = TypeVar("T")


class Remembered:
    """What later requests may need of earlier ones; the oldest goes where there are too many."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._held: OrderedDict[Hashable, Any] = OrderedDict()

    def put(self, key: Hashable, value: T) -> T:
        self._held[key] = value
        self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return value

    def get(self, key: Hashable) -> Any:
        return self._held.get(key)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        return self.put(key, self._held[key] if key in self._held else make())

    def clear(self) -> None:
        self._held.clear()


def stamp(path: Path) -> tuple[int, ...]:
    """Differs where a file was replaced or written; () where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


@dataclass(frozen=True)
class Serving:
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


def streamed(request: Request, work: JobWork, *, and_cancel: bool = True) -> Response:
    """Have work done, and answer with its events; with `and_cancel` it ends when the browser goes."""
    job = serving_of(request).queue.submit(work, session_of(request))

    async def written() -> AsyncIterator[bytes]:
        events = job.listen(and_cancel=and_cancel)
        try:
            async for event in events:
                if event is None:
                    yield b": alive\n\n"
                else:
                    yield f"event: {event.name}\ndata: {json.dumps(event.data, allow_nan=False)}\n\n".encode()
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    return StreamingResponse(written(), media_type="text/event-stream")
