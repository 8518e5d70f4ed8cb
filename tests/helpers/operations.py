"""How much work a call is, in a number that no clock and no other process moves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def n_operations(call: Callable[[], object]) -> int:
    """Bytecode instructions that a call takes, without those of code in C."""
    n = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal n
        frame.f_trace_opcodes = True
        n += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return n
