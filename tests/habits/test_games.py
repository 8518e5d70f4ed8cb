"""`python -m benchmarks games`: what it says of nats that are right, too sure, or of nothing."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import games
from benchmarks.games import bounds, referee, worlds
from benchmarks.games.outcomes import (
    Game,
    calibration_error,
    corrected_error,
    error_by_chance,
    predicted_auc,
    rate_at,
    summary,
)
from benchmarks.random_models import random_backend
from scipy.special import expit
from scipy.stats import norm

from helpers.examples import few
from helpers.naive import naive_log_probs
from leakmeter.backends.hf import HfBackend


@pytest.fixture(scope="module")
def tiny() -> HfBackend:
    return random_backend("llama-tiny", "cpu", "float32")


def right(n: int, distance: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Nats of two normal distributions of equal width, which are log-likelihood ratios, and which it was."""
    rng = np.random.default_rng(0)
    is_one = rng.random(n) < 0.5
    return np.where(is_one, 1.0, -1.0) * distance**2 / 2 + distance * rng.normal(size=n), is_one


def test_nats_that_are_right_are_called_so_and_predict_the_area() -> None:
    nats, is_one = right(20_000)
    assert calibration_error(expit(nats), is_one) < 0.01
    assert calibration_error(expit(nats[:500]), is_one[:500]) < error_by_chance(expit(nats[:500])) < 0.08
    scale, corrected = corrected_error(nats, is_one)
    assert scale == pytest.approx(1.0, abs=0.05)
    assert corrected < 0.02
    assert predicted_auc(nats) == pytest.approx(norm.cdf(1.5 / np.sqrt(2)), abs=0.005)
    row = summary("kind", [Game("way", bool(one), float(x)) for x, one in zip(nats, is_one, strict=True)])
    assert row["auc"] == pytest.approx(row["auc_predicted"], abs=0.01)
    assert row["sure_and_wrong"] <= 0.05 * row["sure"]


def test_nats_that_are_three_times_too_sure_are_found_out_and_corrected() -> None:
    nats, is_one = right(20_000)
    assert calibration_error(expit(3 * nats), is_one) > 0.08
    scale, corrected = corrected_error(3 * nats, is_one)
    assert scale == pytest.approx(1 / 3, abs=0.02)
    assert corrected < 0.02


def test_a_rate_at_few_false_alarms_is_counted_above_the_worst_of_them() -> None:
    negatives = np.arange(100.0)
    assert rate_at(np.asarray([97.0, 98.0, 98.5, 200.0]), negatives, 0.01) == 0.5
    assert rate_at(np.asarray([5.0]), negatives[:10], 0.01) == 0.0


def test_a_tie_and_a_game_with_itself_are_half_a_win() -> None:
    assert predicted_auc(np.zeros(10)) == 0.5


@pytest.mark.parametrize("kind", few(["value A or B", "document in or out", "this document or another"]))
def test_the_adversarys_nats_are_those_of_plain_passes_and_coins_are_fair(tiny: HfBackend, kind: str) -> None:
    made = worlds.kinds(0, 3, None)[kind]
    for number, world in enumerate(made):
        one, other = world.prompts(tiny)
        assert one.ids.tolist() != other.ids.tolist()
        played = list(referee.played(tiny, tiny, world, seed=(0, number), n_draws=2, n_tokens=3))
        assert {game.way for game in played} >= {referee.DRAWN, referee.GREEDY, referee.REDACTED}
        again = list(referee.played(tiny, tiny, world, seed=(0, number), n_draws=2, n_tokens=3))
        assert played == again
        (answer,) = referee.written(tiny, one, 1, 3, None)
        expected = [naive_log_probs(tiny.model, prompt, prompt, answer, 1.0, 1.0).sum() for prompt in (one, other)]
        of_greedy = [abs(game.nats) for game in played if game.way == referee.GREEDY]
        assert of_greedy[0] == pytest.approx(abs(expected[0] - expected[1]), abs=1e-3)


def test_an_epsilon_that_is_there_is_nearly_found_and_never_exceeded() -> None:
    """Randomised response: a bit is told truly with probability e^ε / (1 + e^ε), and its ratio is ε or −ε."""
    epsilon, n, rng = 1.5, 4000, np.random.default_rng(0)
    one, other = (epsilon * np.where(rng.random(n) < share, 1.0, -1.0) for share in (expit(epsilon), expit(-epsilon)))
    found = [bounds.least_epsilon(one, other, seed) for seed in range(5)]
    assert all(0.85 * epsilon < value <= epsilon for value in found)
    assert bounds.least_epsilon(one, one, 0) < 0.1
    assert bounds.least_epsilon(np.zeros(50), np.zeros(50), 0) == 0.0


@pytest.mark.parametrize("rule", few(["bounded decoding", "private generation"]))
def test_no_token_and_no_adversary_exceeds_what_a_rule_promises(tiny: HfBackend, rule: str) -> None:
    for row in bounds.rows(tiny, seed=0, n_worlds=1, n_draws=4, rules=(rule,)):
        assert row["kind"] == rule
        assert row["epsilon_at_least"] <= row["epsilon_promised"]
        # Between two contexts neither of which is empty: each is within ε / 2 of the model without one.
        assert 0.0 < row["epsilon_of_the_worst_token"] <= row["epsilon_promised"]
        assert row["tokens_drawn"] == 8


@pytest.mark.long
def test_every_kind_of_game_has_a_row(tiny: HfBackend) -> None:
    rows = list(games.rows(tiny, tiny, **games.TINY))
    kinds = {(row["kind"], row["way"]) for row in rows if "way" in row}
    assert ("exemplar in or out", "drawn") in kinds
    assert ("value A or B", referee.REDACTED) in kinds
    assert ("document in or out", referee.WRITTEN) in kinds
    assert {row["kind"] for row in rows if "epsilon_promised" in row} == set(bounds.RULES)
