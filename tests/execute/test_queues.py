"""Which worker does which task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leakmeter.execute.pool import Queues


def test_a_worker_has_a_stretch_of_neighbours() -> None:
    queues = Queues(range(8), range(8), 2)
    assert [queues.take(0) for _ in range(3)] == [0, 1, 2]
    assert [queues.take(1) for _ in range(4)] == [4, 5, 6, 7]


def test_what_shares_a_start_begins_with_one_worker() -> None:
    queues = Queues(range(6), "aaaaab", 2)
    assert queues.take(0) == 0
    # The other has the last alone, and then the later half of what is left.
    assert [queues.take(1) for _ in range(3)] == [5, 3, 4]


@given(
    st.lists(st.sampled_from("abc"), max_size=40),
    st.integers(1, 6),
    st.lists(st.integers(0, 9), min_size=1, max_size=80),
)
def test_every_task_is_taken_once(keys: list[str], n_workers: int, order: list[int]) -> None:
    queues = Queues([3 * n for n in range(len(keys))], keys, n_workers)
    taken = []
    turn = 0
    while (task := queues.take(order[turn % len(order)])) is not None:
        taken.append(task)
        turn += 1
        if task % 5 == 0 and taken.count(task) == 1:
            queues.put_back(task)
    assert sorted(set(taken)) == [3 * n for n in range(len(keys))]
    assert all(taken.count(task) == (2 if task % 5 == 0 else 1) for task in taken)
    assert len(queues) == 0
