"""Work that waits for answers, several items at a time, with results in the order of the items."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_mine = threading.local()


def in_order(
    work: Callable[[T], R], todo: Sequence[T], after: Sequence[int] | None = None, *, n_threads: int
) -> list[R]:
    """Do the work for every item; results stand in the items' order, however long each takes. Items begin in their
    order, `n_threads` at a time; the first error ends the work and is raised. `after` has for each item the index of
    one before it that has to be finished first, or −1, as for all by default."""
    children: dict[int, list[int]] = {}
    for index, first in enumerate(after or [-1] * len(todo)):
        children.setdefault(first, []).append(index)
    ready = children.pop(-1, [])  # in order: a heap
    results: dict[int, R] = {}
    errors: list[BaseException] = []
    changed, ended = threading.Condition(), threading.Event()

    def run() -> None:
        _mine.ended = ended
        while True:
            with changed:
                changed.wait_for(lambda: ready or ended.is_set())
                if ended.is_set():
                    return
                index = heapq.heappop(ready)
            try:
                result = work(todo[index])
            except BaseException as error:  # noqa: BLE001 - raised where the results are waited for
                with changed:
                    errors.append(error)
                    changed.notify_all()
                return
            with changed:
                results[index] = result
                for child in children.get(index, ()):
                    heapq.heappush(ready, child)
                changed.notify_all()

    # Daemons, so that a program which is interrupted does not wait for a server.
    for _ in range(min(n_threads, len(todo))):
        threading.Thread(target=run, daemon=True).start()
    try:
        with changed:
            changed.wait_for(lambda: errors or len(results) == len(todo))
    finally:
        with changed:
            ended.set()
            changed.notify_all()
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(todo))]


def waited(seconds: float) -> bool:
    """Wait within `work`; False, at once, where the work has ended meanwhile and nobody waits for its results."""
    ended: threading.Event = getattr(_mine, "ended", None) or threading.Event()
    return not ended.wait(seconds)
