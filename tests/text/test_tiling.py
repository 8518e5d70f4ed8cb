"""One tokenisation: every context token in one piece, every piece where its characters say, the text unchanged."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from leakmeter.core.item import Span
from leakmeter.core.prompt import CONTEXT
from leakmeter.errors import WindowError
from leakmeter.text.layout import LOOSE

# Stretches that tokenizers, sentence splitters and regular expressions stumble over.
STRETCHES = (
    "The cat sat. ", "Dr. No left at 5 p.m. ", "It cost $1,234.56! ", "\n", "\r\n", "\n\n", "\r\n\r\n", "\t", "   ",
    "  \n", "👩‍👩‍👧‍👦", "🙂", "e\u0301e\u0301 ", "שלום עולם. ", "مرحبا؟ ", "中文句子。", "\u2028", "\u00a0", "\u200b",
    "\ufeff", "ﬁ", "İ", "…", "x" * 40, "...", "—", '"Yes," she said. ', "<b>", "{query}", "{context}", "naïve café. ",
    "a.b.c ",
)  # fmt: skip


def _is_known(char: str) -> bool:
    # The default model's vocabulary has no token for control characters and planes without characters: it drops them.
    return not char.isspace() and unicodedata.category(char) not in ("Cc", "Cn", "Co")


texts = st.one_of(
    st.lists(st.sampled_from(STRETCHES), min_size=1, max_size=14).map("".join),
    st.text(min_size=1, max_size=60),
    st.lists(st.one_of(st.sampled_from(STRETCHES), st.text(max_size=6)), min_size=1, max_size=14).map("".join),
).filter(lambda text: any(map(_is_known, text)))
known_texts = texts.filter(lambda text: all(char in " \t\r\n" or _is_known(char) for char in text))
documents = st.lists(texts, min_size=1, max_size=3)
SEPARATOR = "\n\n"
TILING = ("word", "sentence", "line", "paragraph", "document", "whole", "ngram:1", "ngram:3", "ngram:16")
# The fixtures live as long as the session: hypothesis need not fear that examples disturb each other.
SHARED_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(100))


def said_by(span: Span) -> list[str]:
    """The pieces of its own that a span has, without the white space that goes with it."""
    return [name for name in span.pieces if not name.startswith(LOOSE)]


@SHARED_FIXTURES
@given(context=documents, unit=st.sampled_from(TILING), group=st.booleans())
def test_each_token_is_in_one_unit(tokenizer: Any, prepared: Any, context: list[str], unit: str, group: bool) -> None:
    one = prepared(context, tokenizer=tokenizer, template="plain", unit=unit, group=group)
    spans = [span for span in one.item.spans if span.kind == "unit"]
    held = Counter(name for span in spans for name in said_by(span))
    pieces = {piece.name: piece.ids for piece in one.item.prompt.pieces if piece.role == CONTEXT}
    pieces = {name: ids for name, ids in pieces.items() if not name.startswith(LOOSE)}
    assert set(held) == set(pieces)
    assert set(held.values()) == {1}
    assert [name for span in spans for name in said_by(span)] == list(pieces)
    assert sum(span.n_tokens for span in spans) == sum(map(len, pieces.values()))
    for span in spans:
        assert span.n_tokens == sum(len(pieces[name]) for name in said_by(span))


@SHARED_FIXTURES
@given(context=st.lists(known_texts, min_size=1, max_size=3), query=known_texts)
def test_a_prompt_decodes_to_its_text(chat_tokenizer: Any, prepared: Any, context: list[str], query: str) -> None:
    expected = f"Context: {SEPARATOR.join(context)}\n\nQuestion: {query}\nAnswer:"
    for tokenizer, start in ((None, "\n"), (chat_tokenizer, "")):
        one = prepared(context, tokenizer=tokenizer, template="plain", query=query)
        prompt = one.item.prompt.ids.tolist()
        decode = tokenizer.decode if tokenizer else lambda ids: bytes(ids).decode()
        assert decode(prompt) == start + expected
    assert one.context == SEPARATOR.join(context)


@SHARED_FIXTURES
@given(context=st.lists(known_texts, min_size=1, max_size=3), unit=st.sampled_from(TILING[:6]))
def test_character_ranges_tile_the_words(tokenizer: Any, prepared: Any, context: list[str], unit: str) -> None:
    one = prepared(context, tokenizer=tokenizer, template="plain", unit=unit)
    ranges = [part for span in one.item.spans for part in span.ranges]
    assert all(0 <= start < end <= len(one.context) for start, end in ranges)
    assert [start for start, _ in ranges] == sorted(start for start, _ in ranges)
    covered = {i for start, end in ranges for i in range(start, end)}
    assert all(i in covered for i, char in enumerate(one.context) if not char.isspace())
    for start, end in ranges:
        text = one.context[start:end]
        assert text == text.strip() or not text.strip()


@SHARED_FIXTURES
@given(context=texts, spare=st.integers(1, 60))
def test_a_truncated_prompt_fits_in_the_same_frame(tokenizer: Any, prepared: Any, context: str, spare: int) -> None:
    full = prepared(context, tokenizer=tokenizer, template="plain")
    n_context = full.item.prompt.n_tokens(CONTEXT)
    window = len(full.item.prompt.ids) + len(full.item.response or ()) - max(n_context - spare, 0)
    try:
        one = prepared(context, tokenizer=tokenizer, template="plain", window=window, truncate=True)
    except WindowError:
        # Only where not even a character fits: a letter may take several tokens.
        assert spare <= 16 or not context[: spare // 8].strip()
        return
    assert len(one.item.prompt.ids) + len(one.item.response or ()) <= window
    assert one.item.blank.ids.tolist() == full.item.blank.ids.tolist()
    assert context.startswith(one.context)
    n_left = one.item.prompt.n_tokens(CONTEXT)
    assert one.n_truncated_tokens == n_context - n_left
    assert (one.n_truncated_tokens == 0) == (one.context == context)
    for placebo in one.item.placebos:
        assert len(placebo.ids) + len(one.item.response or ()) <= window


@settings(SHARED_FIXTURES, max_examples=examples(40))
@given(context=documents, other=documents, query=texts)
def test_the_blank_frame_does_not_depend_on_the_context(
    tokenizer: Any, prepared: Any, context: list[str], other: list[str], query: str
) -> None:
    for template in ("plain", "{context} {query}", "{context}{query}", "{query}\n{context}"):
        blanks = {
            tuple(prepared(given_, tokenizer=tokenizer, template=template, query=query, **how).item.blank.ids.tolist())
            for given_ in (context, other, ["x"], ["\nx", "y"])
            for how in ({"unit": "whole"}, {"unit": "ngram:2", "group": True}, {"unit": "paragraph", "removal": "mask"})
        }
        assert len(blanks) == 1


@pytest.mark.parametrize("context", ["a  b", "\n\nAnna sang. ", "x \u2028\t y"])
def test_every_ngram_shows_some_of_the_text(prepared: Any, context: str) -> None:
    one = prepared(context, template="plain", unit="ngram:1")
    assert len(one.item.spans) == len(context.rstrip().encode())
    for span in one.item.spans:
        ((start, end),) = span.ranges
        assert 0 <= start < end <= len(context)


def test_words_are_words_in_any_tokenizer(tokenizer: Any, prepared: Any) -> None:
    context = "Zoë’s naïve  friend,\n\n  Łukasz-Jan (b. 1980) ate 🍎🍏 today"
    one = prepared(context, tokenizer=tokenizer, template="plain", unit="word")
    assert [one.context[a:b] for span in one.item.spans for a, b in span.ranges] == context.split()
