"""Which worker does which task: neighbours stay together, and whoever is done takes from who has most left."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence


class Queues:
    """Tasks in as many queues as there are workers.

    Neighbours share most of what they read, so that a worker has a stretch of them; those of one key begin with one
    worker. A worker whose queue is empty takes the later half of the longest.

    Args:
        tasks: numbers, in order.
        keys: of each task; equal ones, one behind another, begin with one worker.
        n_workers: 1 or more.

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
