"""Which cases of a run are scored together: their prompts share what they have in common, which is run once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from leakmeter.core.case import Case, conversation_of
from leakmeter.core.item import StepByStep
from leakmeter.core.registry import AnyCase

MOST_TURNS: Final = 16
"""Emissions of one conversation that are scored together; a longer one is in several groups."""
MOST_CHARACTERS: Final = 32_000
"""Of the contexts of cases measured step by step that are scored together, what they share counted once: they are done
in some seconds."""
MOST_HELD: Final = 256_000
"""Of these contexts, what they share counted for each: so much is prepared at a time, in some 50 MB."""
_FIRST_CHARACTERS: Final = 1_500
"""Of the first such group: each may have twice as many as the one before, so that the first findings come early."""
MOST_TELLING: Final = 8
"""Cases of a log that look most as if something were to be found: each is a part of its own, measured in a moment."""


def parts_of(
    cases: Sequence[AnyCase],
    size: int,
    steps: Sequence[StepByStep | None],
    telling: Callable[[Sequence[AnyCase]], Sequence[float]] | None = None,
) -> list[range]:
    """The numbers of the cases of each part of a run, by what is known before anything is tokenised.

    Args:
        cases: all of the run.
        size: cases of a part at most.
        steps: as a `Plan`'s, of each of these cases. Those that are measured completely take long: they are parts of
            their own where others are not, so that each is kept as it comes.
        telling: as a `Plan`'s.
    """
    conversations = [conversation_of(case) for case in cases]
    if not steps or size == 1:
        return groups_of(conversations, size)
    contexts = [None if step is None else _texts_of(case) for case, step in zip(cases, steps, strict=True)]
    if telling is not None:
        scores = telling(cases)
        for number in sorted(range(len(cases)), key=lambda number: -scores[number])[:MOST_TELLING]:
            contexts[number] = contexts[number] if scores[number] <= 0 else None
    return groups_of(conversations, size, contexts)


def _texts_of(case: AnyCase) -> Sequence[str]:
    return [document.text for document in case.context_documents] if isinstance(case, Case) else ()


def groups_of(
    conversations: Sequence[str | None], size: int = 1, contexts: Sequence[Sequence[str] | None] | None = None
) -> list[range]:
    """The numbers of the cases of each part: so many each at most, with those of a conversation together.

    Args:
        conversations: of each case the conversation that it is a turn of, or None.
        size: cases of a part; a conversation that is longer is a part of its own.
        contexts: of each case the texts of its documents in order, where parts also end by these; None of a case that
            is not scored with others.

    >>> groups_of([None, "a", "a", "b", None])
    [range(0, 1), range(1, 3), range(3, 4), range(4, 5)]
    >>> groups_of([None] * 5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    >>> groups_of([None, "a", "a", "b", None], 2)
    [range(0, 1), range(1, 3), range(3, 5)]
    >>> groups_of([None] * 9, 32, [[str(number) * 1_000] for number in range(9)])
    [range(0, 1), range(1, 4), range(4, 9)]
    >>> groups_of([None] * 9, 32, [["a rule " * 150, str(number)] for number in range(9)])
    [range(0, 9)]
    >>> groups_of([None] * 4, 32, [["a"], None, ["b"], ["c"]])
    [range(0, 1), range(1, 2), range(2, 4)]
    """
    out: list[range] = []
    read: dict[int, int] = {}
    n_run = n_held = 0
    is_open = False
    beginnings = _Beginnings()
    for unit in _units(conversations):
        own = [] if contexts is None else contexts[unit.start : unit.stop]
        is_alone = any(context is None for context in own)
        begun = [beginnings.of(context) for context in own if context is not None]
        unread = {at: n for beginning in begun for at, n in beginning.items() if at not in read}
        n_run, n_held = n_run + sum(unread.values()), n_held + sum(sum(beginning.values()) for beginning in begun)
        most = min(_FIRST_CHARACTERS << min(len(out) - 1, 16), MOST_CHARACTERS) if out else 0
        fits = contexts is None or (n_run <= most and n_held <= MOST_HELD)
        if is_open and not is_alone and fits and unit.stop - out[-1].start <= size:
            out[-1] = range(out[-1].start, unit.stop)
            read |= unread
        else:
            out.append(unit)
            read = {at: n for beginning in begun for at, n in beginning.items()}
            n_run, n_held = sum(read.values()), sum(sum(beginning.values()) for beginning in begun)
        is_open = not is_alone
    return out


class _Beginnings:
    """What prompts begin with, each by a number: a document behind the same documents, which a model runs once for all
    prompts of a part."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}

    def of(self, context: Sequence[str]) -> dict[int, int]:
        """Of the beginnings that end with each document of a context, the characters of that document."""
        out: dict[int, int] = {}
        number = 0
        for text in context:
            number = self._numbers.setdefault((number, text), len(self._numbers) + 1)
            out[number] = len(text)
        return out


def _units(conversations: Sequence[str | None]) -> Iterator[range]:
    """Cases that belong together: each alone, and the turns of a conversation."""
    first = 0
    for conversation, cases in groupby(conversations):
        last = first + len(list(cases))
        step = 1 if conversation is None else MOST_TURNS
        yield from (range(at, min(at + step, last)) for at in range(first, last, step))
        first = last
