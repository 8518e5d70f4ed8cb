"""Tasks on workers that may die: each is done once, tried again where its worker died, and given up where it kills.
Neighbours stay together, and whoever is done takes from who has most left."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from leakmeter.errors import LeakmeterError, ModelError


class Queues:
    """Tasks in as many queues as there are workers.

    Neighbours share most of what they read, so that a worker has a stretch of them; those of one key, one behind
    another, begin with one worker. A worker whose queue is empty takes the later half of the longest.

    Examples:
        >>> queues = Queues(range(6), "aabbcc", 2)
        >>> [queues.take(0), queues.take(1), queues.take(0), queues.take(0), queues.take(0)]
        [0, 4, 1, 2, 3]
    """

    def __init__(self, tasks: Sequence[int], keys: Sequence[Hashable], n_workers: int) -> None:
        self._queues: list[deque[int]] = [deque() for _ in range(n_workers)]
        self._of_worker: dict[int, int] = {}
        queue = 0
        for at, (task, key) in enumerate(zip(tasks, keys, strict=True)):
            begins = at == 0 or key != keys[at - 1]
            # A stretch of one key goes where its first task falls.
            queue = at * n_workers // len(tasks) if begins else queue
            self._queues[queue].append(task)

    def __len__(self) -> int:
        """Tasks that nobody has taken."""
        return sum(map(len, self._queues))

    def take(self, worker: int) -> int | None:
        """The worker's next task; None where there is none left for anybody."""
        own = self._queues[self._of_worker.setdefault(worker, len(self._of_worker) % len(self._queues))]
        if not own:
            longest = max(self._queues, key=len)
            stolen = [longest.pop() for _ in range((len(longest) + 1) // 2)]
            own.extend(reversed(stolen))
        return own.popleft() if own else None

    def put_back(self, task: int) -> None:
        """A task that was taken and not done: it is the next of the shortest queue."""
        min(self._queues, key=len).appendleft(task)


TRIES: Final = 3
"""How often a task is tried that kills its worker, or fails for a reason that may pass."""
_AHEAD: Final = 2
"""Tasks that a worker is given at a time, so that it does not wait for the next."""
_DIED: Final = "died"
_UNFORESEEN: Final = {
    _DIED: f"its worker died {TRIES} times, most likely because memory ran out",
    "MemoryError": f"memory ran out {TRIES} times; give less with --memory, or fewer workers a machine",
}
_LOOK_SECONDS: Final = 1.0
_WAITING_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    kind: Literal["ready", "done", "failed", "lost"]
    worker: int
    ticket: int | None = None
    """Of the task; None where the worker could not be made."""
    value: Any = None
    """Of 'ready' what the worker says of itself, of 'done' what the task gave, of 'failed' a `Failure`."""
    blames_task: bool = True
    """Of 'lost': whether the tasks it had may be why; not where its whole machine went."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task could not be done, as it travels between processes."""

    kind: str
    """Name of the exception's class."""
    message: str
    """Of a `LeakmeterError`; of others none, which may quote what was measured."""
    is_final: bool
    """Whether another try would end alike."""


class Engine(Protocol):
    """Runs workers; each answers `describe()` once and then tasks, one at a time, in order."""

    def start(self) -> int:
        """Start a worker, wherever there is room, now or later; its number, from 0."""

    def submit(self, worker: int, ticket: int, payload: Any) -> None:
        """Give a worker a task, which events call by its ticket."""

    def events(self, seconds: float) -> list[WorkerEvent]:
        """What happened, as soon as anything did; nothing after so many seconds. Tasks of a lost worker are gone."""

    def stop(self, worker: int) -> None:
        """End a worker; what it is doing is lost."""

    def close(self) -> None:
        """End all workers."""


class Pool:
    """A fixed number of workers: a dead one is replaced. `accept` gets what a worker says of itself before it gets
    work."""

    def __init__(
        self,
        engine: Engine,
        n_workers: int,
        accept: Callable[[Any], None],
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.engine = engine
        self.n_workers = n_workers
        self._accept = accept
        self._notify = notify
        self._pending = {engine.start() for _ in range(n_workers)}
        self._ready: set[int] = set()
        self._n_deaths_before_ready = 0
        self._tickets = itertools.count()

    def wait(self) -> None:
        since = time.monotonic()
        has_told = False
        while not self._ready:
            for event in self.engine.events(_LOOK_SECONDS):
                self._met(event)
            if not has_told and not self._ready and time.monotonic() - since > _WAITING_SECONDS:
                has_told = True
                self._notify("no worker is ready yet: they start, or wait for a machine that has room")

    def run(
        self, tasks: Sequence[int], keys: Sequence[Hashable], payload: Callable[[int], Any]
    ) -> Iterator[tuple[int, Any]]:
        """Each task's outcome, or its `Failure`, as they come. A first SIGINT lets begun tasks finish, and then raises;
        a second ends at once."""
        queues = Queues(tasks, keys, self.n_workers)
        # Tickets, since a worker may still be at a task of an earlier call that was left.
        under_way: dict[int, dict[int, int]] = {worker: {} for worker in self._ready}
        n_tries: Counter[int] = Counter()
        n_left = len(tasks)
        with _draining(self._notify, lambda: sum(map(bool, under_way.values()))) as draining:
            while n_left and not (draining.is_set() and not any(under_way.values())):
                if draining.is_set():
                    # Behind the task that a worker has begun, another may wait.
                    under_way = {worker: dict([*tasks.items()][:1]) for worker, tasks in under_way.items()}
                else:
                    self._hand_out(queues, under_way, payload)
                for event in self.engine.events(_LOOK_SECONDS):
                    lost = under_way.pop(event.worker, {}) if event.kind == "lost" else {}
                    self._met(event)
                    if event.kind == "ready" and event.worker in self._ready:
                        under_way[event.worker] = {}
                    for number, task in enumerate(lost.values()):
                        # It was at the first; those behind it had not begun.
                        n_tries[task] += number == 0 and event.blames_task
                        if n_tries[task] < TRIES:
                            queues.put_back(task)
                        else:
                            n_left -= 1
                            yield task, Failure(_DIED, "", is_final=True)
                    finished = None if event.ticket is None else under_way.get(event.worker, {}).pop(event.ticket, None)
                    if finished is None:
                        continue
                    if event.kind == "failed" and not event.value.is_final:
                        n_tries[finished] += 1
                        if n_tries[finished] < TRIES:
                            queues.put_back(finished)
                            continue
                    n_left -= 1
                    yield finished, event.value
        if draining.is_set():
            raise KeyboardInterrupt

    def close(self) -> None:
        self.engine.close()
        self._pending, self._ready = set(), set()

    def _hand_out(self, queues: Queues, under_way: dict[int, dict[int, int]], payload: Callable[[int], Any]) -> None:
        for depth in range(1, _AHEAD + 1):
            for worker, tasks in under_way.items():
                # The last tasks go one to a worker: none waits behind another while a worker has nothing.
                if len(tasks) < depth and (depth == 1 or len(queues) > len(under_way)):
                    task = queues.take(worker)
                    if task is not None:
                        ticket = next(self._tickets)
                        tasks[ticket] = task
                        self.engine.submit(worker, ticket, payload(task))

    def _met(self, event: WorkerEvent) -> None:
        if event.kind == "lost":
            was_ready = event.worker in self._ready
            self._pending.discard(event.worker)
            self._ready.discard(event.worker)
            self._n_deaths_before_ready = 0 if was_ready else self._n_deaths_before_ready + 1
            if self._n_deaths_before_ready >= TRIES * self.n_workers:
                raise LeakmeterError(
                    "workers end before they have loaded the model, most likely because memory ran out; see the "
                    "engine's own logs, or start fewer workers per machine"
                )
            if was_ready:
                self._notify("a worker was lost; another one starts its part again")
            self._pending.add(self.engine.start())
        elif event.kind == "failed" and event.ticket is None:
            raise rebuilt(event.value)
        elif event.kind == "ready":
            self._pending.discard(event.worker)
            try:
                self._accept(event.value)
            except LeakmeterError as error:
                self.engine.stop(event.worker)
                if not self._ready:
                    raise
                self._notify(f"a worker is not used: {error}")
                self.n_workers -= 1
            else:
                self._ready.add(event.worker)
                self._n_deaths_before_ready = 0


def failure_of(error: BaseException) -> Failure:
    ours = isinstance(error, LeakmeterError)
    is_final = ours and not getattr(error, "may_pass", False)
    return Failure(type(error).__name__, str(error) if ours else "", is_final)


def rebuilt(failure: Failure) -> LeakmeterError:
    kind = getattr(sys.modules[ModelError.__module__], failure.kind, ModelError)
    error: LeakmeterError = kind.__new__(kind)
    error.args = (failure.message or _UNFORESEEN.get(failure.kind, f"internal error ({failure.kind})"),)
    return error


@contextmanager
def _draining(notify: Callable[[str], None], n_given: Callable[[], int]) -> Iterator[threading.Event]:
    """An event that the first SIGINT sets; only the main thread can be told of signals."""
    draining = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield draining
        return
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(number: int, frame: Any) -> None:
        draining.set()
        signal.signal(signal.SIGINT, before)
        notify(f"ending when the {n_given()} parts in progress are done; interrupt again to end at once")

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield draining
    finally:
        signal.signal(signal.SIGINT, before)
