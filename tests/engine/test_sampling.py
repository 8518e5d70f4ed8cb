"""Of many cases some stand for the others in a prediction: how near it comes, and what it says of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine import prediction
from leakmeter.engine.prediction import EXACT_CASES, Predictor, forecast, predicted_cases, predictor_of
from leakmeter.engine.ready import make_ready
from leakmeter.engine.sampling import Sampling, outline_of
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

    def predict(self, *args: Any) -> Any:
        type(self).n += 1
        return Predictor.predict(self, *args)


@pytest.fixture
def counted() -> Counted:
    Counted.n = 0
    usual = predictor_of(Toy())
    return Counted(usual.backend, usual.device, usual.measure_speed)


def test_few_cases_are_predicted_one_by_one(counted: Counted) -> None:
    some = cases(EXACT_CASES)
    told, kept = forecast(counted, plan_of(some))
    assert Counted.n == len(told.cases) == told.n_cases == len(kept.cases) == EXACT_CASES
    assert (told.sampled_cases, told.tree_tokens_range, told.seconds_range) == (None, None, None)
    prepared = [SETTINGS.prepare(case, Toy(), MEASURE) for case in some]
    assert told == predicted_cases(predictor_of(Toy()), MEASURE, prepared)


def test_many_cases_take_no_longer_to_predict_and_are_estimated_with_a_range(counted: Counted) -> None:
    # Cases of one length take the same: exact totals are those of each length, as often as it occurs.
    prepared = [SETTINGS.prepare(case_of("one", length), Toy(), MEASURE) for length in LENGTHS]
    of_length = dict(zip(LENGTHS, predicted_cases(predictor_of(Toy()), MEASURE, prepared).cases, strict=True))
    taken = []
    for n in (100, 1000):
        Counted.n = 0
        told, _ = forecast(counted, plan_of(cases(n)))
        taken.append(Counted.n)
        assert (told.n_cases, told.cases) == (n, ())
        assert told.sampled_cases == Counted.n < n
        exact = [of_length[length] for length in lengths_of(n)]
        assert told.tree_tokens_range is not None
        assert told.tree_tokens_range[0] <= sum(one.tree_tokens for one in exact) <= told.tree_tokens_range[1]
        assert told.requests == pytest.approx(sum(one.requests for one in exact), rel=0.05)
        assert told.full_pass_tokens == pytest.approx(sum(one.full_pass_tokens for one in exact), rel=0.05)
        assert not told.at_most
    assert taken[0] == taken[1]


def test_what_is_sent_to_a_server_is_counted_case_by_case(counted: Counted) -> None:
    some = cases(EXACT_CASES + 10)
    counted.sent_beside = lambda items, n_parts: prediction.Sent(n_parts, 0)
    told, _ = forecast(counted, plan_of(some))
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
    told, kept = forecast(counted, plan_of([empty, *cases(100)], skip_bad=True))
    assert told.n_cases == 101
    # The shortest of all is always looked at.
    assert len(kept.problems) == 1


def test_a_large_run_is_not_gone_through_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    predicted: list[object] = []
    monkeypatch.setattr(Predictor, "predict", lambda *given: predicted.append(given))
    parts = list(make_ready(plan_of(cases(EXACT_CASES + 1)), Toy()).measure())
    assert predicted == []
    assert all(texts["cost"]["predicted"] == {"tree_tokens": None, "seconds": None} for texts, _ in parts)


def test_ranges_cover_the_total() -> None:
    """In 95 % of samples, about: of 300, at least 88 % (more than three standard deviations below)."""
    rng = np.random.default_rng(5)
    outlines = [(("a", "b", "c")[int(rng.integers(3))], int(rng.integers(5, 200))) for _ in range(400)]
    sizes = np.asarray([size for _, size in outlines])
    covered: dict[int, list[bool]] = {10: [], 24: [], 48: []}
    ratios: dict[int, list[float]] = {n_taken: [] for n_taken in covered}
    for seed in range(300):
        values = (20 + sizes) * sizes * rng.uniform(0.8, 1.2, len(sizes))
        sampling = Sampling.from_outlines(outlines, seed=seed)
        places = list(islice(sampling.places(seed), max(covered)))
        for n_taken in covered:
            taken = sorted(places[:n_taken])
            own = [float(values[sampling.order[place]]) for place in taken]
            estimate, error = float(sampling.weights(taken) @ own), sampling.relative_error(taken, own)
            assert error is not None
            ratios[n_taken].append(estimate / values.sum())
            covered[n_taken].append(abs(estimate - values.sum()) <= error * estimate)
    for n_taken in covered:
        assert np.mean(covered[n_taken]) >= 0.88, n_taken
        assert np.mean(ratios[n_taken]) == pytest.approx(1.0, abs=0.02), n_taken


def test_places_are_each_once_and_all_taken_give_the_total() -> None:
    rng = np.random.default_rng(0)
    outlines = [(shape, int(rng.integers(1, 9))) for shape in "abcdefg" for _ in range(7)]
    sampling = Sampling.from_outlines(outlines, seed=1)
    assert sorted(sampling.order) == list(range(49))
    assert len(set(sampling.shapes)) == 5
    taken = sorted(sampling.places(1))
    assert len(set(taken)) == len(taken) >= 40
    every = list(range(49))
    assert sampling.weights(every).tolist() == [1.0] * 49
    assert sampling.relative_error(every, [float(size) for size in sampling.sizes]) == 0.0
    assert sampling.relative_error([0], [1.0]) is None


def test_an_outline_needs_no_tokens() -> None:
    (case,) = cases(1)
    texts = (case.id, case.documents[0].name, case.documents[0].text, case.query, case.response or "")
    assert outline_of(case)[1] == sum(map(len, texts))
    assert outline_of(replace(case, response=None))[0] != outline_of(case)[0]
