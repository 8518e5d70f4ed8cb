"""Influence, and what is swapped, on the toy model against direct enumeration, to twelve digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.measure_items import ByHand, make_item, readings_of
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
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


NOTE = "Dr. Ellen Brandt: 555-010-7788. Brandt left."


def item_of(response: str | None = "Brandt", **how: Any) -> ContextItem:
    case = Case("case", (Document("note", NOTE),), "Who?", response)
    settings = PromptSettings(unit="entity", template="plain", **how)
    return prepare(case, Toy().tokenizer, settings, window=None, n_reserved=4).item


def by_hand(toy: Toy, prompt: Prompt, response: tuple[int, ...], weight: float, blank: Prompt) -> np.ndarray:
    def rows(one: Prompt) -> np.ndarray:
        ids = [*one.ids.tolist(), *response]
        at = [np.asarray(ids[: len(one.ids) + t]) for t in range(len(response))]
        return np.stack([toy.logits(sequence, np.arange(len(sequence))) for sequence in at])

    logits = weight * rows(prompt) + (1 - weight) * rows(blank)
    return logits[range(len(response)), list(response)] - np.log(np.exp(logits).sum(axis=-1))


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_swapped_is_the_prompt_against_the_prompt_with_an_invention(weight: float) -> None:
    item, toy = item_of(swap=True), Toy()
    assert item.response is not None
    series = readings_of(toy, Influence(cid_lambda=weight), item)
    whole = by_hand(toy, item.prompt, item.response, weight, item.blank)
    for name, swap in item.swaps.items():
        expected = whole - by_hand(toy, swap, item.response, weight, item.blank)
        np.testing.assert_allclose(series[0, "swapped", name], expected, atol=1e-9)
    assert {piece for _, statistic, piece in series if statistic == "swapped"} == {"person1", "phone1"}


def test_swapping_changes_no_other_reading() -> None:
    plain = readings_of(Toy(), Influence(), item_of())
    swapped = readings_of(Toy(), Influence(), item_of(swap=True))
    assert set(plain) == {key for key in swapped if key[1] != "swapped"}
    for key, values in plain.items():
        np.testing.assert_array_equal(values, swapped[key])


def test_sampled_responses_are_swapped_once() -> None:
    series = readings_of(Toy(), Influence(samples=3, max_new_tokens=4), item_of(None, swap=True))
    assert {sample for sample, statistic, _ in series if statistic == "swapped"} == {0}


def test_the_case_object_says_type_mentions_repetition_rank_and_invention() -> None:
    import leakmeter

    result = leakmeter.influence(
        "toy", context=NOTE, query="Who?", response="Ms Brandt", template="plain", unit="entity", swap=True
    )
    assert isinstance(result, InfluenceResult)
    person, phone = result.pieces
    assert (person.name, person.entity_type, person.entity_value) == ("person1", "person", "ellen brandt")
    assert (person.n_mentions, person.repeated, phone.repeated) == (2, "in part", "no")
    assert person.text == "Ellen Brandt … Brandt"
    assert sorted([person.rank, phone.rank]) == [1, 2]
    assert (person.rank == 1) == (person.nats > phone.nats)
    for piece in (person, phone):
        assert piece.surrogate
        assert piece.swapped_nats == pytest.approx(np.abs(piece.swapped_signed_per_token_nats).sum())
        assert piece.swapped_signed_nats == pytest.approx(sum(piece.swapped_signed_per_token_nats))
    assert result.pieces[0].swapped_nats == person.swapped_nats
    assert result.warnings == ()


def test_nothing_found_is_a_result_and_a_warning(tmp_path: Any) -> None:
    import leakmeter

    result = leakmeter.influence("toy", context="It rained.", query="Who?", response="Anna", unit="entity", samples=1)
    assert result.pieces == ()
    assert result.matrix.shape == (0, len(result.response.tokens))
    assert result.to_frame().shape[0] == 0
    assert result.whole_nats > 0
    assert "No personal data was found" in result.warnings[0]
    assert "No personal data" in result.save_html(tmp_path / "r.html").read_text(encoding="utf-8")
