"""Small statistics of measurements; the posterior that a result shows, and where it shows none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from math import inf
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from leakmeter.stats.arrays import FloatArray

FEWEST_FOR_INTERVAL: Final = 8
"""Values of a mean with an interval: of fewer, none covers as it should unless they are known not to be skewed."""
_DRAWN_AT_ONCE: Final = 1_000_000  # numbers of a bootstrap
_OF_SAMPLE: Final = 0.25
"""Weight of the sample's variance in that of each resample, in values."""


def posterior_from_even_odds(signed_nats: float) -> float:
    """Posterior probability of one of two hypotheses, prior 1/2, by Bayes' rule: 1 / (1 + e^−s).

    s is the log-likelihood ratio log p(seen | this one) − log p(seen | the other), nats; −∞ and ∞ are allowed. A sum of
    absolute values is no log-likelihood ratio: of it this is only an upper bound.
    """
    small = math.exp(-abs(signed_nats))  # at most 1: nothing overflows, and the smaller side keeps its digits
    return 1.0 / (1.0 + small) if signed_nats >= 0 else small / (1.0 + small)


def interval_of_mean(
    values: npt.ArrayLike,
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    n_resamples: int = 2000,
) -> tuple[float, float] | None:
    """Interval of the mean behind a sample, in the values' unit: the wider, at each end, of Student's and of a
    studentised bootstrap's.

    None of fewer than `FEWEST_FOR_INTERVAL` values, of equal ones, and where one is infinite or NaN: no rule holds
    then, and the values themselves have to be shown. Of values none of which is below 0 neither is the interval, nor
    is it above 0 where none is. Values of one of the `clusters`, one an item, are alike, such as those of the turns of
    a conversation: the interval is then over clusters, of which there have to be as many.

    The bootstrap's is m − t* s/√n, with t* the quantiles of (m* − m)/(s*/√n) over resamples (Efron, "Nonparametric
    standard errors and confidence intervals", 1981). A resample may have next to no spread; its s*² is that of the
    resample and, as a quarter of a value, of the sample, so that no end is beyond all measure. For symmetric heavy
    tails it is too narrow, and Student's holds; for skewed values it is the other way round. What both together cover,
    beside other rules, is in docs/results/intervals.md (`python -m benchmarks intervals`).
    """
    wholes: npt.ArrayLike | None = None
    if clusters is not None and len(set(clusters)) < len(clusters):
        values, wholes = cluster_sums(values, clusters), np.asarray([*Counter(clusters).values()], dtype=np.float64)
    return interval_of_ratio(values, wholes, seed=seed, confidence=confidence, n_resamples=n_resamples)


def cluster_sums(values: npt.ArrayLike, clusters: Sequence[Hashable]) -> FloatArray:
    """Sums over the values, (item,), of each cluster, one an item, in the order in which clusters first come."""
    number = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    sums = np.zeros(len(number))
    np.add.at(sums, [number[cluster] for cluster in clusters], np.asarray(values, dtype=np.float64))
    return sums


def cluster_means(values: npt.ArrayLike, clusters: Sequence[Hashable]) -> FloatArray:
    """`cluster_sums` over how many values each cluster has."""
    means: FloatArray = cluster_sums(values, clusters) / np.asarray([*Counter(clusters).values()], dtype=np.float64)
    return means


def interval_of_ratio(
    parts: npt.ArrayLike,
    wholes: npt.ArrayLike | None,
    *,
    seed: int,
    confidence: float = 0.95,
    n_resamples: int = 2000,
) -> tuple[float, float] | None:
    """`interval_of_mean` of Σ parts / Σ wholes, (item,) each: of a mean where wholes are None, or 1 each.

    The standard error is that of the residuals of parts from the ratio times wholes (linearised).
    """
    sample = np.asarray(parts, dtype=np.float64)
    n = sample.size
    weights = None if wholes is None else np.asarray(wholes, dtype=np.float64)
    if n < FEWEST_FOR_INTERVAL or not np.isfinite(sample).all():
        return None
    total = float(n) if weights is None else float(weights.sum())
    centre = float(sample.sum() / total)
    residuals = sample - (centre if weights is None else centre * weights)
    largest = float(np.abs(residuals).max())
    # Of equal values rounding leaves something.
    if largest <= 1e-14 * float(np.abs(sample).max()):
        return None
    from scipy.stats import t as student

    # In units of the largest, whose square is no larger than 1; then each item counts as its share of the mean whole.
    residuals /= largest
    variance = float(residuals @ residuals) / (n - 1)
    shares = None if weights is None else weights * (n / total)
    rng = np.random.default_rng(seed)
    ratios = []
    # A few resamples at a time draw the same numbers as all at once, and take less memory.
    at_once = max(1, _DRAWN_AT_ONCE // n)
    for first in range(0, n_resamples, at_once):
        chosen = rng.integers(0, n, size=(min(at_once, n_resamples - first), n))
        ratios.append(_studentised(residuals[chosen], None if shares is None else shares[chosen], variance))
    tail = (1.0 - confidence) / 2.0
    low_ratio, high_ratio = (float(end) for end in np.quantile(np.concatenate(ratios), [tail, 1.0 - tail]))
    spread = largest * math.sqrt(variance) * n / total
    half = float(student.isf(tail, n - 1)) / math.sqrt(n)
    low, high = centre - spread * max(high_ratio, half), centre - spread * min(low_ratio, -half)
    return (max(low, 0.0) if sample.min() >= 0.0 else low, min(high, 0.0) if sample.max() <= 0.0 else high)


def _studentised(residuals: FloatArray, shares: FloatArray | None, variance: float) -> FloatArray:
    """What each resample is off, in units of its own standard deviation; residuals and shares are (resample, item)."""
    n = residuals.shape[1]
    sums, squares = residuals.sum(axis=1), np.einsum("ij,ij->i", residuals, residuals)
    if shares is None:
        mean_share, off = 1.0, sums / n
        squares = squares - n * off**2
    else:
        mean_share = shares.mean(axis=1)
        off = sums / (n * mean_share)
        crossed, own = (np.einsum("ij,ij->i", shares, other) for other in (residuals, shares))
        squares = squares - 2.0 * off * crossed + off**2 * own
    deviation = np.sqrt((np.maximum(squares, 0.0) + _OF_SAMPLE * variance) / (n - 1 + _OF_SAMPLE))
    studentised: FloatArray = off * mean_share / deviation
    return studentised


def interval_of_mean_difference(
    values: npt.ArrayLike, others: npt.ArrayLike, *, seed: int
) -> tuple[float, float] | None:
    """`interval_of_mean` of `values` − `others`, (item,) each, paired."""
    ones, twos = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if ones.shape != twos.shape:
        raise ValueError(f"{ones.size} values and {twos.size} others are no pairs")
    return interval_of_mean(ones - twos, seed=seed)


def mean(values: npt.ArrayLike) -> float:
    """NaN for no values."""
    sample = np.asarray(values, dtype=np.float64)
    return float(sample.mean()) if sample.size else float("nan")


def quantiles(values: npt.ArrayLike, levels: Sequence[float]) -> list[float]:
    """Quantiles, linear between order statistics, in the values' unit; NaN for no values."""
    sample = np.asarray(values, dtype=np.float64)
    if not sample.size:
        return [float("nan")] * len(levels)
    return [float(value) for value in np.quantile(sample, levels)]


def independent_items(clusters: Sequence[Hashable]) -> float:
    """How many items say as much as these, of one cluster each, if all of a cluster are equal: (Σ m)² / Σ m² of
    clusters of m items (Kish, "Survey sampling", 1965)."""
    sizes = Counter(clusters).values()
    return sum(sizes) ** 2 / sum(size**2 for size in sizes) if sizes else 0.0


def interval_of_share(n_hits: float, n: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Interval, in [0, 1], of the probability behind `n_hits` of `n` (Wilson 1927); (nan, nan) for none at all.

    Unlike that of a mean it has a width where no item or every item is a hit, and it holds for any number of items; of
    items that are not independent n is that of `independent_items`.
    """
    if n == 0:
        return (float("nan"), float("nan"))
    z2 = NormalDist().inv_cdf(0.5 + confidence / 2.0) ** 2
    centre = (n_hits + z2 / 2.0) / (n + z2)
    half = float(np.sqrt(z2 * (n_hits * (n - n_hits) / n + z2 / 4.0)) / (n + z2))
    return (max(centre - half, 0.0) if n_hits else 0.0, min(centre + half, 1.0) if n_hits < n else 1.0)


BELOW_NOISE: Final = "below the noise floor"
BELOW_PLACEBO: Final = "below the placebo"
UNDEFINED: Final = "undefined: impossible with it and without it"
GIVEN: Final = "the answer was given, not drawn"
"""Of a sum that is above its baselines all the same: an observer's posterior is right for what the model drew, and not
for what another wrote (docs/results/games.md)."""


class Posterior(NamedTuple):
    """What an observer concludes, or why that is not said; one of them is None."""

    probability: float | None
    """That the piece was there, from even odds."""
    note: str | None


def posterior_of(
    signed_nats: float, *, noise_nats: float, placebo_nats: float | None = None, is_drawn: bool = True
) -> Posterior:
    """The posterior from even odds, where the signed sum is larger in size than what moves it without meaning
    anything: Σ_t of each token's noise, in size, and that of an irrelevant piece; None where none was measured. None
    follows where the scoring model did not draw the answer (`is_drawn`)."""
    size = abs(signed_nats)
    if math.isnan(size):
        return Posterior(None, UNDEFINED)
    if size <= noise_nats:
        return Posterior(None, BELOW_NOISE)
    if placebo_nats is not None and size <= placebo_nats:
        return Posterior(None, BELOW_PLACEBO)
    if not is_drawn:
        return Posterior(None, GIVEN)
    return Posterior(posterior_from_even_odds(signed_nats), None)


def is_above_baselines(probability: float | None, note: str | None) -> bool:
    """Whether a signed sum with this posterior, or this note in its place, is above noise and placebo."""
    return probability is not None or note == GIVEN


def maximal_segments(scores: Sequence[float]) -> list[tuple[int, int]]:
    """All maximal scoring subsequences [start, end), in order; Ruzzo and Tompa (1999), linear time.

    The best stretch is the one with the largest sum, the shortest of equals; what is left on either side of it is
    searched likewise. Nothing goes over a score of −∞.

    >>> maximal_segments([4, -5, 3, -3, 1, 2, -2, 2, -2, 1, 5])
    [(0, 1), (2, 3), (4, 11)]
    """
    # Each candidate is (sum before it, sum at its end, start, end).
    kept: list[tuple[float, float, int, int]] = []
    ended: list[tuple[int, int]] = []
    total: float = 0
    for i, score in enumerate(scores):
        if score == -inf:
            ended += [(start, end) for _, _, start, end in kept]
            kept, total = [], 0
            continue
        before, total = total, total + score
        if score <= 0.0:
            continue
        low, start = before, i
        while True:
            below = next((j for j in range(len(kept) - 1, -1, -1) if kept[j][0] < low), None)
            if below is None or kept[below][1] >= total:
                break
            low, start = kept[below][0], kept[below][2]
            del kept[below:]
        kept.append((low, total, start, i + 1))
    return ended + [(start, end) for _, _, start, end in kept]


_Z2: Final = NormalDist().inv_cdf(0.975) ** 2
_TAIL: Final = 0.025
_HAIR: Final = 1e-9


def share_told_apart(hits: int, n: int, by_chance: float, *, clusters: Sequence[Hashable] | None = None) -> bool | None:
    """Whether there are more hits than chance makes (True), fewer (False), or too few items to tell (None).

    By the binomial distribution's tails, each at 2.5 %: Wilson's interval of few items leaves out small shares too
    often (of 4 items it leaves out 3 % in 11 % of draws). Where items have chances of their own, their mean errs on the
    safe side (Hoeffding 1956). Items of one of the `clusters`, one an item, are taken to be hits all or none.

    >>> share_told_apart(1, 4, 0.03) is None
    True
    """
    from scipy.stats import binom

    if clusters is not None and len(set(clusters)) < len(clusters):
        chances = _hits_by_chance(clusters, by_chance)
        above, below = float(chances[hits:].sum()), float(chances[: hits + 1].sum())
    else:
        above, below = binom.sf(hits - 1, n, by_chance), binom.cdf(hits, n, by_chance)
    if above <= _TAIL:
        return True
    return False if below <= _TAIL else None


def _hits_by_chance(clusters: Sequence[Hashable], by_chance: float) -> FloatArray:
    """Probability of each number of hits, from 0 to as many as there are items, if all of a cluster are hits or none
    is."""
    from scipy.stats import binom

    chances: FloatArray = np.ones(1)
    for size, n_clusters in Counter(Counter(clusters).values()).items():
        of_size = np.zeros(size * n_clusters + 1)
        of_size[::size] = binom.pmf(np.arange(n_clusters + 1), n_clusters, by_chance)
        chances = np.convolve(chances, of_size)
    return chances


def share_at_most(hits: float, n: int, confidence: float = 0.95) -> float:
    """Upper bound of a share of which `hits` of n items were seen, by Clopper and Pearson (1934); parts of items count.

    >>> round(share_at_most(1, 75), 3)
    0.062
    """
    from scipy.stats import beta

    return 1.0 if hits >= n else float(beta.ppf(confidence, hits + 1, n - hits))


def items_for_share(share: float, by_chance: float, *, beyond: int = 0) -> int | None:
    """Fewest items that would tell a share of hits from what chance makes; see `share_told_apart`.

    None where it would be more than 100,000. `beyond` items are there already, and do not tell.

    >>> items_for_share(0.0, 0.05)
    72
    """
    from scipy.stats import binom

    n = np.arange(beyond + 1, 100_000 + 1)
    # Whole hits, rounded to where chance is; a hair for shares such as 0.1, of which 10 times are 1.
    if share > by_chance:
        tails = binom.sf(np.floor(share * n + _HAIR) - 1, n, by_chance)
    else:
        tails = binom.cdf(np.ceil(share * n - _HAIR), n, by_chance)
    enough = np.flatnonzero(tails <= _TAIL)
    return int(n[enough[0]]) if enough.size else None


def items_for_auc(auc: float) -> int | None:
    """Fewest positives, and as many negatives, of which the 95 % interval of `stats.ranks.auc` leaves out 0.5."""
    if auc == 0.5:
        return None
    # V(0.5) of n and n is (1 + 2 (n − 1) / 3) / (4 n²): the root of a square in n.
    squared, sixth = (auc - 0.5) ** 2, _Z2 / 6.0
    return math.floor((sixth + math.sqrt(sixth**2 + 2.0 * squared * sixth)) / (2.0 * squared)) + 1


def items_for_correlation(rho: float) -> int | None:
    """Fewest items of which the 95 % interval of a Spearman correlation leaves out 0.

    By Fisher's transformation with the standard error √(1.06 / (n − 3)) (Fieller, Hartley and Pearson, "Tests for rank
    correlation coefficients. I", 1957).
    """
    if rho == 0.0:
        return None
    if abs(rho) >= 1.0:
        return 4
    return math.floor(3.0 + 1.06 * _Z2 / math.atanh(rho) ** 2) + 1


def items_for_distance(n: int, distance: float, reach: float) -> int | None:
    """Fewest items of which the interval of a mean reaches less far than a distance, where that of `n` goes to `reach`
    on a side; it narrows with their square root."""
    if distance <= 0.0:
        return None
    return math.floor(n * (reach / distance) ** 2) + 1
