"""Key/value states of sequences already run: sliced to fork, padded into batches, taken out again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from leakmeter.types.prompt import IntArray


@dataclass(frozen=True, slots=True)
class State:
    """Keys and values of one sequence, a (1, head, token, size) pair for each layer."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def n_bytes(self) -> int:
        """Memory of the states, counting what views share."""
        return sum(k.numel() * k.element_size() + v.numel() * v.element_size() for k, v in self.layers)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins: the leading `n_tokens` of a sequence already run, or nothing."""

    state: State | None
    n_tokens: int


def batched_cache(starts: Sequence[Start]) -> DynamicCache:
    """A cache whose row b holds the leading states of start b, padded with zeros to the longest."""
    # A cache made from the model's configuration would drop states outside a sliding window, and with them the forks.
    cache = DynamicCache()
    longest = max(start.n_tokens for start in starts)
    example = next((start.state for start in starts if start.state is not None), None)
    if longest == 0 or example is None:
        return cache
    for i in range(len(example.layers)):
        layer = DynamicLayer()
        layer.keys = _stack(starts, i, 0, longest, example.layers[i][0])
        layer.values = _stack(starts, i, 1, longest, example.layers[i][1])
        layer.dtype, layer.device = layer.keys.dtype, layer.keys.device
        layer.is_initialized = True
        cache.layers.append(layer)
    return cache


def _stack(starts: Sequence[Start], layer: int, which: int, longest: int, example: Tensor) -> Tensor:
    if len(starts) == 1 and starts[0].state is not None:
        return starts[0].state.layers[layer][which][:, :, :longest]
    first = starts[0]
    if all(start.state is first.state and start.n_tokens == first.n_tokens for start in starts):
        assert first.state is not None
        return first.state.layers[layer][which][:, :, :longest].expand(len(starts), -1, -1, -1)
    out = example.new_zeros((len(starts), example.shape[1], longest, example.shape[3]))
    for row, start in enumerate(starts):
        if start.state is not None:
            out[row, :, : start.n_tokens] = start.state.layers[layer][which][0, :, : start.n_tokens]
    return out


def take_state(cache: DynamicCache, row: int, n_start: int, n_padded_start: int, n_tail: int, n_rows: int) -> State:
    """The states of one row of a finished batch, padding left out."""
    layers = []
    for layer in cache.layers:
        pair = []
        for full in (layer.keys, layer.values):
            mine = full[row : row + 1]
            if n_start == n_padded_start:
                kept = mine[:, :, : n_start + n_tail]
                # A view into a batch would keep the whole batch alive.
                pair.append(kept if n_rows == 1 else kept.clone())
            else:
                tail = mine[:, :, n_padded_start : n_padded_start + n_tail]
                pair.append(torch.cat([mine[:, :, :n_start], tail], dim=2))
        layers.append((pair[0], pair[1]))
    return State(tuple(layers))


def attention_masks(
    positions: Sequence[IntArray],
    starts: Sequence[Start],
    windows: Sequence[int | None],
    dtype: torch.dtype,
    device: torch.device,
) -> list[Tensor]:
    """Additive masks (row, 1, query, key), one for each window size, None meaning no window.

    Row b of the batch is laid out as [its start, padding | its tail, padding]; a key is seen when it is real, not
    later than the query, and nearer than the window, distances being counted in positions.
    """
    n_start = torch.tensor([start.n_tokens for start in starts])
    n_tail = torch.tensor([len(p) for p in positions]) - n_start
    longest_start, longest_tail = int(n_start.max()), int(n_tail.max())
    key_index = torch.arange(longest_start + longest_tail)
    is_start = key_index < longest_start
    real = torch.where(
        is_start, key_index < n_start[:, None], (key_index - longest_start) < n_tail[:, None]
    )  # (row, key)
    causal = (key_index - longest_start) <= torch.arange(longest_tail)[:, None]  # (query, key)
    seen = real[:, None, :] & causal
    # Padding queries see themselves, so that no softmax is taken over nothing.
    own = (key_index - longest_start) == torch.arange(longest_tail)[:, None]
    masks = []
    at = torch.zeros((len(starts), longest_start + longest_tail), dtype=torch.int64)
    for row, (where, start) in enumerate(zip(positions, starts, strict=True)):
        at[row, : start.n_tokens] = torch.from_numpy(where[: start.n_tokens])
        at[row, longest_start : longest_start + len(where) - start.n_tokens] = torch.from_numpy(where[start.n_tokens :])
    distance = at[:, longest_start:, None] - at[:, None, :]
    for window in windows:
        allowed = seen if window is None else seen & (distance < window)
        allowed = allowed | own
        mask = torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, torch.finfo(dtype).min)
        masks.append(mask[:, None].to(device))
    return masks
