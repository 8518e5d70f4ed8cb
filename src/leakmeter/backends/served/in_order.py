"""Work that waits for answers, several items at a time, with results in the order of the items."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_mine = threading.local()


def in_order(
    work: Callable[[T], R], todo: Sequence[T], after: Sequence[int] | None = None, *, n_threads: int
) -> list[R]:
    """What becomes of every item, in the items' order, however long each takes. Items begin in their order, `n_threads`
    at a time; the first error ends the work and is raised. `after` has for each item the index of one before it that
    has to be finished first, or −1, as for all by default."""
    return _Work(work, todo, after or [-1] * len(todo)).results(min(n_threads, len(todo)))


def waited(seconds: float) -> bool:
    """Wait within `work`; False, at once, where the work has ended meanwhile and nobody waits for its results."""
    ended: threading.Event = getattr(_mine, "ended", None) or threading.Event()
    return not ended.wait(seconds)


class _Work(Generic[T, R]):
    def __init__(self, work: Callable[[T], R], todo: Sequence[T], after: Sequence[int]) -> None:
        self._work, self._todo = work, todo
        self._results: dict[int, R] = {}
        self._error: BaseException | None = None
        self._children: dict[int, list[int]] = {}
        for index, first in enumerate(after):
            self._children.setdefault(first, []).append(index)
        self._ready = self._children.pop(-1, [])  # in order: a heap
        self._changed = threading.Condition()
        self._ended = threading.Event()

    def results(self, n_threads: int) -> list[R]:
        # Daemons, so that a program which is interrupted does not wait for a server.
        for _ in range(n_threads):
            threading.Thread(target=self._run, daemon=True).start()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._error is not None or len(self._results) == len(self._todo))
        finally:
            with self._changed:
                self._ended.set()
                self._changed.notify_all()
        if self._error is not None:
            raise self._error
        return [self._results[index] for index in range(len(self._todo))]

    def _run(self) -> None:
        _mine.ended = self._ended
        while (index := self._next()) is not None:
            try:
                result = self._work(self._todo[index])
            except BaseException as error:  # noqa: BLE001 - raised where the results are waited for
                self._finish(error=error)
                return
            self._finish(index, result)

    def _next(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended.is_set())
            return None if self._ended.is_set() else heapq.heappop(self._ready)

    def _finish(self, index: int = -1, result: Any = None, error: BaseException | None = None) -> None:
        with self._changed:
            if error is not None:
                self._error = self._error or error
            else:
                self._results[index] = result
                for child in self._children.get(index, ()):
                    heapq.heappush(self._ready, child)
            self._changed.notify_all()
