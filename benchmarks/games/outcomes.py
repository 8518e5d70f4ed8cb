"""What the games say of a posterior: is it right as often as it says, and how well does it tell the two apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.ranks import auc, roc

N_BINS: Final = 10


@dataclass(frozen=True)
class Game:
    """An answer, which of two texts it was written from, and what leakmeter says."""

    way: str
    is_one: bool
    nats: float
    """log p(y | one) − log p(y | other)."""


def summary(kind: str, games: Sequence[Game]) -> dict[str, Any]:
    """The numbers of games of one kind and way of answering."""
    nats, is_one = np.asarray([game.nats for game in games]), np.asarray([game.is_one for game in games])
    certain = np.maximum(expit(nats), expit(-nats)) >= 0.95
    wrong = (nats > 0) != is_one
    scale, corrected = corrected_error(nats, is_one)
    area, low, high = auc(nats[is_one], nats[~is_one])
    return {
        "kind": kind,
        "way": games[0].way,
        "games": len(games),
        "median_nats": float(np.median(np.abs(nats))),
        "calibration_error": calibration_error(expit(nats), is_one),
        "calibration_error_by_chance": error_by_chance(expit(nats)),
        "sure": int(certain.sum()),
        "sure_and_wrong": int((certain & wrong).sum()),
        "scale": scale,
        "calibration_error_corrected": corrected,
        "auc": area,
        "auc_low": low,
        "auc_high": high,
        "auc_predicted": predicted_auc(nats),
        "tpr_at_1_percent_fpr": rate_at(nats[is_one], nats[~is_one], 0.01),
    }


def calibration_error(posterior: FloatArray, is_one: np.ndarray) -> float:
    """Expected calibration error: the mean over games of how far the share of ones in ten equal bins of the posterior
    is from the mean posterior there."""
    bins = np.minimum((posterior * N_BINS).astype(int), N_BINS - 1)
    errors = [
        np.sum(bins == number) * abs(posterior[bins == number].mean() - is_one[bins == number].mean())
        for number in np.unique(bins)
    ]
    return float(sum(errors) / len(posterior))


def error_by_chance(posterior: FloatArray) -> float:
    """The calibration error that a posterior which is right stays below in 95 % of as many games with these nats."""
    rng = np.random.default_rng(0)
    errors = [calibration_error(posterior, rng.random(len(posterior)) < posterior) for _ in range(400)]
    return float(np.quantile(errors, 0.95))


def corrected_error(nats: FloatArray, is_one: np.ndarray) -> tuple[float, float]:
    """One factor on the nats that suits the first half of the games best, and the calibration error of the second half
    with it."""
    half = len(nats) // 2

    def loss(log_scale: float) -> float:
        signed = np.where(is_one[:half], nats[:half], -nats[:half]) * np.exp(log_scale)
        return float(np.logaddexp(0.0, -signed).mean())

    scale = float(np.exp(minimize_scalar(loss, bounds=(-8.0, 3.0), method="bounded").x))
    return scale, calibration_error(expit(scale * nats[half:]), is_one[half:])


def predicted_auc(nats: FloatArray) -> float:
    """The AUC of an adversary by these nats alone, if they are right: each game is one of the first text with
    probability 1 / (1 + e^−nats), and of the second with what is left. P(nats of a first > nats of a second)."""
    order = np.sort(nats)
    first, second = expit(order), expit(-order)
    below = np.cumsum(second) - second
    pairs = first.sum() * second.sum()
    # Two games of the same nats, and a game with itself, are a tie.
    return float((np.sum(first * below) + 0.5 * np.sum(first * second)) / pairs)


def rate_at(positives: FloatArray, negatives: FloatArray, false_share: float) -> float:
    """Largest share of positives with that share of the negatives, or less, at or above the same threshold."""
    points = roc(positives, negatives)
    # A hair: a share of 1 − 0.99 is a little more than 0.01.
    return float(points[points[:, 0] <= false_share + 1e-9, 1].max())
