"""The likeliest next tokens, found without sorting the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from array_api_compat import array_namespace, device

from leakmeter.core.reductions import NextToken
from leakmeter.stats import logspace

_BLOCK: Final = 128
"""Entries of a vocabulary that are compared by their largest first; most vocabularies are multiples of it."""


@dataclass(frozen=True, slots=True)
class Top(NextToken):
    """The `k` likeliest next tokens, in order, of ties that of the lowest id first: (prompt, 1, k, 2).

    The last axis holds the token id and its log-probability in nats. Of a vocabulary of fewer tokens, all.
    """

    k: int
    """1 or more."""

    rows_together: ClassVar[bool] = False
    continues: ClassVar[bool] = True  # the next round extends the sequence by some of them

    def reduce(self, rows: Any, targets: Any) -> Any:
        """(prompt, 1, vocab) to (prompt, 1, k, 2)."""
        return top(rows, self.k)


def top(logits: Any, k: int) -> Any:
    """The `k` largest entries of each row: token ids and log softmax(z), nats, float64.

    Args:
        logits: (..., vocab).
        k: 1 or more; at most the vocabulary is taken.

    Returns:
        (..., k, 2), the largest first, of equal ones the lowest id.
    """
    xp = array_namespace(logits)
    n_vocab = logits.shape[-1]
    flat = xp.reshape(logits, (-1, n_vocab))
    ids = _largest(flat, min(k, n_vocab))
    # Of the best alone the sum over the vocabulary is asked for: the others differ from it by their logits.
    best = logspace.target_log_probs(flat[None, :, :], ids[:, 0])[0, :, None]
    chosen = xp.astype(xp.take_along_axis(flat, ids, axis=-1), xp.float64)
    log_probs = best + (chosen - chosen[:, :1])
    return xp.reshape(xp.stack([xp.astype(ids, xp.float64), log_probs], axis=-1), (*logits.shape[:-1], -1, 2))


def _largest(rows: Any, k: int) -> Any:
    """Ids of the `k` largest entries of each row, in order, of ties the lowest first: (row, vocab) to (row, k).

    They stand in the k blocks whose largest entries are largest, of ties the first blocks: whatever stands in another
    block comes after the largest entry of each of these.
    """
    xp, where = array_namespace(rows), device(rows)
    n_rows, n_vocab = rows.shape
    missing = -n_vocab % _BLOCK
    if missing:
        rows = xp.concat([rows, xp.full((n_rows, missing), -xp.inf, dtype=rows.dtype, device=where)], axis=-1)
    blocks = xp.reshape(rows, (n_rows, -1, _BLOCK))
    chosen = _descending(xp.max(blocks, axis=-1))[:, :k]
    # In the order of their ids, so that a stable sort puts the lowest of equal entries first.
    chosen = xp.sort(chosen, axis=-1)
    ids = xp.reshape(chosen[:, :, None] * _BLOCK + xp.arange(_BLOCK, device=where), (n_rows, -1))
    order = _descending(xp.take_along_axis(rows, ids, axis=-1))[:, :k]
    return xp.take_along_axis(ids, order, axis=-1)


def _descending(values: Any) -> Any:
    return array_namespace(values).argsort(values, axis=-1, descending=True, stable=True)
