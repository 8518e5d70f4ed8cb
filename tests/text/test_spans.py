"""Units and what they stand in, as spans of one prompt."""

from __future__ import annotations

from leakmeter.backends.toy import ByteTokenizer
from leakmeter.core.case import Case, Document
from leakmeter.text.build import PromptSettings, prepare


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
