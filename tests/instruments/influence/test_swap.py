"""Swapped influence by direct enumeration of the toy model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.measure_items import readings_of
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Prompt
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.text.build import PromptSettings, prepare

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


def test_a_model_deaf_to_the_context_has_nothing_swapped() -> None:
    series = readings_of(Toy(reach=1), Influence(), item_of(swap=True))
    for (_, statistic, _), values in series.items():
        if statistic == "swapped":
            np.testing.assert_array_equal(values, 0.0)


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


def test_other_units_say_that_they_are_no_personal_data() -> None:
    import leakmeter

    (piece,) = leakmeter.influence("toy", context="Anna sang.", query="Who?", response="A", unit="whole").pieces
    assert (piece.entity_type, piece.repeated, piece.surrogate, piece.swapped_nats) == (None,) * 4
    assert (piece.rank, piece.n_mentions) == (1, 1)


def test_nothing_found_is_a_result_and_a_warning(tmp_path: Any) -> None:
    import leakmeter

    result = leakmeter.influence("toy", context="It rained.", query="Who?", response="Anna", unit="entity", samples=1)
    assert result.pieces == ()
    assert result.matrix.shape == (0, len(result.response.tokens))
    assert result.to_frame().shape[0] == 0
    assert result.whole_nats > 0
    assert "No personal data was found" in result.warnings[0]
    assert "No personal data" in result.save_html(tmp_path / "r.html").read_text(encoding="utf-8")
