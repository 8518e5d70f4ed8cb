"""How much memory the engine takes by default, and what running out of it looks like."""

from __future__ import annotations

import re
from typing import Final

import torch

from leakmeter.errors import UsageError

_CPU_BYTES: Final = 2**30
_UNITS: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_LEAST_BYTES: Final = 2**26


def default_memory(device: torch.device) -> int:
    """Bytes to hold beside the model: 1 GiB on a CPU, a quarter of a GPU's memory. Never a share of what is free."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // 4
    return _CPU_BYTES


def parse_memory(text: str) -> int:
    """'512MiB', '2GiB' or '1.5 GB' to bytes.

    Raises:
        UsageError: that is no amount of memory, or too little to work with.
    """
    found = re.fullmatch(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,3}})?) ?({'|'.join(_UNITS)})", text.strip())
    if found is None:
        raise UsageError(f"memory is '{text}'; give a number with its unit, such as 512MiB or 2GiB")
    n_bytes = int(float(found[1]) * _UNITS[found[2]])
    if n_bytes < _LEAST_BYTES:
        raise UsageError(f"memory is '{text}'; give at least 64MiB")
    return n_bytes


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be had, on any device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The CPU allocator has no class of its own.
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)
