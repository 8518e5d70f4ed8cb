"""Which worker does which task; and workers that may die."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.engine import Here
from leakmeter import errors
from leakmeter.engine.execute.pool import TRIES, Failure, Pool, Queues, WorkerEvent, failure_of, rebuilt
from leakmeter.errors import LeakmeterError, ModelError, UnknownNameError


class Doubling:
    def __init__(self, worker: int) -> None:
        self.worker = worker

    def describe(self) -> str:
        return f"worker {self.worker}"

    def do(self, payload: int) -> int:
        if payload == 13:
            raise ModelError("thirteen cannot be doubled")
        if payload == 14:
            raise ValueError("a secret of the text")
        return 2 * payload


def pool_of(engine: Here, n: int = 3, accept: Callable[[Any], None] = lambda said: None, **how: Any) -> Pool:
    made = Pool(engine, n, accept, **how)
    made.wait()
    return made


def run(pool: Pool, n: int) -> dict[int, Any]:
    found = list(pool.run(range(n), [0] * n, lambda task: task))
    assert len({task for task, _ in found}) == len(found)
    return dict(found)


def test_a_task_that_kills_is_given_up_alone() -> None:
    tries: list[int] = []
    engine = Here(Doubling, lambda worker, payload: payload == 4 and not tries.append(payload))
    found = run(pool_of(engine), 9)
    assert len(tries) == TRIES
    assert isinstance(found.pop(4), Failure)
    assert found == {n: 2 * n for n in range(9) if n != 4}


def test_a_machine_that_goes_blames_no_task() -> None:
    tries: list[int] = []

    def dies(worker: int, payload: int) -> bool:
        tries.extend([0] * (payload == 4))
        return payload == 4 and len(tries) < 2 * TRIES

    assert run(pool_of(Here(Doubling, dies, blames=False)), 9) == {n: 2 * n for n in range(9)}


def test_an_error_of_ours_is_final_and_another_is_tried_again() -> None:
    engine = Here(Doubling)
    found = run(pool_of(engine), 16)
    assert str(rebuilt(found[13])) == "thirteen cannot be doubled"
    assert isinstance(rebuilt(found[13]), ModelError)
    assert [payload for _, payload in engine.done].count(13) == 1
    assert [payload for _, payload in engine.done].count(14) == TRIES
    assert "secret" not in str(rebuilt(found[14]))
    assert "ValueError" in str(rebuilt(found[14]))


def test_errors_travel() -> None:
    given = {UnknownNameError: ("unit", "x", ["y"]), errors.DamagedError: ("run", "file", "field", "is wrong")}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, LeakmeterError):
            error = kind(*given.get(kind, ("of a kind",)))
            assert type(rebuilt(failure_of(error))) is kind
            assert str(rebuilt(failure_of(error))) == str(error)


def test_a_worker_that_cannot_load_the_model_says_why() -> None:
    def make(worker: int) -> Doubling:
        raise ModelError("no such model on this machine")

    with pytest.raises(ModelError, match="no such model on this machine"):
        pool_of(Here(make))


def test_workers_that_die_at_once_are_not_started_for_ever() -> None:
    class Dying(Here):
        def start(self) -> int:
            worker = super().start()
            self.news.clear()
            self.news.append(WorkerEvent("lost", worker))
            return worker

    with pytest.raises(LeakmeterError, match="before they have loaded the model"):
        pool_of(Dying(Doubling))


def test_workers_that_come_later_take_their_share() -> None:
    engine = Here(Doubling, comes=lambda worker: worker != 1)
    pool = pool_of(engine)
    found = []
    for task, value in pool.run(range(30), [0] * 30, lambda task: 100 + task):
        found.append((task, value))
        if len(found) == 5:
            engine.works[1], engine.given[1] = Doubling(1), deque()
            engine.news.append(WorkerEvent("ready", 1, value="worker 1"))
    assert dict(found) == {n: 2 * (100 + n) for n in range(30)}
    assert 1 in {worker for worker, _ in engine.done}


def test_what_an_earlier_call_left_under_way_is_not_taken_for_this() -> None:
    engine = Here(Doubling)
    pool = pool_of(engine)
    left = pool.run(range(6), [0] * 6, lambda task: task)
    next(left)
    left.close()
    assert dict(pool.run(range(6), [0] * 6, lambda task: 100 + task)) == {n: 2 * (100 + n) for n in range(6)}


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises, as at a terminal: whoever starts the tests in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_the_first_interrupt_drains_and_the_second_ends_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    engine = Here(Doubling)
    pool = pool_of(engine)
    # What each of three workers had begun comes after the first, and nothing else is begun.
    for n_signals, least, most in ((1, 5, 7), (2, 4, 4)):
        found: list[int] = []
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            for task, _ in pool.run(range(30), [0] * 30, lambda task: 100 + task):
                found.append(task)
                for _ in range(n_signals if len(found) == 4 else 0):
                    # Of this thread, which handles it at once: two signals of the process may become one.
                    signal.raise_signal(signal.SIGINT)
        assert least <= len(found) <= most
        assert signal.getsignal(signal.SIGINT) is before


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
