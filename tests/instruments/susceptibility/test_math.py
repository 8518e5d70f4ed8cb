"""Susceptibility against sums written out, its identities, and what is said of contexts that were not drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.naive import log_softmax
from helpers.query_items import ByHand
from leakmeter.instruments.susceptibility import math as susceptibility
from leakmeter.instruments.susceptibility.math import ContextMixture, entropy, spread, statistics, with_rest

Rows = list[list[float]]
LOGITS = st.lists(st.lists(st.floats(-40, 40), min_size=6, max_size=6), min_size=3, max_size=6)


def mixture(rows: Rows, weights: list[float]) -> list[float]:
    return [math.fsum(w * row[v] for w, row in zip(weights, rows, strict=True)) for v in range(len(rows[0]))]


def susceptibility_of(rows: Rows, weights: list[float]) -> float:
    total = math.fsum(weights)
    mean = mixture(rows, [w / total for w in weights])
    return math.fsum(w / total * ByHand.kl(row, mean) for w, row in zip(weights, rows, strict=True))


def by_hand(bare: list[float], rows: Rows, weights: list[float]) -> np.ndarray:
    """(prompt, 3), of contexts that stand for themselves alone."""
    mean = mixture(rows, weights)
    out = [[ByHand.kl(mean, bare), ByHand.entropy(mean), ByHand.entropy(bare)]]
    for i, row in enumerate(rows):
        without = susceptibility_of(rows[:i] + rows[i + 1 :], weights[:i] + weights[i + 1 :])
        out.append([ByHand.kl(row, mean), ByHand.kl(row, bare), without])
    return np.asarray(out)


@pytest.mark.parametrize("make", [np.asarray, lambda x: torch.tensor(x, dtype=torch.float64)], ids=["numpy", "torch"])
@given(LOGITS, st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([1, 2, 1000]))
@settings(max_examples=examples(60))
@seed(5)
def test_statistics_are_the_sums_they_say(make: Any, logits: Rows, temperature: float, columns: int) -> None:
    raw = [1.0 + 0.7 * i for i in range(len(logits) - 1)]
    weights = [w / math.fsum(raw) for w in raw]
    with pytest.MonkeyPatch.context() as patch:
        # A slice has so many columns.
        patch.setattr(susceptibility, "_ENTRIES_AT_ONCE", columns * len(logits))
        reduction = ContextMixture(tuple(weights), (1,) * len(weights), temperature)
        got = np.asarray(reduction.reduce(make([[row] for row in logits]), make([0])))
    bare, *rows = ([math.exp(x) for x in log_softmax(z / temperature for z in row)] for row in logits)
    assert got.shape == (len(logits), 1, 3)
    # Worst measured: 2e-15, of values up to 100.
    np.testing.assert_allclose(got[:, 0], by_hand(bare, rows, weights), rtol=1e-12, atol=1e-13)
    assert (got >= 0).all()


def random_rows(rng: np.random.Generator, n: int, n_answers: int = 30, scale: float = 3.0) -> np.ndarray:
    logits = scale * rng.normal(size=(n, n_answers))
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)))


def test_the_expected_divergence_from_the_bare_query_is_the_susceptibility_and_that_of_the_mixture() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 40):
        weights = rng.dirichlet(np.ones(n))
        got = statistics(random_rows(rng, n + 1), tuple(weights), (1,) * n)
        persuasion, from_bare, _ = got[1:].T
        assert weights @ from_bare == pytest.approx(weights @ persuasion + got[0, 0], abs=1e-13)
        assert weights @ persuasion <= entropy(weights) + 1e-14


def test_a_context_that_comes_twice_is_one_of_twice_the_weight() -> None:
    rows = random_rows(np.random.default_rng(2), 4)
    apart = statistics(rows[[0, 1, 2, 2, 3]], (0.4, 0.15, 0.15, 0.3), (1, 1, 1, 1))
    merged = statistics(rows, (0.4, 0.3, 0.3), (1, 2, 1))
    np.testing.assert_allclose(merged, apart[[0, 1, 2, 4]], rtol=0, atol=1e-14)


def test_what_no_context_moves_is_deaf_and_half_precision_is_widened_before_anything_is_summed() -> None:
    reduction, rng = ContextMixture((0.25,) * 4, (1,) * 4), np.random.default_rng(4)
    row = random_rows(rng, 1).astype(np.float32)
    got = reduction.reduce(np.repeat(row, 5, axis=0)[:, None, :], np.asarray([0]))[:, 0]
    assert (np.abs(got[1:]) < 1e-15).all()
    assert got[0, 1] == pytest.approx(got[0, 2], abs=1e-14)
    logits = torch.tensor(random_rows(rng, 5)).to(torch.bfloat16)[:, None, :]
    ours = reduction.reduce(logits, torch.tensor([0]))
    np.testing.assert_allclose(ours, reduction.reduce(logits.double().numpy(), np.asarray([0])), rtol=0, atol=1e-13)
    high = logits.double().numpy() + 1000.0
    np.testing.assert_allclose(reduction.reduce(high, np.asarray([0])), ours, rtol=0, atol=1e-10)
    # Fewer rows than weights have the shape that a prediction asks for.
    assert reduction.reduce(np.zeros((2, 1, 9)), np.asarray([0])).shape == (2, 1, 3)


def test_too_few_contexts_say_nothing_of_others() -> None:
    assert spread(0.5, np.zeros(2)) is spread(0.4, np.asarray([0.1, 0.3])) is None
    few = spread(0.4, np.asarray([0.1, 0.3, 0.2]))
    assert few is not None
    assert (few.interval, few.bias) == (None, pytest.approx(0.4 - (3 * 0.4 - 2 * 0.2)))
    still = spread(0.0, np.zeros(9))
    assert still is not None
    assert (still.bias, still.standard_error, still.interval) == (0.0, 0.0, None)
    assert entropy(np.asarray([0.0, 1.0])) == 0.0


@pytest.mark.parametrize("n", [2, 5, 64])
def test_contexts_that_each_have_an_answer_of_their_own_reach_the_ceiling(n: int) -> None:
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.concatenate([np.full((1, n), 1 / n), np.eye(n)]))
    got = statistics(log_probs, (1 / n,) * n, (1,) * n)
    np.testing.assert_allclose(got[1:, :2], math.log(n), rtol=1e-14)
    np.testing.assert_allclose(got[1:, 2], math.log(n - 1), atol=1e-14)
    assert entropy(np.full(n, 1 / n)) == pytest.approx(math.log(n))


def test_what_the_bare_query_rules_out_is_infinitely_far_and_no_other_sum_is_spoilt() -> None:
    log_probs = np.log([[0.5, 0.5, 1e-300], [0.25, 0.25, 0.5], [0.5, 0.5, 1e-300]])
    log_probs[[0, 2], 2] = -np.inf
    got = statistics(log_probs, (0.5, 0.5), (1, 1))
    expected = by_hand([0.5, 0.5, 1e-300], [[0.25, 0.25, 0.5], [0.5, 0.5, 0.0]], [0.5, 0.5])
    assert got[0, 0] == got[1, 1] == np.inf
    finite = np.isfinite(got)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=0, atol=1e-14)
    assert finite.sum() == 7


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("row", [0, 2])
def test_what_is_not_a_number_is_not_hidden(make: Any, row: int) -> None:
    logits = np.zeros((3, 1, 5))
    logits[row, 0, 4] = np.nan
    got = np.asarray(ContextMixture((0.5, 0.5), (1, 1)).reduce(make(logits), None))
    assert np.isnan(got[0, 0]).any()
    assert np.isnan(got[1:, 0, 1]).any()


def test_the_rest_has_what_the_answers_leave() -> None:
    got = with_rest(np.log([[0.5, 0.25], [0.75, 0.25], [0.75, 0.25 + 1e-13]]))
    assert got.shape == (3, 3)
    assert np.exp(got[0]) == pytest.approx([0.5, 0.25, 0.25])
    assert np.exp(got[1:, 2]).tolist() == pytest.approx([2.0**-53] * 2)
    with np.errstate(divide="ignore"):
        assert with_rest(np.log([[0.0, 0.0]]))[0].tolist() == [-np.inf, -np.inf, 0.0]


def drawn(rng: np.random.Generator, n: int, *, rare: bool) -> np.ndarray:
    """Distributions behind contexts, one in 32 of which makes some answer of 60 all but certain where `rare`."""
    common = 3 * np.random.default_rng(0).normal(size=60)
    logits = common + 0.4 * rng.normal(size=(n, 60))
    if rare:
        loud = rng.random(n) < 1 / 32
        logits[loud, rng.integers(0, 60, size=loud.sum())] += 9
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)))


def measured(log_probs: np.ndarray) -> tuple[float, np.ndarray]:
    n = len(log_probs)
    got = statistics(np.concatenate([log_probs[:1], log_probs]), (1 / n,) * n, (1,) * n)
    return float(got[1:, 0].mean()), got[1:, 2]


@pytest.mark.parametrize(("rare", "n"), [(False, 16), (False, 64), (True, 128)])
def test_the_bias_is_that_of_samples_of_a_large_set(rare: bool, n: int) -> None:
    rng = np.random.default_rng(6)
    everyone = drawn(rng, 5000, rare=rare)
    true, _ = measured(everyone)
    samples = [measured(everyone[rng.integers(0, 5000, size=n)]) for _ in range(250)]
    spreads = [spread(value, without, seed=i) for i, (value, without) in enumerate(samples)]
    assert all(one is not None for one in spreads)
    values = np.asarray([value for value, _ in samples])
    biases = np.asarray([one.bias for one in spreads if one])
    errors = np.asarray([one.standard_error for one in spreads if one])
    actual, doubt = values.mean() - true, values.std() / math.sqrt(len(values))
    assert actual < -2 * doubt
    # What one context in 32 does is seen too seldom to be told whole: half of the bias remains.
    assert biases.mean() == pytest.approx(actual, abs=3 * doubt + (0.5 * abs(actual) if rare else 0.0))
    assert abs(values.mean() - biases.mean() - true) < abs(actual)
    assert errors.mean() == pytest.approx(values.std(), rel=0.15)
    covered = np.mean([one.interval[0] <= true <= one.interval[1] for one in spreads if one])
    assert covered > (0.75 if rare else 0.85)


def test_the_closed_form_of_the_bias_is_its_first_order() -> None:
    """−(1/2n) Σ_v Var p_c(v) / p̂(v)."""
    log_probs = drawn(np.random.default_rng(7), 400, rare=False)
    value, without = measured(log_probs)
    found = spread(value, without)
    p = np.exp(log_probs)
    closed = -(p.var(axis=0, ddof=1) / p.mean(axis=0)).sum() / (2 * len(p))
    assert found is not None
    assert found.bias == pytest.approx(closed, rel=0.01)
