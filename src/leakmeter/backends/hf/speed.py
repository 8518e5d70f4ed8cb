"""How fast this machine multiplies matrices, and reads them: measured in a moment, for predictions."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

import torch

from leakmeter.core.cost import Speed

# Beside arithmetic and reading weights, a layer costs calls. CPU: a round that draws one token with the default model
# (30 layers, float32, one core) takes 66 ms, of which reading weights explains 29. GPU: about 15 kernels of 20 µs, an
# assumption that nothing was fitted to.
_LAYER_SECONDS = {"cpu": 1.2e-3, "cuda": 3e-4}
_READ_BYTES = {"cpu": 2**26, "cuda": 2**28}  # more than caches hold


def speed_of(
    device: torch.device, dtype: torch.dtype, *, seconds: float = 0.2, memory_bytes: int | None = None
) -> Speed:
    """The speed of a device for numbers of a type, measured for about so many seconds. `memory_bytes` limits the memory
    that is read."""
    # Small enough that a CPU without half-precision arithmetic does not take seconds for one product.
    n = 512 if device.type == "cpu" else 4096
    return Speed(
        operations_per_second=matrix_rate(device, dtype, n=n, seconds=seconds / 2),
        bytes_per_second=_memory_rate(device, dtype, seconds=seconds / 2, memory_bytes=memory_bytes),
        layer_seconds=_LAYER_SECONDS.get(device.type, _LAYER_SECONDS["cuda"]),
    )


def matrix_rate(device: torch.device, dtype: torch.dtype, *, n: int, seconds: float) -> float:
    """Best rate of products of two n × n matrices, in operations a second (a multiply-add is two). The first product,
    which loads the library, does not count."""
    a, b = _numbers((n, n), device, dtype), _numbers((n, n), device, dtype)
    return 2 * n**3 / _least_seconds(lambda: a @ b, device, seconds)


def _memory_rate(device: torch.device, dtype: torch.dtype, *, seconds: float, memory_bytes: int | None) -> float:
    """Best rate of a matrix-vector product, in bytes of the matrix a second."""
    n_columns = 4096
    n_bytes = _READ_BYTES.get(device.type, _READ_BYTES["cuda"])
    n_bytes = n_bytes if memory_bytes is None else min(n_bytes, memory_bytes)
    shape = (max(1, n_bytes // n_columns // dtype.itemsize), n_columns)
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    if device.type == "cpu":
        # Of the kernel's own, so that all of it goes back at once; what the C library frees it may keep.
        matrix = torch.frombuffer(mmap.mmap(-1, n_bytes), dtype=dtype).reshape(shape)
        matrix[:] = _numbers((n_columns,), device, dtype)
    else:
        matrix = _numbers(shape, device, dtype)
    vector = _numbers((n_columns,), device, dtype)
    return n_bytes / _least_seconds(lambda: matrix @ vector, device, seconds)


def _numbers(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    # A generator of its own: the caller's random numbers stay as they were.
    block = torch.randn((1024,), generator=torch.Generator().manual_seed(0)).to(device, dtype)
    n = torch.Size(shape).numel()
    return block.repeat(-(-n // len(block)))[:n].reshape(shape)


def _least_seconds(work: Callable[[], object], device: torch.device, seconds: float) -> float:
    def took() -> float:
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - started

    took()
    end = time.perf_counter() + seconds
    least = took()
    while time.perf_counter() < end:
        least = min(least, took())
    return max(least, 1e-9)
