"""Units of removal: where a document is cut, in characters or in tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sentencex

from leakmeter.core.long_work import checkpoint
from leakmeter.errors import UnknownNameError, UsageError

_BY_CHARACTER = {
    "word": re.compile(r"\S+\s*"),
    "line": re.compile(r"[^\n]*\n\s*|[^\n]+"),
    "paragraph": re.compile(r"(?:[^\n]|\n(?!\s*\n))+(?:\n\s*|$)"),
}
_MOST_AROUND = 600
BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
AUTO = "auto"
"""Sentences, and the documents that they stand in, for a measure that goes from documents to sentences."""
NAMES = (
    *("ngram:N", "ngram:N:STRIDE", "word", "sentence", "line", "paragraph", "entity", "document", "message", "whole"),
    AUTO,
)


@dataclass(frozen=True, slots=True)
class Unit:
    kind: str
    n: int = 0
    stride: int = 0


def parse(text: str) -> Unit:
    """'sentence', 'ngram:8', 'ngram:8:4' … to a unit."""
    kind, *numbers = text.split(":")
    if kind == "ngram":
        if not 1 <= len(numbers) <= 2 or not all(re.fullmatch(r"\d+", n) and int(n) > 0 for n in numbers):
            raise UsageError(f"unit '{text}' is not 'ngram:N' or 'ngram:N:STRIDE' with whole numbers of at least 1")
        n = int(numbers[0])
        stride = int(numbers[1]) if len(numbers) == 2 else n
        if stride > n:
            raise UsageError(f"unit '{text}' would leave tokens in no piece; give a stride of at most N")
        return Unit("ngram", n, stride)
    if numbers or text not in NAMES:
        raise UnknownNameError("unit", text, NAMES)
    return Unit(kind)


def starts_in_characters(kind: str, text: str) -> list[int]:
    """Where the units of a document begin; the first at 0, each reaching to the next: they tile the text."""
    if kind == "sentence":
        starts = [boundary["start_index"] for boundary in sentencex.get_sentence_boundaries("en", text)]
    elif kind in _BY_CHARACTER:
        starts = [match.start() for match in _BY_CHARACTER[kind].finditer(text)]
    else:
        starts = [0]
    return sorted({0, *starts})


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Characters [start, end) of the sentence, or sentences, that a place lies in. A sentence does not go over a blank
    line, nor further than 600 characters either way."""
    low, high = max(0, start - _MOST_AROUND), min(len(text), end + _MOST_AROUND)
    for blank in BLANK_LINE.finditer(text, low, start):
        low = blank.end()
    if blank_after := BLANK_LINE.search(text, end, high):
        high = blank_after.start()
    starts = [low + at for at in starts_in_characters("sentence", text[low:high])]
    first = max(at for at in starts if at <= start)
    last = min((at for at in starts if at >= end), default=high)
    sentence = text[first:last]
    return first + len(sentence) - len(sentence.lstrip()), first + len(sentence.rstrip())


def windows_in_tokens(unit: Unit, n_tokens: int) -> list[tuple[int, int]]:
    """Token ranges [start, end) of the n-grams of a document, the last one cut short by the end. Stride N gives blocks;
    stride 1 the sliding n-grams of the paper's Figures 3 and 4 (n_tokens − N + 1 of them)."""
    last = max(n_tokens - unit.n, 0)
    starts = list(range(0, last + 1, unit.stride))
    if starts[-1] + unit.n < n_tokens:
        starts.append(starts[-1] + unit.stride)
    return [(start, min(start + unit.n, n_tokens)) for start in starts]


def anchors(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The character that decides which unit each token belongs to, never decreasing. A token belongs where its first
    non-space character stands: byte-pair tokens begin on the space before the word. Tokens of spaces only, or without
    characters, go with what follows."""
    firsts: list[int | None] = []
    for start, end in offsets:
        checkpoint()
        firsts.append(next((i for i in range(start, end) if not text[i].isspace()), None))
    out: list[int] = []
    following = max(len(text) - 1, 0)
    for anchor in reversed(firsts):
        following = following if anchor is None else min(anchor, following)
        out.append(following)
    return out[::-1]


def tiles(
    starts: Sequence[int], anchors: Sequence[int], n_characters: int
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Character starts of units to the tokens [first, end) and characters [start, end) of each. A unit in which no
    token begins is none of its own: its characters go with those before, or at the start with those behind."""
    units: list[tuple[tuple[int, int], int]] = []
    token = 0
    for start, limit in zip(starts, (*starts[1:], None), strict=True):
        end = token
        while end < len(anchors) and (limit is None or anchors[end] < limit):
            end += 1
        if end > token:
            units.append(((token, end), start if units else 0))
        token = end
    ends = [start for _, start in units[1:]] + [n_characters]
    return [(tokens, (start, end)) for (tokens, start), end in zip(units, ends, strict=True)]


def merged(ranges: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Ranges [start, end) in order, joined where they overlap or touch."""
    out: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
