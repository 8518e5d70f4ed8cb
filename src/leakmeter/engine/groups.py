"""Which cases of a run are scored together: their prompts share what they have in common, which is run once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

MOST_TURNS: Final = 16
"""Emissions of one conversation that are scored together; a longer one is in several groups."""


def groups_of(conversations: Sequence[str | None], size: int = 1) -> list[range]:
    """The numbers of the cases of each part: so many each; of one each, those of a conversation together.

    Args:
        conversations: of each case the conversation that it is a turn of, or None.
        size: cases of a part, as a measure needs them.

    >>> groups_of([None, "a", "a", "b", None])
    [range(0, 1), range(1, 3), range(3, 4), range(4, 5)]
    >>> groups_of([None] * 5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    n = len(conversations)
    if size > 1:
        return [range(first, min(first + size, n)) for first in range(0, n, size)]
    out: list[range] = []
    first = 0
    for conversation, cases in groupby(conversations):
        n_cases = len(list(cases))
        step = 1 if conversation is None else MOST_TURNS
        last = first + n_cases
        out += [range(at, min(at + step, last)) for at in range(first, last, step)]
        first = last
    return out
