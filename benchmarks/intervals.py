"""How often 95 % intervals hold what they are of, simulated: ours beside others, for few and skewed values.

Values are drawn from distributions with a known mean. A rule's interval lies *too low* where it ends below that mean,
*too high* where it begins above it. Where a rule has no interval, the draw counts for none of these.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import stats as scipy_stats

from leakmeter.instruments.susceptibility.math import entropy, spread
from leakmeter.stats.agreement import spearman
from leakmeter.stats.clusters import Resamples
from leakmeter.stats.stats import interval_of_mean, interval_of_share

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float] | None
Draw = Callable[[np.random.Generator, int], Floats]

NAME: Final = "intervals"
OURS: Final = "ours"
TINY: Final[Mapping[str, Any]] = {
    "n_draws": 20, "sizes": (8, 10), "clusters": (8, 10), "contexts": (8, 10), "n_truth": 2_000,
}  # fmt: skip
_SEED: Final = 20_261_128
_N_RESAMPLES: Final = 2000
_TAILS: Final = (0.025, 0.975)
_ITEMS: Final = 24
"""Of a cluster."""
_ANSWERS: Final = 8


def _mixed(rng: np.random.Generator, n: int) -> Floats:
    """Nine small leaks in ten, one large."""
    return np.where(rng.random(n) < 0.1, rng.gamma(4.0, 25.0 / 4.0, n), rng.exponential(1.0, n))


SHAPES: Final[Mapping[str, tuple[Draw, float]]] = {
    "lognormal": (lambda rng, n: rng.lognormal(0.0, 1.0, n), math.exp(0.5)),
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 1.0),
    "90 % small, 10 % large": (_mixed, 0.9 + 2.5),
    "normal": (lambda rng, n: rng.normal(0.0, 1.0, n), 0.0),
    "half zeros": (lambda rng, n: rng.exponential(1.0, n) * (rng.random(n) < 0.5), 0.5),
    "t, 3 degrees": (lambda rng, n: rng.standard_t(3.0, n), 0.0),
    "within [0, 1]": (lambda rng, n: rng.random(n) * (rng.random(n) < 0.2), 0.1),
}
"""Name to draws and their mean."""
BOUNDED: Final = "within [0, 1]"


# ---- rules ----------------------------------------------------------------------------------------------------------
def by_resampling(values: Floats, rng: np.random.Generator) -> dict[str, Ends]:
    """Percentile, BCa and studentised bootstrap of one set of resamples."""
    n, mean, error = len(values), float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    if error == 0.0:
        return dict.fromkeys(("percentile", "BCa", "studentised"))
    drawn = values[rng.integers(0, n, size=(_N_RESAMPLES, n))]
    means, errors = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / math.sqrt(n)
    found: dict[str, Ends] = {"percentile": _quantiles(means, _TAILS)}
    # Efron, "Better bootstrap confidence intervals", 1987.
    below = float((means < mean).mean() + 0.5 * (means == mean).mean())
    normal = scipy_stats.norm
    bias = float(normal.ppf(np.clip(below, 1 / _N_RESAMPLES, 1 - 1 / _N_RESAMPLES)))
    left = (values - mean) / (n - 1)
    skew = float((left**3).sum() / (6.0 * (left**2).sum() ** 1.5))
    z = bias + normal.ppf(_TAILS)
    found["BCa"] = _quantiles(means, normal.cdf(bias + z / (1.0 - skew * z)))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num((means - mean) / errors, nan=0.0, posinf=np.inf, neginf=-np.inf)
    low, high = (float(end) for end in np.quantile(ratios, _TAILS, method="inverted_cdf"))
    found["studentised"] = mean - high * error, mean - low * error
    return found


def by_moments(values: Floats) -> dict[str, Ends]:
    """Student's interval, and Johnson's of skewed values ("Modified t tests and confidence intervals", 1978)."""
    n, mean, spread_ = len(values), float(values.mean()), float(values.std(ddof=1))
    half = float(scipy_stats.t.ppf(_TAILS[1], n - 1)) * spread_ / math.sqrt(n)
    third = n * float(((values - mean) ** 3).sum()) / ((n - 1) * (n - 2))
    shift = third / (6.0 * spread_**2 * n) if spread_ else 0.0
    return {"Student": (mean - half, mean + half), "Johnson": (mean + shift - half, mean + shift + half)}


def bounded(values: Floats) -> dict[str, Ends]:
    """Bounds that hold for any values within [0, 1]: empirical Bernstein (Maurer and Pontil, 2009), and betting."""
    n, mean, log = len(values), float(values.mean()), math.log(4.0 / 0.05)
    half = math.sqrt(2.0 * float(values.var(ddof=1)) * log / n) + 7.0 * log / (3.0 * (n - 1))
    return {"empirical Bernstein": (max(0.0, mean - half), min(1.0, mean + half)), "betting": betting(values)}


def betting(values: Floats) -> Ends:
    """The hedged capital interval of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
    betting", 2023, with c = ½, on a grid of a thousandth."""
    n, grid = len(values), np.linspace(0.0, 1.0, 1001)
    up, down = np.zeros(len(grid)), np.zeros(len(grid))
    total, squares = 0.5, 0.25
    variance = 0.25
    with np.errstate(divide="ignore"):
        for i, value in enumerate(values, 1):
            stake = math.sqrt(2.0 * math.log(2.0 / 0.05) / (variance * n))
            up += np.log1p(np.minimum(stake, 0.5 / grid) * (value - grid))
            down += np.log1p(-np.minimum(stake, 0.5 / (1.0 - grid)) * (value - grid))
            total += value
            squares += (value - total / (i + 1)) ** 2
            variance = squares / (i + 1)
    kept = grid[np.maximum(up, down) - math.log(2.0) < math.log(1.0 / 0.05)]
    return (float(kept[0]), float(kept[-1])) if kept.size else None


def _quantiles(values: Floats, at: Any) -> tuple[float, float]:
    low, high = np.quantile(values, at)
    return float(low), float(high)


# ---- what they hold -------------------------------------------------------------------------------------------------
def told(found: Sequence[Ends], truth: float) -> dict[str, float]:
    """Shares of the draws with an interval that hold the truth, or lie beside it; its median width, and the share of
    draws that have none."""
    ends = np.asarray([each for each in found if each is not None], dtype=np.float64).reshape(-1, 2)
    shares = {"none": 1.0 - len(ends) / len(found)}
    if not len(ends):
        return {**dict.fromkeys(("covers", "too_low", "too_high", "median_width"), math.nan), **shares}
    low, high = float((ends[:, 1] < truth).mean()), float((ends[:, 0] > truth).mean())
    width = float(np.median(ends[:, 1] - ends[:, 0]))
    return {"covers": 1.0 - low - high, "too_low": low, "too_high": high, "median_width": width, **shares}


def of_means(n_draws: int, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    for (shape, (draw, truth)), n in ((shape, n) for shape in SHAPES.items() for n in sizes):
        rng = np.random.default_rng([_SEED, n])
        found: dict[str, list[Ends]] = {}
        for _ in range(n_draws):
            values = draw(rng, n)
            rules = {OURS: interval_of_mean(values, seed=0), **by_resampling(values, rng), **by_moments(values)}
            rules |= bounded(values) if shape == BOUNDED else {}
            for rule, ends in rules.items():
                found.setdefault(rule, []).append(ends)
        for rule, of_rule in found.items():
            yield {"of": "mean", "shape": shape, "n": n, "rule": rule, **told(of_rule, truth)}


def of_shares(sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Exact: every number of hits, by its probability."""
    for share, n in ((share, n) for share in (0.02, 0.1, 0.3) for n in sizes):
        hits = np.arange(n + 1)
        weights = scipy_stats.binom.pmf(hits, n, share)
        exact = scipy_stats.beta.ppf
        rules = {
            OURS: np.asarray([interval_of_share(int(k), n) for k in hits]),
            "Clopper-Pearson": np.column_stack(
                [
                    np.where(hits == 0, 0.0, np.nan_to_num(exact(_TAILS[0], hits, n - hits + 1))),
                    np.where(hits == n, 1.0, np.nan_to_num(exact(_TAILS[1], hits + 1, n - hits), nan=1.0)),
                ]
            ),
        }
        for rule, ends in rules.items():
            low, high = float(weights[ends[:, 1] < share].sum()), float(weights[ends[:, 0] > share].sum())
            width = float(weights @ (ends[:, 1] - ends[:, 0]))
            row = {"covers": 1.0 - low - high, "too_low": low, "too_high": high, "median_width": width, "none": 0.0}
            yield {"of": "share", "shape": f"share {share:g}", "n": n, "rule": rule, **row}


def of_clusters(n_draws: int, sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Means of clusters of alike items, two thirds of whose variance they have in common; and a rank correlation."""
    kinds: Mapping[str, Draw] = {
        "clusters, normal": lambda rng, n: rng.normal(0.0, 1.0, n),
        "clusters, exponential": lambda rng, n: rng.exponential(1.0, n) - 1.0,
    }
    for (kind, draw), n in ((kind, n) for kind in kinds.items() for n in sizes):
        rng = np.random.default_rng([_SEED, n, 1])
        found: dict[str, list[Ends]] = {OURS: [], "percentile": []}
        names = np.repeat(np.arange(n), _ITEMS).tolist()
        for _ in range(n_draws):
            values = np.repeat(draw(rng, n), _ITEMS) + rng.normal(0.0, math.sqrt(0.5), n * _ITEMS)
            found[OURS].append(Resamples(names, seed=0).mean(values).interval)
            of_clusters_ = values.reshape(n, _ITEMS).mean(axis=1)
            found["percentile"].append(by_resampling(of_clusters_, rng)["percentile"])
        for rule, of_rule in found.items():
            yield {"of": "mean", "shape": kind, "n": n, "rule": rule, **told(of_rule, 0.0)}
    truth = 6.0 / math.pi * math.asin(0.5 / 2.0)  # Spearman's of normal numbers whose correlation is ½
    for n in sizes:
        rng = np.random.default_rng([_SEED, n, 2])
        ends: list[Ends] = []
        for _ in range(max(1, n_draws // 4)):
            common = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], size=n)
            own = rng.multivariate_normal([0.0, 0.0], [[0.5, 0.25], [0.25, 0.5]], size=(n, 8))
            x, y = (common[:, None, :] + own).reshape(-1, 2).T
            over = Resamples(np.repeat(np.arange(n), 8).tolist(), seed=0, n_resamples=1000)
            ends.append(spearman(x, y, over).interval)
        yield {"of": "rank correlation", "shape": "clusters, normal", "n": n, "rule": "percentile", **told(ends, truth)}


def _susceptibility(answers: Floats) -> tuple[float, Floats]:
    """χ of contexts' answer distributions, (context, answer), nats, and χ without each of them."""
    n = len(answers)
    entropies = np.asarray([entropy(row) for row in answers])
    others = (answers.sum(axis=0) - answers) / (n - 1)
    without = [
        entropy(mixture) - (entropies.sum() - own) / (n - 1) for mixture, own in zip(others, entropies, strict=True)
    ]
    return entropy(answers.mean(axis=0)) - float(entropies.mean()), np.asarray(without)


def _answers(scale: Floats, rng: np.random.Generator) -> Floats:
    """Distributions over answers after contexts that move them so far, (context,)."""
    logits = np.linspace(0.0, 2.0, _ANSWERS) + scale[:, None] * rng.normal(size=(len(scale), _ANSWERS))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    moved: Floats = weights / weights.sum(axis=1, keepdims=True)
    return moved


def of_contexts(n_draws: int, sizes: Sequence[int], n_truth: int) -> Iterator[dict[str, Any]]:
    """Susceptibilities of all contexts, from few that were drawn."""
    kinds: Mapping[str, Callable[[np.random.Generator, int], Floats]] = {
        "contexts alike": lambda rng, n: np.ones(n),
        "one context in 32 does most": lambda rng, n: np.where(rng.random(n) < 1 / 32, 6.0, 0.1),
    }
    for kind, draw in kinds.items():
        rng = np.random.default_rng([_SEED, 3])
        truth, _ = _susceptibility(_answers(draw(rng, n_truth), rng))
        for n in sizes:
            found: dict[str, list[Ends]] = {OURS: [], "percentile": []}
            for _ in range(n_draws):
                value, without = _susceptibility(_answers(draw(rng, n), rng))
                known = spread(value, without)
                found[OURS].append(None if known is None else known.interval)
                pseudo = n * value - (n - 1) * without
                found["percentile"].append(by_resampling(pseudo, rng)["percentile"])
            for rule, of_rule in found.items():
                yield {"of": "susceptibility", "shape": kind, "n": n, "rule": rule, **told(of_rule, truth)}


def rows(
    out: Path | None = None,
    *,
    n_draws: int = 1000,
    sizes: Sequence[int] = (5, 8, 10, 25, 100),
    clusters: Sequence[int] = (8, 10, 20, 60),
    contexts: Sequence[int] = (8, 32, 128),
    n_truth: int = 400_000,
) -> Iterator[dict[str, Any]]:
    """One row a quantity, shape, number of values and rule; `intervals.csv` in `out`, if it is given, has them too.

    Args:
        out: directory of the file.
        n_draws: samples of each shape and size.
        sizes: numbers of values.
        clusters: numbers of clusters.
        contexts: numbers of contexts.
        n_truth: contexts that stand for all.
    """
    found = [
        *of_means(n_draws, sizes),
        *of_shares(sizes),
        *of_clusters(n_draws // 2, clusters),
        *of_contexts(n_draws // 2, contexts, n_truth),
    ]
    if out is not None:
        with (out / f"{NAME}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    yield from found
