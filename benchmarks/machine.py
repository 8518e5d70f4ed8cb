"""What this machine can do at best, and what a piece of work takes from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from leakmeter.backends.hf import machine
from leakmeter.backends.hf.outline import size_of
from leakmeter.backends.hf.schedule import limits_for, token_bytes
from leakmeter.core import cost
from leakmeter.core.plan import Chunk


def matrix_rate(device: torch.device, dtype: torch.dtype, seconds: float = 0.6) -> float:
    """Best matrix-product rate of this process, in operations a second (a multiply-add is two)."""
    return machine.matrix_rate(device, dtype, n=1024 if device.type == "cpu" else 8192, seconds=seconds)


def operations(model: Any, chunk: Chunk) -> float:
    """Operations a chunk needs at least: its tree tokens through the layers, its rows through the head, attention."""
    return cost.least_operations(size_of(model, limits_for(model.device.type, 2**30, token_bytes(model))), chunk)


def forget_peak_rss() -> float:
    """Make the kernel forget this process's peak of resident memory (Linux); returns what is resident now, MiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status_mib("VmRSS")


def peak_rss_mib() -> float:
    """Largest resident memory of this process since `forget_peak_rss`, MiB."""
    return _status_mib("VmHWM")


def _status_mib(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024
