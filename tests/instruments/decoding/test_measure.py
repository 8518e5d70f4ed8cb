"""Decoding with a ledger: it says what scoring the same text says, and no more than the bound."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from helpers.measure_items import ByHand, make_item, readings_of
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution
from leakmeter.core.request import Request, Trial
from leakmeter.core.sampling import sample
from leakmeter.errors import UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.influence.measure import Influence
from leakmeter.stats.arrays import FloatArray

N_VOCAB = 9
FRAME, QUERY = Piece("open", "frame", (0, 1)), Piece("query", "query", (4, 0))
PROMPT = Prompt((FRAME, Piece("a", "context", (2, 2, 4)), Piece("b", "context", (3, 1)), QUERY))
OPEN = make_item(PROMPT, None)
TOY = Toy(N_VOCAB, seed=3)


def decoded(measure: Decode, item: ContextItem = OPEN) -> list[dict[str, FloatArray]]:
    """For each response, statistic to values."""
    receipts: dict[int, dict[str, FloatArray]] = defaultdict(dict)
    for (number, name, _), values in readings_of(TOY, measure, item).items():  # type: ignore[arg-type]
        receipts[number][name] = values
    return [receipts[number] for number in range(len(receipts))]


def response_of(receipt: dict[str, FloatArray]) -> tuple[int, ...]:
    return tuple(receipt["token"].astype(int).tolist())


def drawn(measure: Decode, item: ContextItem = OPEN) -> list[tuple[int, ...]]:
    return [response_of(receipt) for receipt in decoded(measure, item)]


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 1.5])
def test_receipts_sum_to_the_influence_of_the_whole_context(weight: float, temperature: float) -> None:
    measure = Decode(temperature=temperature, cid_lambda=weight, samples=3, max_new_tokens=8, seed=4)
    for receipt in decoded(measure):
        y = response_of(receipt)
        scored = readings_of(TOY, Influence(temperature=temperature, cid_lambda=weight), make_item(PROMPT, y))
        whole = scored[0, "whole", ""]
        np.testing.assert_allclose(receipt["log_prob"], scored[0, "log_prob", ""], rtol=0, atol=1e-13)
        np.testing.assert_allclose(receipt["log_prob"] - receipt["bare_log_prob"], whole, rtol=0, atol=1e-13)
        assert receipt["loss"].sum() == pytest.approx(np.abs(whole).sum(), abs=1e-12)  # measured: 8.9e-16
        hand = ByHand(TOY, PROMPT, y, weight, temperature)
        np.testing.assert_allclose(receipt["log_prob"], hand.log_probs(), rtol=0, atol=1e-13)
        np.testing.assert_allclose(receipt["bare_log_prob"], hand.bare_log_probs(), rtol=0, atol=1e-13)
        assert receipt["weight"].tolist() == [weight] * len(y)
        assert "promised_epsilon" not in receipt


@pytest.mark.parametrize("weight", [0.5, 1.0, 1.5])
def test_the_text_is_what_sampling_without_receipts_gives(weight: float) -> None:
    trial = sample(OPEN, n=3, temperature=0.9, context_weight=weight, max_new_tokens=8, seed=4)
    (texts,), _ = drive(TOY, [trial])
    assert drawn(Decode(temperature=0.9, cid_lambda=weight, samples=3, max_new_tokens=8, seed=4)) == texts


@pytest.mark.parametrize("epsilon", [None, 0.6])
@pytest.mark.parametrize("least", [0, 3, 6])
def test_a_response_read_off_as_it_is_drawn_is_scored_the_same(epsilon: float | None, least: int) -> None:
    measure = Decode(temperature=0.8, epsilon=epsilon, samples=3, min_new_tokens=least, max_new_tokens=6, seed=1)
    for receipt in decoded(measure, make_item(PROMPT, None, stop_ids=(3, 4, 5))):
        scored = make_item(PROMPT, response_of(receipt), stop_ids=(3, 4, 5))
        (again,) = decoded(Decode(temperature=0.8, epsilon=epsilon, min_new_tokens=least, max_new_tokens=6), scored)
        assert again.keys() == receipt.keys()
        for name, values in receipt.items():
            np.testing.assert_allclose(again[name], values, rtol=0, atol=1e-14)


def rows(prompt: Prompt, response: tuple[int, ...], temperature: float) -> FloatArray:
    def trial() -> Trial[Any]:
        (answer,) = yield [Request((prompt,), response, FullDistribution(temperature))]
        return answer.values[0, :-1]

    (values,), _ = drive(TOY, [trial()])
    return values


def mixed(prompt: Prompt, response: tuple[int, ...], weights: FloatArray, temperature: float) -> FloatArray:
    """log p̄ over the vocabulary at every step, from λ_t alone, (response, vocab)."""
    full, bare = (rows(p, response, temperature) for p in (prompt, prompt.blank()))
    out = weights[:, None] * full + (1 - weights[:, None]) * bare
    return out - np.log(np.exp(out).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.4, 3.0])
def test_two_contexts_are_never_further_apart_than_epsilon(epsilon: float, temperature: float) -> None:
    """One text under several contexts: at no step does any token of the vocabulary tell more than ε of which it was."""
    measure = Decode(temperature=temperature, epsilon=epsilon, lambda_max=1.5, max_new_tokens=10, seed=7)
    (receipt,) = decoded(measure)
    y = response_of(receipt)
    rng = np.random.default_rng(0)
    others = [tuple(rng.integers(0, N_VOCAB, size=n).tolist()) for n in (1, 3, 12, 40)]
    contexts = [Prompt((FRAME, Piece("other", "context", ids), QUERY)) for ids in others]
    made = []
    for prompt in (PROMPT, PROMPT.without("a"), PROMPT.without("b"), *contexts):
        (one,) = decoded(measure, make_item(prompt, y))
        made.append(mixed(prompt, y, one["weight"], temperature))
        assert (one["max_loss"] <= epsilon / 2).all()
        assert (one["loss"] <= one["max_loss"] + 1e-14).all()
        np.testing.assert_array_equal(one["spent_epsilon"], 2 * one["max_loss"])
        np.testing.assert_array_equal(one["promised_epsilon"], np.full(len(y), epsilon))
        # What a public receipt may show is the same for every context; every other statistic is a function of it.
        for name in ("token", "bare_log_prob", "promised_epsilon"):
            np.testing.assert_allclose(one[name], receipt[name], rtol=0, atol=1e-14)
    prior = rows(PROMPT.blank(), y, temperature)
    stacked = np.stack(made)
    # The mixtures are computed once more here, with rounding of their own; nearest to the bounds: 1.7e-13 below.
    assert np.abs(stacked - prior).max() <= epsilon / 2 + 1e-13
    assert np.abs(stacked[:, None] - stacked[None]).max() <= epsilon + 1e-13
    assert np.abs(stacked - prior).max() > 0.49 * epsilon


def test_a_large_epsilon_is_plain_decoding_with_the_largest_weight() -> None:
    bounded = decoded(Decode(epsilon=200.0, lambda_max=1.3, samples=2, max_new_tokens=6, seed=0))
    # Under a bound the same seed draws other tokens: they are scored here, and not drawn again.
    plain = [decoded(Decode(cid_lambda=1.3), make_item(PROMPT, response_of(one)))[0] for one in bounded]
    for one, other in zip(bounded, plain, strict=True):
        assert one["weight"].tolist() == other["weight"].tolist() == [1.3] * len(one["weight"])
        for name in other:
            # The largest loss is told with the errors of computing it.
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [None, 0.6])
def test_the_same_seed_gives_the_same_text_and_another_another(epsilon: float | None) -> None:
    one, two, other, short = (
        drawn(Decode(epsilon=epsilon, samples=3, max_new_tokens=most, seed=seed))
        for seed, most in ((5, 8), (5, 8), (6, 8), (5, 4))
    )
    assert one == two
    assert all(a != b for a, b in zip(one, other, strict=True))
    assert [response[:4] for response in one] == short


def test_a_bounded_decoding_without_a_seed_is_drawn_by_the_operating_system() -> None:
    with pytest.raises(UsageError, match=r"a bounded response needs random numbers; take `seeded\(\)`"):
        decoded(Decode(epsilon=0.6))
    one, two = (Decode(epsilon=0.6, samples=3, max_new_tokens=20).seeded() for _ in range(2))
    assert (one.seed, two.seed) == (None, None)
    assert one.nonce != two.nonce
    assert max(one.nonce or 0, two.nonce or 0) >= 2**96
    assert one.seeded() == one
    # Nobody can repeat it: the nonce is a name, and no seed.
    assert drawn(one) != drawn(one)
    assert Decode(epsilon=0.6, seed=5).seeded() == Decode(epsilon=0.6, seed=5)
    assert Decode().seeded() == Decode(seed=0)


@pytest.mark.long
def test_one_seed_serves_several_settings_and_contexts_without_a_tie() -> None:
    """With a bound of next to nothing all draw from one distribution: tokens agree as often as chance has it."""

    def first_tokens(item: ContextItem = OPEN, **more: Any) -> list[int]:
        given: dict[str, Any] = {"epsilon": 1e-9, "samples": 120, "max_new_tokens": 1, "seed": 5, **more}
        return [first for (first,) in drawn(Decode(**given), item)]

    first = first_tokens()
    assert first == first_tokens()
    assert first[:20] == first_tokens(samples=20)
    by_chance = float((np.exp(rows(PROMPT.blank(), (0,), 1.0)[0]) ** 2).sum())
    deviation = np.sqrt(by_chance * (1 - by_chance) / 120)
    another_context = make_item(Prompt((FRAME, Piece("a", "context", (8,)), QUERY)), None)
    another_case = make_item(PROMPT, None, id_="other")
    settings: list[dict[str, Any]] = [{"epsilon": 2e-9}, {"lambda_max": 0.5}, {"min_new_tokens": 1}, {"seed": 6}]
    for more in (*settings, {"item": another_context}, {"item": another_case}):
        agree = np.mean([a == b for a, b in zip(first, first_tokens(**more), strict=True)])
        assert abs(agree - by_chance) < 4 * deviation, more


@pytest.mark.parametrize("epsilon", [None, 0.6])
def test_lengths_and_stop_tokens(epsilon: float | None) -> None:
    item = make_item(PROMPT, None, stop_ids=(3, 4, 5, 6))
    free, longer = (
        drawn(Decode(epsilon=epsilon, samples=12, min_new_tokens=n, max_new_tokens=7, seed=0), item) for n in (0, 4)
    )
    assert len({len(y) for y in free}) >= 3
    assert min(map(len, free)) <= 4
    assert {len(y) for y in longer} <= {5, 6, 7}
    for y in (*free, *longer):
        assert not item.stop_ids.intersection(y[:-1])
        assert y[-1] in item.stop_ids or len(y) == 7
    never = decoded(Decode(epsilon=epsilon, min_new_tokens=7, max_new_tokens=7, samples=3, seed=0), item)
    assert {len(r["token"]) for r in never} == {7}
    # Ruled out in both branches: what is left is renormalised in both.
    for receipt in never:
        y = response_of(receipt)
        bare = rows(PROMPT.blank(), y, 1.0)
        bare[:, [3, 4, 5, 6]] = -np.inf
        expected = bare[np.arange(7), list(y)] - np.log(np.exp(bare).sum(axis=-1))
        np.testing.assert_allclose(receipt["bare_log_prob"], expected, rtol=0, atol=1e-13)


def test_a_response_that_could_not_have_been_drawn_is_refused() -> None:
    item = make_item(PROMPT, (1, 3, 2), stop_ids=(3,))
    with pytest.raises(UsageError, match=r"case 'hand' has a response with a stop token among its first 3; lower min-"):
        decoded(Decode(min_new_tokens=5), item)
    assert len(decoded(Decode(min_new_tokens=1), item)[0]["token"]) == 3


def test_a_step_runs_both_branches_once_and_nothing_afterwards() -> None:
    rounds: list[int] = []
    trial = Decode(epsilon=0.5, samples=2, max_new_tokens=5, seed=0).trial(OPEN)
    drive(TOY, [trial], on_plan=lambda chunk: rounds.append(sum(len(r.prompts) for r in chunk.requests)))
    assert rounds == [4] * 5
    # Under a bound every response is drawn apart.
    assert Decode(epsilon=2.0).together == 1 < Decode().together


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"temperature": 0.0}, "temperature is 0.0; it has to be above 0"), ({"samples": 0}, "samples is 0"),
        ({"cid_lambda": -1.0}, "cid-lambda is -1.0; it has to be 0 or more"), ({"seed": -1}, "seed is -1"),
        ({"epsilon": 0.0}, "epsilon is 0.0; it has to be above 0"), ({"epsilon": np.inf}, "epsilon is inf"),
        ({"epsilon": 1.0, "lambda_max": np.nan}, "lambda-max is nan"), ({"min_new_tokens": -1}, "min-new-tokens is -1"),
        ({"lambda_max": 2.0}, "lambda-max needs a bound; give epsilon too"),
        ({"epsilon": 1.0, "cid_lambda": 1.5}, "give lambda-max instead of cid-lambda"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "max-new-tokens is 8; it has to be 9 or more"),
        ({"max_new_tokens": 0}, "max-new-tokens is 0; it has to be 1 or more"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Decode(**given)
