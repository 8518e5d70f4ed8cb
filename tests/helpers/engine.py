"""Workers within this process, which die when they are told to: an engine for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from leakmeter.engine.execute.pool import WorkerEvent, failure_of


class Here:
    """An engine whose workers do a task when they are asked for events, one task an event, in turn.

    Workers that do not come to be are pending for ever; `blames` says whether a death may be the task's fault.
    """

    def __init__(
        self,
        make: Callable[[int], Any],
        dies: Callable[[int, Any], bool] = lambda worker, payload: False,
        *,
        blames: bool = True,
        comes: Callable[[int], bool] = lambda worker: True,
    ) -> None:
        self.make, self.dies, self.blames, self.comes = make, dies, blames, comes
        self.given: dict[int, deque[tuple[int, Any]]] = {}
        self.works: dict[int, Any] = {}
        self.news: deque[WorkerEvent] = deque()
        self.done: list[tuple[int, Any]] = []
        self.n_started = 0
        self.closed = False

    def start(self) -> int:
        worker, self.n_started = self.n_started, self.n_started + 1
        if self.comes(worker):
            try:
                self.works[worker] = self.make(worker)
                self.news.append(WorkerEvent("ready", worker, value=self.works[worker].describe()))
            except Exception as error:  # noqa: BLE001 - as an engine does
                self.news.append(WorkerEvent("failed", worker, value=failure_of(error)))
            self.given[worker] = deque()
        return worker

    def submit(self, worker: int, ticket: int, payload: Any) -> None:
        self.given[worker].append((ticket, payload))

    def events(self, seconds: float) -> list[WorkerEvent]:
        if self.news:
            return [self.news.popleft()]
        for worker, tasks in list(self.given.items()):
            if tasks:
                # The next look begins with the next worker.
                self.given[worker] = self.given.pop(worker)
                return [self._step(worker, *tasks.popleft())]
        return []

    def _step(self, worker: int, ticket: int, payload: Any) -> WorkerEvent:
        if self.dies(worker, payload):
            del self.given[worker]
            return WorkerEvent("lost", worker, blames_task=self.blames)
        self.done.append((worker, payload))
        try:
            return WorkerEvent("done", worker, ticket, self.works[worker].do(payload))
        except Exception as error:  # noqa: BLE001 - as an engine does
            return WorkerEvent("failed", worker, ticket, failure_of(error))

    def stop(self, worker: int) -> None:
        self.given.pop(worker, None)

    def close(self) -> None:
        self.closed = True
        self.given.clear()
