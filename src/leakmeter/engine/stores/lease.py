"""A lease: an object that says who writes a run, and until when; what a lock is to files.

It holds a random token and a time. The holder writes a later time over it now and then; who finds it run out takes it
over. Both write over the very version that they saw, so that of two one wins.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from leakmeter.core.long_work import repeating
from leakmeter.engine.stores.objects import Objects, Version
from leakmeter.errors import StoreError

SECONDS: Final = 60.0
"""How long a lease lasts that is not renewed. Clocks of machines have to agree within a few seconds."""
_SKEW_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.25


class Lease:
    def __init__(self, objects: Objects, name: str, clock: Callable[[], float] = time.time) -> None:
        self._objects = objects
        self._name = name
        self._clock = clock
        self._token = secrets.token_hex(16)
        self._version: Version = {}
        self._until = 0.0
        self._n_written = 0
        self._writing = threading.Lock()

    @property
    def is_held(self) -> bool:
        """Whether it is ours, for all that is known without asking."""
        return self._clock() < self._until

    def acquire(self) -> float:
        """Take the lease; returns 0, or the seconds until another holder's runs out."""
        if self._written(lambda content: self._objects.create(self._name, content)):
            return 0.0
        stored = self._objects.get(self._name)
        if stored is None:
            return _POLL_SECONDS
        content, version = stored
        left = _read(content)[1] + _SKEW_SECONDS - self._clock()
        if left > 0:
            return left
        return 0.0 if self._written(lambda new: self._objects.replace(self._name, new, version)) else SECONDS

    def prove(self) -> None:
        """Check, while it is held, that the store refuses to write over what has changed: a lease relies on it."""
        before = self._version
        self._renewed()
        for write in (self._objects.create, lambda name, content: self._objects.replace(name, content, before)):
            with suppress(FileExistsError):
                write(self._name, self._content(self._until))
                raise self._objects.unconditional()

    def renew(self) -> None:
        """Write a later time; where somebody else has taken the lease over, it is lost."""
        with suppress(StoreError):  # while the store cannot be reached, the time that was written goes on
            self._renewed()

    def release(self) -> None:
        """Let others have it at once, if it is still ours."""
        with suppress(StoreError):
            # Once renewed nobody else may take it while it is removed.
            if self._renewed():
                self._objects.delete(self._name)
        self._until = 0.0

    def _renewed(self) -> bool:
        if self._written(lambda content: self._objects.replace(self._name, content, self._version)):
            return True
        self._until = 0.0
        return False

    def _content(self, until: float) -> bytes:
        # A store may tell versions by their content, and no two have the same.
        self._n_written += 1
        return json.dumps({"token": self._token, "number": self._n_written, "until": until}).encode()

    def _written(self, write: Callable[[bytes], Version]) -> bool:
        """Whether we wrote it. A request whose answer was lost may have been repeated, and failed then."""
        with self._writing:
            until = self._clock() + SECONDS
            try:
                self._version = write(self._content(until))
            except FileExistsError:
                stored = self._objects.get(self._name)
                if stored is None:
                    return False
                token, until = _read(stored[0])
                if token != self._token:
                    return False
                self._version = stored[1]
            self._until = until
            return True


@contextmanager
def held(objects: Objects, name: str, in_use: str, seconds: float = 0) -> Iterator[Lease]:
    """Hold and renew a lease, waiting for it so many seconds; `in_use` begins the error where another process holds
    it."""
    lease = Lease(objects, name)
    until = time.monotonic() + seconds
    while (left := lease.acquire()) > 0:
        if time.monotonic() >= until:
            raise StoreError(f"{in_use}; if it was killed, its lease runs out in {left:.0f} s")
        time.sleep(_POLL_SECONDS)
    try:
        lease.prove()
        with repeating(lease.renew, SECONDS / 4):
            yield lease
    finally:
        lease.release()


def _read(content: bytes) -> tuple[object, float]:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        record = {}
    until = record.get("until")
    # What is no lease of ours was left by nobody who is still there.
    return record.get("token"), float(until) if isinstance(until, int | float) else 0.0
