"""How good generated text is, and how much of it was copied, from token ids and log-probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def shared_runs(ids: Sequence[int], others: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    """Length of the longest run of tokens through each token that each of the others has without a gap, (other, token).

    0 for a token that the other has not. Time grows with the product of the lengths.
    """
    # A number that is no token's keeps runs within one of the others.
    theirs = np.asarray([token for other in others for token in (*other, -1)], dtype=np.int64)
    starts = np.cumsum([0, *(len(other) + 1 for other in others[:-1])])
    longest = np.zeros((len(others), len(ids)), dtype=np.int64)
    # Entry j: for how many tokens, from the one looked at, ours equal those of the others from j on.
    run = np.zeros(len(theirs) + 1, dtype=np.int64)
    for i in reversed(range(len(ids))):
        run[:-1] = np.where(theirs == ids[i], run[1:] + 1, 0)
        ahead = np.maximum.reduceat(run[:-1], starts)[:, None]
        reached = np.where(np.arange(len(ids) - i) < ahead, ahead, 0)
        longest[:, i:] = np.maximum(longest[:, i:], reached)
    return longest


def stretches(runs: Sequence[float], least: int) -> list[tuple[int, int]]:
    """Tokens [start, end) that belong to runs of `least` tokens or more; runs that touch are one stretch."""
    inside = np.concatenate([[False], np.asarray(runs) >= least, [False]])
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def distinct(sequences: Iterable[Sequence[int]], n: int) -> float:
    """Distinct n-grams over all n-grams of the sequences (distinct-n; Li, Galley and others 2016); NaN for none."""
    grams = [tuple(ids[i : i + n]) for ids in sequences for i in range(len(ids) - n + 1)]
    return len(set(grams)) / len(grams) if grams else float("nan")


def perplexity(log_probs: npt.ArrayLike) -> float:
    """e to the mean of −log p over the tokens, from nats; NaN for none."""
    values = np.asarray(log_probs, dtype=np.float64)
    return float(np.exp(-values.mean())) if values.size else float("nan")
