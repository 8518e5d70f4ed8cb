"""What this machine can do at best, and what a piece of work takes from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from leakmeter.backends.hf.layers import attention_widths
from leakmeter.core.tree import Chunk


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large a model is."""

    n_layer_parameters: int
    """Weights that every token is multiplied with: all but embedding and head."""
    n_head_parameters: int
    """Hidden size times vocabulary: weights that every wanted row is multiplied with."""
    n_layers: int
    query_width: int
    """Query heads times head size."""


@dataclass(slots=True)
class Work:
    """What a model is given to do."""

    n_tokens: int = 0
    """Tokens put through the layers."""
    n_seen: int = 0
    """Tokens that each of them attends to, itself included, added up."""
    n_rows: int = 0
    """Rows put through the head."""


def size_of(model: Any) -> ModelSize:
    """Count a model's weights."""
    config = model.config.get_text_config()
    embedding = model.get_input_embeddings().weight
    output = model.get_output_embeddings()
    head = embedding if output is None else output.weight
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    n_outside = embedding.numel() + (0 if head is embedding else head.numel())
    return ModelSize(
        n_layer_parameters=n_parameters - n_outside,
        n_head_parameters=head.numel(),
        n_layers=config.num_hidden_layers,
        query_width=attention_widths(config)[0],
    )


def operations_of(size: ModelSize, work: Work) -> float:
    """A multiply-add is two."""
    attention = 4.0 * size.n_layers * size.query_width * work.n_seen
    return 2.0 * size.n_layer_parameters * work.n_tokens + 2.0 * size.n_head_parameters * work.n_rows + attention


def least_operations(size: ModelSize, chunk: Chunk) -> float:
    """Operations that a chunk needs at least: each token of its prefix tree once."""
    seen = sum(n_seen(branch.fork, len(branch.ids)) for branch in chunk.branches)
    return operations_of(size, Work(n_tokens=chunk.n_tree_tokens, n_seen=seen, n_rows=chunk.n_slots))


def n_seen(start: int, end: int) -> int:
    """Tokens that the tokens [start, end) of a sequence attend to, themselves included, added up."""
    return (end * (end + 1) - start * (start + 1)) // 2


def matrix_rate(device: torch.device, dtype: torch.dtype, seconds: float = 0.6) -> float:
    """Best rate of products of two square matrices in this process, in operations a second (a multiply-add is two). The
    first product, which loads the library, does not count."""
    n = 1024 if device.type == "cpu" else 8192
    a, b = _numbers(n, device, dtype), _numbers(n, device, dtype)
    return 2 * n**3 / _least_seconds(lambda: a @ b, device, seconds)


def _numbers(n: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    # A generator of its own: the caller's random numbers stay as they were.
    block = torch.randn((1024,), generator=torch.Generator().manual_seed(0)).to(device, dtype)
    return block.repeat(n * n // len(block)).reshape(n, n)


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


def operations(model: Any, chunk: Chunk) -> float:
    """Operations a chunk needs at least: its tree tokens through the layers, its rows through the head, attention."""
    return least_operations(size_of(model), chunk)


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
