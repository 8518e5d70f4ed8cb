"""Work is done in the order it came; what fails leaves the rest, and a browser that goes frees the model."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx2
import pytest

from helpers.serving import CASE, HEADERS, asked, client, listening, serving_of
from leakmeter.backends.toy import Toy
from leakmeter.core.long_work import checkpoint
from leakmeter.errors import UsageError
from leakmeter.products.serve import queue as queues
from leakmeter.products.serve.queue import BusyError, Job, Queue


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.close()
    made.join(5)


def ended(job: Job) -> str:
    async def last() -> str:
        return [event.name async for event in job.listen() if event is not None][-1]

    return asyncio.run(asyncio.wait_for(last(), 10))


def held(queue: Queue) -> tuple[Job, threading.Event]:
    """A job of "a" that is being done, until the event."""
    go, began = threading.Event(), threading.Event()
    job = queue.submit(lambda job: began.set() or (go.wait(5) and None), "a")
    assert began.wait(5)
    return job, go


def test_jobs_are_done_in_order_and_told_of_their_places(queue: Queue) -> None:
    done: list[int] = []
    first, go = held(queue)
    rest = [queue.submit(lambda job, n=n: done.append(n), f"b{n}") for n in range(5)]  # type: ignore[misc]
    assert queue.length == 6
    assert rest[2].events[0].data == {"ahead": 3, "length": 3}
    go.set()
    assert [ended(job) for job in (first, *rest)] == ["done"] * 6
    assert done == [0, 1, 2, 3, 4]
    assert [event.data["ahead"] for event in rest[1].events if event.name == "queued"][-1] == 1


def test_failures_are_one_line_and_the_next_job_is_done(queue: Queue) -> None:
    for error, said in (
        (UsageError("no such thing"), "no such thing"),
        (MemoryError(), "out of memory"),
        (RuntimeError("private text"), "internal error (RuntimeError)"),
        (RecursionError(), "internal error"),
    ):
        job = queue.submit(Mock(side_effect=error), "a")
        assert ended(job) == "failed"
        assert said in job.events[-1].data["error"]
        assert "private" not in job.events[-1].data["error"]
    assert ended(queue.submit(lambda job: {"x": 1}, "a")) == "done"


def test_a_job_that_is_cancelled_ends_where_it_looks_or_does_not_begin(queue: Queue) -> None:
    def forever(job: Job) -> None:
        while True:
            job.check()
            time.sleep(0.001)

    def work(job: Job) -> None:
        checkpoint()
        job.cancel()
        checkpoint()
        raise AssertionError("it went on")

    running, waiting = queue.submit(forever, "a"), queue.submit(forever, "a")
    waiting.cancel()
    running.cancel()
    assert ended(running) == ended(waiting) == ended(queue.submit(work, "a")) == "cancelled"
    assert "started" not in [event.name for event in waiting.events]
    assert ended(queue.submit(lambda job: checkpoint(), "a")) == "done"
    assert queue.length == 0


def test_the_queue_is_bounded_for_one_and_for_all(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    _, go = held(queue)
    for _ in range(queues.MOST_OF_ONE - 1):
        queue.submit(lambda job: None, "a")
    with pytest.raises(BusyError, match="of your measurements"):
        queue.submit(lambda job: None, "a")
    monkeypatch.setattr(queues, "MOST_WAITING", 4)
    queue.submit(lambda job: None, "b")
    with pytest.raises(BusyError, match="are waiting"):
        queue.submit(lambda job: None, "c")
    go.set()


def test_a_browser_that_goes_frees_the_model_for_the_next(tmp_path: Path) -> None:
    long = {**CASE, "context": " ".join(f"Room {n} is number {n * 7}." for n in range(60)), "unit": "word"}
    with listening(tmp_path) as serving:
        one, other = (httpx2.Client(base_url=serving.access.origin, headers=HEADERS, timeout=60) for _ in range(2))
        with one, other:
            for browser in (one, other):
                browser.get(serving.access.new_link())
            with one.stream("POST", "/live/measure", json=long) as answer:
                assert next(answer.iter_lines())
                gone = serving.queue._running
            assert "event: done" in other.post("/live/measure", json=CASE).text
        assert (getattr(gone, "state", None), serving.queue.length) == ("cancelled", 0)


def test_a_measurement_that_crashes_leaves_the_server_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(serving_of(tmp_path)) as made:
        with monkeypatch.context() as broken:
            broken.setattr(Toy, "score", lambda *_: 1 / 0)
            name, data = asked(made, "measure")[-1]
            assert (name, "internal error (ZeroDivisionError)" in data["error"]) == ("failed", True)
        assert asked(made, "measure")[-1][0] == "done"


def test_the_last_event_is_there_before_a_job_is_over() -> None:
    class Ordered(list[Any]):
        def append(self, event: Any) -> None:
            assert not job.is_over
            super().append(event)

    job = Job(lambda _: None, "somebody")
    job.events = Ordered()
    job.end("failed", error="why")
    assert job.is_over
