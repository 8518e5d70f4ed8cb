"""From measurements to the object that `leakmeter susceptibility --json` prints, and to what many objects say, by
hand."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from leakmeter.core.measure import NATS, Measurement
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.math import spread
from leakmeter.instruments.susceptibility.result import SusceptibilityResult, kinds_of
from leakmeter.stats.stats import interval_of_mean, interval_of_share

summary = SusceptibilityResult.summary
ANSWERED = (" Jane Austen.", "jane  AUSTEN, I think", " Mark Twain\n", " Janet", " Mark Twain")
STATED = (None, "Mark Twain", "Mark Twain", "Jane Austen")


def texts(n: int = 4, **more: Any) -> dict[str, Any]:
    contexts = [{"id": f"c{i}", "text": f"Text {i}.", "weight": 2.0, "answer": None} for i in range(1, n + 1)]
    return {
        "id": "q1", "model": "toy", "weights_sha256": None, "dtype": "float64", "template": "plain", "separator": "\n",
        "query": "Who wrote Emma?", "factors": {"form": "question"}, "answers": [], "answer": "Jane Austen",
        "contexts": contexts, "responses": [],
        "cost": {"requests": 6, "tree_tokens": 90, "naive_tokens": 300, "seconds": 0.1, "out_of_memory_retries": 0},
    } | more  # fmt: skip


def measurement(statistic: str, *values: float) -> Measurement:
    return Measurement("q1", 0, "", statistic, NATS, np.asarray(values, dtype=np.float64))


def measurements(
    persuasion: tuple[float, ...] = (0.25, 0.75, 0.0, 0.5),
    *,
    without: tuple[float, ...] | None = None,
    ceiling: float = 2.0,
    noise: float = 1e-5,
    **more: float,
) -> list[Measurement]:
    n, value = len(persuasion), math.fsum(persuasion) / len(persuasion)
    left = without or tuple((n * value - nats) / (n - 1) - 0.001 for nats in persuasion)
    one = {
        "susceptibility": value, "from_bare": value + 0.5, "mixture_from_bare": 0.5, "mixture_entropy": 3.0,
        "bare_entropy": 2.5, "ceiling": ceiling, "noise": noise,
    } | more  # fmt: skip
    return [
        measurement("persuasion", *persuasion),
        measurement("persuasion_from_bare", *(nats + 0.5 for nats in persuasion)),
        measurement("susceptibility_without", *left),
        *(measurement(name, number) for name, number in one.items()),
    ]


def case_object(told: dict[str, Any], found: list[Measurement]) -> SusceptibilityResult:
    (made,) = SusceptibilityResult.from_run([(told, found)], {"temperature": 1.0, "answer_tokens": 0})
    return made


def case(id_: str = "q1", persuasion: tuple[float, ...] = (0.25, 0.75, 0.0, 0.5), **more: Any) -> SusceptibilityResult:
    return case_object(texts(len(persuasion), id=id_, **more), measurements(persuasion))


def test_the_case() -> None:
    made = case()
    assert (made.susceptibility_nats, made.ceiling_nats, made.share_of_ceiling) == (0.375, 2.0, 0.1875)
    assert (made.from_bare_nats, made.mixture_from_bare_nats) == (0.875, 0.5)
    assert (made.bare_entropy_nats, made.mixture_entropy_nats) == (2.5, 3.0)
    assert (made.noise_floor_nats, made.below_noise_floor, made.n_contexts) == (1e-5, False, 4)
    assert (made.estimator, made.temperature, made.memorisation) == ("monte-carlo", 1.0, None)
    assert made.factors == {"form": "question"}
    assert [one.rank for one in made.contexts] == [3, 1, 4, 2]
    assert [one.persuasion_nats for one in made.contexts] == [0.25, 0.75, 0.0, 0.5]
    assert [one.weight for one in made.contexts] == [0.25] * 4
    assert [one.below_noise_floor for one in made.contexts] == [False, False, True, False]
    assert SusceptibilityResult.from_dict(json.loads(made.to_json())) == made


def test_bias_error_and_interval_are_the_jackknifes() -> None:
    made = case()
    without = [one.susceptibility_without_nats for one in made.contexts]
    pseudo = [4 * 0.375 - 3 * nats for nats in without]
    assert made.bias_nats == pytest.approx(-0.003)
    assert made.standard_error_nats == pytest.approx(np.std(pseudo, ddof=1) / 2)
    assert (made.interval_nats, made.bias_is_small) == (None, True)
    assert made.warnings == ("4 contexts are too few for statements about others: there is no interval.",)
    susceptibility, left_out = 0.375, np.random.default_rng(0).normal(0.3, 0.05, size=9)
    known = spread(susceptibility, left_out)
    assert known is not None
    assert known.interval == pytest.approx(interval_of_mean(9 * susceptibility - 8 * left_out, seed=0))


def test_what_narrows_a_result_is_said() -> None:
    biased = case_object(texts(), measurements(without=(0.3, 0.1, 0.35, 0.2)))
    few, said = biased.warnings
    assert few.startswith("4 contexts are too few")
    assert biased.bias_is_small is False
    assert "the value from 4 contexts is too small by 0.41 nats on average" in said
    deaf = case_object(texts(), measurements((0.0,) * 4, without=(1e-9, 0.0, 0.0, 0.0)))
    assert (deaf.below_noise_floor, deaf.warnings) == (True, (few,))
    full = case_object(texts(), measurements(ceiling=0.4))
    assert "near 0.40 nats, the most that 4 contexts can show" in full.warnings[1]
    two = case_object(texts(2), measurements((0.25, 0.75), without=(0.0, 0.0)))
    assert (two.interval_nats, two.bias_nats, two.bias_is_small, two.standard_error_nats) == (None,) * 4
    assert "2 contexts are too few for statements about others" in two.warnings[0]


def test_what_is_infinite_is_told_so_and_contexts_that_are_all_alike_have_nothing_to_tell() -> None:
    made = case_object(texts(), measurements(from_bare=math.inf, mixture_from_bare=math.inf))
    assert made.from_bare_nats == made.mixture_from_bare_nats == math.inf
    assert json.loads(made.to_json())["from_bare_nats"] == "Infinity"
    json.dumps(summary([made]).to_dict(), allow_nan=False)
    assert summary([made, case()]).mean_from_bare_nats == math.inf
    made = case_object(texts(), measurements((0.0,) * 4, without=(0.0,) * 4, ceiling=0.0))
    assert (made.share_of_ceiling, made.bias_nats, made.interval_nats) == (None, 0.0, None)
    with pytest.raises(UsageError, match="there are no queries"):
        summary([])


def memorised(right: str | None, stated: tuple[str | None, ...], answered: tuple[str, ...]) -> SusceptibilityResult:
    contexts = [one | {"answer": answer} for one, answer in zip(texts()["contexts"], stated, strict=True)]
    responses = [{"text": text, "tokens": []} for text in answered]
    return case_object(texts(answer=right, contexts=contexts, responses=responses), measurements())


def test_greedy_answers_are_the_original_that_of_the_context_or_neither() -> None:
    made = memorised("Jane Austen", ("Mark Twain", "Mark Twain", "Mark Twain", "Jane Austen"), ANSWERED)
    # The last states the right answer: whose it would be cannot be told.
    assert [one.greedy_answer_is for one in made.contexts] == ["original", "context", "neither", None]
    assert [one.greedy_answer for one in made.contexts] == list(ANSWERED[1:])
    assert made.memorisation is not None
    assert made.memorisation.to_dict() == {
        "knows": True, "n_original": 1, "n_context": 1, "n_neither": 1, "ratio": 0.5,
        "ratio_interval": list(interval_of_share(1, 2)),
    }  # fmt: skip
    silent = memorised("Jane Austen", (None, "Poe", None, None), ANSWERED).memorisation
    assert silent is not None
    assert (silent.n_neither, silent.ratio, silent.ratio_interval) == (1, None, None)


def test_without_a_known_answer_there_is_no_ratio() -> None:
    assert memorised(None, STATED, ANSWERED).memorisation is None
    assert memorised("Jane Austen", STATED, ()).memorisation is None
    unknown = memorised("Anne Brontë", STATED, ANSWERED)
    assert unknown.memorisation is not None
    assert (unknown.memorisation.knows, unknown.memorisation.ratio) == (False, None)
    told = summary([memorised("Jane Austen", ("Mark Twain",) * 4, ANSWERED), unknown, case()]).memorisation
    assert told is not None
    assert told.to_dict() == {
        "n": 2, "n_knows": 1, "n_original": 1, "n_context": 2, "n_neither": 1, "ratio": 1 / 3,
        "ratio_interval": list(interval_of_share(1, 3)),
    }  # fmt: skip
    assert summary([case()]).memorisation is None


@pytest.mark.parametrize(
    ("said", "kind"),
    [(" Rome", "original"), ("rome.", "original"), ("Romero", "neither"), ("ROME  is  it", "context"), ("", "neither")],
)
def test_the_longer_of_two_answers_that_fit_is_given(said: str, kind: str) -> None:
    assert kinds_of("Rome", ("Rome is",), ("Rome", said)) == (kind,)


def test_the_mean_and_the_ranks() -> None:
    cases = [case("a", (0.0, 0.5, 0.1)), case("b", (1.0, 2.0, 3.0)), case("c", (0.1, 0.1, 0.1))]
    told = summary(cases, seed=3)
    values = [0.2, 2.0, 0.1]
    assert (told.n, told.mean_nats, told.std_nats) == pytest.approx((3, 2.3 / 3, np.std(values)))
    assert told.interval_nats is None
    many = summary([case(str(n), (0.5 * n, 0.25 * n, 0.0)) for n in range(1, 9)], seed=3)
    assert many.interval_nats is not None
    assert many.interval_nats == pytest.approx(interval_of_mean(0.25 * np.arange(1.0, 9.0), seed=3))
    assert (told.quantiles_nats["0.5"], told.mean_from_bare_nats) == pytest.approx((0.2, 2.3 / 3 + 0.5))
    assert [row.id for row in told.queries] == ["b", "a", "c"]
    assert [(row.id, row.n) for row in told.contexts] == [("c3", 3), ("c2", 3), ("c1", 3)]
    assert told.contexts[0].mean_persuasion_nats == pytest.approx(3.2 / 3)
    assert (told.median_tree_tokens, told.share_below_noise_floor) == (90.0, 0.0)
    json.dumps(told.to_dict(), allow_nan=False)
    assert summary(cases[:1]).interval_nats is None


def test_factors_have_the_mean_of_each_level() -> None:
    cases = [
        case("a", (0.0, 0.5, 0.1), factors={"form": "question", "entity": "A"}),
        case("b", (1.0, 2.0, 3.0), factors={"form": "completion", "entity": "B"}),
        case("c", (0.4, 0.4, 0.4), factors={"form": "question"}),
    ]
    told = summary(cases).factors
    # A level of its own for each query says nothing that the query does not.
    assert set(told) == {"form"}
    rows = [(row.level, row.n, row.mean_nats) for row in told["form"]]
    assert rows == [("question", 2, pytest.approx(0.3)), ("completion", 1, pytest.approx(2.0))]
