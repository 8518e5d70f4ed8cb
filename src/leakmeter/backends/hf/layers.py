"""What a configuration says of each layer: where layers differ (Gemma 4), it refuses to say it of all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_SPANS: Final = re.compile(r"window|chunk|block_size|compress|topk|keep_", re.ASCII)
"""Names of numbers of tokens after which attention may be another: windows, blocks, how many keys are chosen."""
_NO_SPANS: Final = re.compile(r"layers|expert|group|moe", re.ASCII)


def layer_configs(config: Any) -> Sequence[Any]:
    """The configuration of each layer; for a model whose layers are alike, its own for all of them."""
    if getattr(config, "is_heterogeneous", False):
        return list(config.per_layer_config)
    return [config]


def attention_widths(config: Any) -> tuple[int, int]:
    """Numbers in all heads' queries of a token, and in all its keys: those of the widest layer."""
    queries, keys = zip(*map(_widths, layer_configs(config)), strict=True)
    return max(queries), max(keys)


def inner_width(config: Any) -> int:
    """Numbers of a token between the products of its widest layer's MLP."""
    return max(map(_inner_width, layer_configs(config)))


def layer_windows(config: Any) -> dict[str, set[int | None]]:
    """Sliding windows that layers of each kind have, or would have if they minded them."""
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    configs = layer_configs(config)
    windows: dict[str, set[int | None]] = {kind: set() for kind in sorted(set(kinds))}
    for number, kind in enumerate(kinds):
        windows[kind].add(getattr(configs[number % len(configs)], "sliding_window", None))
    return windows


def longest_span(config: Any, most: int) -> int:
    """The largest number of tokens, `most` or fewer, after which the configuration says that attention is another; 0
    for none."""
    return max((n for n in _spans(config.to_dict(), is_span=False) if n <= most), default=0)


def _spans(value: Any, is_span: bool) -> Iterator[int]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            named = isinstance(name, str) and _SPANS.search(name) is not None and _NO_SPANS.search(name) is None
            yield from _spans(inner, is_span or named)
    elif is_span and isinstance(value, int) and not isinstance(value, bool):
        yield value


def _widths(layer: Any) -> tuple[int, int]:
    n_heads = getattr(layer, "num_attention_heads", 0)
    head_size = getattr(layer, "head_dim", None) or (layer.hidden_size // n_heads if n_heads else 0)
    return n_heads * head_size, (getattr(layer, "num_key_value_heads", None) or n_heads) * head_size


def _inner_width(layer: Any) -> int:
    inner = getattr(layer, "intermediate_size", None) or getattr(layer, "ffn_dim", None) or 4 * layer.hidden_size
    return int(max(inner) if isinstance(inner, list | tuple) else inner)
