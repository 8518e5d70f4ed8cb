"""Of many cases some stand for the others in a prediction: how near it comes, and how many are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.cost import Sent
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine.prediction import EXACT_CASES, Predictor, forecast, predicted_cases, spread_evenly
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

MEASURE, SETTINGS = Influence(), PromptSettings(template="plain")


LENGTHS = range(1, 12)


def case_of(name: str, length: int) -> Case:
    return Case(name, (Document("d", " ".join(["Anna sang to Bo."] * length)),), "Who sang?", "Anna")


def lengths_of(n: int) -> list[int]:
    return np.random.default_rng(0).integers(LENGTHS.start, LENGTHS.stop, n).tolist()


def cases(n: int) -> tuple[Case, ...]:
    return tuple(case_of(f"c{i}", length) for i, length in enumerate(lengths_of(n)))


def plan_of(some: Sequence[Case], **more: Any) -> Plan:
    return Plan("influence", MEASURE, SETTINGS, LoadedCases(tuple(some), **more))


class Counted(Predictor):
    n = 0

    def predict(self, *args: Any, seed: int = 0) -> Any:
        type(self).n += seed == 0
        return Predictor.predict(self, *args, seed=seed)


@pytest.fixture
def counted() -> Counted:
    Counted.n = 0
    return Counted(Toy())


def test_few_cases_are_predicted_one_by_one(counted: Counted) -> None:
    some = cases(EXACT_CASES)
    told, kept = forecast(counted, plan_of(some))
    assert Counted.n == len(told.cases) == told.n_cases == len(kept.cases) == EXACT_CASES
    assert told.sampled_cases is None
    prepared, _ = LoadedCases(tuple(some)).prepared(Toy(), SETTINGS, MEASURE)
    again = predicted_cases(Predictor(Toy()), MEASURE, prepared)
    assert [case.tree_tokens for case in told.cases] == [case.tree_tokens for case in again.cases]


def test_many_cases_take_no_longer_to_predict_and_are_estimated(counted: Counted) -> None:
    # Cases of one length take the same: exact totals are those of each length, as often as it occurs.
    prepared = [SETTINGS.prepare(case_of("one", length), Toy(), MEASURE) for length in LENGTHS]
    # All but ten of a run, and one of a thousand, leave the noise to these.
    others = predicted_cases(Predictor(Toy()), MEASURE, prepared, measuring_noise=[False] * len(prepared))
    of_length = dict(zip(LENGTHS, others.cases, strict=True))
    for n in (100, 1000):
        Counted.n = 0
        told, _ = forecast(counted, plan_of(cases(n)))
        assert (told.n_cases, told.cases) == (n, ())
        assert told.sampled_cases == Counted.n == EXACT_CASES
        exact = [of_length[length] for length in lengths_of(n)]
        for name in ("requests", "tree_tokens", "full_pass_tokens"):
            assert getattr(told, name) == pytest.approx(sum(getattr(one, name) for one in exact), rel=0.3)
        assert not told.at_most


def test_those_looked_at_are_spread_evenly() -> None:
    assert spread_evenly(5, 8) == [0, 1, 2, 3, 4]
    assert spread_evenly(9, 3) == [1, 4, 7]
    for n in (33, 100, 10_007):
        numbers = spread_evenly(n, EXACT_CASES)
        assert len(set(numbers)) == EXACT_CASES
        gaps = np.diff([-1, *numbers, n])
        assert gaps.max() <= -(-n // EXACT_CASES)


def test_what_is_sent_to_a_server_is_counted_case_by_case(counted: Counted) -> None:
    some = cases(EXACT_CASES + 10)
    toy = Toy()
    toy.capabilities = replace(toy.capabilities, is_remote=True)
    toy.to_be_sent = lambda requests: Sent(0, 1)  # type: ignore[method-assign]
    toy.to_be_sent_beside = lambda items, n_parts: Sent(n_parts, 0)  # type: ignore[method-assign]
    told, _ = forecast(Counted(toy), plan_of(some))
    assert Counted.n == len(told.cases) == len(some)
    assert told.sampled_cases is None
    assert told.served is not None
    assert told.served.requests == len(some)


def test_cases_that_cannot_be_used_are_refused_or_left_out(counted: Counted) -> None:
    empty = Case("empty", (Document("d", ""),), "Who sang?", "Anna")
    with pytest.raises(LeakmeterError, match="empty"):
        forecast(counted, plan_of([empty] * 100))
    with pytest.raises(LeakmeterError, match="none of"):
        forecast(counted, plan_of([empty] * 100, skip_bad=True))
    every = list(cases(100))
    every[spread_evenly(100, EXACT_CASES)[0]] = empty
    told, kept = forecast(counted, plan_of(every, skip_bad=True))
    assert told.n_cases == 100
    assert len(kept.problems) == 1
