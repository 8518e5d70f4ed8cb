"""Monte Carlo susceptibility on the toy model against full prompts and sums written out; and its properties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers import tiny_models as tiny
from helpers.naive import naive_logits
from helpers.query_items import ANSWERS, ByHand, query_item, readings_of
from leakmeter.backends.toy import Toy
from leakmeter.core.counting import CountingBackend, count
from leakmeter.core.drive import drive
from leakmeter.core.measure import NATS, TOKEN_ID
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.tree import Chunk
from leakmeter.errors import UsageError
from leakmeter.instruments.susceptibility.measure import ContextSet, QueryItem, Susceptibility, _differ

N_VOCAB = 29
SETS: dict[str, Any] = {"vocabulary": (), "answers": ANSWERS}
sets = pytest.mark.parametrize("answers", SETS.values(), ids=SETS)
PER_CONTEXT = ("persuasion", "persuasion_from_bare", "susceptibility_without")


def toy() -> Toy:
    return Toy(N_VOCAB, seed=11)


def by_hand(measure: Susceptibility, item: QueryItem, model: Toy | None = None) -> ByHand:
    used = model or toy()

    def logits(ids: Sequence[int]) -> np.ndarray:
        return used.logits(np.asarray(ids), np.arange(len(ids)))

    return ByHand(logits, measure, item)


def contexts_of(item: QueryItem) -> ContextSet:
    assert item.contexts is not None
    return item.contexts


def taken(item: QueryItem, numbers: Sequence[int], weights: Sequence[float]) -> QueryItem:
    """The item with these of its contexts, in this order, with these weights."""
    contexts, total = contexts_of(item), math.fsum(weights)
    prompts, shares = tuple(contexts.prompts[i] for i in numbers), tuple(weight / total for weight in weights)
    return replace(item, contexts=replace(contexts, prompts=prompts, weights=shares))


@sets
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.5, 4.0, 1.5)], ids=["equal", "weighted"])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_every_statistic_equals_the_naive_calculation(answers: Any, weights: Any, temperature: float) -> None:
    item = query_item(N_VOCAB, answers=answers, weights=weights)
    measure = Susceptibility(temperature=temperature)
    got, expected = readings_of(toy(), measure, item), by_hand(measure, item).series()
    # The toy has no neighbours.
    assert got.pop("noise").tolist() == [0.0]
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        # Worst measured: 4e-15.
        np.testing.assert_allclose(got[name], values, rtol=0, atol=2e-14, err_msg=name)
    assert got["susceptibility"][0] > (0.001 if answers else 0.01)


@sets
def test_another_order_of_contexts_and_other_company_change_nothing(answers: Any) -> None:
    weights, order = (1.0, 2.0, 0.5, 4.0, 1.5), [3, 0, 4, 2, 1]
    item = query_item(N_VOCAB, answers=answers, weights=weights)
    one = readings_of(toy(), Susceptibility(), item)
    two = readings_of(toy(), Susceptibility(), taken(item, order, [weights[i] for i in order]))
    for name, values in one.items():
        expected = values[order] if name in PER_CONTEXT else values
        np.testing.assert_allclose(two[name], expected, rtol=0, atol=2e-14, err_msg=name)
    others = [query_item(N_VOCAB, seed=i, id_=str(i), lengths=n) for i, n in enumerate([(3, 4), (2, 2, 2)])]
    (*_, together), _ = drive(toy(), [Susceptibility().trial(case) for case in (*others, item)])
    assert {r.statistic: r.values.tolist() for r in together} == {name: of.tolist() for name, of in one.items()}


@pytest.mark.parametrize("measure", [Susceptibility(), Susceptibility(answer_tokens=3)])
@sets
def test_the_toy_takes_what_was_predicted(measure: Susceptibility, answers: Any) -> None:
    item = query_item(N_VOCAB, answers=answers)
    prediction = count(CountingBackend(toy()), [measure.trial(item)])
    _, taken = drive(toy(), [measure.trial(item)])
    assert (prediction.n_tokens_run, prediction.n_prompts) == (taken.n_tokens_run, taken.n_prompts)
    assert prediction.is_upper_bound == bool(measure.answer_tokens)


def test_cases_and_parameters_without_meaning_are_refused() -> None:
    alone = taken(query_item(N_VOCAB), [2], [1.0])
    for refused in (Susceptibility().check, lambda item: next(Susceptibility().trial(item))):
        with pytest.raises(UsageError, match="case 'hand' has fewer than two contexts"):
            refused(alone)
    for parameters, message in (
        ({"temperature": 0.0}, "temperature is 0.0; it has to be above 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"answer_tokens": -1}, "answer-tokens is -1; it has to be 0 or more"),
    ):
        with pytest.raises(UsageError, match=message):
            Susceptibility(**parameters)  # type: ignore[arg-type]


def test_what_is_infinite_both_times_does_not_differ() -> None:
    once, twice = np.full((2, 2), np.inf), np.asarray([[0.0, 0.0], [np.inf, np.inf]])
    assert _differ(once, twice) == 0.0
    once[1, 0], twice[1, 0] = 1.0, 1.25
    assert _differ(once, twice) == 0.5


@sets
def test_contexts_that_come_twice_are_run_once_with_their_weights_added(answers: Any) -> None:
    item = query_item(N_VOCAB, answers=answers)
    one = readings_of(toy(), Susceptibility(), item)
    twice = [0, 1, 1, 2, 3, 4, 0]
    again = taken(item, twice, [0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 0.5])
    two = readings_of(toy(), Susceptibility(), again)
    expected = {name: values[twice] if name in PER_CONTEXT else values for name, values in one.items()}
    # One of two that are alike leaves the other.
    expected["susceptibility_without"] = by_hand(Susceptibility(), again).series()["susceptibility_without"]
    for name, values in expected.items():
        np.testing.assert_allclose(two[name], values, rtol=0, atol=2e-14, err_msg=name)
    chunks: list[Chunk] = []
    drive(toy(), [Susceptibility().trial(again)], on_plan=chunks.append)
    assert {len(request.prompts) for request in chunks[0].requests} >= {6}
    # Of different weights they cannot be one.
    uneven = taken(item, [0, 0, 1], [1.0, 3.0, 2.0])
    got, expected = readings_of(toy(), Susceptibility(), uneven), by_hand(Susceptibility(), uneven).series()
    for name in PER_CONTEXT:
        np.testing.assert_allclose(got[name], expected[name], rtol=0, atol=2e-14, err_msg=name)
    assert got["ceiling"][0] == pytest.approx(-(4 / 6 * math.log(4 / 6) + 2 / 6 * math.log(2 / 6)))


def test_queries_share_the_states_of_their_contexts() -> None:
    one = query_item(N_VOCAB)

    def other(prompt: Prompt) -> Prompt:
        return replace(prompt, pieces=(*prompt.pieces[:-1], Piece("query", "query", (9, 8, 7))))

    contexts = replace(contexts_of(one), prompts=tuple(map(other, contexts_of(one).prompts)))
    two = replace(one, id="two", prompt=other(one.prompt), contexts=contexts)
    chunks: list[Chunk] = []
    drive(toy(), [Susceptibility().trial(item) for item in (one, two)], on_plan=chunks.append)
    prompts = [prompt for item in (one, two) for prompt in (item.prompt, *contexts_of(item).prompts)]
    prefixes = {tuple(prompt.ids[:n].tolist()) for prompt in prompts for n in range(1, len(prompt.ids) + 1)}
    assert chunks[0].n_tree_tokens == len(prefixes) < sum(len(prompt.ids) for prompt in prompts) - 19


class Drifting(Toy):
    """Says a token a little likelier with every round."""

    drift = 0.0

    def score(self, chunk: Chunk) -> Any:
        self.drift = 1e-3 * chunk.round
        return super().score(chunk)

    def logits(self, ids: Any, positions: Any) -> Any:
        found = super().logits(ids, positions)
        found[3] += self.drift
        return found


@sets
def test_the_noise_is_twice_what_a_second_run_makes_to_a_persuasion(answers: Any) -> None:
    item = query_item(N_VOCAB, answers=answers)
    still = readings_of(toy(), Susceptibility(), item)
    got = readings_of(Drifting(N_VOCAB, seed=11), Susceptibility(), item)
    assert all(values.tolist() == still[name].tolist() for name, values in got.items() if name != "noise")
    few = taken(item, [0, 1, 3, 4], [1.0] * 4)
    later = Drifting(N_VOCAB, seed=11)
    later.drift = 1e-3
    once, twice = (by_hand(Susceptibility(), few, model).series() for model in (toy(), later))
    moved = max(np.abs(once[name] - twice[name]).max() for name in ("persuasion", "persuasion_from_bare"))
    assert got["noise"][0] == pytest.approx(2 * moved, rel=1e-6)
    assert got["noise"][0] > 1e-6


def test_greedy_answers_are_the_likeliest_tokens_one_by_one() -> None:
    item = query_item(N_VOCAB, stop_ids=frozenset({4}))
    measure = Susceptibility(answer_tokens=4)
    (measurements,), _ = drive(toy(), [measure.trial(item)])
    got = [r.values.astype(int).tolist() for r in measurements if r.statistic == "token"]
    hand = by_hand(measure, item)
    for prompt, ids in zip((item.prompt, *contexts_of(item).prompts), got, strict=True):
        expected: list[int] = []
        while len(expected) < 4 and 4 not in expected:
            expected.append(int(np.argmax(hand.next_token([*prompt.ids.tolist(), *expected]))))
        assert ids == expected


def test_tokens_that_a_model_rules_out() -> None:
    class Silent(Toy):
        """Never says a token behind the bare query."""

        def logits(self, ids: Any, positions: Any) -> Any:
            found = super().logits(ids, positions)
            found[3] = -np.inf if len(ids) == 6 else found[3]
            found[5] = -np.inf
            return found

    got = readings_of(Silent(N_VOCAB, seed=11), Susceptibility(), query_item(N_VOCAB))
    assert all(np.isinf(got[name]).all() for name in ("persuasion_from_bare", "mixture_from_bare"))
    assert all(np.isfinite(got[name]).all() for name in ("persuasion", "susceptibility_without", "noise"))


def test_known_noise_moves_a_persuasion_that_is_zero_too() -> None:
    """Where p is p̂ but for noise of ±δ, half the answers up and half down, Σ p log(p / p̂) is above 0."""
    delta, found = 0.01, np.zeros((3, 2))
    item = replace(query_item(29), model_noise_nats=delta)
    p = np.exp([delta, -delta]) / np.exp([delta, -delta]).sum()
    moved = float((p * np.log(p / np.asarray([0.5, 0.5]))).sum())
    noise = Susceptibility()._known_noise(item, found)
    assert 0.0 < moved <= noise
    assert Susceptibility()._known_noise(item, found + 0.5) > noise
    # Of an answer of three tokens each may be off: 6 δ instead of 2 δ, and its square.
    answers = (((3,), (4, 5, 6)), ((7,),))
    longer = replace(query_item(29, answers=answers), model_noise_nats=delta)
    assert Susceptibility()._known_noise(longer, found) == pytest.approx((6 * delta) ** 2)


def test_every_reading_says_what_it_is() -> None:
    (measurements,), _ = drive(toy(), [Susceptibility(answer_tokens=2).trial(query_item(N_VOCAB))])
    assert {r.unit for r in measurements if r.statistic != "token"} == {NATS}
    assert [len(r.values) for r in measurements if r.statistic in PER_CONTEXT] == [5, 5, 5]
    assert {r.unit for r in measurements if r.statistic == "token"} == {TOKEN_ID}
    assert [r.sample for r in measurements if r.statistic == "token"] == [0, 1, 2, 3, 4, 5]


@sets
def test_a_model_with_layers_gives_what_full_passes_do_and_takes_what_was_predicted(answers: Any) -> None:
    def logits(ids: Sequence[int]) -> Any:
        return naive_logits(tiny.tiny_model("llama"), Prompt((Piece("all", "frame", tuple(ids)),)), ())

    item = query_item(tiny.N_VOCAB, seed=3, lengths=(9, 4, 7, 1, 5, 6), answers=answers)
    backend, measure = tiny.tiny_backend(), Susceptibility()
    got = readings_of(backend, measure, item)
    for name, values in ByHand(logits, measure, item).series().items():
        # Worst measured: 8e-7.
        np.testing.assert_allclose(got[name], values, rtol=0, atol=2e-5, err_msg=name)
    assert got["noise"][0] < 2e-5
    assert got["susceptibility"][0] > 1e-3
    prediction = count(CountingBackend(backend), [measure.trial(item)])
    _, taken = drive(backend, [measure.trial(item)])
    assert (prediction.n_tokens_run, prediction.n_prompts) == (taken.n_tokens_run, taken.n_prompts)
