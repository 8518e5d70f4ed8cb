"""Attention of many short rows that begin with the same states: their queries go against these once, all together.

Row by row, a product of few queries with many keys is slow arithmetic. So each row attends to its own new tokens, all
rows in one product to the start they share, and the two answers are weighed by their normalisers:

    softmax over start and own = w · softmax over start + (1 − w) · softmax over own,   w = Z_start / (Z_start + Z_own)

A row that some of the start is hidden from attends to the stretches of the start between what is hidden, each where it
is, and the answers are weighed in the same way.

torch gives the normalisers of its CPU kernel through an operator without promises. It is tried once against plain
attention, and where it is gone or another, nothing is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from leakmeter.core.tree import Ranges

Partial = Callable[[Tensor, Tensor, Tensor, bool, float | None], tuple[Tensor, Tensor]]
"""Queries, keys, values (row, head, token, size), whether causal, scale to answers and log-normalisers (row, head,
query)."""

# Below these the second product and the weighing cost more than they save.
_LEAST_QUERIES: Final = 512
_LEAST_KEYS: Final = 64


def pays(n_rows: int, n_new: int, n_shared: int) -> bool:
    """Whether rows of so many new tokens are better off with one product for the start that they share."""
    return n_rows > 1 and n_rows * n_new >= _LEAST_QUERIES and n_shared >= _LEAST_KEYS


def attend(
    partial: Partial, queries: Tensor, keys: Tensor, values: Tensor, n_shared: int, scaling: float | None
) -> Tensor:
    """Causal attention of rows whose first `n_shared` keys and values are the same: (row, head, new, size), as the
    queries. Keys and values are (row, group of heads, n_shared + new, size)."""
    n_rows, n_heads, n_new, size = queries.shape
    n_groups = keys.shape[1]
    own_keys, own_values = (
        states[:, :, n_shared:].repeat_interleave(n_heads // n_groups, dim=1) for states in (keys, values)
    )
    answer, normaliser = partial(queries, own_keys, own_values, True, scaling)
    # Heads of a group have their keys in common too: their queries stand side by side.
    side_by_side = queries.transpose(0, 1).reshape(1, n_groups, -1, size)
    shared, of_shared = partial(side_by_side, keys[:1, :, :n_shared], values[:1, :, :n_shared], False, scaling)
    shared = shared.reshape(n_heads, n_rows, n_new, -1).transpose(0, 1)
    of_shared = of_shared.reshape(n_heads, n_rows, n_new).transpose(0, 1)
    weight = torch.sigmoid(of_shared - normaliser).unsqueeze(-1).to(answer.dtype)
    return torch.lerp(answer, shared, weight)


def attend_partly(
    partial: Partial,
    queries: Tensor,
    own: tuple[Tensor, Tensor],
    shared: tuple[Tensor, Tensor],
    hidden: Sequence[Ranges],
    scaling: float | None,
) -> Tensor:
    """Causal attention of rows behind one start, of which each row sees all but some ranges: (row, head, new, size), as
    the queries. Keys and values are `own` of the new tokens, (row, group of heads, new, size), and `shared` of the
    start, (1, group of heads, token, size); `hidden` has each row's ranges [start, end) of the start, in order and
    apart."""
    _, n_heads, n_new, size = queries.shape
    n_groups, n_shared = shared[0].shape[1:3]
    own_keys, own_values = (states.repeat_interleave(n_heads // n_groups, dim=1) for states in own)
    answer, normaliser = partial(queries, own_keys, own_values, True, scaling)
    out = torch.empty_like(answer)
    for row, ranges in enumerate(hidden):
        # Heads of a group have their keys in common: their queries stand side by side.
        side_by_side = queries[row].reshape(1, n_groups, -1, size)
        answers, normalisers = [answer[row]], [normaliser[row]]
        start = 0
        for low, high in (*ranges, (n_shared, n_shared)):
            if start < low:
                seen, of_seen = partial(
                    side_by_side, shared[0][:, :, start:low], shared[1][:, :, start:low], False, scaling
                )
                answers.append(seen.reshape(n_heads, n_new, -1))
                normalisers.append(of_seen.reshape(n_heads, n_new))
            start = high
        weights = torch.softmax(torch.stack(normalisers), dim=0).to(answer.dtype)
        out[row] = (torch.stack(answers) * weights.unsqueeze(-1)).sum(dim=0)
    return out


@cache
def partial_attention(device_type: str, dtype: torch.dtype) -> Partial | None:
    """Attention that also gives its log-normalisers; None where torch has none that does as it should."""
    if device_type != "cpu":
        return None
    queries, keys, values = torch.randn((3, 2, 2, 5, 8), generator=torch.Generator().manual_seed(0)).double()
    normaliser = (queries @ keys.transpose(-1, -2) * 0.3).logsumexp(dim=-1)
    plain = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, scale=0.3)
    q, k, v = (numbers.to(dtype) for numbers in (queries, keys, values))
    try:
        answers = (_flash(q, k, v, True, 0.3)[0], _flash(q, k, v, False, 0.3)[1])
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None
    near = 16 * torch.finfo(dtype).eps
    pairs = zip(answers, (plain, normaliser), strict=True)
    agrees = all(torch.allclose(answer.double(), other, rtol=near, atol=near) for answer, other in pairs)
    return _flash if agrees else None


def _flash(
    queries: Tensor, keys: Tensor, values: Tensor, is_causal: bool, scaling: float | None
) -> tuple[Tensor, Tensor]:
    operator: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    answer, normaliser = operator(queries, keys, values, 0.0, is_causal, scale=scaling)
    return answer, normaliser
