"""How much memory the engine takes by default, and what running out of it looks like."""

from __future__ import annotations

from typing import Final

import torch

_CPU_BYTES: Final = 2**30


def default_memory(device: torch.device) -> int:
    """Bytes to hold beside the model: 1 GiB on a CPU, a quarter of a GPU's memory. Never a share of what is free."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // 4
    return _CPU_BYTES


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be had, on any device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The CPU allocator has no class of its own.
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)
