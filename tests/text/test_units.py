"""Names of units, and where they cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.text import units
from leakmeter.text.units import Unit


@pytest.mark.parametrize("text", ["word", "sentence", "line", "paragraph", "document", "message", "whole"])
def test_a_plain_name_is_its_own_kind(text: str) -> None:
    assert units.parse(text) == Unit(text, n=0, stride=0)


@pytest.mark.parametrize(
    ("text", "n", "stride"), [("ngram:8", 8, 8), ("ngram:8:4", 8, 4), ("ngram:8:1", 8, 1), ("ngram:1", 1, 1)]
)
def test_an_ngram_has_a_length_and_a_stride(text: str, n: int, stride: int) -> None:
    assert units.parse(text) == Unit("ngram", n, stride)


@pytest.mark.parametrize(
    "text", ["ngram", "ngram:", "ngram:0", "ngram:-1", "ngram:x", "ngram:1.5", "ngram:4:0", "ngram:4:2:1", "ngram: 4"]
)
def test_an_ngram_without_whole_positive_numbers_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="whole numbers of at least 1") as caught:
        units.parse(text)
    assert f"'{text}'" in str(caught.value)


def test_a_stride_that_would_leave_tokens_out_is_refused() -> None:
    with pytest.raises(UsageError, match="stride is at most N"):
        units.parse("ngram:4:8")


@pytest.mark.parametrize(
    ("text", "meant"),
    [("sentnce", "sentence"), ("paragraf", "paragraph"), ("Line", "line"), ("words", "word"), ("ngarm:4", "ngram:N")],
)
def test_an_unknown_unit_is_guessed_and_all_are_listed(text: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{meant}'") as caught:
        units.parse(text)
    assert all(f"'{name}'" in str(caught.value) for name in units.NAMES)


@pytest.mark.parametrize("text", ["", "word:3", "sentence:1", "ngram:N", "ngram:N:STRIDE", "whole:"])
def test_what_looks_like_a_unit_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        units.parse(text)


@given(n=st.integers(1, 40), n_tokens=st.integers(1, 200))
def test_blocks_tile_the_tokens(n: int, n_tokens: int) -> None:
    windows = units.windows_in_tokens(Unit("ngram", n, n), n_tokens)
    assert windows[0][0] == 0
    assert windows[-1][1] == n_tokens
    assert all(before[1] == after[0] for before, after in pairwise(windows))
    assert all(end - start == n for start, end in windows[:-1])


@given(n=st.integers(1, 40), n_tokens=st.integers(1, 200))
def test_stride_one_gives_every_ngram_once(n: int, n_tokens: int) -> None:
    windows = units.windows_in_tokens(Unit("ngram", n, 1), n_tokens)
    if n >= n_tokens:
        assert windows == [(0, n_tokens)]
    else:
        assert windows == [(i, i + n) for i in range(n_tokens - n + 1)]


@given(n=st.integers(1, 20), stride=st.integers(1, 20), n_tokens=st.integers(1, 120))
def test_every_token_is_in_a_window_whatever_the_stride(n: int, stride: int, n_tokens: int) -> None:
    windows = units.windows_in_tokens(Unit("ngram", n, min(stride, n)), n_tokens)
    assert {i for start, end in windows for i in range(start, end)} == set(range(n_tokens))
    assert len(set(windows)) == len(windows)
    assert not any(a != b and a[0] <= b[0] and b[1] <= a[1] for a in windows for b in windows)


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


def test_a_token_of_spaces_goes_with_what_follows() -> None:
    assert units.anchors("a  b ", [(0, 1), (1, 3), (3, 4), (4, 5)]) == [0, 3, 3, 4]


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
