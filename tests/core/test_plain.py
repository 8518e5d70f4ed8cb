"""Texts as a terminal or a page may be given them."""

from __future__ import annotations

from helpers.report_cases import HOSTILE
from leakmeter.core.plain import counted, distinct, excerpt, plural, visible


def test_visible_keeps_length_and_leaves_nothing_to_obey() -> None:
    shown = visible(HOSTILE)
    assert len(shown) == len(HOSTILE)
    assert not any(
        ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 or c in "\u202e\u2066" for c in shown
    )
    assert visible("a\r\nb\rc\td") == "a \nb\nc\td"
    shown.encode()


def test_excerpts_are_short_whatever_comes() -> None:
    assert excerpt("one\n two", 20) == "one two"
    assert len(excerpt("word " * 10**6, 40)) <= 40
    assert excerpt("", 10) == ""
    assert excerpt(HOSTILE, 10**6) == " ".join(visible(HOSTILE).split())


def test_a_number_has_its_form() -> None:
    assert [counted(n, "case") for n in (0, 1, 2, 1200)] == ["0 cases", "1 case", "2 cases", "1,200 cases"]
    assert [plural(n, "it says", "they say") for n in (0, 1, 2)] == ["they say", "it says", "they say"]


def test_hashes_are_as_short_as_they_can_be_told_apart() -> None:
    one, other, third = f"{'a' * 20}b{'c' * 40}", f"{'a' * 20}d{'c' * 40}", "e" * 64
    assert distinct([one, third, "short-name"]) == {
        one: f"{'a' * 12}…", third: f"{'e' * 12}…", "short-name": "short-name"
    }  # fmt: skip
    assert distinct([one, other])[one] == f"{'a' * 20}b…"
    assert distinct(["x" * 30, "x" * 31])["x" * 31] == "x" * 31
    assert distinct([]) == {}
