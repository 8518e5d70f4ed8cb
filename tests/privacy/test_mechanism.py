"""Rules and bounds: what each gives with every row left out, and numbers that are no bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from helpers.examples import few
from leakmeter.errors import UsageError
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.mechanism import BoundedCid, ClippedLogitAggregation, Mechanism, bound_of
from leakmeter.privacy.rdp import ORDERS, bound, composed, conversion, guarantee
from leakmeter.privacy.renyi import both_ways, from_tilts
from leakmeter.stats import logspace

LIBRARIES = {"numpy": np.asarray, "torch": torch.from_numpy}
ALL = (*ORDERS, math.inf)


@dataclass(frozen=True)
class Says:
    """A mechanism with a given bound, the same at every order if it is one number."""

    nats: Any
    adjacency: Any = "add-remove"
    public_first: bool = False

    def log_probs(self, rows: Any) -> Any:
        return logspace.log_softmax(rows.mean(axis=0))

    def bound(self, orders: Any) -> npt.NDArray[np.float64]:
        return np.full(len(orders), self.nats) if np.isscalar(self.nats) else np.asarray(self.nats)


def test_what_is_a_mechanism() -> None:
    for rule in (Says(1.0), ClippedLogitAggregation(Aggregation(1.0, 2, 1.0)), BoundedCid(1.0)):
        assert isinstance(rule, Mechanism)
    with pytest.raises(UsageError, match="bounded decoding has one context, and 2 exemplars"):
        BoundedCid(1.0).log_probs(np.zeros((3, 5)))


@pytest.mark.parametrize("library", few(LIBRARIES.values()), ids=LIBRARIES)
@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 4.0])
def test_bounded_decoding_is_within_its_bound_and_reaches_it_at_infinity(library: Any, epsilon: float) -> None:
    rng = np.random.default_rng(1)
    rule = BoundedCid(epsilon, temperature=0.8, lambda_max=2.0)
    limits = bound_of(rule, ALL)
    assert limits[-1] == pytest.approx(epsilon / 2, rel=1e-12)
    ratios = []
    for _ in range(30):
        rows = library(rng.normal(size=(2, 19)) * 6)
        log_p, log_q = rule.log_probs(rows), rule.log_probs(rows[:1, :])
        ratios.append(np.asarray(both_ways(from_tilts(log_p, (log_p - log_q)[None, :], ALL)))[0] / limits)
    assert 1 - 1e-6 < np.max(ratios) <= 1 + 1e-9
    # Two contexts are within all of ε.
    one, other = (rule.log_probs(library(np.vstack([rows[0], rng.normal(size=19) * 6]))) for _ in range(2))
    assert abs(one - other).max() <= epsilon * (1 + 1e-9)


def test_bounded_decoding_without_its_context_is_the_prior() -> None:
    rows = np.random.default_rng(2).normal(size=(2, 9))
    rows[0, 4] = -2000.0
    prior = BoundedCid(0.3, temperature=0.5).log_probs(rows[:1])
    expected = logspace.log_softmax(rows[0], 0.5)
    assert prior[4] == -np.inf
    np.testing.assert_allclose(np.delete(prior, 4), np.delete(expected, 4), rtol=0, atol=1e-13)


def test_what_has_no_meaning_is_refused() -> None:
    for given, said in (
        ({"epsilon": 0.0}, "epsilon is 0.0; it has to be above 0"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"epsilon": 1.0, "temperature": 0.0}, "temperature is 0.0; it has to be above 0"),
        ({"epsilon": 1.0, "lambda_max": -1.0}, "lambda-max is -1.0; it has to be 0 or more"),
    ):
        with pytest.raises(UsageError, match=said):
            BoundedCid(**given)
    replacing = Says(1.0, adjacency="replace-one")
    for mechanism, said in (
        (replacing, "neighbours of the kind 'replace-one', and an audit leaves exemplars out"),
        (Says(0.0), "has to be above 0, and finite at every finite order"),
        (Says(math.nan), "has to be above 0"),
        (Says(math.inf), "finite at every finite order"),
        (Says([1.0] * 3), "bounds 3 numbers for 99 orders; give one for each"),
    ):
        with pytest.raises(UsageError, match=said):
            bound_of(mechanism, ORDERS)
    # An infinite bound at infinity is one.
    limits = [0.1] * len(ORDERS) + [math.inf]
    np.testing.assert_array_equal(bound_of(Says(limits), ALL), limits)


@pytest.mark.parametrize("temperature", [68.58, 4.8, 0.2])
def test_a_guarantee_of_clipped_logits_is_that_of_private_token_generation(temperature: float) -> None:
    voting = Aggregation(10.0, 50, temperature)
    ours = composed(ClippedLogitAggregation(voting).bound, 2000, 1e-5)
    assert ours == guarantee(voting.sensitivity(), 2000, 1e-5)
    by_order = 2000 * bound(voting.sensitivity(), ORDERS)
    assert ours.epsilon == pytest.approx((by_order + conversion(ORDERS, 1e-5)).min(), rel=1e-14)
