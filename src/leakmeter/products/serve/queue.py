"""Work of the server: one thing at a time, in the order it was asked for, told of as it goes on, and cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from leakmeter.core.long_work import checked_by
from leakmeter.core.record import JsonObject
from leakmeter.errors import LeakmeterError
from leakmeter.products.serve.bodies import unforeseen, without_paths

MOST_WAITING: Final = 32
"""Jobs that wait, of all browsers and programs."""
MOST_OF_ONE: Final = 4
"""Jobs of one owner that wait or are done at the moment."""
_ALIVE_SECONDS: Final = 15.0
"""Between two signs of life of a stream: a browser that has gone is noticed by one."""
JobState = Literal["waiting", "running", "done", "failed", "cancelled"]


class Cancelled(BaseException):
    """The job is not wanted any more. No `Exception`, so that nothing takes it for a failure of the model's."""


class BusyError(LeakmeterError):
    """More is waiting than the server takes."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job: a name, and what is told of it, which JSON can say."""

    name: str
    data: JsonObject


JobWork = Callable[["Job"], "JsonObject | None"]
"""Does it, in the worker's thread; what it returns is told with the event `done`."""


@dataclass(eq=False)
class Job:
    """A piece of work: it waits, is done, and is told of in events."""

    work: JobWork = field(repr=False)
    owner: str = field(repr=False)
    """Who asked: a session, or whatever a program is known by."""
    state: JobState = "waiting"
    events: list[JobEvent] = field(default_factory=list, repr=False)
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _listeners: set[Callable[[], None]] = field(default_factory=set, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    @property
    def is_cancelled(self) -> bool:
        return self._stop.is_set()

    def check(self) -> None:
        """End the work here if it is cancelled; called between pieces, and between passes of the engine."""
        if self._stop.is_set():
            raise Cancelled

    def cancel(self) -> None:
        """Stop it, at the next `check`, or before it begins."""
        self._stop.set()

    def tell(self, name: str, /, **data: Any) -> None:
        self._add(JobEvent(name, data))

    def end(self, state: JobState, /, **data: Any) -> None:
        self._add(JobEvent(state, data), state)

    def _add(self, event: JobEvent, state: JobState | None = None) -> None:
        with self._lock:
            # In this order: whoever sees that it is over sees its last event too.
            self.events.append(event)
            self.state = state or self.state
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    async def listen(self, *, and_cancel: bool = False) -> AsyncIterator[JobEvent | None]:
        """All events from the first, as they come, and None now and then while there is none. With `and_cancel`, the
        work is cancelled when the listener leaves before its end."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop of a listener that has gone
                loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._listeners.add(wake)
        try:
            n = 0
            while True:
                changed.clear()
                over = self.is_over
                while n < len(self.events):
                    n += 1
                    yield self.events[n - 1]
                if over and n == len(self.events):
                    return
                try:
                    await asyncio.wait_for(changed.wait(), _ALIVE_SECONDS)
                except TimeoutError:
                    yield None
        finally:
            with self._lock:
                self._listeners.discard(wake)
            if and_cancel and not self.is_over:
                self.cancel()


class Queue:
    """One thread that does jobs in the order they came."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()  # of an RLock: `submit` calls `jobs`
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="leakmeter-serve", daemon=True)
        self._thread.start()

    @property
    def length(self) -> int:
        with self._changed:
            return len(self._waiting) + (self._running is not None)

    def jobs(self, owner: str) -> list[Job]:
        """Those of an owner that are done at the moment, or wait, in this order."""
        with self._changed:
            return [job for job in (self._running, *self._waiting) if job is not None and job.owner == owner]

    def submit(self, work: JobWork, owner: str) -> Job:
        """Add work to the queue. `BusyError` where too much is waiting already, of this owner or of all."""
        job = Job(work, owner)
        with self._changed:
            self._drop_cancelled()
            if sum(not earlier.is_cancelled for earlier in self.jobs(owner)) >= MOST_OF_ONE:
                raise BusyError(f"{MOST_OF_ONE} of your measurements are under way; wait for one, or cancel it")
            if len(self._waiting) >= MOST_WAITING:
                raise BusyError(f"{MOST_WAITING} measurements are waiting; try again later")
            self._waiting.append(job)
            self._tell_places()
            self._changed.notify()
        return job

    def close(self) -> None:
        """Cancel everything; the thread ends after the job at hand."""
        with self._changed:
            self._closed = True
            for job in (*self._waiting, *([self._running] if self._running else [])):
                job.cancel()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _tell_places(self) -> None:
        for number, job in enumerate(self._waiting):
            job.tell("queued", ahead=number + (self._running is not None), length=len(self._waiting))

    def _drop_cancelled(self) -> None:
        for job in [waiting for waiting in self._waiting if waiting.is_cancelled]:
            self._waiting.remove(job)
            job.end("cancelled")

    def _work(self) -> None:
        while True:
            with self._changed:
                self._drop_cancelled()
                while not self._waiting and not self._closed:
                    # A job that is cancelled while it waits is told so even if nothing else happens.
                    self._changed.wait()
                    self._drop_cancelled()
                if self._closed:
                    self._drop_cancelled()
                    return
                job = self._running = self._waiting.popleft()
                self._tell_places()
            self._do(job)

    def _do(self, job: Job) -> None:
        job.state = "running"
        job.tell("started")
        ended: tuple[JobState, JsonObject]
        try:
            job.check()
            with checked_by(job.check):
                ended = "done", job.work(job) or {}
        except Cancelled:
            ended = "cancelled", {}
        except LeakmeterError as error:
            ended = "failed", {"error": without_paths(str(error))}
        except MemoryError:
            ended = "failed", {"error": "out of memory; give a shorter text, a smaller model, or a smaller --memory"}
        except Exception as error:  # noqa: BLE001 - one measurement may fail; the server goes on
            ended = "failed", {"error": unforeseen(error)}
        with self._changed:
            self._running = None
        job.end(ended[0], **ended[1])
