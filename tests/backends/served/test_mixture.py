"""The interval of a mixture always holds what the whole rows would have given."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.backends.served import mixture
from leakmeter.core.reductions import MixtureLogProbs, TargetLogProbs
from leakmeter.stats import logspace

SLACK = 1e-9  # float64 rounding of the exact mixture, relative to numbers of up to a few hundred nats

PEAKED = st.sampled_from([0.1, 1.0, 5.0, 30.0])


def rows_of(seed: int, n_vocab: int, scales: tuple[float, float], kind: str) -> np.ndarray:
    """Logits of two prompts, (2, vocab); some kinds are made against the proof's weak points."""
    rng = np.random.default_rng(seed)
    rows = np.stack([scale * rng.normal(size=n_vocab) for scale in scales])
    if kind == "equal":  # Hölder is an equality where the rows are proportional
        rows[1] = rows[0]
    elif kind == "opposed":  # what is likely in one row is unlikely in the other: nothing stands in both
        rows[1] = -rows[0]
    elif kind == "flat tail":  # much of the probability in many tokens
        rows[:, n_vocab // 4 :] = 0.0
    elif kind == "one token beyond":  # ‖a‖_s = ‖a‖_1: all the rest in one token, which no list holds
        rows[:] = -40.0
        rows[:, :3] = [1.0, 0.5, 0.0]
        rows[:, 3] = -0.1
    elif kind == "ruled out":
        rows[0, rng.integers(n_vocab, size=2)] = -np.inf
        rows[1, rng.integers(n_vocab, size=2)] = -np.inf
    return rows


def told(log_probs: np.ndarray, k: int, token: int, noise: np.ndarray) -> dict[int, float]:
    """The k likeliest tokens and the given one, as a server with that noise tells them."""
    ids = [*np.argsort(-log_probs)[:k].tolist(), token]
    return {i: float(min(0.0, log_probs[i] + noise[i])) for i in ids}


@settings(max_examples=examples(100))
@given(
    seed=st.integers(0, 10**6),
    n_vocab=st.integers(5, 60),
    k=st.integers(0, 60),
    scales=st.tuples(PEAKED, PEAKED),
    kind=st.sampled_from(["any", "equal", "opposed", "flat tail", "one token beyond", "ruled out"]),
    context_weight=st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)),
    temperature=st.one_of(st.sampled_from([1.0, 0.8, 1e-3]), st.floats(0.05, 1.0)),
    noise_nats=st.sampled_from([0.0, 1e-4, 0.05]),
)
def test_interval_holds_the_mixture_of_whole_rows(
    seed, n_vocab, k, scales, kind, context_weight, temperature, noise_nats
):
    logits = rows_of(seed, n_vocab, scales, kind)
    rng = np.random.default_rng(seed + 1)
    token = int(rng.integers(n_vocab))
    log_probs = logspace.log_softmax(logits)
    # The extreme signs are the worst that noise can do.
    noise = noise_nats * rng.choice([-1.0, 1.0], size=logits.shape)
    bare, full = (told(one, k, token, off) for one, off in zip(log_probs, noise, strict=True))
    targets = np.asarray([token])
    if np.isfinite(log_probs[0]).any() and np.isfinite(logits[0] + logits[1]).any():
        truth = MixtureLogProbs(context_weight, temperature).reduce(logits[:, None, :], targets)[1, 0]
        n_top = min(k, n_vocab) if seed % 4 else 0
        low, high = mixture.mixed(token, full, bare, context_weight, temperature, noise_nats, n_top)
        slack = SLACK * max(1.0, abs(truth)) if math.isfinite(truth) else 0.0
        assert low - slack <= truth <= high + slack
        assert high <= 0.0
    plain = TargetLogProbs(temperature).reduce(logits[:, None, :], targets)[1, 0]
    low, high = mixture.tempered(token, full, temperature, noise_nats, min(k, n_vocab))
    slack = SLACK * max(1.0, abs(plain)) if math.isfinite(plain) else 0.0
    assert low - slack <= plain <= high + slack


def test_bound_is_attained_where_the_rest_is_one_token_of_equal_rows():
    row = np.log([0.5, 0.3, 0.2])
    known = {0: row[0], 1: row[1]}
    low, high = mixture.mixed(0, known, known, 0.5, 0.5)
    truth = float(2 * row[0] - np.log(np.sum(np.exp(2 * row))))
    assert low == pytest.approx(truth, abs=1e-4)  # the noise that is always reckoned with
    assert high > truth + 0.05


@pytest.mark.parametrize(("context_weight", "temperature"), [(1.5, 1.0), (-0.1, 1.0), (0.5, 1.01)])
def test_what_has_no_bound_is_refused(context_weight, temperature):
    assert not mixture.can_bound(context_weight, temperature)
    with pytest.raises(ValueError, match="no bounds"):
        mixture.mixed(0, {0: -1.0}, {0: -1.0}, context_weight, temperature)


def test_likeliest_tokens_narrow_it_where_the_rest_is_spread():
    row = logspace.log_softmax(np.random.default_rng(0).normal(size=1000))
    known = told(row, 20, 5, np.zeros(1000))
    wide, narrow = (mixture.tempered(5, known, 0.5, n_top=n) for n in (0, 20))
    assert narrow[1] == wide[1]
    assert narrow[1] - narrow[0] < 0.5 * (wide[1] - wide[0])


def test_middle_of_a_ruled_out_token_is_certain():
    values, half = mixture.middle(np.asarray([[-np.inf, -np.inf], [-2.0, -1.0]]))
    assert values.tolist() == [-np.inf, -1.5]
    assert half.tolist() == [0.0, 0.5]
