"""Places at which long work may be ended by whoever runs it; for anybody else they do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_CHECK: Final[ContextVar[Callable[[], None]]] = ContextVar("leakmeter_check", default=lambda: None)


def checkpoint() -> None:
    """End the work here if it is not wanted any more; called in loops whose length depends on the input."""
    _CHECK.get()()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Meanwhile every checkpoint that this thread comes to calls a function, which raises what is to end the work."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)
