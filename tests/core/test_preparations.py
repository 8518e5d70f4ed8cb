"""Cases that are prepared anew are those that were held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import leakmeter
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.backend import Encoded
from leakmeter.core.case import Case, Document
from leakmeter.core.item import Origin
from leakmeter.core.loaded import HELD_TOKENS, Preparations
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


def test_a_case_beyond_those_held_is_prepared_twice_when_read_and_when_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepared: list[str] = []
    usual = Origin.prepare
    monkeypatch.setattr(
        Origin, "prepare", lambda origin, backend: (prepared.append(origin.case.id), usual(origin, backend))[1]
    )
    cases = [origin.case for origin in ORIGINS]
    leakmeter.influence("toy", cases, template="plain", out=tmp_path / "held")
    assert sorted(prepared) == [case.id for case in cases]
    monkeypatch.setattr(Preparations.__init__, "__defaults__", (0,))
    prepared.clear()
    leakmeter.influence("toy", cases, template="plain", out=tmp_path / "again")
    assert sorted(prepared) == sorted(2 * [case.id for case in cases])


@pytest.mark.parametrize("is_above", [False, True])
def test_a_log_is_tokenised_once_up_to_the_limit_and_what_is_beyond_it_twice(
    is_above: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_characters = HELD_TOKENS // 10 + (400 if is_above else -400)
    texts = [f"Anna has {i}. {'x' * n_characters}"[:n_characters] for i in range(10)]
    cases = [Case(f"c{i}", (Document("a", text),), "q", "r") for i, text in enumerate(texts)]
    times = Counter[str]()
    usual = ByteTokenizer.encode_joined

    def counting(tokenizer: ByteTokenizer, parts: Sequence[tuple[str, bool]]) -> Encoded:
        # Of the whole context: prompts with a sentence of it are other texts.
        whole = "".join(text for text, _ in parts)
        times.update(case.id for case, text in zip(cases, texts, strict=True) if text in whole)
        return usual(tokenizer, parts)

    monkeypatch.setattr(ByteTokenizer, "encode_joined", counting)
    leakmeter.influence("toy", cases, template="plain", unit="sentence", controls=0)
    n_held = 9 if is_above else 10
    assert [times[case.id] for case in cases] == [1] * n_held + [2] * (10 - n_held)
