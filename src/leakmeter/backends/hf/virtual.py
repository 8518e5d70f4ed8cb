"""Virtual tokens: ids beyond every vocabulary, in whose place a model reads vectors of a soft prompt.

A prompt that begins with them is one like any other: its states are forked, batched and kept, and nothing else has to
know of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from leakmeter.core.prompt import VIRTUAL
from leakmeter.errors import CapabilityError


@contextmanager
def virtual_tokens(model: Any, vectors: Tensor) -> Iterator[None]:
    """While it lasts, the model reads vectors (token, size), as its embedding module gives them, in the place of the
    ids VIRTUAL, VIRTUAL + 1, …"""
    embedding = model.get_input_embeddings()
    with torch.no_grad():
        width = int(embedding(torch.zeros((1, 1), dtype=torch.int64, device=model.device)).shape[-1])
    if vectors.shape[-1] != width:
        raise CapabilityError(f"the soft prompt has vectors of {vectors.shape[-1]:,} numbers, and the model {width:,}")
    own = vectors.to(device=model.device, dtype=model.dtype)
    seen: list[Tensor] = []

    def before(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        seen.append(args[0])
        return (args[0].masked_fill(args[0] >= VIRTUAL, 0), *args[1:])

    def after(module: Any, args: tuple[Any, ...], out: Tensor) -> Tensor:
        ids = seen.pop()
        is_virtual = ids >= VIRTUAL
        if not bool(is_virtual.any()):
            return out
        return torch.where(is_virtual[..., None], own[(ids - VIRTUAL).clamp(min=0)], out)

    handles = [embedding.register_forward_pre_hook(before), embedding.register_forward_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
