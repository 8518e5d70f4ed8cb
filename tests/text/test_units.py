"""Names of units, and where they cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.text import units
from leakmeter.text.units import Unit


def test_names_of_units() -> None:
    for text in ("word", "sentence", "line", "paragraph", "document", "message", "whole"):
        assert units.parse(text) == Unit(text, n=0, stride=0)
    for text, n, stride in (("ngram:8", 8, 8), ("ngram:8:4", 8, 4), ("ngram:8:1", 8, 1), ("ngram:1", 1, 1)):
        assert units.parse(text) == Unit("ngram", n, stride)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("ngram", "ngram:", "ngram:0", "ngram:-1", "ngram:x", "ngram:1.5", "ngram:4:0", "ngram:4:2:1", "ngram: 4"),
         "whole numbers of at least 1"),
        (("ngram:4:8",), "a stride of at most N"),
        (("", "word:3", "sentence:1", "ngram:N", "ngram:N:STRIDE", "whole:"), "unit"),
        (("sentnce",), "did you mean 'sentence'"), (("Line",), "did you mean 'line'"),
        (("ngarm:4",), "did you mean 'ngram:N'"),
    ],
)  # fmt: skip
def test_what_is_no_unit_is_refused(texts: tuple[str, ...], message: str) -> None:
    for text in texts:
        with pytest.raises(UsageError, match=message) as caught:
            units.parse(text)
        assert f"'{text}'" in str(caught.value)
        if isinstance(caught.value, UnknownNameError):
            assert all(f"'{name}'" in str(caught.value) for name in units.NAMES)


@given(n=st.integers(1, 40), stride=st.integers(1, 40), n_tokens=st.integers(1, 200))
def test_every_token_is_in_a_window_whatever_the_stride(n: int, stride: int, n_tokens: int) -> None:
    windows = units.windows_in_tokens(Unit("ngram", n, min(stride, n)), n_tokens)
    assert {i for start, end in windows for i in range(start, end)} == set(range(n_tokens))
    assert len(set(windows)) == len(windows)
    assert not any(a != b and a[0] <= b[0] and b[1] <= a[1] for a, b in pairwise(windows))
    # Blocks tile, and a stride of one gives every n-gram once.
    blocks = units.windows_in_tokens(Unit("ngram", n, n), n_tokens)
    assert blocks == [(i, min(i + n, n_tokens)) for i in range(0, n_tokens, n)]
    every = [(0, n_tokens)] if n >= n_tokens else [(i, i + n) for i in range(n_tokens - n + 1)]
    assert units.windows_in_tokens(Unit("ngram", n, 1), n_tokens) == every


@given(text=st.text(max_size=80), data=st.data())
def test_anchors_never_decrease_and_stand_in_the_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    offsets = list(zip([0, *cuts], [*cuts, len(text)], strict=True))
    anchors = units.anchors(text, offsets)
    assert anchors == sorted(anchors)
    assert all(0 <= anchor < max(len(text), 1) for anchor in anchors)
    for anchor, (start, end) in zip(anchors, offsets, strict=True):
        if text[start:end].strip():
            first = start + len(text[start:end]) - len(text[start:end].lstrip())
            assert anchor == first


@given(starts=st.lists(st.integers(1, 60), max_size=8), anchors=st.lists(st.integers(0, 60), min_size=1, max_size=40))
def test_units_tile_tokens_and_characters(starts: list[int], anchors: list[int]) -> None:
    tiles = units.tiles(sorted({0, *starts}), sorted(anchors), 70)
    assert [i for (start, end), _ in tiles for i in range(start, end)] == list(range(len(anchors)))
    assert [i for _, (start, end) in tiles for i in range(start, end)] == list(range(70))
    for (first, last), (start, end) in tiles:
        assert all(start <= anchor < end for anchor in sorted(anchors)[first:last])
        assert last > first


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("word", "The  cat\nsat.", ["The  ", "cat\n", "sat."]),
        ("line", "one\ntwo\n\n  three", ["one\n", "two\n\n  ", "three"]),
        ("line", "one\r\ntwo\r\n", ["one\r\n", "two\r\n"]),
        ("paragraph", "a\nb\n\nc\n \nd", ["a\nb\n\n", "c\n \n", "d"]),
        ("paragraph", "a\r\n\r\nb", ["a\r\n\r\n", "b"]),
        ("sentence", "Dr. Smith met Mr. Jones. They ate. 🙂 Good!", ["Dr. Smith met Mr. Jones. ", "They ate. "]),
        ("sentence", "🙂🙂 Hi there. Yes, 😀 it is. Fine", ["🙂🙂 Hi there. ", "Yes, 😀 it is. ", "Fine"]),
        ("document", "One. Two.", ["One. Two."]),
    ],
)
def test_where_text_is_cut(kind: str, text: str, expected: list[str]) -> None:
    starts = units.starts_in_characters(kind, text)
    parts = [text[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert "".join(parts) == text
    assert parts[: len(expected)] == expected


@given(kind=st.sampled_from(["word", "sentence", "line", "paragraph", "document"]), text=st.text(max_size=200))
def test_starts_begin_at_zero_and_rise(kind: str, text: str) -> None:
    starts = units.starts_in_characters(kind, text)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert all(start < max(len(text), 1) for start in starts)
