"""Composition of many tokens, beside single steps, closed forms and the orders in which it may be asked for."""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from leakmeter.errors import UsageError
from leakmeter.privacy import accounting

DELTA = 1e-5


@pytest.fixture
def library() -> Any:
    return pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed (pip install 'leakmeter[accounting]')"
    )


def exact_delta(epsilon: float, n: int, total: float) -> float:
    """δ at `total` of n randomised responses: Σ_k C(n, k) max(0, e^{kε} − e^{total + (n−k)ε}) / (1 + e^ε)^n."""
    k = np.arange(n + 1)
    log_choose = np.asarray([math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in k])
    base = log_choose - n * math.log1p(math.exp(epsilon))
    terms = np.exp(base + k * epsilon) - np.exp(base + total + (n - k) * epsilon)
    return float(np.clip(terms, 0, None).sum())


def composed(tokens: list[tuple[float, int]]) -> tuple[float, float, float]:
    """Basic composition, that of privacy losses, and that of Rényi divergences."""
    return accounting.basic(tokens), accounting.pld(tokens, DELTA), accounting.rdp(tokens, DELTA)


def test_basic_composition_adds_up(library: Any) -> None:
    assert accounting.basic([(0.5, 50)] * 20) == 500.0
    assert accounting.basic([(0.5, 3), (0.25, 2), (1.0, 0)]) == 2.0
    # Nothing costs nothing.
    assert accounting.basic([]) == accounting.pld([], DELTA) == accounting.pld([(0.5, 0)], DELTA) == 0.0
    assert accounting.rdp([], DELTA) == pytest.approx(0.0, abs=0.005)  # what its conversion to a δ costs


def test_what_has_no_meaning_is_refused(library: Any) -> None:
    for tokens, delta, said in (
        ([(0.0, 5)], DELTA, "epsilon is 0.0 for a token; it has to be above 0 and at most 500"),
        ([(math.nan, 5)], DELTA, "epsilon is nan"),
        ([(501.0, 5)], DELTA, "epsilon is 501.0"),
        ([(0.5, -1)], DELTA, "-1 tokens cannot be composed"),
        ([(0.5, 5)], 0.0, "delta is 0.0; it has to be above 0 and below 1"),
        ([(0.5, 5)], 1.0, "delta is 1.0"),
    ):
        for ask in (accounting.pld, accounting.rdp):
            with pytest.raises(UsageError, match=said):
                ask(tokens, delta)


def test_without_the_library_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, name)
    for name, kind, said in (
        ("dp_accounting", UsageError, r"pip install 'leakmeter\[accounting\]'"),
        # A library that lacks one of its own says so itself.
        ("scipy", ModuleNotFoundError, "scipy"),
    ):
        missing = Mock(find_spec=Mock(side_effect=ModuleNotFoundError(f"No module named {name!r}", name=name)))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "meta_path", [missing])
            with pytest.raises(kind, match=said):
                accounting.pld([(0.5, 5)], DELTA)
    assert accounting.basic([(0.5, 5)]) == 2.5


@pytest.mark.parametrize("n", [1, 2, 50])
def test_self_composition_equals_single_steps(library: Any, n: int) -> None:
    """The library's own accountant forgets the count of this event: 50 steps of 0.5 would cost 0.5."""
    distributions = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    common = importlib.import_module("dp_accounting.pld.common")
    one = distributions.from_privacy_parameters(common.DifferentialPrivacyParameters(0.5, 0.0))
    whole = one
    for _ in range(n - 1):
        whole = whole.compose(one)
    got = accounting.pld([(0.5, n)], DELTA)
    assert got == pytest.approx(whole.get_epsilon_for_delta(DELTA), abs=1e-8)  # measured: 3.2e-11
    if n == 50:
        assert got == pytest.approx(18.93, abs=0.01)


@pytest.mark.parametrize(("epsilon", "n"), [(0.5, 50), (0.1, 200), (1.0, 10)])
def test_both_ways_bound_the_closed_form_and_the_basic_sum_bounds_them(library: Any, epsilon: float, n: int) -> None:
    basic, pld, rdp = composed([(epsilon, n)])
    assert basic == pytest.approx(epsilon * n)
    # Few large steps cost their sum; the conversion from Rényi divergences then adds a little.
    assert pld <= rdp <= basic + 0.005
    assert pld <= basic
    # At the ε given, the true δ is at most what was asked for, and at a slightly smaller one it is more.
    assert exact_delta(epsilon, n, pld) <= DELTA * (1 + 1e-6)
    assert exact_delta(epsilon, n, pld - 0.01) > DELTA
    assert exact_delta(epsilon, n, rdp) <= DELTA


@pytest.mark.parametrize("epsilon", [1e-300, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize("n", [1, 50, 100_000])
def test_the_least_epsilon_is_bounded_without_a_word_of_the_library(
    library: Any, caplog: pytest.LogCaptureFixture, epsilon: float, n: int
) -> None:
    _, pld, rdp = composed([(epsilon, n)])
    assert caplog.records == []
    assert rdp <= accounting.rdp([(1e-4, n)], DELTA)
    for bound in (pld, rdp):
        assert exact_delta(epsilon, n, bound) <= DELTA * (1 + 1e-6)


def test_a_session_costs_what_its_tokens_cost(library: Any) -> None:
    session = composed([(0.5, 20)] * 5)
    assert session == composed([(0.5, 100)])
    assert session[1] < 5 * accounting.pld([(0.5, 20)], DELTA)
    mixed = composed([(0.5, 20), (0.2, 40)])
    assert mixed == composed([(0.2, 40), (0.5, 20)])
    assert accounting.pld([(0.5, 20)], DELTA) < mixed[1] < accounting.pld([(0.5, 60)], DELTA)
    assert accounting.rdp([(0.5, 20)], DELTA) < mixed[2] < accounting.rdp([(0.5, 60)], DELTA)
