"""Long work: checkpoints at which a caller may end it, and repeated calls such as signs of life."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_CHECK: Final[ContextVar[Callable[[], None]]] = ContextVar("leakmeter_check", default=lambda: None)


def checkpoint() -> None:
    """Let the caller end the work here (see `checked_by`); called in loops whose length depends on the input."""
    _CHECK.get()()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Call a function at every checkpoint of this thread; it raises to end the work."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


SECONDS: Final = 10.0
MOMENT: Final = 0.7
"""Seconds that nobody minds to wait without a word."""


@contextmanager
def repeating(do: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `do`, which must not raise, every so many seconds in a thread while the work within goes on."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every_s):
            do()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def heartbeat(notify: Callable[[str], None], activity: str, *, every_s: float = SECONDS) -> Iterator[None]:
    """Tell how long the work has taken, every so many seconds; `activity` is such as 'converting'."""
    started = time.monotonic()
    with repeating(lambda: notify(f"{activity}: {time.monotonic() - started:.0f} s so far …"), every_s):
        yield


@contextmanager
def told_if_long(notify: Callable[[str], None], line: str, *, after_s: float | None = None) -> Iterator[None]:
    """Tell what is being done, once, if it takes longer than that, by default a moment."""
    timer = threading.Timer(MOMENT if after_s is None else after_s, notify, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
