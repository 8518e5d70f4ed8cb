"""What every scenario is made of, and how a piece of work is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.machine import matrix_rate
from leakmeter.backends.hf import HfBackend
from leakmeter.core.request import Request
from leakmeter.core.tree import Chunk, chunk_of
from leakmeter.engine.loading import load_backend

_STEADY = 0.10
_TRIES = 4


class UnavailableError(Exception):
    """A peer that cannot be run here; the message says why."""


def _itself(ours: np.ndarray) -> np.ndarray:
    return ours


@dataclass(frozen=True)
class Peer:
    """Another way to (part of) the numbers."""

    run: Callable[[], np.ndarray]
    part: float = 1.0
    """Share of the work that is timed; the time is divided by it."""
    of: Callable[[np.ndarray], np.ndarray] = _itself
    """What it reproduces, from ours."""
    n_tokens: int = 0
    """Tokens that all of the work takes it."""


@dataclass(frozen=True)
class Scenario:
    """Our way, the others', and what it needs at least."""

    ours: Callable[[], np.ndarray]
    peers: dict[str, Callable[[np.ndarray], Peer]]
    """By name, given what ours returned (a peer of decoding is asked about the tokens that ours drew)."""
    chunk: Chunk
    data: str = "random token ids"
    """What it is run on, for the record."""


def scored(backend: HfBackend, requests: Sequence[Request]) -> np.ndarray:
    """Ours: the requests' scores, one below the other."""
    return np.concatenate([scores.values for scores in backend.score(chunk_of(requests))])


def load(model: str, device: str | None, dtype: str | None) -> HfBackend:
    """A model by name, or `random:NAME` for random weights."""
    if not model.startswith("random:"):
        backend = load_backend(model, device=device, dtype=dtype, cache=False)
        assert isinstance(backend, HfBackend)
        return backend
    from benchmarks.random_models import random_backend

    return random_backend(model.removeprefix("random:"), device or "cuda", dtype or "bfloat16")


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Wall time of one piece of work, the device's queue included."""
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def steady(works: Sequence[Callable[[], Any]], backend: HfBackend) -> tuple[list[float], float] | None:
    """Seconds of each and the matrix rate, measured while that rate stays the same; None if it never does."""
    device, dtype = backend.model.device, backend.model.dtype
    for _ in range(_TRIES):
        before = matrix_rate(device, dtype)
        taken = [seconds(work, device) for work in works]
        after = matrix_rate(device, dtype)
        if abs(after - before) <= _STEADY * before:
            return taken, max(before, after)
    return None
