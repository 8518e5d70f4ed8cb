"""Connections of a server: those that ask for nothing are closed, so that they hold up nobody else."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from leakmeter.overriding import override

SECONDS: Final = 10.0
"""In which a connection has to send the whole head of a request, also behind an earlier one."""
MOST_WAITING: Final = 128
"""Connections without a request; the one that waits longest goes where there are more."""


class TimedConnection(H11Protocol):
    """A connection that is closed if it sends no request, or half of a request's head, whatever it sends of it."""

    waiting: ClassVar[OrderedDict[TimedConnection, None]]
    _timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    @override
    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._wait_no_more()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Another request may have been sent already.
        if self.cycle.response_complete and not self.transport.is_closing():
            self._wait()

    def _wait(self) -> None:
        self._wait_no_more()
        # What was answered is sent first; whoever does not take it still waits, and is cut off when others come.
        self._timer = self.loop.call_later(SECONDS, self.transport.close)
        self.waiting[self] = None
        if len(self.waiting) > MOST_WAITING:
            longest = next(iter(self.waiting))
            longest._wait_no_more()
            longest.transport.abort()

    def _wait_no_more(self) -> None:
        self.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def of_server() -> type[TimedConnection]:
    """A class for the connections of one server."""

    class Own(TimedConnection):
        waiting: ClassVar[OrderedDict[TimedConnection, None]] = OrderedDict()

    return Own
