"""From hidden states to logits, on the wanted rows alone.

Between the last hidden state and the logits, architectures differ: most apply a linear head, some scale or cap what
comes out. The rule is found from the configuration and then checked against the model's own logits; a model that
does not follow it is asked for its logits instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def head_of(model: Any) -> Callable[[Tensor], Tensor]:
    """Hidden states (..., size) to logits (..., vocab), by the model's own head and configuration."""
    project = model.get_output_embeddings()
    config = model.config.get_text_config()
    cap = getattr(config, "final_logit_softcapping", None)
    multiplier = getattr(config, "logit_scale", None)
    divisor = getattr(config, "logits_scaling", None)

    def head(hidden: Tensor) -> Tensor:
        logits: Tensor = project(hidden)
        if multiplier is not None:
            logits = logits * multiplier
        if divisor is not None:
            logits = logits / divisor
        if cap is not None:
            logits = torch.tanh(logits / cap) * cap
        return logits

    return head


def follows_the_rule(model: Any, head: Callable[[Tensor], Tensor]) -> bool:
    """Whether base model and head give the model's own logits on a few tokens."""
    if model.get_output_embeddings() is None or model.base_model is model:
        return False
    n_vocab = model.config.get_text_config().vocab_size
    ids = (torch.arange(1, 9, device=model.device) * 7919 % n_vocab)[None]
    expected = model(input_ids=ids, use_cache=False).logits
    hidden = getattr(model.base_model(input_ids=ids, use_cache=False), "last_hidden_state", None)
    if hidden is None or hidden.shape[-1] != project_size(model):
        return False
    size = expected.abs().max().float()
    return bool((head(hidden) - expected).abs().max().float() <= 1e-3 * size + 1e-6)


def project_size(model: Any) -> int:
    """Width of the hidden states that the head takes."""
    return int(model.get_output_embeddings().weight.shape[-1])
