"""Retrieved texts are found verbatim, whatever their white space, and each case that is unclear is refused."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.data.traces import DocumentPlace, LoggedMessage, Reason
from leakmeter.data.traces.answer import Unusable
from leakmeter.data.traces.places import FoundDocuments, Retrieved, find, normalised

A = "Anna sang at nine in the hall by the lake."
B = "Bo ate soup at noon with two friends from town."


def prompt(*contents: str, role: str = "user") -> list[LoggedMessage]:
    return [LoggedMessage(role, content) for content in contents]


def found(texts: list[str | None], *contents: str, leave_out: bool = False, ids: str = "abcdefgh") -> FoundDocuments:
    held = [Retrieved(id_, text) for id_, text in zip(ids, texts, strict=False)]
    return find(held, prompt(*contents), leave_out=leave_out)


def refused(texts: list[str | None], *contents: str) -> Reason:
    with pytest.raises(Unusable) as caught:
        found(texts, *contents)
    return caught.value.reason


def test_places_are_characters_of_the_message_as_it_was_sent() -> None:
    content = f"  Notes:\n\n{A.replace(' ', chr(10) + '  ')}\t\tAnd: {B} Who?"
    one = found([B, A], "Be brief.", content)
    first, second = one.documents
    assert [document.id for document in one.documents] == ["a", "b"]
    assert [content[p.start : p.end] for p in first.places] == [B]
    (place,) = second.places
    assert (place.message, normalised(content[place.start : place.end])) == (1, A)
    assert (second.text, second.content_hash) == (A, hashlib.sha256(A.encode()).hexdigest())


def slow(text: str, content: str) -> list[tuple[int, int]]:
    """By a pattern in which white space of the text matches any, and which neither begins nor ends within a word."""
    words = text.split()
    before = r"(?<![A-Za-z0-9])" if words[0][0].isascii() and words[0][0].isalnum() else ""
    behind = r"(?![A-Za-z0-9])" if words[-1][-1].isascii() and words[-1][-1].isalnum() else ""
    pattern = before + r"\s+".join(map(re.escape, words)) + behind
    return [match.span() for match in re.finditer(pattern, content)]


WORDS = st.lists(st.sampled_from(["aa", "b", "ü", "。", "aa,"]), min_size=1, max_size=4)
SPACES = st.sampled_from([" ", "\n", "  ", "\t\n", "\u00a0 ", "\r\n", "\x1f"])


OTHERS = st.lists(st.tuples(st.sampled_from(["aa", "b", "ü", "。", "x"]), SPACES), max_size=9)


@settings(max_examples=examples(200), deadline=None)
@given(words=WORDS, other=OTHERS, data=st.data())
def test_what_is_found_is_what_a_pattern_finds(words: list[str], other: Any, data: st.DataObject) -> None:
    spaced = "".join(word + data.draw(SPACES) for word in words)
    content = data.draw(SPACES) + "".join(word + space for word, space in other) + spaced + "; end"
    (document,) = found([" ".join(words)], content).documents
    assert [(place.start, place.end) for place in document.places] == slow(" ".join(words), content)


def test_which_documents_and_places_there_are() -> None:
    (document,) = found([A], f"{A} {A}", "no", f"again: {A}").documents
    assert [(p.message, p.start) for p in document.places] == [(0, 0), (0, len(A) + 1), (2, 7)]
    # Documents with the same text are one, one id with two texts two, and one without text is counted.
    one = found([A, B, A.replace(" ", "\n"), A], f"{A}\n{B}\n{A}", ids="abca")
    assert [(d.id, d.other_ids, len(d.places)) for d in one.documents] == [("a", ("c",), 2), ("b", (), 1)]
    one = found([A, B], f"{A} {B}", ids="aa")
    assert [d.id for d in one.documents] == ["a", "a"]
    assert one.documents[0].content_hash != one.documents[1].content_hash
    one = found(["", " \n", A], A)
    assert (len(one.documents), one.n_empty) == (1, 2)
    # Words of scripts without spaces may touch the template.
    assert found(["安娜九点唱歌"], "资料安娜九点唱歌问题").documents[0].places == (DocumentPlace(0, 2, 8),)
    # What the assistant said before is no place.
    messages = [*prompt("Who?"), *prompt(A, role="assistant"), *prompt(f"{A} So?")]
    (document,) = find([Retrieved("a", A)], messages).documents
    assert [place.message for place in document.places] == [2]


def test_a_place_within_a_longer_text_is_the_longer_ones() -> None:
    outer = f"Report. {A} Done."
    one = found([A, outer], f"{outer}\n\n{A}")
    n = len(outer)
    assert [d.places for d in one.documents] == [(DocumentPlace(0, n + 2, n + 2 + len(A)),), (DocumentPlace(0, 0, n),)]
    assert refused([A, outer], outer) is Reason.DOCUMENT_WITHIN_ANOTHER


def test_texts_that_share_a_part_of_the_prompt_are_refused() -> None:
    assert refused(["one two three", "three four"], "one two three four") is Reason.DOCUMENTS_OVERLAP
    assert len(found(["one two three", "three four"], "one two three. three four").documents) == 2


@pytest.mark.parametrize(
    ("text", "content", "reason"),
    [
        (A, "Who sang?", Reason.DOCUMENT_NOT_FOUND),
        (A, A[:-8], Reason.DOCUMENT_CHANGED),
        (A, A.replace("hall", "church"), Reason.DOCUMENT_NOT_FOUND),
        (A + " " + B, A + " and " + B, Reason.DOCUMENT_CHANGED),
        (A, A.upper(), Reason.DOCUMENT_NOT_FOUND),
        (None, A, Reason.DOCUMENT_WITHOUT_TEXT),
        ("cat", "concatenate", Reason.DOCUMENT_NOT_FOUND),
        ("Anna", "Annabel and Joanna", Reason.DOCUMENT_NOT_FOUND),
    ],
)
def test_texts_that_are_not_there_as_they_were_retrieved(text: str | None, content: str, reason: Reason) -> None:
    assert refused([text], content) is reason


def test_an_absent_document_can_be_left_out_unless_a_part_of_it_is_there() -> None:
    one = found([A, B], A, leave_out=True)
    assert [d.id for d in one.documents] == ["a"]
    assert [(d.id, d.content_hash) for d in one.absent] == [("b", hashlib.sha256(B.encode()).hexdigest())]
    with pytest.raises(Unusable):
        found([A, B], f"{A} {B[:-10]}", leave_out=True)
