"""A context of at most so many tokens, whatever the window."""

from __future__ import annotations

import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document
from leakmeter.core.item import Prepared
from leakmeter.errors import UsageError
from leakmeter.text.build import PromptSettings, prepare

TEXT = "Anna Ek sang in Graz. Bo ate 🙂 soup. " * 5


def prepared(limit: int | None, *texts: str) -> Prepared:
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts or (TEXT,)))
    settings = PromptSettings(template="document", max_context_tokens=limit)
    return prepare(Case("one", documents, "Who?", "Anna"), Toy().tokenizer, settings, window=None, n_reserved=8)


@pytest.mark.parametrize("limit", [7, 33, 34, 35, 36, 100])
def test_no_more_tokens_than_asked_for_and_the_text_says_which(limit: int) -> None:
    one = prepared(limit)
    n = one.item.prompt.n_tokens("context")
    # Cut where a token begins, and without the space that is left at the end.
    assert limit - 4 <= n <= limit
    # Each byte is a token of the toy's: the space before the context is the template's.
    assert TEXT.startswith(one.context)
    assert n == len(one.context.encode())
    assert one.n_truncated_tokens == prepared(None).item.prompt.n_tokens("context") - n
    assert one.item.blank == prepared(None).item.blank


def test_a_limit_that_is_not_reached_changes_nothing_and_documents_are_cut_from_the_end() -> None:
    assert prepared(10_000) == prepared(None)
    assert [name for name, _, _ in prepared(10, "Anna sang.", "Bo ate.").documents] == ["d0"]
    with pytest.raises(UsageError, match="no text is left of a context cut to 1 tokens"):
        prepared(1, "🙂")  # which takes four tokens
    with pytest.raises(UsageError, match="max-context-tokens is 0; it has to be 1 or more"):
        PromptSettings(max_context_tokens=0)
