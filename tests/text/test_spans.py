"""Units and what they stand in, as spans of one prompt."""

from __future__ import annotations

from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.case import Case, Document
from leakmeter.text.build import PromptSettings, prepare


def larger(*texts: str, unit: str = "sentence") -> list[tuple[str, str]]:
    """Kind and text of the spans that units stand in."""
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts, 1))
    made = prepare(
        Case("case", documents, "Who?", "Anna."),
        ByteTokenizer(),
        PromptSettings(unit=unit),
        window=None,
        n_reserved=0,
        levels=True,
    )
    return [
        (span.kind, " | ".join(made.context[a:b] for a, b in span.ranges))
        for span in made.item.spans
        if span.kind != "unit"
    ]


def test_sentences_stand_in_the_documents_of_a_context() -> None:
    assert larger("Anna sang.", "Bo ate. Cid left.") == [("document", "Anna sang."), ("document", "Bo ate. Cid left.")]


def test_sentences_stand_in_the_paragraphs_of_a_document() -> None:
    assert larger("Anna sang.\n\nBo ate.") == [("paragraph", "Anna sang."), ("paragraph", "Bo ate.")]


def test_only_a_document_of_several_paragraphs_has_them_beside_other_documents() -> None:
    assert larger("Anna sang.\n\nBo ate.", "Cid left.") == [
        ("paragraph", "Anna sang."),
        ("paragraph", "Bo ate."),
        ("document", "Anna sang.\n\nBo ate."),
        ("document", "Cid left."),
    ]


def test_what_stands_in_one_paragraph_or_is_as_large_has_nothing_around_it() -> None:
    assert larger("Anna sang. Bo ate.") == []
    assert larger("Anna sang.", "Bo ate.", unit="document") == []
    assert larger("Anna sang.\n\nBo ate.", unit="paragraph") == []
