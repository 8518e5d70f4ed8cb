"""Entities as pieces of a prompt: which tokens go, what stays, and what the swapped prompt says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.core.prompt import CONTEXT
from leakmeter.errors import UsageError
from leakmeter.text.build import PromptSettings

NOTE = "Dr. Ellen Brandt (ellen@x.example) was seen on 3 May 1984.\nCall 555-010-7788. Brandt left: 555-010-7788."
WORDS = (
    "Dr. Ellen Brandt", "Brandt", "(ellen@x.example)", "555-010-7788,", "3 May 1984",
    "12 Main St, Springfield, IL 62704", "and", "naïve", "🙂", "“", "\n", "שלום", "Mrs", "e\u0301", "to:", "Name:",
)  # fmt: skip
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(60))


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
def test_all_mentions_go_together_and_the_rest_stays(tokenizer: Any, prepared: Any, removal: str) -> None:
    one = prepared(NOTE, tokenizer=tokenizer, template="plain", unit="entity", removal=removal)
    spans = {span.name: span for span in one.item.spans}
    assert list(spans) == ["person1", "email1", "date1", "phone1"]
    assert [[NOTE[a:b] for a, b in span.ranges] for span in spans.values()] == [
        ["Ellen Brandt", "Brandt"], ["ellen@x.example"], ["3 May 1984"], ["555-010-7788", "555-010-7788"],
    ]  # fmt: skip
    assert [span.entity.type for span in spans.values() if span.entity] == ["person", "email", "date", "phone"]
    for span in spans.values():
        left = tokenizer.decode(one.item.cuts[span.name].ids.tolist())
        for said in {NOTE[a:b] for a, b in span.ranges}:
            assert said not in left
        assert "was seen on" in left
        only = tokenizer.decode(one.item.alone[span.name].ids.tolist())
        assert all(NOTE[a:b] in only for a, b in span.ranges)
        assert "seen" not in only
    assert "seen" not in tokenizer.decode(one.item.blank.ids.tolist())


@SHARED
@given(context=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join).filter(str.strip))
@example("3 May 1984 \n")
def test_pieces_still_tile_the_context(tokenizer: Any, prepared: Any, context: str) -> None:
    one = prepared(context, tokenizer=tokenizer, template="plain", unit="entity").item
    whole = prepared(context, tokenizer=tokenizer, template="plain", unit="whole").item
    assert one.prompt.ids.tolist() == whole.prompt.ids.tolist()
    assert one.blank.ids.tolist() == whole.blank.ids.tolist()
    pieces = {piece.name: piece.ids for piece in one.prompt.pieces if piece.role == CONTEXT}
    for span in one.spans:
        assert set(span.pieces) <= set(pieces)
        # White space at a context's end is none, and goes with the last text of it.
        own = [name for name in span.pieces if not name.startswith("~")]
        assert span.n_tokens == sum(len(pieces[name]) for name in own)


def test_which_pieces_there_are(tokenizer: Any, prepared: Any) -> None:
    item = prepared("Nobody is named here.", unit="entity", swap=True).item
    assert (item.spans, item.placebos, dict(item.swaps)) == ((), (), {})
    # Groups add only what no entity holds.
    one = prepared(NOTE + " Code AB-1234, AB-1234.", unit="entity", group=True)
    assert [one.context[a:b] for s in one.item.spans if s.kind == "value" for a, b in s.ranges] == ["AB-1234"] * 2
    spans = prepared("File MRN-004711 of Nobody.", unit="entity", entity_patterns="mrn = MRN-\\d+").item.spans
    assert [span.name for span in spans] == ["mrn1"]
    # Two bytes a character: each is a token of its own, and all of them go.
    (span,) = prepared("氏名：山田太郎。", unit="entity", template="plain").item.spans
    assert span.n_tokens == len("山田太郎".encode())
    # A context that is one entity leaves the blank frame.
    item = prepared("ellen@x.example", tokenizer=tokenizer, template="plain", unit="entity", removal="mask").item
    assert item.cuts["email1"].ids.tolist() == item.blank.ids.tolist()
    assert item.cuts["email1"].next_position == len(item.blank.ids)


def test_the_swap_seed_decides(prepared: Any) -> None:
    def made(**how: Any) -> list[Any]:
        spans = prepared(NOTE, unit="entity", swap=True, **how).item.spans
        return [span.entity.invented for span in spans if span.entity]

    assert made() == made() != made(swap_seed=1)
    for how, message in (
        ({"swap": True}, "swap is for personal data; give unit 'entity'"),
        ({"unit": "word", "ner": "x"}, "ner is for personal data"),
        ({"unit": "sentence", "entity_patterns": "x"}, "entity-patterns is for personal data"),
        ({"unit": "entity", "swap_seed": -1}, "swap-seed is -1; it has to be 0 or more"),
    ):
        with pytest.raises(UsageError, match=message):
            PromptSettings(**how)  # type: ignore[arg-type]


def test_a_swapped_prompt_is_the_prompt_of_the_edited_text(tokenizer: Any, prepared: Any) -> None:
    one = prepared([NOTE, "Brandt again."], tokenizer=tokenizer, template="plain", unit="entity", swap=True)
    assert set(one.item.swaps) == {span.name for span in one.item.spans}
    for span in one.item.spans:
        assert span.entity is not None
        assert span.entity.invented is not None
        said = tokenizer.decode(one.item.swaps[span.name].ids.tolist())
        assert span.entity.invented in said
        for a, b in span.ranges:
            assert one.context[a:b] not in said
        assert "was seen on" in said
        if span.name == "phone1":
            edited = [NOTE.replace("555-010-7788", span.entity.invented), "Brandt again."]
            again = prepared(edited, tokenizer=tokenizer, template="plain", unit="whole").item
            assert one.item.swaps[span.name].ids.tolist() == again.prompt.ids.tolist()


def test_an_invention_that_does_not_fit_the_window_is_left_out(prepared: Any) -> None:
    context = "Mail e@x.co now."
    n = len(prepared(context, unit="entity", template="plain").item.prompt.ids)
    one = prepared(context, unit="entity", template="plain", swap=True, window=n + len("Anna") + 1)
    (span,) = one.item.spans
    assert span.entity is not None
    assert span.entity.invented is not None
    assert dict(one.item.swaps) == {}
