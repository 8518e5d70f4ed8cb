"""Cases that are prepared anew are those that were held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import leakmeter
from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.backend import Encoded
from leakmeter.core.case import Case, Document
from leakmeter.core.item import Origin
from leakmeter.core.loaded import HELD_TOKENS, LoadedCases, Preparations
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


Measuring = Callable[[list[Case], Path], object]
MEASURING: dict[str, Measuring] = {
    "influence": lambda cases, out: leakmeter.influence("toy", cases, controls=0, template="plain", out=out),
    "decode": lambda cases, out: leakmeter.decode("toy", cases, max_new_tokens=1, template="plain", out=out),
    "redact": lambda cases, out: leakmeter.redact("toy", cases, max_loss=9.0, controls=0, template="plain", out=out),
}


@pytest.mark.parametrize(
    ("name", "has_responses"),
    [("influence", True), ("decode", True), ("decode", False), ("redact", True), ("redact", False)],
)
def test_a_case_beyond_those_held_is_prepared_once_when_it_is_measured(
    name: str, has_responses: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepared: list[str] = []
    usual = Origin.prepare
    monkeypatch.setattr(
        Origin, "prepare", lambda origin, backend: (prepared.append(origin.case.id), usual(origin, backend))[1]
    )
    given = (origin.case for origin in ORIGINS)
    cases = [case if has_responses else replace(case, response=None) for case in given]
    for n_held in (0, 100, HELD_TOKENS):
        prepared.clear()
        monkeypatch.setattr(Preparations.__init__, "__defaults__", (n_held,))
        MEASURING[name](cases, tmp_path / f"{n_held}")
        # The first is prepared in any case, to see what the measure and the model cannot do, and has to fit too.
        again = ["c0"] if n_held == 0 else []
        assert sorted(prepared) == sorted([*again, *(case.id for case in cases)])


def test_a_first_case_that_is_drawn_is_prepared_before_any_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be drawn is refused before anything is written."""
    monkeypatch.setattr(Preparations.__init__, "__defaults__", (0,))
    cases = [replace(origin.case, response=None if number == 7 else "Anna") for number, origin in enumerate(ORIGINS)]
    checked: list[str] = []
    loaded = LoadedCases(tuple(cases))
    prepared, _ = loaded.prepared(Toy(), SETTINGS, MEASURE, lambda one: checked.append(one.item.id), deferred=True)
    assert checked == ["c0", "c7"]
    assert [one.item.id for one in prepared] == [case.id for case in cases]
    assert checked == ["c0", "c7", *(case.id for case in cases if case.id not in ("c0", "c7"))]


@pytest.mark.parametrize("is_above", [False, True])
def test_a_log_is_tokenised_once_also_beyond_what_stays_in_memory(
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
    assert [times[case.id] for case in cases] == [1] * 10
