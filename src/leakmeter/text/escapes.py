"""Texts with what JSON and Python write with a backslash as it is meant, as long as they were: `\\n` and `\\u0141`.

A tool's result and the arguments of a call are JSON, of which each character stays what the tool or the model wrote.
What is compared and recognised is what they mean: the sign stands where its escape began, and `FILL` behind it, so that
every place is one of the text as given too. Text that is no JSON and no literal of Python stays: `C:\\new` in prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from leakmeter.text.structured import QUOTE, STRING, TextRange, literals, parts_meant

FILL: Final = "\x7f"
"""Stands behind a sign for what is left of its escape; of ASCII, since comparing that is quicker."""
_DEEPEST: Final = 3
"""Levels of texts within texts."""
_FILLED = re.compile(f"{FILL}*+")
_LINE = re.compile(r'^[ \t]*+"((?:[^"\\\n]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+)"[ \t]*+$', re.MULTILINE)
"""A string of JSON that is a line by itself, or the whole text."""


def meant(text: str) -> str:
    """A text as long, in which strings of JSON and Python, also within such strings, say what they mean."""
    return _meant(text) if "\\" in text else text


def as_meant(text: str, start: int, end: int) -> str:
    """What characters [start, end) of a text mean."""
    return meant(text)[start:end].replace(FILL, "")


def past_fill(text: str, end: int) -> int:
    """Where the escape ends whose sign stands before a place of a text of `meant`."""
    match = _FILLED.match(text, end)
    assert match is not None
    return match.end()


@lru_cache(maxsize=16)
def _meant(text: str, depth: int = 0) -> str:
    parts: list[str] = []
    at = 0
    for start, end in _strings(text):
        if text.find("\\", start, end) >= 0:
            parts += [text[at:start], _unescaped(text[start:end], depth)]
            at = end
    return "".join([*parts, text[at:]])


def _strings(text: str) -> Iterator[TextRange]:
    """Characters within the quotes of each string that may have escapes."""
    done = 0
    for first, last in (*literals(text), (len(text), len(text))):
        for line in _LINE.finditer(text, done, first):
            # Where a record begins no line ends.
            if line.end() < first or first == last:
                yield line.span(1)
        done = last
        at = first if text.find("\\", first, last) >= 0 else last
        while opening := QUOTE.search(text, at, last):
            match = STRING.match(text, opening.start(), last)
            # The last string may be cut off.
            at = last if match is None else match.end()
            # Python reads no escapes behind an 'r'.
            if "r" not in opening.group().lower():
                yield opening.end(), last if match is None else at - 1


def _unescaped(raw: str, depth: int) -> str:
    parts = list(parts_meant(raw))
    read = "".join(part for part, _ in parts)
    if depth < _DEEPEST and "\\" in read:
        read = _meant(read, depth + 1)
    written: list[str] = []
    taken, end = 0, 0
    for part, at in parts:
        written += [FILL * (at - end), read[taken : taken + len(part)]]
        taken, end = taken + len(part), at + len(part)
    return "".join([*written, FILL * (len(raw) - end)])
