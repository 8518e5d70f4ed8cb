"""Settings of the whole process, which only a program may make, not a library."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_TRIM_THRESHOLD: Final = -1  # parameters of mallopt, as glibc numbers them
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3
_KEEP_BYTES: Final = 2**30
_GROW_BYTES: Final = 2**26


def keep_freed_memory() -> bool:
    """Have glibc keep what was freed, rather than give it back to the kernel and take it anew, page by page.

    A forward pass allocates and frees the same megabytes in every layer; on a CPU the page faults cost about a tenth
    of its time. What is kept so counts as memory of the engine, which gives it back where it is too much
    (`backends.hf.memory.Surplus`). Other allocators are left alone.

    Returns:
        Whether glibc took the settings.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    taken = True
    for name, value in ((_MMAP_THRESHOLD, _KEEP_BYTES), (_TRIM_THRESHOLD, _KEEP_BYTES), (_TOP_PAD, _GROW_BYTES)):
        taken = bool(mallopt(name, value)) and taken
    return taken
