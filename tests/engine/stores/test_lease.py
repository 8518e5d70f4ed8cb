"""Leases on a store in memory, with a clock that is moved by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from obstore.store import MemoryStore

from leakmeter.engine.stores import lease as leases
from leakmeter.engine.stores.lease import SECONDS, Lease, held
from leakmeter.engine.stores.objects import Objects, Version
from leakmeter.errors import StoreError


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def objects() -> Objects:
    return Objects("s3://bucket/run", MemoryStore())


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_one_of_two_has_it_until_it_is_let_go(objects: Objects, clock: Clock) -> None:
    first, second = (Lease(objects, ".lease", clock) for _ in range(2))
    assert first.acquire() == 0
    assert first.is_held
    assert 0 < second.acquire() <= SECONDS + 5
    assert not second.is_held
    first.release()
    assert not first.is_held
    assert objects.under() == []
    assert second.acquire() == 0


def test_renewed_it_lasts_and_else_it_is_taken_over(objects: Objects, clock: Clock) -> None:
    first, second = (Lease(objects, ".lease", clock) for _ in range(2))
    first.acquire()
    for _ in range(5):
        clock.now += SECONDS - 1
        first.renew()
        assert first.is_held
        assert second.acquire() > 0
    clock.now += SECONDS + 1
    # Ours is over before others may take it: clocks differ.
    assert not first.is_held
    assert second.acquire() > 0
    clock.now += 5
    assert second.acquire() == 0
    first.renew()
    assert not first.is_held
    assert second.is_held
    first.release()
    second.renew()
    assert second.is_held
    # It is one's own again where nobody took it meanwhile.
    clock.now += 10 * SECONDS
    assert not second.is_held
    second.renew()
    assert second.is_held


def test_of_two_that_take_it_over_one_has_it(objects: Objects, clock: Clock) -> None:
    """The second reads the lease that ran out, and the first takes it before the second writes."""
    Lease(objects, ".lease", clock).acquire()
    clock.now += SECONDS + 10
    first, second = (Lease(objects, ".lease", clock) for _ in range(2))
    real = objects.get

    def slow(name: str) -> Any:
        found = real(name)
        objects.get = real  # type: ignore[method-assign]
        assert first.acquire() == 0
        return found

    objects.get = slow  # type: ignore[method-assign]
    assert second.acquire() > 0
    assert first.is_held
    assert not second.is_held


def test_an_answer_that_was_lost_is_ours(objects: Objects, clock: Clock) -> None:
    """The request was done, its answer lost, and the same request again finds what it wrote."""
    lease = Lease(objects, ".lease", clock)

    def twice(call: Callable[..., Version]) -> Callable[..., Version]:
        return lambda *given: (call(*given), call(*given))[1]

    objects.create, objects.replace = twice(objects.create), twice(objects.replace)  # type: ignore[method-assign]
    assert lease.acquire() == 0
    clock.now += 30
    lease.renew()
    clock.now += SECONDS - 1
    assert lease.is_held


def test_while_the_store_is_away_the_time_that_was_written_goes_on(objects: Objects, clock: Clock) -> None:
    lease = Lease(objects, ".lease", clock)
    lease.acquire()
    real = objects.replace
    objects.replace = Mock(side_effect=StoreError("cannot be reached"))  # type: ignore[method-assign]
    clock.now += SECONDS - 1
    lease.renew()
    assert lease.is_held
    clock.now += 2
    assert not lease.is_held
    # What cannot be renewed is not removed either: by then another might have it.
    other = Lease(objects, ".lease", clock)
    lease.release()
    objects.replace = real  # type: ignore[method-assign]
    assert objects.get(".lease") is not None
    clock.now += 5
    assert other.acquire() == 0


def test_no_two_versions_are_alike(objects: Objects, clock: Clock) -> None:
    """A store tells versions by their content, and the clock stands still."""
    lease = Lease(objects, ".lease", clock)
    seen = set()
    for write in (lease.acquire, *[lease.renew] * 3):
        write()
        seen.add((objects.get(".lease") or (b"",))[0])
    assert len(seen) == 4
    lease.prove()


def test_what_is_no_lease_is_written_over(objects: Objects, clock: Clock) -> None:
    for content in (b"", b"[]", b"{", b'{"until": "soon"}', b"\xff", b"[" * 100_000):
        objects.put(".lease", content)
        assert Lease(objects, ".lease", clock).acquire() == 0


def test_it_is_renewed_while_it_is_held(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "SECONDS", 0.3)  # less would run out on a busy machine
    with held(objects, ".lease", "it is in use") as lease:
        first = json.loads((objects.get(".lease") or (b"", {}))[0])
        while json.loads((objects.get(".lease") or (b"", {}))[0])["until"] <= first["until"] + 0.3:
            assert lease.is_held
    assert objects.get(".lease") is None


def test_who_finds_it_held_is_told_so(objects: Objects) -> None:
    said = r"^it is in use; if it was killed, its lease runs out in 6\d s$"
    with held(objects, ".lease", "it"), pytest.raises(StoreError, match=said), held(objects, ".lease", "it is in use"):
        pass
    with held(objects, ".lease", "it is in use"):
        pass


class Careless(MemoryStore):
    """As a store that takes no notice of conditions."""

    ignores: str

    def put(self, path: str, file: Any, *, mode: Any = None, **how: Any) -> Any:
        is_create = mode == "create"
        ignored = is_create if self.ignores == "create" else not is_create
        return super().put(path, file, mode="overwrite" if ignored else mode, **how)


@pytest.mark.parametrize("ignores", ["create", "update"])
def test_a_store_without_conditional_writes_is_refused(ignores: str) -> None:
    store = Careless()
    store.ignores = ignores
    with pytest.raises(StoreError, match="no conditional writes"), held(Objects("s3://bucket", store), ".lease", ""):
        pass
