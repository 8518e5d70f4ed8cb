"""A text from which ranges of characters are cut, as it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

MARK: Final = "[…]"
"""Stands, where a redacted text is shown, for what was cut; what is measured has nothing in its place."""


def merged(ranges: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Ranges [start, end) in order, those that overlap or touch put together."""
    out: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def marked(context: str, ranges: Sequence[tuple[int, int]]) -> str:
    """The context with a mark for what is cut; where only white space is between, with one for all.

    Args:
        context: the text.
        ranges: characters [start, end) that are cut, in order and apart.
    """
    out, cursor = "", 0
    for start, end in ranges:
        between = context[cursor:start]
        if not (out.endswith(MARK) and not between.strip()):
            out += between + MARK
        cursor = end
    return out + context[cursor:]


def share(context: str, ranges: Iterable[tuple[int, int]]) -> float:
    """Of the characters that are no white space, those within the ranges."""
    n = sum(len("".join(context[start:end].split())) for start, end in ranges)
    return n / max(1, len("".join(context.split())))
