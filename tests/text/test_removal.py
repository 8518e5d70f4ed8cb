"""Three ways of taking a piece away, and what is put in its place: nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.case import Case, Document
from leakmeter.errors import UnknownNameError, UsageError, WindowError
from leakmeter.text.build import PromptSettings, placebo_of, placebos, prepare

NOTE = "Anna Ek lives in Graz. Her phone is 555-010-7788. Bo asked twice.\nCall 555-010-7788 after four."
UNITS = ("word", "sentence", "line", "ngram:5", "ngram:5:2")


@pytest.mark.parametrize("unit", UNITS)
def test_masking_keeps_every_other_position(tokenizer: Any, prepared: Any, unit: str) -> None:
    item = prepared(NOTE, tokenizer=tokenizer, template="plain", unit=unit, removal="mask", group=True).item
    ids = item.prompt.ids.tolist()
    owners = [piece.name for piece in item.prompt.pieces for _ in piece.ids]
    for span in item.spans:
        cut = item.cuts[span.name]
        kept = [i for i, owner in enumerate(owners) if owner not in span.pieces]
        assert cut.positions.tolist() == kept
        assert cut.ids.tolist() == [ids[i] for i in kept]
        assert cut.next_position == item.prompt.next_position


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
@pytest.mark.parametrize("unit", ["sentence", "ngram:1"])
def test_where_the_prompt_ends_only_a_mask_leaves_a_gap(prepared: Any, unit: str, removal: str) -> None:
    item = prepared(NOTE[:30], template="{query}\n{context}", unit=unit, removal=removal).item
    cut = item.cuts[item.spans[-1].name]
    expected = item.prompt if removal == "mask" else cut
    assert cut.next_position == len(expected.ids)
    # Where something stands behind what is removed, no empty piece is left.
    first = item.cuts[item.spans[0].name]
    assert all(piece.ids for piece in first.pieces)


def test_a_value_never_takes_a_units_name() -> None:
    documents = (Document("v1", "Tel 555-010-7788."), Document("x", "Again 555-010-7788."))
    settings = PromptSettings(unit="document", group=True)
    item = prepare(Case("case", documents, "Who?", "Anna"), ByteTokenizer(), settings, window=None, n_reserved=1).item
    names = [span.name for span in item.spans]
    assert len(set(names)) == len(names) == 3
    assert set(item.cuts) == set(item.alone) == set(names)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        *(({"context": context}, "empty context") for context in (" \n\t", ["", "  "])),
        ({"query": " \n"}, "empty query"),
        ({"response": "  \n"}, "empty response"),
        ({"unit": "message"}, "needs a chat"),
        ({"context": "\ud800"}, "context is no valid Unicode"),
        ({"query": "a\udfff"}, "query is no valid Unicode.*character 1"),
        ({"response": "\udcff"}, "response is no valid Unicode"),
        ({"removal": "drup"}, "no removal named 'drup'; did you mean 'drop'"),
    ],
)
def test_what_cannot_be_measured_is_said(prepared: Any, given_: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message) as caught:
        prepared(**{"context": NOTE, **given_})
    assert "\n" not in str(caught.value)


def test_empty_documents_are_left_out(tokenizer: Any, prepared: Any) -> None:
    one = prepared(["", "Anna sang.", "  ", "Bo ate."], tokenizer=tokenizer, template="plain", unit="document")
    assert [span.name for span in one.item.spans] == ["d2", "d4"]
    two = prepared(["Anna sang.", "Bo ate."], tokenizer=tokenizer, template="plain", unit="document")
    assert one.item.prompt.ids.tolist() == two.item.prompt.ids.tolist()


def test_a_context_too_long_is_refused_with_its_numbers_or_cut(prepared: Any) -> None:
    text = "Anna sang. " * 100
    n_tokens = len(prepared(text, response="Hm.").item.prompt.ids) + len(" Hm.")
    of_what = r"\(1,100 of context, 34 of query and template, 4 of response\)"
    with pytest.raises(WindowError, match=f"needs {n_tokens:,} tokens {of_what} and 1,000 fit.*--truncate"):
        prepared(text, response="Hm.", window=1000)
    assert prepared(text, response="Hm.", window=n_tokens).n_truncated_tokens == 0
    # Room is kept for a response to be sampled.
    one = prepared(text, response=None, window=600, n_reserved=50, truncate=True)
    assert len(one.item.prompt.ids) <= 550
    assert one.n_truncated_tokens > 500
    with pytest.raises(WindowError, match="50 of response"):
        prepared(text, response=None, window=600, n_reserved=50)
    for window in (1, 20, 33, 36):
        with pytest.raises(WindowError, match="leaves no room for a context"):
            prepared("🙂🙂🙂", query="q", response="r", window=window, truncate=True)


def test_a_group_is_cut_wherever_it_is_said(tokenizer: Any, prepared: Any) -> None:
    one = prepared(NOTE, tokenizer=tokenizer, template="plain", unit="sentence", group=True, removal="retokenize")
    (value,) = [span for span in one.item.spans if span.kind == "value"]
    assert [one.context[a:b] for a, b in value.ranges] == ["555-010-7788", "555-010-7788"]
    left = NOTE.replace("is 555-010-7788.", "is .").replace("Call 555-010-7788 after", "Call after")
    again = prepared(left, tokenizer=tokenizer, template="plain", unit="whole").item
    assert one.item.cuts[value.name].ids.tolist() == again.prompt.ids.tolist()


def test_units_that_say_the_same_know_of_each_other(prepared: Any) -> None:
    spans = prepared(NOTE + " Bo asked twice.").item.spans
    said = {span.name: span.repeats for span in spans}
    assert said == {"s1": (), "s2": ("s4",), "s3": ("s5",), "s4": ("s2",), "s5": ("s3",)}


def test_placebos_are_put_in_and_nothing_else_is_changed(tokenizer: Any, prepared: Any) -> None:
    item = prepared(NOTE, tokenizer=tokenizer, template="plain").item
    assert 1 <= len(item.placebos) <= 3
    for placebo in item.placebos:
        assert placebo.without("placebo") == item.prompt
        assert len(placebo.ids) > len(item.prompt.ids)
    assert item.placebo_alone is not None
    held = {piece.name: piece.ids for piece in item.placebos[0].pieces if piece.role == "context"}
    assert [piece.ids for piece in item.placebo_alone.pieces if piece.role == "context"] == [held["placebo"]]


@pytest.mark.parametrize(("n_tokens", "n"), [(1, 1), (2, 2), (7, 7)])
def test_a_placebo_is_as_long_as_the_median_piece(tokenizer: Any, prepared: Any, n_tokens: int, n: int) -> None:
    item = prepared(NOTE, tokenizer=tokenizer, template="plain").item
    named = [replace(span, n_tokens=n_tokens) for span in item.spans]
    made = placebos(item.prompt, named, None, tokenizer)
    assert {len(placebo_of(one).ids) for one in made} == {n}


def test_text_that_a_vocabulary_drops_altogether_is_refused(chat_tokenizer: Any, prepared: Any) -> None:
    with pytest.raises(UsageError, match="none of the context's characters"):
        prepared("\x06", tokenizer=chat_tokenizer)
    with pytest.raises(UsageError, match="none of the response's characters"):
        prepared(NOTE, tokenizer=chat_tokenizer, response="\x06", template="chat")
    spans = prepared(["\x06", "Anna sang."], tokenizer=chat_tokenizer, unit="document").item.spans
    assert [(span.name, span.document) for span in spans] == [("d2", "d2")]


def test_truncation_drops_last_documents_first(prepared: Any) -> None:
    texts = ["Anna sang.", "Bo ate.", "Cid left."]
    full = prepared(texts, unit="document")
    window = len(full.item.prompt.ids) + len(full.item.response or ()) - 12
    one = prepared(texts, unit="document", window=window, truncate=True)
    assert [name for name, _, _ in one.documents] == ["d1", "d2"]
    assert one.context.startswith("Anna sang.\n\nBo")
    assert [one.context[a:b] for _, a, b in one.documents] == one.context.split("\n\n")
