"""Influence on the toy model against direct enumeration, to twelve digits; and properties of any model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import leakmeter
from helpers.examples import examples
from helpers.measure_items import ByHand, Series, make_item, readings_of
from helpers.report_snapshots import printed
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.drive import drive
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.errors import UsageError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.text.build import PromptSettings, prepare

N_VOCAB = 29


def random_toy_prompt(pieces: tuple[int, ...]) -> Prompt:
    rng = np.random.default_rng(1)

    def ids(n: int) -> tuple[int, ...]:
        return tuple(rng.integers(0, N_VOCAB, size=n).tolist())

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
    toy, y, placebo = Toy(N_VOCAB, seed=11), RESPONSES[response], (1, 2, 3)
    prompt = random_toy_prompt(CONTEXTS[context])
    names = prompt.names()
    groups = {"pair": (names[0], names[-1])} if len(names) > 2 else {}
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


NOTE = "Dr. Ellen Brandt: 555-010-7788. Brandt left."


def item_of(response: str | None = "Brandt", **how: Any) -> ContextItem:
    case = Case("case", (Document("note", NOTE),), "Who?", response)
    settings = PromptSettings(unit="entity", template="plain", **how)
    return prepare(case, Toy().tokenizer, settings, window=None, n_reserved=4).item


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_swapped_is_the_prompt_against_the_prompt_with_an_invention(weight: float) -> None:
    item, toy = item_of(swap=True), Toy()
    y = item.response or ()
    series = readings_of(toy, Influence(cid_lambda=weight), item)

    def rows(prompt: Prompt) -> np.ndarray:
        at = [np.asarray([*prompt.ids.tolist(), *y[:t]]) for t in range(len(y))]
        return np.stack([toy.logits(sequence, np.arange(len(sequence))) for sequence in at])

    def by_hand(prompt: Prompt) -> np.ndarray:
        logits = weight * rows(prompt) + (1 - weight) * rows(item.blank)
        return logits[range(len(y)), list(y)] - np.log(np.exp(logits).sum(axis=-1))

    for name, swap in item.swaps.items():
        expected = by_hand(item.prompt) - by_hand(swap)
        np.testing.assert_allclose(series[0, "swapped", name], expected, atol=1e-9)
    assert {piece for _, statistic, piece in series if statistic == "swapped"} == {"person1", "phone1"}


def test_swapping_changes_no_other_reading() -> None:
    plain = readings_of(Toy(), Influence(), item_of())
    swapped = readings_of(Toy(), Influence(), item_of(swap=True))
    assert set(plain) == {key for key in swapped if key[1] != "swapped"}
    for key, values in plain.items():
        np.testing.assert_array_equal(values, swapped[key])
    # Sampled responses are swapped once.
    series = readings_of(Toy(), Influence(samples=3, max_new_tokens=4), item_of(None, swap=True))
    assert {sample for sample, statistic, _ in series if statistic == "swapped"} == {0}


def test_the_case_object_says_type_mentions_repetition_rank_and_invention() -> None:
    how: dict[str, Any] = {"template": "plain", "unit": "entity", "swap": True}
    result = leakmeter.influence("toy", context=NOTE, query="Who?", response="Ms Brandt", **how)
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
    assert result.warnings == ()


def test_nothing_found_is_a_result_and_a_warning(tmp_path: Any) -> None:
    result = leakmeter.influence("toy", context="It rained.", query="Who?", response="Anna", unit="entity", samples=1)
    assert result.pieces == ()
    assert result.matrix.shape == (0, len(result.response.tokens))
    assert result.to_frame().shape[0] == 0
    assert result.whole_nats > 0
    assert "No personal data was found" in result.warnings[0]
    assert "No personal data" in result.save_html(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "no disclosure" in printed(InfluenceResult.report([result, replace(result, id="another")]))


N_TOKENS = 17


def ids(least: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, N_TOKENS - 1), min_size=least, max_size=most).map(tuple)


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    context = [Piece(f"c{i}", "context", x) for i, x in enumerate(draw(st.lists(ids(1, 4), min_size=1, max_size=4)))]
    return Prompt((Piece("open", "frame", draw(ids(1, 3))), *context, Piece("query", "query", draw(ids(1, 3)))))


def contrasts(series: Series) -> Series:
    kinds = ("whole", "without_this", "only_this", "placebo", "noise")
    return {key: values for key, values in series.items() if key[1] in kinds}


MEASURES = st.builds(
    Influence, temperature=st.sampled_from([0.7, 1.0, 2.0]), cid_lambda=st.sampled_from([0.0, 0.5, 1.0, 1.5])
)


@seed(6)
@settings(max_examples=examples(40))
@given(prompts(), ids(1, 4), st.booleans(), MEASURES)
def test_a_model_deaf_to_its_context_owes_it_nothing(
    prompt: Prompt, response: tuple[int, ...], masks: bool, measure: Influence
) -> None:
    item = make_item(prompt, response, masks=masks, placebo=(1, 2))
    for (_, statistic, piece), values in contrasts(readings_of(Toy(N_TOKENS, reach=1), measure, item)).items():
        if measure.cid_lambda == 1.5 and (statistic in ("whole", "only_this") or piece == "all"):
            # Against z∅ itself stands 1.5 z∅ − 0.5 z∅, which rounds. Measured: 3.6e-15.
            assert np.abs(values).max() <= 1e-14
        else:
            assert (values == 0).all(), (statistic, piece)


class Renamed(Toy):
    """The toy with its tokens renamed: token v is called new_name[v]."""

    def __init__(self, new_name: np.ndarray) -> None:
        super().__init__(N_TOKENS)
        old_name = np.argsort(new_name)
        self._last = self._last[np.ix_(old_name, old_name)]
        self._seen = self._seen[np.ix_(old_name, old_name)]


@seed(10)
@settings(max_examples=examples(30))
@given(prompts(), ids(1, 4), st.permutations(range(N_TOKENS)), st.booleans(), MEASURES)
def test_renaming_the_vocabulary_changes_nothing(
    prompt: Prompt, response: tuple[int, ...], names: list[int], masks: bool, measure: Influence
) -> None:
    def renamed(tokens: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(names[token] for token in tokens)

    other = Prompt(tuple(replace(piece, ids=renamed(piece.ids)) for piece in prompt.pieces))
    one = readings_of(Toy(N_TOKENS), measure, make_item(prompt, response, masks=masks))
    two = readings_of(Renamed(np.asarray(names)), measure, make_item(other, renamed(response), masks=masks))
    assert one.keys() == two.keys()
    for key, values in contrasts(one).items():
        # Only the order of sums over the vocabulary differs. Measured: 1.8e-15.
        np.testing.assert_allclose(two[key], values, rtol=0, atol=1e-14)


def test_company_and_order_of_trials_change_nothing() -> None:
    prompt = Prompt((Piece("o", "frame", (1, 2)), Piece("c", "context", (3, 4)), Piece("d", "context", (5,))))
    items = [make_item(prompt, response, id_=str(i)) for i, response in enumerate([(1,), (1, 2, 3), None, (4, 5)])]
    measure = Influence(max_new_tokens=4)
    alone = [readings_of(Toy(N_TOKENS), measure, item) for item in items]
    for order in (1, -1):
        together, _ = drive(Toy(N_TOKENS), [measure.trial(item) for item in items[::order]])
        for expected, measurements in zip(alone[::order], together, strict=True):
            got = {(r.sample, r.statistic, r.piece): r.values.tolist() for r in measurements}
            assert got == {key: values.tolist() for key, values in expected.items()}


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"temperature": 0.0}, "temperature is 0.0; it has to be above 0"),
        ({"temperature": float("nan")}, "temperature is nan"), ({"temperature": float("inf")}, "temperature is inf"),
        ({"cid_lambda": -0.1}, "cid-lambda is -0.1; it has to be 0 or more"),
        ({"cid_lambda": float("nan")}, "cid-lambda is nan"), ({"samples": -1}, "samples is -1; it has to be 0 or more"),
        ({"max_new_tokens": 0}, "max-new-tokens is 0"), ({"seed": -1}, "seed is -1"),
    ],
)  # fmt: skip
def test_parameters_without_meaning_are_refused(given_: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Influence(**given_)
