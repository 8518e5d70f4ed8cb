"""Bounds against the paper's formulas in many digits, quadrature, a library, and mechanisms that reach them."""

from __future__ import annotations

import importlib
import math
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.errors import UsageError
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.rdp import ORDERS, bound, composed, conversion, exponential, guarantee, line, to_epsilon, zcdp
from leakmeter.privacy.renyi import both_ways, from_tilts

DELTA = 1e-5
# α b from 1e-8 to 1e7, where e^x is far beyond a float64.
SENSITIVITIES = (1e-8, 1e-5, 0.003, 0.04, 0.2, 1.0, 2.0, 5.0, 40.0, 1e3, 1e5)
SOME = (1.001, 1.5, 2, 3, 5, 18, 32, 100)


def slow_exponential(sensitivity: float, order: float) -> float:
    """Appendix C.3.1 as it is printed."""
    with mpmath.workdps(60):
        a, b = mpmath.mpf(order), 2 * mpmath.mpf(sensitivity)
        # Arguments near 1e7 have more digits before the point than a float64 has at all: mpmath keeps the exponent.
        quotient = (mpmath.sinh(a * b) - mpmath.sinh((a - 1) * b)) / mpmath.sinh(b)
        return float(mpmath.log(quotient) / (a - 1))


@pytest.mark.parametrize("sensitivity", SENSITIVITIES)
def test_the_exponential_mechanism_s_bound_is_the_printed_one(sensitivity: float) -> None:
    expected = [slow_exponential(sensitivity, order) for order in SOME]
    np.testing.assert_allclose(exponential(sensitivity, SOME), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("sensitivity", [1e-5, 2.0])
@pytest.mark.parametrize("order", [1.5, 5])
def test_the_line_is_the_divergence_of_two_normal_distributions(sensitivity: float, order: float) -> None:
    """ρα with ρ = Δ² / 2 is D_α between normals Δ standard deviations apart, which quadrature finds on its own."""

    def integrand(x: Any) -> Any:
        return mpmath.npdf(x) * mpmath.exp(order * (sensitivity * x - sensitivity**2 / 2))

    with mpmath.workdps(30):
        peak = order * sensitivity
        total = mpmath.quad(integrand, [-20, -5, 0, peak, peak + 5, peak + 20])
        found = float(mpmath.log(total) / (order - 1))
    assert float(line(sensitivity, [order])[0]) == pytest.approx(found, rel=1e-10)


@seed(80)
@settings(max_examples=examples(40))
@given(st.floats(1e-4, 3.0), st.floats(0.01, 0.99))
def test_no_mechanism_of_that_width_is_above_either_bound(sensitivity: float, share: float) -> None:
    orders = (*ORDERS, math.inf)
    # Tilts of width b about a distribution of two answers: an even one comes nearest to the line.
    for p in (share, 0.5, 1 / (1 + math.exp(sensitivity))):
        found = both_ways(from_tilts(np.log([p, 1 - p]), np.asarray([[2.0 * sensitivity, 0.0]]), orders))[0]
        assert (found <= bound(sensitivity, orders) * (1 + 1e-12)).all()
    small = both_ways(from_tilts(np.log([0.5, 0.5]), np.asarray([[2e-3, 0.0]]), [2]))[0]
    assert float(small[0] / bound(1e-3, [2])[0]) > 1 - 1e-6


def test_the_smaller_bound_counts_and_where_they_meet() -> None:
    for sensitivity in SENSITIVITIES:
        both = np.stack([line(sensitivity, ORDERS), exponential(sensitivity, ORDERS)])
        np.testing.assert_array_equal(bound(sensitivity, ORDERS), both.min(axis=0))
    for order, meets in ((2, 3.98), (18, 0.412), (100, 0.0727)):
        for b in np.geomspace(1e-3, 30, 200):
            assert (exponential(b / 2, [order])[0] < line(b / 2, [order])[0]) == (b > meets)
    # Pure differential privacy: the second goes to b, and the line has no say.
    assert bound(0.2, [math.inf]).tolist() == [0.4]
    assert bound(0.2, [1e9])[0] == pytest.approx(0.4, rel=1e-6)
    assert bound(0.0, ORDERS).tolist() == [0.0] * len(ORDERS)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
@pytest.mark.parametrize("sensitivity", [0.0029, 0.0417, 0.213])
def test_the_library_composes_and_converts_to_the_same(sensitivity: float, delta: float) -> None:
    """It has ρ-zCDP, though no exponential mechanism: where the line decides, ε and α are its own."""
    missing = "dp-accounting is not installed (pip install 'leakmeter[accounting]')"
    library = pytest.importorskip("dp_accounting", reason=missing)
    accountants = importlib.import_module("dp_accounting.rdp.rdp_privacy_accountant")
    for n_tokens in (1, 40, 2000):
        made = guarantee(sensitivity, n_tokens, delta)
        accountant = accountants.RdpAccountant(orders=ORDERS)
        accountant.compose(library.ZCDpEvent(0.5 * sensitivity**2), n_tokens)
        epsilon, order = accountant.get_epsilon_and_optimal_order(delta)
        if line(sensitivity, [made.order])[0] < exponential(sensitivity, [made.order])[0]:
            assert made.epsilon == pytest.approx(float(epsilon), rel=1e-12, abs=1e-15)
            assert made.order == order or made.epsilon == 0.0
        else:
            assert made.epsilon < epsilon
        rdp = n_tokens * bound(sensitivity, ORDERS)
        assert accountants.compute_epsilon(ORDERS, rdp, delta)[0] == pytest.approx(made.epsilon, rel=1e-12, abs=1e-15)


def test_conversion_by_hand() -> None:
    by_hand = [math.log((a - 1) / a) - (math.log(DELTA) + math.log(a)) / (a - 1) for a in ORDERS]
    np.testing.assert_allclose(conversion(ORDERS, DELTA), by_hand, rtol=1e-13)
    # A mechanism that tells nothing costs this much, with orders up to 100 and δ = 1e-5.
    assert to_epsilon(np.zeros(len(ORDERS)), ORDERS, DELTA) == (pytest.approx(0.0597, abs=5e-5), 100)
    # Where the formula gives less than nothing, it is nothing.
    assert to_epsilon(np.zeros(len(ORDERS)), ORDERS, 0.5)[0] == 0.0


def test_tokens_add_up_and_a_replaced_exemplar_costs_four_times() -> None:
    voting = Aggregation(10.0, 50, 4.8)
    sensitivity = voting.sensitivity()
    made = guarantee(sensitivity, 2000, DELTA)
    rho = zcdp(sensitivity, 2000)
    assert rho == pytest.approx(2000 * 0.5 * (10 / (50 * 4.8)) ** 2, rel=1e-14)
    assert made.pure_epsilon == pytest.approx(2000 * 2 * 10 / (50 * 4.8), rel=1e-14)
    assert made.rdp_nats == pytest.approx(rho * made.order, rel=1e-14)
    assert made.epsilon == pytest.approx(made.rdp_nats + conversion([made.order], DELTA)[0], rel=1e-14)
    # What was spent on fewer tokens is less than what the most of them may cost.
    spent = [guarantee(sensitivity, n, DELTA).epsilon for n in (0, 1, 100, 1999, 2000)]
    assert spent == sorted(spent)
    assert spent[0] == pytest.approx(0.0597, abs=5e-5)
    for other in (voting.sensitivity("replace-one"), Aggregation(10.0, 50, 4.8, "present").sensitivity()):
        assert zcdp(other, 2000) == pytest.approx(4 * rho, rel=1e-14)


def test_what_has_no_meaning_is_refused() -> None:
    for ask, arguments, said in (
        (guarantee, (0.1, -1, DELTA), "-1 tokens cannot be composed; give 0 or more"),
        (guarantee, (0.1, 5, 0.0), "delta is 0.0; it has to be above 0 and below 1"),
        (composed, (partial(bound, 0.1), 5, DELTA, (2, 1)), "at order 1; orders have to be above 1"),
        (conversion, ([2], 1.0), "delta is 1.0"),
    ):
        with pytest.raises(UsageError, match=said):
            ask(*arguments)  # type: ignore[operator]
