"""Correlations of two measurements of the same items, with intervals over clusters (see `stats.clusters`).

Ranks are those among the items of a resample; ties share the mean of their places.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.clusters import ClusterEstimate, ResampledStatistic, Resamples

_NOTHING_LEFT: Final = 1e-9
"""Share of a variance below which rounding is all that is left of it."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The best of several predictors on one half of the clusters; its Spearman correlation there and, held out, on the
    other half, of whose items and clusters the numbers are."""

    chosen: int
    chosen_by: float
    held_out: ClusterEstimate
    reference: ClusterEstimate
    """Correlation of the reference predictor on the other half."""
    difference: ClusterEstimate
    """`held_out` less `reference`."""
    n_items: int
    n_clusters: int


def pearson(x: npt.ArrayLike, y: npt.ArrayLike, over: Resamples) -> ClusterEstimate:
    """Pearson's correlation of two numbers an item, (item,) each."""
    rows = _rows(x, y)
    return over.estimate(lambda times: _correlation(np.broadcast_to(rows, (len(times), *rows.shape)), times))


def spearman(
    x: npt.ArrayLike, y: npt.ArrayLike, over: Resamples, controls: Sequence[npt.ArrayLike] = ()
) -> ClusterEstimate:
    """Spearman's rank correlation of two numbers an item, (item,) each.

    With controls, (item,) each, it is partial: of the residuals of the ranks, by least squares from the controls'. A
    constant control controls nothing.
    """
    return over.estimate(_rank_correlation(_rows(x, y, *controls)))


def held_out(
    predictors: Sequence[npt.ArrayLike],
    y: npt.ArrayLike,
    clusters: Sequence[Hashable],
    *,
    reference: int,
    seed: int,
    n_resamples: int = 2000,
) -> HeldOut | None:
    """Choose a predictor by its Spearman correlation with y on half of the clusters, and test it on the other half.

    The best of many looks better than it is where it was chosen. All are (item,). None for fewer than two clusters, or
    where no predictor varies in the first half.
    """
    distinct = list(dict.fromkeys(clusters))
    if len(distinct) < 2:
        return None
    order = np.random.default_rng(seed).permutation(len(distinct))
    first_half = {distinct[i] for i in order[: len(distinct) // 2]}
    chooses = np.asarray([cluster in first_half for cluster in clusters])
    rows, truth = np.asarray(predictors, dtype=np.float64), np.asarray(y, dtype=np.float64)
    ones = np.ones((1, int(chooses.sum())))
    by = np.asarray([_rank_correlation(_rows(row[chooses], truth[chooses]))(ones)[0] for row in rows])
    if np.isnan(by).all():
        return None
    chosen = int(np.nanargmax(by))
    over = Resamples([cluster for cluster in clusters if cluster not in first_half], seed=seed, n_resamples=n_resamples)
    others, other_truth = rows[:, ~chooses], truth[~chooses]
    of_chosen, of_reference = (_rank_correlation(_rows(others[i], other_truth)) for i in (chosen, reference))
    return HeldOut(
        chosen=chosen,
        chosen_by=float(by[chosen]),
        held_out=over.estimate(of_chosen),
        reference=over.estimate(of_reference),
        difference=over.estimate(lambda times: of_chosen(times) - of_reference(times)),
        n_items=len(over.of_item),
        n_clusters=over.n_clusters,
    )


def _rows(*columns: npt.ArrayLike) -> FloatArray:
    rows = [np.asarray(column, dtype=np.float64) for column in columns]
    if len({row.shape for row in rows}) > 1 or rows[0].ndim != 1:
        raise ValueError(f"columns of shapes {', '.join(str(row.shape) for row in rows)} are not of the same items")
    stacked = np.stack(rows)
    if not np.isfinite(stacked).all():
        raise ValueError("a correlation is of finite numbers")
    return stacked


def _rank_correlation(rows: FloatArray) -> ResampledStatistic:
    ranks = [_ranks(row) for row in rows]
    return lambda times: _correlation(np.stack([rank(times) for rank in ranks], axis=1), times)


def _ranks(row: FloatArray) -> ResampledStatistic:
    """Ranks among the items of a resample, (resample, item), less the mean rank."""
    values, place = np.unique(row, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(values)))

    def ranks(times: FloatArray) -> FloatArray:
        if not len(values):
            return times
        ties = np.add.reduceat(times[:, order], starts, axis=1)
        middle = np.cumsum(ties, axis=1) - ties / 2.0 - times.sum(axis=1, keepdims=True) / 2.0
        centred: FloatArray = middle[:, place]
        return centred

    return ranks


def _correlation(rows: FloatArray, times: FloatArray) -> FloatArray:
    """Correlation of the first two of (resample, row, item), of their residuals from the other rows by least squares.

    `times` is how often each item counts, (resample, item).
    """
    n = times.sum(axis=1)[:, None, None]
    centred = rows - (rows * times[:, None, :]).sum(axis=2, keepdims=True) / np.maximum(n, 1.0)
    squares = (centred * times[:, None, :]) @ centred.transpose(0, 2, 1)
    sizes = np.sqrt(np.diagonal(squares, axis1=1, axis2=2))
    largest = np.abs(rows).max(axis=2, initial=0.0)
    # A row that is the same for all has a variance of rounding errors.
    varies = sizes > _NOTHING_LEFT * largest * np.sqrt(np.maximum(n[:, :, 0], 1.0))
    scale = np.where(varies, 1.0 / np.where(varies, sizes, 1.0), 0.0)
    correlations = squares * scale[:, :, None] * scale[:, None, :]
    if rows.shape[1] > 2:
        cross = correlations[:, :2, 2:]
        inverse = np.linalg.pinv(correlations[:, 2:, 2:], rcond=_NOTHING_LEFT, hermitian=True)
        correlations = correlations[:, :2, :2] - cross @ inverse @ cross.transpose(0, 2, 1)
    left = correlations[:, 0, 0], correlations[:, 1, 1]
    has_both = (left[0] > _NOTHING_LEFT) & (left[1] > _NOTHING_LEFT)
    product = np.where(has_both, left[0] * left[1], 1.0)
    return np.where(has_both, np.clip(correlations[:, 0, 1] / np.sqrt(product), -1.0, 1.0), np.nan)
