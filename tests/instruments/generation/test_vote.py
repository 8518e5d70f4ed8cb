"""Leave-one-out votes against ones counted by hand: every row left out, every divergence by its definition."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from helpers.generation_items import Mistaken
from leakmeter.errors import UsageError
from leakmeter.instruments.generation.math import COLUMNS, LeaveOneOutVote
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.mechanism import BoundedCid, ClippedLogitAggregation, Mechanism, bound_of
from leakmeter.privacy.rdp import ORDERS
from leakmeter.privacy.renyi import SPREAD
from leakmeter.stats import logspace

LIBRARIES = {"numpy": np.asarray, "torch": torch.from_numpy}
libraries = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
MEASURED = (*sorted({*SPREAD, 3}), math.inf)
AT = len(COLUMNS)
COLD = Aggregation(5.0, 4, 0.5)


@dataclass(frozen=True)
class Rule:
    """Any function of rows."""

    function: Any
    public_first: bool = False
    adjacency: Any = "add-remove"

    def log_probs(self, rows: Any) -> Any:
        return self.function(rows)

    def bound(self, orders: Any) -> npt.NDArray[np.float64]:
        return np.ones(len(orders))


def vote_of(mechanism: Mechanism, **more: Any) -> LeaveOneOutVote:
    return LeaveOneOutVote(mechanism, MEASURED, tuple(bound_of(mechanism, ORDERS).tolist()), **more)


def counted(reduction: LeaveOneOutVote, rows: np.ndarray, library: Any = np.asarray) -> np.ndarray:
    found = np.asarray(reduction.reduce(library(rows)[:, None, :], None))
    assert found.shape == (len(rows), 1, AT + len(MEASURED))
    assert found.dtype == np.float64
    return found[:, 0]


def slow_divergence(log_p: np.ndarray, log_q: np.ndarray, order: float) -> float:
    """D_α↔ as Eq. 5 and 6 have it."""

    def one_way(a: np.ndarray, b: np.ndarray) -> float:
        if order == math.inf:
            return float((a - b).max())
        return math.log(math.fsum(np.exp(order * a + (1 - order) * b))) / (order - 1)

    return max(one_way(log_p, log_q), one_way(log_q, log_p))


@libraries
@pytest.mark.parametrize("normalise_by", ["fixed", "present"])
@pytest.mark.parametrize("temperature", [0.3, 4.8])
def test_what_is_measured_is_the_definition_with_every_row_left_out(
    library: Any, normalise_by: Any, temperature: float
) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 13)) * 7
    voting = Aggregation(3.0, 6, temperature, normalise_by)
    found = counted(vote_of(ClippedLogitAggregation(voting), random=0.4), rows, library)
    log_p = ClippedLogitAggregation(voting).log_probs(rows)
    for i, row in enumerate(found):
        log_q = ClippedLogitAggregation(voting).log_probs(np.delete(rows, i, axis=0))
        expected = [slow_divergence(log_p, log_q, order) for order in MEASURED]
        np.testing.assert_allclose(row[AT:], expected, rtol=1e-8, atol=1e-13)
        limits = bound_of(ClippedLogitAggregation(voting), ORDERS)
        most = max(slow_divergence(log_p, log_q, order) / limit for order, limit in zip(ORDERS, limits, strict=True))
        assert most * (1 - 1e-9) <= row[2] <= 1.0
        assert row[3] in ORDERS


@libraries
def test_a_rule_that_is_asked_row_by_row_is_measured_the_same(library: Any) -> None:
    rows = np.random.default_rng(1).normal(size=(5, 17)) * 6
    for temperature in (0.2, 1.0, 9.0):
        voting = Aggregation(4.0, 5, temperature)
        quick, slow = (
            counted(vote_of(rule, random=0.7), rows, library)
            for rule in (ClippedLogitAggregation(voting), Mistaken(voting, voting))
        )
        # Logarithms that were subtracted have lost digits of small divergences.
        np.testing.assert_allclose(slow, quick, rtol=1e-7, atol=1e-13)


@libraries
def test_the_token_is_that_of_the_distribution_that_was_measured(library: Any) -> None:
    rows = np.random.default_rng(2).normal(size=(4, 9)) * 3
    rule = ClippedLogitAggregation(COLD)
    log_p = rule.log_probs(rows)
    edges = np.cumsum(np.exp(log_p))
    for uniform in (0.0, 0.05, 0.5, 0.99, 1 - 1e-16):
        found = counted(vote_of(rule, random=uniform), rows, library)
        token = int(np.searchsorted(edges / edges[-1], uniform, side="right"))
        assert found[:, 0].tolist() == [token] * 4
        np.testing.assert_allclose(found[:, 1], log_p[token], rtol=0, atol=1e-13)
    given = counted(vote_of(rule, token=6), rows, library)
    assert given[:, 0].tolist() == [6.0] * 4
    np.testing.assert_allclose(given[:, 1], log_p[6], rtol=0, atol=1e-13)
    np.testing.assert_array_equal(given[:, 2:], found[:, 2:])


@libraries
@pytest.mark.parametrize("rule", [ClippedLogitAggregation(COLD), Mistaken(COLD, COLD)], ids=["quick", "row by row"])
def test_masked_tokens_are_no_part_of_the_vocabulary(library: Any, rule: Any) -> None:
    rows = np.random.default_rng(3).normal(size=(4, 9)) * 5
    rows[:, 3] += 50
    kept = [0, 1, 2, 4, 5, 6, 8]
    small = counted(vote_of(rule, random=0.6), rows[:, kept], library)
    found = counted(vote_of(rule, random=0.6, masked=(3, 7)), rows, library)
    assert found[0, 0] == kept[int(small[0, 0])]
    np.testing.assert_allclose(found[:, 1:], small[:, 1:], rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(counted(vote_of(rule, token=8, masked=(3, 7)), rows, library)[:, 0], [8.0] * 4)


@libraries
def test_a_public_row_is_never_left_out(library: Any) -> None:
    rows = np.random.default_rng(4).normal(size=(2, 15)) * 4
    rule = BoundedCid(0.8)
    public, context = counted(vote_of(rule, random=0.3), rows, library)
    expected = [slow_divergence(rule.log_probs(rows), rule.log_probs(rows[:1]), order) for order in MEASURED]
    np.testing.assert_allclose(context[AT:], expected, rtol=1e-8, atol=1e-14)
    assert public[2:].tolist() == [0.0] * (2 + len(MEASURED))
    assert public[:2].tolist() == context[:2].tolist()


@libraries
def test_ruling_a_token_out_for_want_of_an_exemplar_costs_infinity(library: Any) -> None:
    """Greedy voting says one token alone, and another one without the exemplar that turned the scale."""

    def greedy(rows: Any) -> Any:
        votes = np.asarray(rows).sum(axis=0)
        with np.errstate(divide="ignore"):
            return np.log((np.arange(len(votes)) == votes.argmax()).astype(float))

    rows = np.asarray([[3.0, 0.0, 1.0], [0.0, 2.0, 0.0], [0.0, 0.5, 0.0]])
    found = counted(vote_of(Rule(greedy), random=0.5), rows, library)
    assert found[:, 0].tolist() == [0.0] * 3
    assert (found[0, AT:] == np.inf).all()
    assert (found[0, 2], found[0, 3]) == (np.inf, 2.0)
    assert (found[1:, AT:] == 0.0).all()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda rows: rows.mean(axis=0), r"probabilities add up to e\^1\.[0-9]+; normalise their logarithms"),
        (lambda rows: np.full(rows.shape[1], np.nan), r"add up to e\^nan"),
        (logspace.log_softmax, r"log-probabilities of shape \(3, 4\) for a vocabulary of 4; expected one for each"),
    ],
)
def test_what_is_no_distribution_is_refused(function: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        counted(vote_of(Rule(function)), np.zeros((3, 4)))


def test_a_rule_of_a_user_meets_float64_and_may_answer_in_numpy() -> None:
    seen = []

    def mean(rows: Any) -> np.ndarray:
        seen.append(rows)
        return np.asarray(logspace.log_softmax(np.asarray(rows).mean(axis=0)))

    rows = torch.randn(3, 5, dtype=torch.bfloat16)
    found = vote_of(Rule(mean), random=0.5).reduce(rows[:, None, :], None)
    assert isinstance(found, torch.Tensor)
    assert {(type(one), one.dtype) for one in seen} == {(torch.Tensor, torch.float64)}
    assert [len(one) for one in seen] == [3, 2, 2, 2]


def test_it_goes_on_where_it_draws_and_needs_all_rows() -> None:
    rule = ClippedLogitAggregation(COLD)
    drawn, given = vote_of(rule), vote_of(rule, token=3)
    assert (drawn.continues, given.continues) == (True, False)
    assert drawn.rows_together
    assert drawn.rows(4) == range(4, 5)


def test_nothing_of_exemplar_by_vocabulary_by_exemplar_is_made() -> None:
    rows = np.random.default_rng(5).normal(size=(60, 1, 4000))
    reduction = vote_of(ClippedLogitAggregation(Aggregation(10.0, 60, 1.0)))
    tracemalloc.start()
    reduction.reduce(rows, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * rows.nbytes
