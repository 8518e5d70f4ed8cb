"""What detectors find, and what becomes of it: mentions, and entities that are said in one or more of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

PHONE, EMAIL, ADDRESS, DATE, PERSON = TYPES = "phone", "email", "address", "date", "person"
"""Types that are always looked for; the user's patterns add others."""


@dataclass(frozen=True, slots=True)
class Place:
    """Characters [start, end) of a text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mention:
    """One place that says a value."""

    type: str
    start: int
    end: int
    value: str
    """Normal form: two mentions of one value have the same."""
    gender: str = ""
    """Of a person, where the title says it: 'm' or 'f'. It only keeps two people of one surname apart."""

    def shifted(self, n_characters: int) -> Mention:
        return replace(self, start=self.start + n_characters, end=self.end + n_characters)


@dataclass(frozen=True, slots=True)
class Entity:
    """A value or a person, wherever the text says it."""

    type: str
    value: str
    """Normal form of its fullest mention."""
    text: str
    """Its fullest mention as the text has it."""
    mentions: tuple[tuple[int, int], ...]
    """Characters [start, end), in order, none overlapping."""


Recogniser = Callable[[str], Iterable[tuple[int, int, str]]]
"""A named-entity recogniser: a text to characters [start, end) and labels, such as PER, PERSON or DATE."""


def without_overlaps(ranked: Iterable[Sequence[Mention]]) -> Iterator[Mention]:
    """Mentions of which no two overlap: of the most trusted rank, given first, and within a rank what is longer."""
    occupied: list[tuple[int, int]] = []
    for mentions in ranked:
        for mention in sorted(mentions, key=lambda m: (m.start - m.end, m.start, m.type, m.value)):
            if mention.start < mention.end and is_free(occupied, mention.start, mention.end):
                insort(occupied, (mention.start, mention.end))
                yield mention


def is_free(occupied: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether none of the ranges, which are sorted and do not overlap, has a character of [start, end)."""
    at = bisect_left(occupied, (start, end))
    return (at == 0 or occupied[at - 1][1] <= start) and (at == len(occupied) or end <= occupied[at][0])
