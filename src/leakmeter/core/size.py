"""A model and the machine under it in plain numbers: what a prediction of time and memory needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large a model is, and in what portions its back end works."""

    n_parameters: int
    """All weights; shared ones once."""
    n_layer_parameters: int
    """Weights that every token is multiplied with: all but embedding and head."""
    n_head_parameters: int
    """Hidden size times vocabulary: weights that every wanted row is multiplied with."""
    n_vocab: int
    n_layers: int
    query_width: int
    """Query heads times head size."""
    state_width: int
    """Numbers kept for a token in each layer: key/value heads times head size, for keys and for values."""
    bytes_per_number: int
    """2 or 4, by precision."""
    n_pass_tokens: int
    """Most tokens of one pass over several sequences; a longer sequence has a pass of its own."""
    n_slice_logits: int
    """Most logits in memory at a time."""
    most_state_bytes: int
    """Most memory for the keys and values that later sequences begin with."""


@dataclass(frozen=True, slots=True)
class Speed:
    """What this machine does at best."""

    operations_per_second: float
    """In a large matrix product; a multiply-add is two."""
    bytes_per_second: float
    """In a product of a large matrix with a vector, which has to read all of the matrix."""
    layer_seconds: float
    """Time that a layer takes in every pass, however few the tokens."""
