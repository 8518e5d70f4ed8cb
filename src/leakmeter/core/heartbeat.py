"""Signs of life of work that says nothing by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SECONDS: Final = 10.0
"""Between two signs."""


@contextmanager
def heartbeat(notify: Callable[[str], None], what: str, *, every_s: float = SECONDS) -> Iterator[None]:
    """Tell a line now and then while the work within goes on.

    Args:
        notify: told the line.
        what: is being done, such as 'converting'.
        every_s: seconds between two lines.
    """
    ended, started = threading.Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(every_s):
            notify(f"{what}: {time.monotonic() - started:.0f} s so far …")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
