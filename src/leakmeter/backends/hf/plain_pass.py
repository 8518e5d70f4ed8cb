"""Log-probabilities as the transformers library gives them to anyone: the slow way that the engine is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def plain_log_probs(model: Any, prompt: Sequence[int], response: Sequence[int]) -> list[float]:
    """Natural log-probability of each token of a response, by one pass without batch, cache, shared prefix or rows
    left out; the softmax is in float64."""
    ids = torch.tensor([[*prompt, *response]], device=model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids, use_cache=False).logits[0]
    # Row n says what follows token n.
    rows = logits[len(prompt) - 1 : -1].double().log_softmax(dim=-1)
    log_probs: list[float] = rows[torch.arange(len(response)), ids[0, len(prompt) :]].tolist()
    return log_probs
