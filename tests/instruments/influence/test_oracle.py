"""Influence on the toy model against direct enumeration, to twelve digits."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.measure_items import ByHand, make_item, readings_of
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings, prepare

N_VOCAB = 29


def random_toy_prompt(seed: int, pieces: tuple[int, ...]) -> Prompt:
    rng = np.random.default_rng(seed)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in rng.integers(0, N_VOCAB, size=n))

    context = [Piece(f"c{i}", "context", ids(n)) for i, n in enumerate(pieces)]
    # A frame between the context's pieces, as a chat has.
    context.insert(1, Piece("turn", "frame", ids(2)))
    return Prompt((Piece("open", "frame", ids(3)), *context, Piece("query", "query", ids(4))))


CONTEXTS = {"one piece": (5,), "one token": (1,), "four pieces": (3, 1, 6, 2)}
RESPONSES = {"one token": (20,), "six tokens": (7, 0, 28, 28, 3, 3)}


@pytest.mark.parametrize(("weight", "temperature"), [(0.0, 0.7), (0.5, 2.0), (1.0, 1.0), (1.5, 0.7)])
@pytest.mark.parametrize("masks", [False, True], ids=["drop", "mask"])
@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_every_statistic_equals_direct_enumeration(
    context: str, response: str, masks: bool, weight: float, temperature: float
) -> None:
    toy = Toy(N_VOCAB, seed=11)
    prompt = random_toy_prompt(1, CONTEXTS[context])
    y = RESPONSES[response]
    names = prompt.names()
    groups = {"pair": (names[0], names[-1])} if len(names) > 2 else {}
    placebo = (1, 2, 3)
    item = make_item(prompt, y, masks=masks, groups=groups, placebo=placebo)
    got = readings_of(toy, Influence(temperature=temperature, cid_lambda=weight), item)

    hand = ByHand(toy, prompt, y, weight, temperature)
    whole, bare, everything = hand.log_probs(), hand.bare_log_probs(), set(names)
    expected = {
        (0, "token", ""): np.asarray(y, dtype=float),
        (0, "log_prob", ""): whole,
        (0, "whole", ""): whole - bare,
        (0, "placebo", "0"): hand.log_probs(extra=placebo) - whole,
        (0, "placebo_alone", ""): hand.log_probs(everything, extra=placebo) - bare,
        # Nothing the toy computes depends on its neighbours.
        (0, "noise", ""): np.zeros(len(y)),
    }
    for span in item.spans:
        gone = set(span.pieces)
        # The bare prompt's own entry is softmax(z∅/T), mixed with nothing; removing everything gives the same.
        cut = bare if gone == everything else hand.log_probs(gone, closes=not masks)
        expected[0, "without_this", span.name] = whole - cut
        expected[0, "only_this", span.name] = hand.log_probs(everything - gone) - bare
    assert got.keys() == expected.keys()
    for key, values in expected.items():
        # Measured: 3.6e-15 at most.
        np.testing.assert_allclose(got[key], values, rtol=0, atol=2e-14 if key[1] != "noise" else 0, err_msg=str(key))
    if weight:
        alone = [np.abs(values).max() for key, values in expected.items() if key[1] == "only_this"]
        assert max(alone) > 1e-2  # there was something to see


@pytest.mark.parametrize("removal", ["drop", "mask"])
@pytest.mark.parametrize("unit", ["word", "sentence", "ngram:5:2", "whole"])
def test_real_text_through_prepare_equals_direct_enumeration(unit: str, removal: str) -> None:
    toy = Toy()
    case = Case("text", (Document("note", "Ana is 41. She lives in Oslo."),), "Where?", "In Oslo.")
    item = prepare(case, ByteTokenizer(), PromptSettings(unit=unit, removal=removal), window=None, n_reserved=0).item
    assert item.response is not None
    got = readings_of(toy, Influence(temperature=0.8, cid_lambda=1.5), item)
    hand = ByHand(toy, item.prompt, item.response, 1.5, 0.8)
    names = set(item.prompt.names())
    for span in item.spans:
        gone = set(span.pieces)
        cut = hand.bare_log_probs() if gone == names else hand.log_probs(gone, closes=removal == "drop")
        expected = hand.log_probs() - cut
        # Measured: 3.6e-15.
        np.testing.assert_allclose(got[0, "without_this", span.name], expected, rtol=0, atol=2e-14)
        alone = ByHand(toy, item.alone[span.name], item.response, 1.5, 0.8)
        only = alone.log_probs() - hand.bare_log_probs()
        np.testing.assert_allclose(got[0, "only_this", span.name], only, rtol=0, atol=2e-14)


def test_mask_and_drop_are_not_the_same_thing() -> None:
    toy = Toy(N_VOCAB, seed=11)
    prompt = random_toy_prompt(1, CONTEXTS["four pieces"])
    dropped, masked = (
        readings_of(toy, Influence(), make_item(prompt, (7, 0), masks=masks))[0, "without_this", "c2"]
        for masks in (False, True)
    )
    assert np.abs(dropped - masked).max() > 1e-2
