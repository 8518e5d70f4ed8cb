"""The machine: what decides the last digits of its numbers, and the memory that the engine takes and gives back."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from leakmeter.core.record import JsonObject


def machine_of(device: torch.device) -> JsonObject:
    """The kind of processor that computes on a device, and on a CPU with how many threads."""
    if device.type == "cuda":
        return {"processor": torch.cuda.get_device_name(device)}
    return {"processor": _processor(), "threads": torch.get_num_threads()}


def use_threads(n_threads: int) -> None:
    torch.set_num_threads(n_threads)


@cache
def _processor() -> str:
    """The CPU by its name and the widest instructions that torch uses of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def default_memory(device: torch.device) -> int:
    """Bytes to hold beside the model: 1 GiB on a CPU, a quarter of a GPU's memory. Never a share of what is free."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // 4
    return 2**30


class Surplus:
    """Gives freed memory that glibc keeps for itself back to the system once it is much, measured by a budget of bytes.

    Tensors of many sizes, with small arrays between them, leave holes that the next tensor does not fit: resident
    memory grows to many times what is used, whatever the settings (see `cli.process`). Giving it back costs page
    faults, so it is done only once resident memory has grown by an eighth of the budget since the last time, and
    exceeds half of the budget. Numbers do not depend on it. Other allocators and other devices are left alone.
    """

    def __init__(self, budget: int) -> None:
        self._trim = _malloc_trim()
        self._step = budget // 8
        if self._trim is not None:
            self._trim(0)
            self._least = self._most = resident_bytes() + budget // 2

    def give_back(self) -> None:
        if self._trim is None or resident_bytes() < self._most:
            return
        self._trim(0)
        self._most = max(self._least, resident_bytes() + self._step)


def resident_bytes() -> int:
    """Memory of this process that no file stands behind (Linux)."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _malloc_trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        resident_bytes()
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, ValueError):
        return None
    return trim


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The CPU allocator has no class of its own.
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)
