"""Stretches of a text: parts of a long one, the sentence around a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import sentencex

MOST_CHARACTERS: Final = 50_000
"""Of a part. What stands further apart is not told of one person, and finders are slow in what is long."""
_MOST_AROUND = 600
BLANK_LINE: Final = re.compile(r"\n[ \t\r]*\n")
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with halves of surrogate pairs replaced, so that it can be written."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def parts(text: str, most: int = MOST_CHARACTERS) -> Iterator[tuple[int, str]]:
    """Where each part begins, and the part: cut behind a blank line, else a line, else between words."""
    start = 0
    while len(text) - start > most:
        end = _cut(text, start + most // 2, start + most)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters [start, end) of the sentence, or sentences, that a place lies in.

    A sentence does not go over a blank line, nor further than 600 characters either way.
    """
    low, high = max(0, start - _MOST_AROUND), min(len(text), end + _MOST_AROUND)
    for blank in BLANK_LINE.finditer(text, low, start):
        low = blank.end()
    if blank_after := BLANK_LINE.search(text, end, high):
        high = blank_after.start()
    around = text[low:high]
    starts = [low + boundary["start_index"] for boundary in sentencex.get_sentence_boundaries("en", around)]
    first = max((at for at in starts if at <= start), default=low)
    last = min((at for at in starts if at >= end), default=high)
    said = text[first:last]
    return first + len(said) - len(said.lstrip()), first + len(said.rstrip())


def _cut(text: str, low: int, high: int) -> int:
    """Behind the last blank line, line or space that ends between two places; the second place where there is none."""
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, low, high)
        if found >= 0:
            return found + len(mark)
    return high
