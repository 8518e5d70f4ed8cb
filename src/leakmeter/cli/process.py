"""Settings of the whole process, which only a program may make, not a library."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from typing import Final

from leakmeter.models import cache_dir
from leakmeter.results.limits import THREAD

_MOST_LOGS: Final = 20


def keep_freed_memory() -> bool:
    """Have glibc keep freed memory instead of giving it back to the kernel: a forward pass allocates and frees the same
    megabytes in every layer, and on a CPU the page faults cost about a tenth of its time. It counts as memory of the
    engine, which gives it back where it is too much (`backends.hf.machine.Surplus`). Returns whether glibc took the
    settings."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    accepted = True
    # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_TOP_PAD, as glibc numbers them.
    for parameter, n_bytes in ((-3, 2**30), (-1, 2**30), (-2, 2**26)):
        accepted = bool(mallopt(parameter, n_bytes)) and accepted
    return accepted


def open_closed_streams() -> None:
    """Open the standard streams that the caller closed, on nothing: a file opened later would take their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one, since those before it are taken by now.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115 - for good


def end_despite_queries(code: int) -> None:
    """Have the process end with this code while a query that was left behind is at work: DuckDB, unloaded under it,
    would complain on standard error, or crash."""

    def end() -> None:
        if any(thread.name == THREAD for thread in threading.enumerate()):
            sys.stderr.flush()
            os._exit(code)

    if any(thread.name == THREAD for thread in threading.enumerate()):
        atexit.register(end)


def logged(error: Exception) -> str:
    """Keep the traceback of an unexpected error in a file of the user's alone; returns what to tell. Its text may quote
    what was measured, and stands nowhere else."""
    kind = type(error).__name__
    folder = cache_dir() / "errors"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        when = time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime())
        with tempfile.NamedTemporaryFile(
            "w", prefix=when, suffix=".log", dir=folder, encoding="utf-8", errors="backslashreplace", delete=False
        ) as log:
            log.write("".join(traceback.format_exception(error)))
    except OSError:
        return f"internal error ({kind}), and its log could not be written to '{folder}'"
    with suppress(OSError):
        for old in sorted(folder.glob("*.log"))[:-_MOST_LOGS]:
            old.unlink()
    return (
        f"internal error ({kind}); its log '{log.name}' is readable only by you and may quote your texts, so check it "
        "before you pass it on"
    )
