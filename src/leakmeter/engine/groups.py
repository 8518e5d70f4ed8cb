"""Which cases of a run are scored together: their prompts share what they have in common, which is run once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

MOST_TURNS: Final = 16
"""Emissions of one conversation that are scored together; a longer one is in several groups."""
MOST_CHARACTERS: Final = 32_000
"""Of the contexts of cases measured step by step that are scored together: they are done in some seconds."""
_FIRST_CHARACTERS: Final = 1_500
"""Of the first such group: each may have twice as many as the one before, so that the first findings come early."""


def groups_of(
    conversations: Sequence[str | None], size: int = 1, n_characters: Sequence[int] | None = None
) -> list[range]:
    """The numbers of the cases of each part: so many each at most, with those of a conversation together.

    Args:
        conversations: of each case the conversation that it is a turn of, or None.
        size: cases of a part; a conversation that is longer is a part of its own.
        n_characters: of each case's context, where parts also end by these.

    >>> groups_of([None, "a", "a", "b", None])
    [range(0, 1), range(1, 3), range(3, 4), range(4, 5)]
    >>> groups_of([None] * 5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    >>> groups_of([None, "a", "a", "b", None], 2)
    [range(0, 1), range(1, 3), range(3, 5)]
    >>> groups_of([None] * 9, 32, [1_000] * 9)
    [range(0, 1), range(1, 4), range(4, 9)]
    """
    out: list[range] = []
    n_used = 0
    for unit in _units(conversations):
        n_own = 0 if n_characters is None else sum(n_characters[unit.start : unit.stop])
        most = min(_FIRST_CHARACTERS << min(len(out) - 1, 16), MOST_CHARACTERS) if out else 0
        if out and unit.stop - out[-1].start <= size and (n_characters is None or n_used + n_own <= most):
            out[-1] = range(out[-1].start, unit.stop)
            n_used += n_own
        else:
            out.append(unit)
            n_used = n_own
    return out


def _units(conversations: Sequence[str | None]) -> Iterator[range]:
    """Cases that belong together: each alone, and the turns of a conversation."""
    first = 0
    for conversation, cases in groupby(conversations):
        last = first + len(list(cases))
        step = 1 if conversation is None else MOST_TURNS
        yield from (range(at, min(at + step, last)) for at in range(first, last, step))
        first = last
