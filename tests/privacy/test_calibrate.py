"""Settings that keep to a target: the paper's tables to every digit, and never the wrong side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.errors import UsageError
from leakmeter.privacy.calibrate import Free, Target, calibrate
from leakmeter.privacy.clipped_logits import Aggregation
from leakmeter.privacy.rdp import guarantee

N_TOKENS = 50 * 40
DELTA = 1e-5
# ε, the setting, and the order at which it has this ε.
TABLE_4 = [(0.5, 68.58, 32), (1, 36.18, 18), (5, 8.53, 5), (10, 4.8, 3), (20, 2.81, 3), (50, 1.42, 2), (100, 0.94, 2)]
TABLE_5 = [(1, 0.55, 18), (5, 2.34, 5), (10, 4.16, 3), (50, 14.12, 2), (100, 21.20, 2)]
TABLE_6 = [(5, 214, 5), (10, 121, 4), (50, 36, 2), (100, 24, 2)]  # its third column, headed as an ε, holds the order


@pytest.mark.parametrize(
    ("free", "voting", "printed"),
    [
        ("temperature", Aggregation(10.0, 50, 1.0), TABLE_4),
        ("clip", Aggregation(1.0, 50, 2.0), TABLE_5),
        ("subset_size", Aggregation(10.0, 1, 2.0), TABLE_6),
    ],
)
def test_the_paper_s_tables(free: str, voting: Aggregation, printed: list[tuple[float, float, int]]) -> None:
    for epsilon, value, order in printed:
        target = Target(epsilon, DELTA, N_TOKENS)
        found = calibrate(voting, free.replace("_", "-"), target)  # type: ignore[arg-type]
        kept = target.guarantee(found.sensitivity())
        assert (round(getattr(found, free), 2), kept.order) == (value, order)
        if free != "subset_size":
            assert kept.epsilon == pytest.approx(epsilon, rel=1e-14)
        else:
            one_fewer = replace(found, subset_size=int(value) - 1)
            assert kept.epsilon <= epsilon < target.guarantee(one_fewer.sensitivity()).epsilon


def test_what_has_no_meaning_is_refused() -> None:
    for epsilon, delta, n_tokens, said in (
        (0.0, DELTA, 5, "epsilon is 0.0; it has to be above 0"),
        (math.nan, DELTA, 5, "epsilon is nan"),
        (math.inf, DELTA, 5, "epsilon is inf"),
        (1.0, DELTA, 0, "0 tokens cannot be generated; give 1 or more"),
        (1.0, 0.0, 5, "delta is 0.0; it has to be above 0 and below 1"),
    ):
        with pytest.raises(UsageError, match=said):
            calibrate(Aggregation(10.0, 50, 2.0), "temperature", Target(epsilon, delta, n_tokens))


DELTAS = st.sampled_from([1e-9, 1e-5, 0.01, 0.3])
ADJACENCIES, NORMALISE_BY = st.sampled_from(["add-remove", "replace-one"]), st.sampled_from(["fixed", "present"])


@seed(90)
@settings(max_examples=examples(60))
@given(
    st.builds(Target, st.floats(0.01, 1000), DELTAS, st.integers(1, 100_000), ADJACENCIES),
    st.builds(Aggregation, st.floats(0.01, 100), st.integers(2, 500), st.floats(0.01, 100), NORMALISE_BY),
)
def test_the_target_is_kept_and_the_next_setting_misses_it(target: Target, voting: Aggregation) -> None:
    epsilon = target.epsilon

    def epsilon_of(of: Aggregation) -> float:
        return guarantee(of.sensitivity(target.adjacency), target.n_tokens, target.delta).epsilon

    least = guarantee(0.0, target.n_tokens, target.delta).epsilon
    if epsilon <= least:
        with pytest.raises(UsageError, match="cannot be guaranteed"):
            calibrate(voting, "temperature", target)
        assert epsilon_of(replace(voting, temperature=1e12)) >= epsilon
        return
    # An ε is told from its neighbours to 1e-16 of itself, and moves with Δ² above its least.
    room = 1e-12 * (1 + epsilon / (epsilon - least))
    cases: dict[Free, Callable[[Aggregation], Aggregation]] = {
        "temperature": lambda of: replace(of, temperature=of.temperature * (1 - room)),
        "clip": lambda of: replace(of, clip=of.clip * (1 + room)),
        "subset-size": lambda of: replace(of, subset_size=of.subset_size - 1),
    }
    for free, less_private in cases.items():
        made, name = calibrate(voting, free, target), free.replace("-", "_")
        assert epsilon_of(made) <= epsilon
        assert replace(made, **{name: getattr(voting, name)}) == voting
        if free != "subset-size" or made.subset_size > (2 if voting.normalise_by == "present" else 1):
            assert epsilon_of(less_private(made)) > epsilon


@pytest.mark.parametrize("free", ["temperature", "clip", "subset-size"])
def test_what_cannot_be_reached_is_said(free: Free) -> None:
    voting = Aggregation(10.0, 50, 2.0)
    with pytest.raises(UsageError) as refused:
        calibrate(voting, free, Target(0.05, DELTA, N_TOKENS))
    assert str(refused.value) == (
        "epsilon 0.05 at delta 1e-05 cannot be guaranteed: with orders up to 100 the epsilon of every setting is above "
        "0.05972; give a larger epsilon or delta"
    )
    least = guarantee(0.0, N_TOKENS, DELTA).epsilon
    assert least == pytest.approx(0.0597, abs=5e-5)
    with pytest.raises(UsageError, match="cannot be guaranteed"):
        calibrate(voting, free, Target(least, DELTA, N_TOKENS))
    # A little more can be, at the cost of a high temperature; and that much at a larger δ; and so near to what cannot
    # be reached that one unit in the last place lies between.
    for epsilon, delta in ((0.06, DELTA), (0.05, 1e-4), (math.nextafter(least, 1.0), DELTA)):
        target = Target(epsilon, delta, N_TOKENS)
        assert target.guarantee(calibrate(voting, free, target).sensitivity()).epsilon <= epsilon
