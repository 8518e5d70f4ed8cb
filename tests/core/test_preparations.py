"""A case is prepared and tokenised once, and is the same whether it was held or packed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

import leakmeter
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core import registry
from leakmeter.core.backend import Encoded
from leakmeter.core.case import Case, Document
from leakmeter.core.counting import CountingBackend
from leakmeter.core.drive import drive
from leakmeter.core.item import Origin
from leakmeter.core.loaded import Preparations
from leakmeter.core.packed import PackedCases
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

SETTINGS, MEASURE = PromptSettings().resolved(), Influence()
ORIGINS = [
    Origin(Case(f"c{i}", (Document("a", f"Anna sang {i} songs. Bo ate."),), "Who?", "Anna"), SETTINGS, MEASURE)
    for i in range(9)
]


@pytest.mark.parametrize("held_tokens", [0, 100, 10_000])
def test_they_are_the_same_however_many_are_held(held_tokens: int) -> None:
    cases, every = Preparations(Toy(), held_tokens), [one.prepare(Toy()) for one in ORIGINS]
    for origin in ORIGINS:
        cases.append(origin)
    assert len(cases) == 9
    for number, one in enumerate(every):
        again, before = cases[number].item, one.item
        assert (again.prompt, again.spans, again.response) == (before.prompt, before.spans, before.response)
        assert dict(again.cuts) == dict(before.cuts)
        assert (cases.ids[number], cases.contexts[number]) == (one.item.id, one.context)
    assert [one.item.id for one in cases] == [one.item.id for one in every]
    assert [one.item.id for one in cases[2:20:3]] == ["c2", "c5", "c8"]
    assert cases[-1].item.id == "c8"
    with pytest.raises(IndexError):
        cases[9]


def test_few_stay_in_memory_and_none_that_cannot_be_prepared() -> None:
    cases = Preparations(Toy(), 100)
    for origin in ORIGINS:
        cases.append(origin)
    assert cases[0] is cases[0]
    assert cases[8] is not cases[8]
    with pytest.raises(LeakmeterError):
        cases.append(Origin(ORIGINS[0].case, replace(SETTINGS, template="chat"), MEASURE))
    assert len(cases) == 9


def test_what_is_in_memory_already_is_taken_as_it_is() -> None:
    every = [one.prepare(Toy()) for one in ORIGINS[:2]]
    cases = Preparations.from_prepared(every)
    assert cases[1] is every[1]
    assert cases.origins == list(ORIGINS[:2])
    assert Preparations.from_prepared(cases) is cases


@pytest.fixture
def tokenised(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text was tokenised as a whole prompt."""
    times = Counter[str]()
    usual = ByteTokenizer.encode_joined

    def counting(tokenizer: ByteTokenizer, parts: Sequence[tuple[str, bool]]) -> Encoded:
        times["".join(text for text, _ in parts)] += 1
        return usual(tokenizer, parts)

    monkeypatch.setattr(ByteTokenizer, "encode_joined", counting)
    return times


@pytest.mark.parametrize("held_tokens", [0, 100, 10_000])
def test_a_log_beyond_the_limits_is_prepared_and_tokenised_once(
    held_tokens: int,
    monkeypatch: pytest.MonkeyPatch,
    tokenised: Counter[str],
    tmp_path: Path,
) -> None:
    prepared: list[str] = []
    usual = Origin.prepare
    monkeypatch.setattr(
        Origin, "prepare", lambda origin, backend: (prepared.append(origin.case.id), usual(origin, backend))[1]
    )
    cases = [origin.case for origin in ORIGINS]
    before = leakmeter.influence("toy", cases, template="plain", unit="sentence", controls=0)
    of_texts = dict(tokenised)
    prepared.clear()
    tokenised.clear()
    monkeypatch.setattr(Preparations.__init__, "__defaults__", (held_tokens,))
    results = leakmeter.influence("toy", cases, template="plain", unit="sentence", controls=0, out=tmp_path)
    assert sorted(prepared) == [case.id for case in cases]
    wholes = [text for text in tokenised if any(case.documents[0].text in text for case in cases)]
    assert len(wholes) == len(cases)
    assert {tokenised[text] for text in wholes} == {1}
    # Nor is anything else of a case tokenised more often than where all are held.
    assert tokenised == of_texts
    assert [result.pieces for result in results] == [result.pieces for result in before]


@pytest.mark.parametrize("name", registry.instruments())
def test_cases_of_every_instrument_can_be_packed(name: str) -> None:
    toy, instrument = Toy(), registry.instrument(name)
    for response in (None, "the clinic"):
        example = instrument.example("one", response)
        known = {field.name for field in fields(instrument.measure)}
        measure = instrument.measure(**{key: given for key, given in example.parameters.items() if key in known})
        origin, packed = Origin(example.case, example.settings, measure), PackedCases()
        prepared = origin.prepare(toy)
        packed.keep(0, prepared, origin, toy)
        again = packed.read(0, origin, toy)
        assert again is not None
        assert again.texts() == prepared.texts()
        driven = [drive(CountingBackend(toy), [measure.trial(one.item)]) for one in (prepared, again)]
        assert repr(driven[0]) == repr(driven[1])


def test_what_cannot_be_packed_or_has_no_room_is_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    origin, toy = ORIGINS[0], Toy()
    without_room = PackedCases(100)
    without_room.keep(0, origin.prepare(toy), origin, toy)
    assert without_room.read(0, origin, toy) is None
    usual = Origin.prepare
    monkeypatch.setattr(
        Origin, "prepare", lambda origin, backend: replace(usual(origin, backend), template=lambda: "made on the spot")
    )
    cases = Preparations(Toy(), 0)
    cases.append(ORIGINS[0])
    assert cases[0].item.prompt == ORIGINS[0].prepare(Toy()).item.prompt
