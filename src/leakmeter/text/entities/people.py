"""Who is a person in a text: what the unit `entity` removes, and what the list of disclosures calls one.

A title or a label says that a name follows (`person`); a known first name says it by its shape (`shapes`). Both uses
ask here, so that what one of them calls a person is one for the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from leakmeter.text.entities import person, shapes
from leakmeter.text.entities.mention import PERSON, Mention


@dataclass(frozen=True, slots=True)
class Named:
    """The people whom a text names."""

    titled: tuple[str, ...]
    """Normal forms of names after titles and labels."""
    by_shape: tuple[str, ...]
    """Of names that have only the shape of one."""
    lowered: frozenset[str]
    """Words that the text writes in lower case, which are no evidence of a name."""


@lru_cache(maxsize=4)
def named(text: str) -> Named:
    titled = tuple(dict.fromkeys(mention.value for mention in person.find(text)))
    by_shape = tuple(dict.fromkeys(mention.value for mention in shapes.names(text) if mention.type == PERSON))
    return Named(titled, by_shape, person.lowered_words(text) if titled or by_shape else frozenset())


def said_again(text: str, names: Sequence[str], lowered: frozenset[str], shaped: Sequence[Mention]) -> list[Mention]:
    """Where a text says names that are known, or parts of them, with the rest of the name that has the shape of one.

    Args:
        text: to look in.
        names: normal forms of names after titles or labels.
        lowered: words that are no evidence of a name, being written in lower case somewhere.
        shaped: what has the shape of a value in `text`; see `shapes.find`.
    """
    known = list(person.said_again(text, names, lowered))
    starts = sorted(mention.start for mention in known)
    whole = []
    for mention in shaped:
        first = bisect_left(starts, mention.start)
        if mention.type in (PERSON, shapes.NAME_TYPE) and first < len(starts) and starts[first] < mention.end:
            # 'Call Mr Quillmere': what opens a sentence has a capital whatever it is.
            start = starts[first] if person.opens_sentence(text, mention.start) else mention.start
            whole.append(replace(mention, type=PERSON, start=start))
    return known + whole


def said_by_shape(text: str, names: Sequence[str], lowered: frozenset[str]) -> Iterator[Mention]:
    """Where a text says names that only their shape tells, or parts of them: with capitals alone, since a firm may have
    a first name, and then its other words are words."""
    if names:
        yield from person.said_again(text, names, lowered | person.lowered_words(text))
