"""Whether what stands in a user's turn was said by the user, or written into it by a program that retrieved it.

Many programs write what they retrieved into the user's turn, and a log rarely says so. Where that may be, the text is
not taken for the user's own words: it is better to report what somebody knew than to excuse what they did not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

LONGEST: Final = 400
"""Characters of what a person types in a chat; a longer turn may hold a document."""
_SHARED_WORDS: Final = 6
"""Words in a row that a turn and a source have in common only where one has them from the other."""
_FEWEST_WORDS: Final = 2
"""Of a source that may stand in a turn as a whole."""
_WORD = re.compile(r"\w+")
_BLOCK = re.compile(
    # A label: what follows it is something else than what was said. A colon within a time is none.
    r"(?:^|[\s>#*])[^\W\d_][\w\-]{0,40}(?: [\w\-#./]{1,20}){0,3} ?[:：](?!\S)"
    # A tag, a fence, a rule, a heading, a record, or a number in brackets, as of a list of sources.
    r"|</?[A-Za-z]|```|-{3,}|={3,}|(?:^|\s)#{1,6} |[{}|]|[\[【]\s{0,3}(?:\w{1,12} ?)?\d{1,4}\s{0,3}[\]】]"
)


def has_block(text: str) -> bool:
    """Whether a text has a form that marks a document: a label, a tag, a record.

    >>> has_block("Context: Ann owes 40. Question: who owes?"), has_block("I am Ann, and come at 10:30.")
    (True, False)
    """
    return _BLOCK.search(text) is not None


class SourceWords:
    """Words of sources, that turns are held against one after the other."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        for source in sources:
            words = _words(source)
            self._runs.update(_runs(words, min(len(words), _SHARED_WORDS)))

    def are_in(self, text: str) -> bool:
        """Whether a text has a short source as a whole, or six words in a row of any."""
        words = _words(text)
        sizes = range(_FEWEST_WORDS, _SHARED_WORDS + 1)
        return any(run in self._runs for size in sizes for run in _runs(words, size))


def is_said(text: str, sources: SourceWords) -> bool:
    """Whether a user's turn is nothing but what the user said: one short line without a form of a document, and without
    words of a source.

    >>> sources = SourceWords(["Ann owes 40."])
    >>> is_said("I am Ann.", sources), is_said("Ann owes 40. Who owes?", sources)
    (True, False)
    """
    said = text.strip()
    is_plain = len(said) <= LONGEST and len(said.splitlines()) == 1 and not has_block(said)
    return is_plain and not sources.are_in(said)


def _words(text: str) -> list[str]:
    return [match.group().casefold() for match in _WORD.finditer(text)]


def _runs(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + size]) for at in range(len(words) - size + 1) if size)
