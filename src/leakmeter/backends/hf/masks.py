"""Which keys a query sees, written out: padding, forks, gaps in positions and sliding windows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakmeter.backends.hf.states import Segment


def attention_mask(segment: Segment, window: int | None, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Additive mask (row, 1, query, key) of a segment: a key is seen when it is real, not hidden, not later than the
    query, and nearer than the window, distances being counted in positions."""
    n_start, n_new = segment.n_start, segment.n_new
    n_rows = len(segment.starts)
    at = torch.zeros((n_rows, n_start + n_new), dtype=torch.int64)
    real = torch.zeros((n_rows, n_start + n_new), dtype=torch.bool)
    for row, (columns, where) in enumerate(zip(segment.columns, segment.positions, strict=True)):
        n_tail = len(where) - len(columns)
        there = torch.cat([torch.from_numpy(columns), n_start + torch.arange(n_tail)])
        at[row, there] = torch.from_numpy(where)
        real[row, there] = True
    own = (torch.arange(n_start + n_new) - n_start) == torch.arange(n_new)[:, None]  # (query, key)
    seen = real[:, None, :] & ((torch.arange(n_start + n_new) - n_start) <= torch.arange(n_new)[:, None])
    for row, hidden in enumerate(segment.hidden):
        columns = segment.columns[row]
        for start, end in hidden.ranges:
            tokens = np.arange(start, end)
            keys = np.where(tokens < len(columns), np.append(columns, 0)[np.minimum(tokens, len(columns))], 0)
            keys = np.where(tokens < len(columns), keys, n_start + tokens - len(columns))
            seen[row, max(hidden.first - len(columns), 0) :, torch.from_numpy(keys)] = False
    if window is not None:
        seen &= at[:, n_start:, None] - at[:, None, :] < window
    # Padding queries see themselves, so that no softmax is taken over nothing.
    seen |= own
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
    return mask[:, None].to(device)


def windows_by_kind(model: Any) -> dict[str, int | None] | None:
    """Sliding-window sizes by kind of attention layer; None for a model with layers that no mask describes."""
    config = model.config.get_text_config()
    if "local" in (getattr(config, "attention_layers", None) or ()):
        # GPT-Neo's local layers count their window in keys, padding and gaps included, whatever the mask says.
        return None
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds:
        # Configurations carry a window that many architectures ignore: one that minds it imports the mask for it.
        minds = hasattr(sys.modules[type(model.base_model).__module__], "create_sliding_window_causal_mask")
        uses = minds and window is not None and getattr(config, "use_sliding_window", True)
        return {"full_attention": window if uses else None}
    if not kinds <= {"full_attention", "sliding_attention"}:
        return None
    return {kind: window if kind == "sliding_attention" else None for kind in sorted(kinds)}
