"""What is cut: several spans together, what spans stand in, and contexts of at most so many tokens."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from leakmeter.backends.toy import ByteTokenizer, Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.item import ContextItem, Prepared
from leakmeter.errors import UsageError
from leakmeter.text.build import PromptSettings, prepare
from leakmeter.text.layout import without_characters

TEXT = "Anna Ek sang. Call 555-010-7788 now.  Bo ate. Or 555-010-7788 later."


def item_of(texts: tuple[str, ...] = (TEXT,), **settings: Any) -> ContextItem:
    case = Case("case", tuple(Document(f"d{i}", text) for i, text in enumerate(texts)), "Who?", "Anna.")
    return prepare(case, ByteTokenizer(), PromptSettings(**settings), window=500, n_reserved=0).item


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
def test_one_or_none_is_what_it_was(removal: str) -> None:
    item = item_of(removal=removal, group=True)
    assert item.window == 500
    assert item.without(()) is item.prompt
    assert item.cut_together is not None
    for span in item.spans:
        assert item.without((span.name,)) is item.cuts[span.name]
        assert item.cut_together((span.name,)) == item.cuts[span.name]


@pytest.mark.parametrize("removal", ["drop", "mask"])
@pytest.mark.parametrize("unit", ["sentence", "ngram:5:2", "word", "entity"])
def test_the_pieces_of_all_are_gone_and_no_others(unit: str, removal: str) -> None:
    item = item_of(unit=unit, removal=removal, group=True)
    ids = {(piece.name, piece.ids) for piece in item.prompt.pieces}
    for a, b in combinations(item.spans[:8], 2):
        cut = item.without((a.name, b.name))
        assert cut == item.without((b.name, a.name))
        kept = {(piece.name, piece.ids) for piece in cut.pieces if piece.ids}
        assert {name for name, _ in ids - kept} == {*a.pieces, *b.pieces}
        gone = len(item.prompt.ids) - len(cut.ids)
        assert cut.next_position == item.prompt.next_position - (0 if removal == "mask" else gone)


@pytest.mark.parametrize("removal", ["drop", "mask", "retokenize"])
def test_all_of_them_is_no_context_at_all(removal: str) -> None:
    item = item_of((TEXT, "Cid left. Dee slept."), removal=removal)
    assert item.without([span.name for span in item.spans]) == item.blank


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([], "One two. Three  four."), ([(0, 8)], "Three  four."), ([(9, 21)], "One two."),
        ([(4, 7)], "One . Three  four."), ([(4, 7), (0, 3)], ". Three  four."), ([(0, 5), (3, 8)], "Three  four."),
        ([(0, 3), (3, 8)], "Three  four."), ([(15, 16), (16, 20)], "One two. Three ."),
        ([(9, 14), (-4, 3), (-9, -5), (30, 40)], "two.  four."), ([(0, 99)], ""),
    ],
)  # fmt: skip
def test_characters_that_are_cut(ranges: list[tuple[int, int]], left: str) -> None:
    assert without_characters("One two. Three  four.", ranges) == left


def test_an_item_made_by_hand_says_what_it_lacks() -> None:
    item = item_of()
    with pytest.raises(ValueError, match="made without a way to cut 2 spans together"):
        replace(item, cut_together=None).without(("s1", "s2"))


def larger(*texts: str, unit: str = "sentence") -> list[tuple[str, str]]:
    """Kind and text of the spans that units stand in."""
    case = Case("case", tuple(Document(f"d{i}", text) for i, text in enumerate(texts, 1)), "Who?", "Anna.")
    settings = PromptSettings(unit=unit)
    made = prepare(case, ByteTokenizer(), settings, window=None, n_reserved=0, levels=True)
    spans = [span for span in made.item.spans if span.kind != "unit"]
    return [(span.kind, " | ".join(made.context[a:b] for a, b in span.ranges)) for span in spans]


def test_sentences_stand_in_the_documents_of_a_context_and_in_the_paragraphs_of_a_document() -> None:
    assert larger("Anna sang.", "Bo ate. Cid left.") == [("document", "Anna sang."), ("document", "Bo ate. Cid left.")]
    paragraphs = [("paragraph", "Anna sang."), ("paragraph", "Bo ate.")]
    assert larger("Anna sang.\n\nBo ate.") == paragraphs
    # Beside other documents only one of several paragraphs has them.
    documents = [("document", "Anna sang.\n\nBo ate."), ("document", "Cid left.")]
    assert larger("Anna sang.\n\nBo ate.", "Cid left.") == paragraphs + documents
    # What stands in one paragraph, or is as large, has nothing around it.
    assert larger("Anna sang. Bo ate.") == []
    assert larger("Anna sang.", "Bo ate.", unit="document") == []
    assert larger("Anna sang.\n\nBo ate.", unit="paragraph") == []


GRAZ = "Anna Ek sang in Graz. Bo ate 🙂 soup. " * 5


def prepared(limit: int | None, *texts: str) -> Prepared:
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts or (GRAZ,)))
    settings = PromptSettings(template="document", max_context_tokens=limit)
    return prepare(Case("one", documents, "Who?", "Anna"), Toy().tokenizer, settings, window=None, n_reserved=8)


@pytest.mark.parametrize("limit", [7, 33, 34, 35, 36, 100])
def test_no_more_tokens_than_asked_for_and_the_text_says_which(limit: int) -> None:
    one = prepared(limit)
    n = one.item.prompt.n_tokens("context")
    # Cut where a token begins, and without the space that is left at the end.
    assert limit - 4 <= n <= limit
    # Each byte is a token of the toy's: the space before the context is the template's.
    assert GRAZ.startswith(one.context)
    assert n == len(one.context.encode())
    assert one.n_truncated_tokens == prepared(None).item.prompt.n_tokens("context") - n
    assert one.item.blank == prepared(None).item.blank


def test_a_limit_that_is_not_reached_changes_nothing_and_documents_are_cut_from_the_end() -> None:
    assert prepared(10_000) == prepared(None)
    assert [name for name, _, _ in prepared(10, "Anna sang.", "Bo ate.").documents] == ["d0"]
    with pytest.raises(UsageError, match="a context cut to 1 tokens has no text left"):
        prepared(1, "🙂")  # which takes four tokens
    with pytest.raises(UsageError, match="max-context-tokens is 0; it has to be 1 or more"):
        PromptSettings(max_context_tokens=0)
