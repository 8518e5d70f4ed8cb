"""Other ways to the same log-probabilities: what the papers' own code does, written plainly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from leakmeter.core.prompt import Prompt


def full_pass(model: Any, prompts: Sequence[Prompt], responses: Sequence[Sequence[int]]) -> np.ndarray:
    """One pass a prompt over prompt and response, logits at every position, as transformers does by default."""
    out = []
    with torch.inference_mode():
        for prompt, response in zip(prompts, responses, strict=True):
            ids = torch.tensor([[*prompt.ids.tolist(), *response]], device=model.device)
            logits = model(input_ids=ids).logits[0, len(prompt.ids) - 1 : -1]
            out.append(_chosen(logits, response))
    return np.stack(out)


def naive(
    model: Any, prompts: Sequence[Prompt], responses: Sequence[Sequence[int]], *, bare: Sequence[Prompt] = ()
) -> np.ndarray:
    """One pass a prompt and response token. With `bare`, each step mixes in a second branch (λ = 1.5)."""
    out = []
    with torch.inference_mode():
        for i, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            rows = []
            for t in range(len(response)):
                row = _last_row(model, prompt, response[:t])
                if bare:
                    row = 1.5 * row - 0.5 * _last_row(model, bare[i], response[:t])
                rows.append(row)
            out.append(_chosen(torch.stack(rows), response))
    return np.stack(out)


def naive_votes(
    model: Any, prompts: Sequence[Prompt], response: Sequence[int], clip: float, temperature: float
) -> np.ndarray:
    """Every prompt's clipped logits averaged at every token, one pass a prompt and token."""
    rows = []
    with torch.inference_mode():
        for t in range(len(response)):
            total: Any = 0.0
            for prompt in prompts:
                row = _last_row(model, prompt, response[:t])
                total = total + (row - row.max() + clip).clamp(min=-clip)
            rows.append(total / len(prompts) / temperature)
    return _chosen(torch.stack(rows), response)


def padded_batches(model: Any, prompts: Sequence[Prompt], token: int, batch_size: int = 32) -> np.ndarray:
    """The next token's log-probability, equal-length prompts in batches without sharing; logits of the last row."""
    batches = _last_rows(model, prompts, batch_size)
    return np.concatenate([torch.log_softmax(rows.double(), -1)[:, token].cpu().numpy() for rows in batches])[:, None]


def padded_case(model: Any, prompts: Sequence[Prompt], response: Sequence[int]) -> np.ndarray:
    """All prompts of a case as one batch, padded on the left, logits of the response's rows: (prompt, token)."""
    width = max(len(prompt.ids) for prompt in prompts) + len(response)
    ids = torch.zeros((len(prompts), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        sequence = [*prompt.ids.tolist(), *response]
        ids[row, width - len(sequence) :] = torch.tensor(sequence)
        mask[row, width - len(sequence) :] = 1
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    ids, mask, positions = (each.to(model.device) for each in (ids, mask, positions))
    with torch.inference_mode():
        kept = len(response) + 1
        out = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=kept)
        return np.stack([_chosen(rows, response) for rows in out.logits[:, :-1]])


def padded_susceptibility(model: Any, prompts: Sequence[Prompt], batch_size: int = 32) -> float:
    """χ of a query behind equally likely contexts, nats: prompts and rows as in `padded_batches`."""
    log_p = torch.cat([torch.log_softmax(rows.float(), -1) for rows in _last_rows(model, prompts, batch_size)])
    mixture = torch.logsumexp(log_p, 0) - math.log(len(prompts))
    return float((log_p.exp() * (log_p - mixture)).sum(-1).mean())


def _last_rows(model: Any, prompts: Sequence[Prompt], batch_size: int) -> Iterator[torch.Tensor]:
    for start in range(0, len(prompts), batch_size):
        ids = torch.tensor(np.stack([p.ids for p in prompts[start : start + batch_size]]), device=model.device)
        with torch.inference_mode():
            rows = model(input_ids=ids, logits_to_keep=1).logits[:, 0]
        yield rows


def _last_row(model: Any, prompt: Prompt, response: Sequence[int]) -> torch.Tensor:
    ids = torch.tensor([[*prompt.ids.tolist(), *response]], device=model.device)
    row: torch.Tensor = model(input_ids=ids).logits[0, -1].double()
    return row


def _chosen(logits: torch.Tensor, response: Sequence[int]) -> np.ndarray:
    index = torch.tensor(list(response), device=logits.device)[:, None]
    chosen: np.ndarray = torch.log_softmax(logits.double(), -1).gather(-1, index)[:, 0].cpu().numpy()
    return chosen
