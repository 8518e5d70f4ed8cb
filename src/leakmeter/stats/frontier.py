"""Leakage against utility: the knee of a sweep of settings, and how sure it is.

Each setting is a point of leakage and utility. The ends of the frontier are the setting that leaks
least (a; of several the most useful) and the one that is most useful (b; of several the one that leaks least). With
both axes scaled so that a is (0, 0) and b is (1, 1), the chord between the ends is the diagonal, and the knee is the
setting farthest above it, as in Kneedle (Satopää et al. 2011) without its smoothing:

    knee = argmax_i  u_i − l_i,    u_i = (U_i − U_a) / (U_b − U_a),    l_i = (L_i − L_a) / (L_b − L_a)

Up to the knee a share of the leakage buys more than that share of the utility, and beyond it less. The knee lies on the
upper concave hull of the points; a setting that leaks more than another and is of less use never is one. The knee
depends on where the sweep ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from leakmeter.stats.arrays import FloatArray, IntArray

NO_KNEE: Final = -1


@dataclass(frozen=True, slots=True)
class KneeShares:
    """Where the knee lies in resamples of the cases."""

    of_setting: tuple[float, ...]
    """Share of the resamples in which each setting is the knee."""
    none: float
    """Share of those that have no knee; all shares add up to 1."""


def knees(leakage: npt.ArrayLike, utility: npt.ArrayLike) -> IntArray:
    """The knee of each sweep, (…, setting) to (…): of settings that are as far from the chord, the first.

    `NO_KNEE` where no setting lies above the chord.
    """
    leaks, uses = np.asarray(leakage, dtype=np.float64), np.asarray(utility, dtype=np.float64)
    least, most = leaks.min(axis=-1, keepdims=True), uses.max(axis=-1, keepdims=True)
    start = np.where(leaks == least, uses, -np.inf).max(axis=-1, keepdims=True)
    end = np.where(uses == most, leaks, np.inf).min(axis=-1, keepdims=True)
    # Where the setting that leaks least is the most useful, the ends are one point, and nothing lies between them.
    has_chord = most > start
    rise, run = np.where(has_chord, most - start, 1.0), np.where(has_chord, end - least, 1.0)
    height = np.where(has_chord, (uses - start) / rise - (leaks - least) / run, 0.0)
    most_height = height.max(axis=-1, keepdims=True)
    # Heights that rounding alone distinguishes are equal, and one that rounding puts above the chord is on it.
    highest = (height > most_height - 1e-12).argmax(axis=-1)
    return np.where(most_height[..., 0] > 1e-9, highest, NO_KNEE).astype(np.int64)


def efficient(leakage: npt.ArrayLike, utility: npt.ArrayLike) -> list[int]:
    """Settings on the upper concave hull between the two ends, from the least leaking to the most useful.

    Of equal points the first; both are (setting,).
    """
    leaks, uses = np.asarray(leakage, dtype=np.float64), np.asarray(utility, dtype=np.float64)
    hull: list[int] = []
    for i in (int(i) for i in np.lexsort((-uses, leaks))):
        if hull and uses[i] <= uses[hull[-1]]:
            # It leaks as much or more, for no more use.
            continue
        while len(hull) >= 2:
            # The last one stays where it lies above the line from the one before to this one.
            (x0, y0), (x1, y1), (x2, y2) = ((leaks[j], uses[j]) for j in (hull[-2], hull[-1], i))
            if (y1 - y0) * (x2 - x0) > (y2 - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append(i)
    return hull


def resampled_means(values: npt.ArrayLike, *, seed: int, n_resamples: int = 2000) -> FloatArray:
    """Means over resamples of the cases, (case, setting) to (resample, setting), the same cases for every setting.

    Comparisons are thus paired. Equal seeds and numbers of cases give the same resamples, those of
    `stats.stats.interval_of_mean`.
    """
    table = np.asarray(values, dtype=np.float64)
    n_cases = len(table)
    chosen = np.random.default_rng(seed).integers(0, n_cases, size=(n_resamples, n_cases))
    # A setting at a time: equal columns have equal means to the last bit, and memory is that of one.
    return np.stack([column[chosen].mean(axis=1) for column in table.T], axis=1)


def knee_shares(leakage: npt.ArrayLike, utility: npt.ArrayLike) -> KneeShares:
    """How often each setting is the knee; (resample, setting) each, see `resampled_means`."""
    knee_settings = knees(leakage, utility)
    n_settings = np.asarray(leakage).shape[-1]
    counts = np.bincount(knee_settings + 1, minlength=n_settings + 1) / len(knee_settings)
    return KneeShares(tuple(float(share) for share in counts[1:]), float(counts[0]))


def gains_beyond_chance(values: npt.ArrayLike, resampled: npt.ArrayLike, against: int) -> list[int]:
    """Settings whose mean is above that of one setting by more than chance, all settings tested together.

    Values are (case, setting), of two cases or more. The limit is of the largest gain that resampling alone gives to
    any setting, max_i (m*_i − m_i) − (m*_j − m_j): a bootstrap of Dunnett's comparison of several means with a control.
    So among settings that are all the same, the best by chance does not count, save in 5 % of sweeps. That holds for a
    control which these values did not choose: of the one that is least by chance, see `differ_beyond_chance`.
    """
    table = np.asarray(values, dtype=np.float64)
    centre, noise = _means_and_noise(table, resampled)
    limit = _limit((noise - noise[:, [against]]).max(axis=1), len(table), tail=0.05)
    gains = centre - centre[against]
    return [int(i) for i in np.flatnonzero(gains > limit)]


def differ_beyond_chance(values: npt.ArrayLike, resampled: npt.ArrayLike) -> bool:
    """Whether some setting's mean is above some other's by more than chance, all settings tested together.

    Values are (case, setting), of two cases or more. The limit is of the range that resampling alone gives, max_i
    (m*_i − m_i) − min_i (m*_i − m_i), as in Tukey's comparison of all means: of settings that are all the same the
    least and the most differ by chance, and do not count, save in 5 % of sweeps.
    """
    table = np.asarray(values, dtype=np.float64)
    centre, noise = _means_and_noise(table, resampled)
    return bool(np.ptp(centre) > _limit(np.ptp(noise, axis=1), len(table), tail=0.025))


def _means_and_noise(table: FloatArray, resampled: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """(setting,) and, of each resample, (resample, setting)."""
    centre: FloatArray = table.mean(axis=0)
    return centre, np.asarray(resampled, dtype=np.float64) - centre


def _limit(by_chance: FloatArray, n_cases: int, *, tail: float) -> float:
    """What resampling alone exceeds in 5 % of resamples, for few cases farther out.

    Means of resamples vary less than means of cases, by (n − 1) / n in variance, and as if that were known: hence
    Student's quantile over the normal one, at the tail that each side has.
    """
    from scipy.stats import norm
    from scipy.stats import t as student

    wider = math.sqrt(n_cases / (n_cases - 1)) * float(student.isf(tail, n_cases - 1) / norm.isf(tail))
    return max(wider * float(np.quantile(by_chance, 0.95)), 0.0)
