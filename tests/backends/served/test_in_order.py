"""Results stand in the order of the items, whatever comes first."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.backends.served.in_order import in_order, waited


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """For each item one before it, or −1."""
    n = draw(st.integers(0, 12))
    return [draw(st.integers(-1, i - 1)) for i in range(n)]


@settings(max_examples=examples(30))
@given(forests(), st.integers(1, 4))
def test_each_item_once_and_after_the_one_it_waits_for(after: list[int], n_threads: int) -> None:
    done: list[int] = []
    lock = threading.Lock()

    def work(index: int) -> int:
        with lock:
            assert after[index] in (-1, *done)
        with lock:
            done.append(index)
        return index * index

    assert in_order(work, list(range(len(after))), after, n_threads=n_threads) == [i * i for i in range(len(after))]
    assert sorted(done) == list(range(len(after)))


def test_one_thread_keeps_the_order_of_the_items() -> None:
    done: list[int] = []
    in_order(done.append, [3, 1, 2], n_threads=1)
    assert done == [3, 1, 2]


def test_items_are_done_side_by_side() -> None:
    barrier = threading.Barrier(3, timeout=5)
    in_order(lambda _: barrier.wait(), range(3), n_threads=3)


def test_the_first_error_ends_the_work() -> None:
    begun: list[int] = []

    def work(index: int) -> None:
        begun.append(index)
        raise ValueError(f"item {index}")

    with pytest.raises(ValueError, match="item 0"):
        in_order(work, range(50), n_threads=1)
    assert begun == [0]


def test_who_waits_is_told_that_the_work_has_ended() -> None:
    ends = threading.Event()

    def work(index: int) -> None:
        if index == 0:
            raise KeyError
        if not waited(30.0):
            ends.set()

    with pytest.raises(KeyError):
        in_order(work, [1, 0], n_threads=2)
    assert ends.wait(5.0)
