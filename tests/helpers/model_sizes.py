"""Sizes of a model that counts can be written out for."""

from __future__ import annotations

from leakmeter.core.cost import ModelSize

SIZE = ModelSize(
    n_layer_parameters=600, n_head_parameters=400, n_vocab=40, n_layers=2, query_width=8, state_width=8,
    bytes_per_number=4, n_pass_tokens=16, n_slice_logits=100, most_state_bytes=10**9,
)  # fmt: skip
