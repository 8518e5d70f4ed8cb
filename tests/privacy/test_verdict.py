"""Bounds against measurements: broken mechanisms are caught, sound ones never, sequences are enumerated."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.examples import examples
from leakmeter.privacy.clipped_logits import Aggregation, NormaliseBy, average, clipped
from leakmeter.privacy.rdp import ORDERS, DivergenceBound, bound, conversion, guarantee
from leakmeter.privacy.renyi import screened
from leakmeter.privacy.verdict import TOLERANCE, DivergenceVerdict, judge, paper_figure

LIBRARIES = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
MEASURED = (2, 3, 5, 14, 40, 100, math.inf)
DELTA = 1e-5
N_EXEMPLARS = 50


def bound_of(voting: Aggregation) -> DivergenceBound:
    return functools.partial(bound, voting.sensitivity())


def audited(
    rows: np.ndarray,
    voting: Aggregation,
    *,
    runs: Aggregation | None = None,
    clip: Callable[[Any, float], Any] = clipped,
    library: Any = np.asarray,
) -> DivergenceVerdict:
    """The bound of `voting` against what runs with other settings or another clip does to (token, exemplar, vocab)."""
    limits = bound(voting.sensitivity(), ORDERS)
    found = []
    for logits in rows:
        votes = clip(library(logits), (runs or voting).clip)
        found.append(screened(*average(votes, runs or voting), ORDERS, limits, MEASURED))
    losses, ratios, orders = ([np.asarray(part) for part in parts] for parts in zip(*found, strict=True))
    return judge(losses, MEASURED, bound_of(voting), ratios, orders)


def one_hot_votes(n_voted_for: int, n_tokens: int = 4) -> np.ndarray:
    """Exemplars take turns in which token they want, and want nothing else at all: (token, exemplar, vocab)."""
    rows = np.full((n_tokens, N_EXEMPLARS, 5), -40.0)
    for t, i in itertools.product(range(n_tokens), range(N_EXEMPLARS)):
        rows[t, i, (i + t) % n_voted_for] = 40.0
    return rows


TABLE_4 = Aggregation(10.0, N_EXEMPLARS, 4.8)
COLD = Aggregation(10.0, N_EXEMPLARS, 0.94)


def test_a_mechanism_that_is_deaf_to_its_exemplars_measures_nothing() -> None:
    rows = np.broadcast_to(np.random.default_rng(1).normal(size=(3, 1, 9)), (3, 4, 9))
    # With those present counted, exemplars that all say the same are not missed.
    assert (audited(rows, Aggregation(10.0, 4, 0.9, "present")).per_exemplar <= 1e-25).all()
    # With a fixed s, one vote less of the same flattens them.
    assert (audited(rows, Aggregation(10.0, 4, 0.9)).per_exemplar > 1e-4).all()
    # A temperature that is applied twice above one is more private, and no failure.
    found = audited(one_hot_votes(2), TABLE_4, runs=Aggregation(10.0, N_EXEMPLARS, 4.8**2))
    assert found.holds
    assert (found.ratio[:-1] < 0.05).all()


BROKEN: dict[str, tuple[Aggregation, dict[str, Any]]] = {
    "clip forgotten": (TABLE_4, {"clip": lambda rows, _: rows}),
    "half of s": (TABLE_4, {"runs": Aggregation(10.0, N_EXEMPLARS // 2, 4.8)}),
    "clip at 2c": (TABLE_4, {"runs": Aggregation(20.0, N_EXEMPLARS, 4.8)}),
    "temperature twice": (COLD, {"runs": Aggregation(10.0, N_EXEMPLARS, 0.94**2)}),
}


@libraries
@pytest.mark.parametrize(("voting", "broken"), BROKEN.values(), ids=BROKEN)
def test_a_broken_mechanism_is_caught_with_its_exemplar(library: Any, voting: Aggregation, broken: Any) -> None:
    rows = one_hot_votes(2, n_tokens=2)
    found = audited(rows, voting, library=library, **broken)
    assert not found.holds
    assert (found.ratio[:3] > 1.0).all()
    worst = found.failures[0]
    assert worst.ratio > 1.09
    assert worst.measured == pytest.approx(worst.ratio * worst.bound, rel=1e-12)
    # Each exemplar fails with a token and with its total.
    named = {(failure.exemplar, failure.token is None) for failure in found.failures}
    assert named == set(itertools.product(range(N_EXEMPLARS), (False, True)))
    assert [failure.ratio for failure in found.failures] == sorted((f.ratio for f in found.failures), reverse=True)
    assert audited(rows, voting, library=library).holds


def test_an_order_that_was_not_measured_is_judged_all_the_same() -> None:
    """Above its bound at order 7 alone, between two orders that are within theirs."""
    losses, limits = np.full((2, 3, 2), 1e-4), bound_of(TABLE_4)
    ratios, at = np.full((2, 3), 0.5), np.full((2, 3), 2.0)
    ratios[1, 2], at[1, 2] = 1.5, 7.0
    (failure,) = judge(losses, (5, 14), limits, ratios, at).failures
    assert (failure.exemplar, failure.token, failure.order) == (2, 1, 7.0)
    assert failure.ratio == pytest.approx(1.5, rel=1e-12)
    assert failure.bound == pytest.approx(float(limits([7])[0]), rel=1e-15)
    for above, holds in ((1e-10, True), (1e-8, False)):
        ratios[1, 2] = 1.0 + above
        assert judge(losses, (5, 14), limits, ratios, at).holds == holds


def test_nan_is_a_failure_and_no_tokens_are_no_verdict() -> None:
    rows = one_hot_votes(5)
    rows[2, 7, 1] = np.nan
    found = audited(rows, TABLE_4)
    assert not found.holds
    assert {worst.token for worst in found.worst_tokens} == {2}
    assert math.isnan(found.failures[0].measured)
    with pytest.raises(ValueError, match="nothing was measured"):
        judge(np.zeros((0, 3, 2)), (2, 3), bound_of(TABLE_4), np.zeros((0, 3)), np.zeros((0, 3)))


def test_an_infinite_bound_holds_whatever_was_measured() -> None:
    """A mechanism may have no bound on its pure loss."""
    losses, nothing = np.full((2, 3, 2), [0.1, math.inf]), np.zeros((2, 3))
    for limits, holds in (([0.2, math.inf], True), ([0.2, 5.0], False), ([0.05, math.inf], False)):
        found = judge(losses, (2, math.inf), lambda _, limits=limits: np.asarray(limits), nothing, nothing)
        assert found.holds == holds
        assert found.ratio.tolist() == [0.1 / limits[0], 0.0 if math.isinf(limits[1]) else math.inf]


entries = st.floats(-60, 60) | st.sampled_from([-np.inf, -3.4e38, 1e5, 0.0, 40.0])
votes_of = st.tuples(st.integers(1, 2), st.integers(2, 6), st.integers(2, 8)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=entries | st.sampled_from([-40.0, 40.0]))
)


@seed(100)
@settings(max_examples=examples(50))
@given(
    votes_of.filter(lambda z: bool(np.isfinite(z).any(axis=-1).all())),
    st.sampled_from([0.01, 1.0, 10.0]),
    st.sampled_from([1e-3, 0.05, 0.94, 4.8, 68.58, 1e5]),
    st.sampled_from(["fixed", "present"]),
)
def test_a_sound_mechanism_passes(rows: np.ndarray, clip: float, temperature: float, normalise_by: NormaliseBy) -> None:
    for library in LIBRARIES.values():
        found = audited(rows, Aggregation(clip, rows.shape[1], temperature, normalise_by), library=library)
        assert found.holds
        assert all(worst.ratio <= 1.0 + TOLERANCE for worst in found.worst_tokens)
        assert (found.per_exemplar <= found.bound * (1 + 1e-9)).all()
        assert (found.per_exemplar.max(axis=0) <= found.sum_of_maxima * (1 + 1e-12)).all()


def test_totals_are_sums_over_tokens_by_the_slow_way() -> None:
    rows = np.random.default_rng(2).normal(size=(5, 6, 11)) * 8
    voting = Aggregation(3.0, 6, 0.8)
    found = audited(rows, voting)
    losses = np.zeros((5, 6, len(MEASURED)))
    for t, i in itertools.product(range(5), range(6)):
        votes = np.maximum(-3.0, rows[t] - rows[t].max(axis=-1, keepdims=True) + 3.0)
        p, q = (np.exp(kept.sum(axis=0) / 6 / 0.8) for kept in (votes, np.delete(votes, i, axis=0)))
        p, q = p / p.sum(), q / q.sum()
        for k, a in enumerate(MEASURED):
            if a == math.inf:
                losses[t, i, k] = np.abs(np.log(p / q)).max()
            else:
                losses[t, i, k] = max(np.log((x * (x / y) ** (a - 1)).sum()) / (a - 1) for x, y in ((p, q), (q, p)))
    limits = bound(voting.sensitivity(), MEASURED)
    np.testing.assert_allclose(found.per_exemplar, losses.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.sum_of_maxima, losses.max(axis=1).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.measured, losses.sum(axis=0).max(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(found.worst_exemplar, losses.sum(axis=0).argmax(axis=0))
    np.testing.assert_allclose(found.ratio, losses.sum(axis=0).max(axis=0) / (5 * limits), rtol=1e-9)
    for k, worst in enumerate(found.worst_tokens):
        t, i = np.unravel_index(losses[:, :, k].argmax(), losses.shape[:2])
        assert (worst.token, worst.exemplar, worst.order) == (t, i, MEASURED[k])
        assert worst.ratio == pytest.approx(losses[t, i, k] / limits[k], rel=1e-9)
    assert (found.sum_of_maxima > found.measured).all()


def test_the_paper_s_figures_are_mostly_conversion() -> None:
    """Table 4's ε_empirical taken apart: what was measured is one to two hundredths of the bound."""
    for target, order, printed, zero_leak, ratio in (
        # target, α, ε_empirical as printed, 2 c(α, δ), measured over bound
        *((0.5, 32, 0.462, 0.456, 0.012), (1, 18, 0.910, 0.900, 0.009), (5, 5, 4.556, 4.505, 0.009)),
        *((10, 3, 9.698, 9.603, 0.009), (20, 3, 9.900, 9.603, 0.010)),
        *((50, 2, 21.892, 20.253, 0.021), (100, 2, 23.158, 20.253, 0.016)),
    ):
        added = float(conversion([order], DELTA)[0])
        measured = printed / 2 - added
        found = paper_figure(measured, order, DELTA)
        assert found.epsilon == pytest.approx(printed, abs=1e-12)
        assert round(found.zero_leak_epsilon, 3) == zero_leak
        # The printed ε has three decimals, of which half goes to each side: 0.0005 / 0.27 at the smallest.
        assert measured / (target - added) == pytest.approx(ratio, abs=0.0015)


def test_stopping_early_is_no_failure_though_the_paper_s_figure_is_above_the_guarantee() -> None:
    """Votes that tell nothing at all, ended after 1,000 of 2,000 tokens."""
    for temperature, order, figure, spent in ((36.183, 18, 0.900, 0.686), (4.8046, 3, 9.603, 6.553)):
        voting, nothing = Aggregation(10.0, 50, temperature), np.zeros((1000, 50))
        found = judge(np.zeros((1000, 50, 2)), (2, order), bound_of(voting), nothing, nothing)
        assert found.holds
        assert (found.ratio == 0.0).all()
        made = paper_figure(float(found.sum_of_maxima[1]), order, DELTA)
        assert made.epsilon == made.zero_leak_epsilon == pytest.approx(figure, abs=0.0005)
        assert guarantee(voting.sensitivity(), 1000, DELTA).epsilon == pytest.approx(spent, abs=0.0005)
