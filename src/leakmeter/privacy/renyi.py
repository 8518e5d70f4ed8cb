"""Rényi divergences, in nats: of many distributions from one, of many orders at once, in both directions.

    D_α(P‖Q) = 1 / (α − 1) · log Σ_v P(v)^α Q(v)^{1−α},    D_∞(P‖Q) = max_v log P(v) / Q(v)

(Li et al., Eq. 5). Where Q is P tilted, q ∝ p e^{−x}, both directions are means under P: with L(t) = log E_p e^{tx},

    D_α(p‖q) = L(α − 1) / (α − 1) + L(−1),    D_α(q‖p) = (L(−α) − α L(−1)) / (α − 1).

A number added to x changes neither, so x is centred at its mean under P. The mean of e^{tx} is 1 or more then, and its
logarithm is taken from the mean of e^{tx} − 1, which keeps the digits of a small divergence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from array_api_compat import array_namespace, device

from leakmeter.errors import UsageError

SPREAD: Final = (2, 5, 14, 40, 100)
"""Orders far enough apart to be few, and near enough that the bounds between them are within a third (`chords`)."""
_ENTRIES: Final = 2**17  # of a slice of the vocabulary, 1 MiB: it and its exponentials stay in a core's cache
_NEAR: Final = 10.0  # up to |tx| = 10 the series of e^{tx} has at most 51 terms, and loses 3 digits to cancelling
_FAR: Final = 600.0  # up to |tx| = 600 no e^{tx}, nor its mean, is beyond a float64
_LAST_TERM: Final = 1e-17  # of the first


class Screened(NamedTuple):
    """Divergences of each distribution, and whether any order is above its limit; nats, float64."""

    losses: Any
    """D_α↔ at the orders that were measured, (row, measured order)."""
    ratio: Any
    """Largest of D_α↔ / limit over all orders, (row,): as it is where it is above 1, an upper bound where it is not."""
    order: Any
    """The order at which it is reached, (row,)."""


def from_tilts(log_probs: Any, tilts: Any, orders: Sequence[float]) -> Any:
    """D_α(p‖q_i) and D_α(q_i‖p), where q_i ∝ p e^{−x_i}: (row, order, 2), zero or more.

    `log_probs` is log p, (vocab,), float64, whatever it adds up to; `tilts` are x_i, (row, vocab), float64, finite, of
    no account where log p is −inf. An order may be ∞; near 1 rounding counts 1 / (α − 1) times.
    """
    xp = array_namespace(tilts)
    for order in orders:
        if not order > 1.0:
            raise UsageError(f"a Rényi divergence is asked for at order {order}; orders have to be above 1")
    weights = xp.exp(log_probs - xp.max(log_probs))
    mean = xp.matmul(tilts, weights) / xp.sum(weights)
    possible = ~(log_probs == -xp.inf)
    centred = xp.where(possible, tilts - mean[:, None], xp.zeros_like(tilts))
    powers = sorted({-1.0} | {t for a in orders if a != math.inf for t in (a - 1.0, -float(a))})
    log_means = _log_means(log_probs, weights, centred, powers)
    back = log_means[-1.0]
    both = []
    for a in orders:
        if a == math.inf:
            pair = (xp.max(centred, axis=-1) + back, -xp.min(centred, axis=-1) - back)
        else:
            pair = (log_means[a - 1.0] / (a - 1.0) + back, (log_means[-float(a)] - a * back) / (a - 1.0))
        both.append(xp.stack(pair, axis=-1))
    divergences = xp.stack(both, axis=1)
    # Rounding may leave a hair below zero between equal rows.
    return xp.where(divergences < 0.0, xp.zeros_like(divergences), divergences)


def both_ways(divergences: Any) -> Any:
    """D_α↔, the larger of both directions (Eq. 6): (row, order, 2) to (row, order)."""
    return array_namespace(divergences).max(divergences, axis=-1)


def chords(at: Sequence[float], orders: Sequence[float]) -> npt.NDArray[np.float64]:
    """What turns D_α at some orders into upper bounds at others between them, (at, order): multiply by it.

    (α − 1) D_α is convex in α, in either direction and for the larger of both, and so are sums of them: between two
    orders it lies below the chord. At an order of `at`, which ascends, the bound is the value itself.
    """
    ends, new_orders = np.asarray(at, dtype=np.float64), np.asarray(orders, dtype=np.float64)
    if not (ends[0] <= new_orders.min() and new_orders.max() <= ends[-1]):
        raise ValueError(f"no bounds for orders beyond {ends[0]:g} to {ends[-1]:g}")
    right = np.clip(np.searchsorted(ends, new_orders, side="left"), 1, len(ends) - 1)
    a, b = ends[right - 1], ends[right]
    share = (new_orders - a) / (b - a)
    factors = np.zeros((len(ends), len(new_orders)))
    columns = np.arange(len(new_orders))
    factors[right - 1, columns] = (1.0 - share) * (a - 1.0) / (new_orders - 1.0)
    factors[right, columns] = share * (b - 1.0) / (new_orders - 1.0)
    return factors


def screened(
    log_probs: Any, tilts: Any, orders: Sequence[float], limits: Sequence[float], measured: Sequence[float]
) -> Screened:
    """Measure D_α↔ at the orders `measured`, and find out whether any of `orders` is above its limit.

    Both ascend; the first and the last of `orders` are finite and measured. Tilts are as for `from_tilts`. An order
    that is not measured is bounded by those beside it (`chords`); only rows that might exceed a limit by those bounds
    are measured at every order. So 99 orders cost little more than those that are measured, and no row that is above a
    limit escapes.
    """
    xp = array_namespace(tilts)
    where = device(tilts)
    losses = both_ways(from_tilts(log_probs, tilts, measured))
    at = [order for order in measured if order != math.inf]
    all_limits = xp.asarray(list(limits), dtype=xp.float64, device=where)
    bounds = xp.matmul(losses[:, : len(at)], xp.asarray(chords(at, orders), dtype=xp.float64, device=where))
    ratios = bounds / all_limits
    # Written so that NaN counts as doubt, and shows.
    doubt = ~xp.all(ratios <= 1.0, axis=-1)
    if bool(xp.any(doubt)):
        ratios[doubt] = both_ways(from_tilts(log_probs, tilts[doubt], orders)) / all_limits
    at_worst = xp.argmax(ratios, axis=-1)
    every_order = xp.asarray([float(order) for order in orders], dtype=xp.float64, device=where)
    return Screened(losses, xp.max(ratios, axis=-1), xp.take(every_order, at_worst))


def _log_means(log_probs: Any, weights: Any, centred: Any, powers: Sequence[float]) -> dict[float, Any]:
    """t to log E_p e^{tx}, (row,), each by the quickest way that loses no digits."""
    xp = array_namespace(centred)
    farthest = float(xp.max(xp.abs(centred)))
    near = [t for t in powers if abs(t) * farthest <= _NEAR]
    far = [t for t in powers if _NEAR < abs(t) * farthest <= _FAR]
    # NaN is neither, and goes where it shows.
    beyond = [t for t in powers if not abs(t) * farthest <= _FAR]
    log_means: dict[float, Any] = {}
    if near:
        log_means.update(zip(near, _from_moments(weights, centred, near, farthest), strict=True))
    if far:
        log_means.update(zip(far, _from_means(weights, centred, far), strict=True))
    if beyond:
        total = _log_sum_exp(log_probs)
        log_means.update((t, _log_sum_exp(log_probs + t * centred) - total) for t in beyond)
    return log_means


def _from_moments(weights: Any, centred: Any, powers: Sequence[float], farthest: float) -> list[Any]:
    """By the series of e^{tx}: as many passes over the vocabulary as it has terms, however many t there are."""
    xp = array_namespace(centred)
    largest = max(map(abs, powers))
    n_terms = _n_terms(largest * farthest)
    sums = [xp.zeros_like(centred[:, 0]) for _ in range(n_terms)]
    for part, share in _slices(centred, weights):
        scaled = largest * part
        power = scaled
        for k in range(n_terms):
            power = power * scaled
            sums[k] = sums[k] + xp.matmul(power, share)
    moments = xp.stack(sums, axis=-1) / xp.sum(weights)
    # x is centred: the series begins with its square.
    terms = [[(t / largest) ** k / math.factorial(k) for k in range(2, n_terms + 2)] for t in powers]
    series = xp.asarray(terms, dtype=xp.float64, device=device(centred))
    means = xp.log1p(xp.matmul(moments, xp.permute_dims(series, (1, 0))))
    return [means[:, i] for i in range(len(powers))]


def _from_means(weights: Any, centred: Any, powers: Sequence[float]) -> list[Any]:
    """By the means of e^{tx} − 1: a pass over the vocabulary for each t."""
    xp = array_namespace(centred)
    sums = [xp.zeros_like(centred[:, 0]) for _ in powers]
    for part, share in _slices(centred, weights):
        for i, t in enumerate(powers):
            sums[i] = sums[i] + xp.matmul(xp.expm1(t * part), share)
    mass = xp.sum(weights)
    return [xp.log1p(sum_ / mass) for sum_ in sums]


def _n_terms(reach: float) -> int:
    """How many terms of e^x − 1 − x, from x² / 2 on, |x| ≤ `reach` takes until the next would change no digit."""
    n_terms, term = 1, 1.0
    while term > _LAST_TERM:
        n_terms += 1
        term *= reach / (n_terms + 1)
    return n_terms


def _slices(centred: Any, weights: Any) -> Iterator[tuple[Any, Any]]:
    n_rows, n_vocab = centred.shape
    width = max(1, _ENTRIES // n_rows)
    for start in range(0, n_vocab, width):
        yield centred[:, start : start + width], weights[start : start + width]


def _log_sum_exp(values: Any) -> Any:
    xp = array_namespace(values)
    top = xp.max(values, axis=-1)
    return top + xp.log(xp.sum(xp.exp(values - top[..., None]), axis=-1))
