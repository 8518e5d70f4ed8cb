"""What this machine can do at best, and what a piece of work takes from it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from leakmeter.types.chunk import Chunk


def matrix_rate(device: torch.device, dtype: torch.dtype, seconds: float = 0.6) -> float:
    """Best matrix-product rate of this process, in operations a second (a multiply-add is two)."""
    n = 1024 if device.type == "cpu" else 8192
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        a @ b
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 2 * n**3 / (time.perf_counter() - started))
    return best


def operations(model: Any, chunk: Chunk) -> float:
    """Operations a chunk needs at least: its tree tokens through the layers, its rows through the head, attention."""
    config = model.config.get_text_config()
    embedding = model.get_input_embeddings().weight.numel()
    head = model.get_output_embeddings().weight
    tied = head.data_ptr() == model.get_input_embeddings().weight.data_ptr()
    n_parameters = sum(p.numel() for p in model.parameters()) - embedding - (0 if tied else head.numel())
    width = config.num_attention_heads * (
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
    seen = sum(sum(range(run.fork + 1, len(run.ids) + 1)) for run in chunk.runs)
    attention = 4.0 * config.num_hidden_layers * width * seen
    return 2.0 * n_parameters * chunk.n_tree_tokens + 2.0 * head.numel() * chunk.n_slots + attention


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
