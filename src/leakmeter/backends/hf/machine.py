"""What of a machine decides the last digits of its numbers."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch


def machine_of(device: torch.device) -> dict[str, Any]:
    """The kind of processor that computes on a device, and on a CPU with how many threads."""
    if device.type == "cuda":
        return {"processor": torch.cuda.get_device_name(device)}
    return {"processor": _processor(), "threads": torch.get_num_threads()}


def use_threads(n_threads: int) -> None:
    """Compute on the CPU with so many threads, in all of this process."""
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
