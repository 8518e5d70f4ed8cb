"""Responses drawn from p̄: seeds, stops, and the distribution itself."""

from __future__ import annotations

import itertools
from dataclasses import make_dataclass
from typing import Any

import numpy as np
import pytest

from helpers.measure_items import ByHand, make_item
from leakmeter.backends.toy import Toy
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.sampling import bits_of, sample

N_VOCAB = 5
CONTEXT = (Piece("a", "context", (2, 2, 4)), Piece("b", "context", (3, 1)))
PROMPT = Prompt((Piece("open", "frame", (0, 1)), *CONTEXT, Piece("query", "query", (4, 0))))


def draw(
    item: ContextItem, *, n: int, seed: int = 0, most: int = 8, weight: float = 1.0, temperature: float = 1.0
) -> list:
    trial = sample(item, n=n, temperature=temperature, context_weight=weight, max_new_tokens=most, seed=seed)
    (responses,), _ = drive(Toy(N_VOCAB), [trial])
    return responses


OPEN = make_item(PROMPT, None)


def test_the_same_seed_gives_the_same_tokens_and_another_seed_others() -> None:
    first = draw(OPEN, n=3, seed=5)
    assert draw(OPEN, n=3, seed=5) == first
    assert all(one != other for one, other in zip(first, draw(OPEN, n=3, seed=6), strict=True))
    assert len(set(first)) == 3
    assert draw(OPEN, n=1, seed=5) == first[:1]
    assert draw(OPEN, n=3, seed=5, most=3) == [response[:3] for response in first]
    assert not set(first) & set(draw(make_item(PROMPT, None, id_="other"), n=3, seed=5))


@pytest.mark.long
@pytest.mark.parametrize("weight", [0.5, 1.0, 1.5])
def test_two_tokens_are_drawn_with_their_enumerated_probabilities(weight: float) -> None:
    temperature, n = 0.9, 2000
    drawn = draw(OPEN, n=n, most=2, weight=weight, temperature=temperature)
    pairs = list(itertools.product(range(N_VOCAB), repeat=2))
    toy = Toy(N_VOCAB)
    expected = n * np.exp([ByHand(toy, PROMPT, pair, weight, temperature).log_probs().sum() for pair in pairs])
    assert expected.sum() == pytest.approx(n, abs=1e-9)
    counts = np.asarray([drawn.count(pair) for pair in pairs])
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    chi_square = ((observed - wanted) ** 2 / wanted).sum()
    # Wilson-Hilferty 99 % point of chi-square with k degrees of freedom.
    k = len(observed) - 1
    limit = k * (1 - 2 / (9 * k) + 2.326 * np.sqrt(2 / (9 * k))) ** 3
    assert k >= 8
    assert chi_square < limit, (chi_square, limit)  # measured: 11.8 to 17.9 below limits of 36 to 39


def test_a_stop_token_ends_the_response_and_belongs_to_it() -> None:
    free = draw(OPEN, n=20, most=12)
    stopped = draw(make_item(PROMPT, None, stop_ids=(3, 4)), n=20, most=12)
    assert {len(response) for response in stopped} != {12}
    for whole, cut in zip(free, stopped, strict=True):
        ends = [t for t, token in enumerate(whole) if token in (3, 4)]
        assert cut == (whole[: ends[0] + 1] if ends else whole)


def test_nothing_is_run_that_is_not_used() -> None:
    chunks: list = []
    item = make_item(PROMPT, None, stop_ids=range(N_VOCAB))
    for weight in (1.0, 1.5):
        trial = sample(item, n=4, temperature=1.0, context_weight=weight, max_new_tokens=9, seed=0)
        (responses,), _ = drive(Toy(N_VOCAB), [trial], on_plan=chunks.append)
        assert [len(response) for response in responses] == [1] * 4
    # No round for responses that have ended, nor a bare branch that is not mixed in.
    assert [len(chunk.requests) for chunk in chunks] == [4, 4]
    assert [len(chunk.requests[0].prompts) for chunk in chunks] == [1, 2]


class Rule:
    def __init__(self, clip: float, notes: Any = None) -> None:
        self.clip, self.notes = clip, notes


class OtherRule(Rule):
    pass


FrozenRule = make_dataclass("FrozenRule", ["clip"], frozen=True)
Promising = make_dataclass("Promising", ["mechanism", ("samples", int, 1), ("seed", int, 3), ("nonce", Any, None)])


def test_one_seed_draws_independently_under_every_setting_of_a_rule() -> None:
    def bits(mechanism: Any, **more: int) -> int:
        return bits_of(Promising(mechanism, **more), OPEN)(0, 0).take(128, 0, 0)

    rules = [Rule(1.0), Rule(2.0), OtherRule(1.0), FrozenRule(1.0), FrozenRule(2.0), Rule, FrozenRule, None]
    drawn = [bits(rule) for rule in rules]
    assert len(set(drawn)) == len(rules)
    # What the settings are decides, not which object has them, nor what else it holds, nor how much is drawn.
    assert [bits(rule, samples=9) for rule in (Rule(1.0, notes=[Rule(2.0)]), Rule(2.0))] == drawn[:2]
