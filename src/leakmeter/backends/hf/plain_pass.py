"""Log-probabilities as the transformers library gives them to anyone: the slow way that the engine is compared with."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakmeter.stats.arrays import IntArray


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


def plain_logits(model: Any, ids: IntArray, positions: IntArray, rows: IntArray) -> Tensor:
    """Logits of some rows of a sequence, (row, vocab), by one pass as above, counted from its end, so that a model
    which puts tokens of its own in front is read right."""
    inputs = plain_inputs(model, ids, positions)
    from_end = torch.from_numpy(rows - len(ids)).to(model.device)
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        # A row of a large vocabulary takes a megabyte: the others are not made.
        kept: Tensor = model(**inputs, use_cache=False, logits_to_keep=from_end).logits[0]
        return kept
    logits: Tensor = model(**inputs, use_cache=False).logits[0]
    return logits[from_end]


def plain_inputs(model: Any, ids: IntArray, positions: IntArray | None) -> dict[str, Any]:
    """What a model takes of one sequence, whose positions are (token,), or those of its places."""
    tokens = torch.from_numpy(ids)[None].to(model.device)
    if positions is None or not (positions != np.arange(len(positions))).any():
        return {"input_ids": tokens}
    # Without a mask the library takes a gap in positions for the start of another sequence.
    return {
        "input_ids": tokens,
        "position_ids": torch.from_numpy(positions)[None].to(model.device),
        "attention_mask": torch.ones_like(tokens),
    }
