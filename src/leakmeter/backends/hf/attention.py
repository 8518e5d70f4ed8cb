"""Attention over segments: no key or value is repeated for grouped queries, no later key is looked at.

The library's own path repeats keys and values for every group of query heads and multiplies all queries with all
keys before it masks. Here queries go in blocks, each against the keys it can see, and every segment of a pass has
its own keys. All new tokens of a pass stand in one row, which is cut into segments here alone: sequences of any length
and any start share the passes through the linear layers, without padding.

    tokens of the pass   a a a a a | b b b | b b b | c     segment a: one row; b: two rows alike; c: one row

`attention_mask` writes out which keys a query sees: padding, forks, gaps in positions and sliding windows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from leakmeter.backends.hf import shared_start
from leakmeter.backends.hf.layers import layer_windows
from leakmeter.backends.hf.pasts import RECURRENT
from leakmeter.backends.hf.states import PassSegment

NAME: Final = "leakmeter_segments"
_WITHOUT_EFFECT: Final = {
    "dropout", "is_causal", "output_attentions", "position_ids", "sliding_window", "use_cache"
}  # fmt: skip
"""Arguments of attention functions that the mask of a segment has in it already, or that change nothing here."""
# A block of queries looks at no key after its last: small blocks save arithmetic, large ones calls.
_QUERIES_AT_ONCE = {"cpu": 128, "cuda": 2048}


@dataclass(frozen=True, slots=True)
class SegmentAttention:
    """The tokens of a pass that are a segment's, its keys and values (row, head, key, size), and which of them each
    query sees."""

    tokens: slice
    segment: PassSegment
    keys: Tensor
    values: Tensor
    mask: Tensor | None
    """Additive, (row, 1, query, key); None where each query sees every key up to its own."""
    viewed: tuple[Tensor, Tensor] | None
    """Keys and values before those, (1, head, key, size), that all rows see but for what each has hidden."""


class SegmentCache(DynamicCache):  # type: ignore[misc]
    """What a model takes for its cache: each update extends the segments by their rows of the new states. `masks` has
    for each layer a mask for each segment. Without masks there is one segment, whose rows are those of the batch, and
    the model gets its tensors. Only then may `kinds` of layers be recurrent."""

    def __init__(
        self, segments: list[PassSegment], masks: list[list[Tensor | None]] | None, kinds: Sequence[str], n_states: int
    ) -> None:
        """A recurrent layer has `n_states`."""
        super().__init__()
        self.layers = [
            segments[0].recurrence(i, n_states)
            if kind in RECURRENT
            else _Layer(i, segments, masks[i] if masks is not None else None)
            for i, kind in enumerate(kinds)
        ]


class _Layer(DynamicLayer):  # type: ignore[misc]
    def __init__(self, index: int, segments: list[PassSegment], masks: list[Tensor | None] | None) -> None:
        super().__init__()
        self._index, self._segments, self._masks = index, segments, masks
        self._n_columns = segments[0].n_start

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Tensor]:
        if self._masks is None:
            (segment,) = self._segments
            return segment.extend(self._index, key_states, value_states)
        stretches = []
        first = 0
        for segment, mask in zip(self._segments, self._masks, strict=True):
            n_rows = len(segment.starts)
            tokens = slice(first, first + n_rows * segment.n_new)
            new = (_rows(states, tokens, n_rows) for states in (key_states, value_states))
            keys, values = segment.extend(self._index, *new)
            viewed = segment.viewed(self._index) if segment.views else None
            stretches.append(SegmentAttention(tokens, segment, keys, values, mask, viewed))
            first = tokens.stop
        return stretches, value_states

    def get_seq_length(self) -> int:
        return self._n_columns


def attend(
    module: Any,
    query: Tensor,
    key: list[SegmentAttention] | Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """An attention function as the transformers library calls it: (row, query, head, size), and no weights. `key` holds
    the stretches of a segment cache."""
    if isinstance(key, Tensor):
        weighted, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
        return weighted, None
    # Caps, sinks and biases, a choice among keys, or a mask of the model's own: what is left out here would be wrong.
    if attention_mask is not None or any(kwargs[name] is not None for name in kwargs.keys() - _WITHOUT_EFFECT):
        raise NotImplementedError("attention that is more than a softmax over all keys that a mask leaves")
    _, n_heads, n_queries, _ = query.shape
    out = query.new_empty((1, n_queries, n_heads, value.shape[-1]))
    for stretch in key:
        _attend_stretch(query, stretch, scaling, out)
    return out, None


def _attend_stretch(query: Tensor, stretch: SegmentAttention, scaling: float | None, out: Tensor) -> None:
    segment, keys, values = stretch.segment, stretch.keys, stretch.values
    n_rows, n_new = len(segment.starts), segment.n_new
    queries = _rows(query, stretch.tokens, n_rows)
    answers = out[0, stretch.tokens].view(n_rows, n_new, *out.shape[2:])
    partial = shared_start.partial_attention(query.device.type, query.dtype)
    if stretch.viewed is not None:
        assert partial is not None
        ranges = [hidden.ranges for hidden in segment.hidden]
        seen = shared_start.attend_partly(partial, queries, (keys, values), stretch.viewed, ranges, scaling)
        answers.copy_(seen.transpose(1, 2))
        return
    if stretch.mask is None and partial and shared_start.pays(n_rows, n_new, segment.n_shared):
        seen = shared_start.attend(partial, queries, keys, values, segment.n_shared, scaling)
        answers.copy_(seen.transpose(1, 2))
        return
    at_once = _QUERIES_AT_ONCE.get(query.device.type, n_new)
    for first in range(0, n_new, at_once):
        last = min(first + at_once, n_new)
        end = keys.shape[2] - n_new + last
        mask: Tensor | None = None
        if stretch.mask is not None:
            mask = stretch.mask[:, :, first:last, :end]
        elif last - first > 1:
            mask = _staircase(last - first, end, query)
        seen = _attention(queries[:, :, first:last], keys[:, :, :end], values[:, :, :end], mask, scaling)
        answers[:, first:last] = seen.transpose(1, 2)


def _attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    n_groups = queries.shape[1] // keys.shape[1]
    if n_groups > 1 and mask is not None and queries.device.type != "cpu":
        # A GPU's fast kernels take grouped heads or a mask, not both.
        keys, values = (states.repeat_interleave(n_groups, dim=1) for states in (keys, values))
        n_groups = 1
    return torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, scale=scaling, enable_gqa=n_groups > 1
    )


def _rows(states: Tensor, tokens: slice, n_rows: int) -> Tensor:
    """Some tokens of a pass, (1, head, token, size), as the rows they are: (row, head, new token, size)."""
    mine = states[0, :, tokens]
    return mine.reshape(mine.shape[0], n_rows, -1, mine.shape[-1]).transpose(0, 1)


def _staircase(n_queries: int, n_keys: int, like: Tensor) -> Tensor:
    """Additive mask (query, key): the last query sees every key, each one before it one fewer."""
    mask = like.new_zeros((n_queries, n_keys))
    corner = mask[:, n_keys - n_queries :]
    corner.masked_fill_(corner.new_ones(corner.shape, dtype=torch.bool).triu_(1), torch.finfo(like.dtype).min)
    return mask


ALL_ATTENTION_FUNCTIONS.register(NAME, attend)


def attention_mask(segment: PassSegment, window: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Additive mask (row, 1, query, key) of a segment: a key is seen when it is real, not hidden, not later than the
    query, and nearer than the window, distances being counted in positions."""
    n_start, n_new = segment.n_start, segment.n_new
    n_rows = len(segment.starts)
    at = torch.zeros((n_rows, n_start + n_new), dtype=torch.int64)
    real = torch.zeros((n_rows, n_start + n_new), dtype=torch.bool)
    tokens_at = [torch.from_numpy(columns) for columns in segment.token_columns()]
    for row, where in enumerate(segment.positions):
        at[row, tokens_at[row]] = torch.from_numpy(where)
        real[row, tokens_at[row]] = True
    own = (torch.arange(n_start + n_new) - n_start) == torch.arange(n_new)[:, None]  # (query, key)
    seen = real[:, None, :] & ((torch.arange(n_start + n_new) - n_start) <= torch.arange(n_new)[:, None])
    for row, hidden in enumerate(segment.hidden):
        first = max(hidden.first - len(segment.columns[row]), 0)
        for start, end in hidden.ranges:
            seen[row, first:, tokens_at[row][start:end]] = False
    if window is not None:
        seen &= at[:, n_start:, None] - at[:, None, :] < window
    # Padding queries see themselves, so that no softmax is taken over nothing.
    seen |= own
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
    return mask[:, None].to(device)


def windows_by_kind(model: Any) -> dict[str, int | None] | None:
    """Sliding-window sizes by kind of attention layer, of which a recurrent model may have none; None for a model with
    layers that no mask describes and that are not recurrent."""
    config = model.config.get_text_config()
    if "local" in (getattr(config, "attention_layers", None) or ()):
        # GPT-Neo's local layers count their window in keys, padding and gaps included, whatever the mask says.
        return None
    if getattr(config, "keep_window_size", None) is not None:
        # Doge keeps so many keys of a row by scores of its own, among which padding and what is masked count.
        return None
    windows = {kind: some for kind, some in layer_windows(config).items() if kind not in RECURRENT}
    if not windows.keys() <= {"full_attention", "sliding_attention"}:
        return None
    if getattr(config, "layer_types", None):
        windows["full_attention"] = {None}
    elif windows != {"full_attention": {None}}:
        # Configurations carry a window that many architectures ignore: one that minds it imports the mask for it.
        minds = hasattr(sys.modules[type(model.base_model).__module__], "create_sliding_window_causal_mask")
        if not minds or not getattr(config, "use_sliding_window", True):
            windows["full_attention"] = {None}
    if any(len(some) > 1 for some in windows.values()):
        return None
    return {kind: some.pop() for kind, some in windows.items()}
