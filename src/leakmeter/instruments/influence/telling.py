"""Which answers of a log look as if they disclosed something, before anything is measured: a reason to begin there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import regex

from leakmeter.core.case import Case

_WORD: Final = regex.compile(r"[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N}@.+_/-]*[\p{L}\p{M}\p{N}]")
_TELLING: Final = regex.compile(r"[\p{N}@]|\p{Lu}")
_MOST_CHARACTERS: Final = 200_000
"""Of a context that are looked at."""


def telling(cases: Sequence[Case]) -> list[float]:
    """Of each case, how many words with digits, '@' or capitals its response shares with what was read before it and
    not with the query."""
    return [float(len((_words(case.response or "") & _words(_context(case))) - _words(_query(case)))) for case in cases]


def _context(case: Case) -> str:
    return "\n".join(document.text for document in case.context_documents)[:_MOST_CHARACTERS]


def _query(case: Case) -> str:
    if case.asking is None:
        return case.query
    asking = case.messages[case.asking]
    return "\n".join(part.text for number, part in enumerate(asking.parts) if number not in asking.retrieved)


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if _TELLING.search(word)}
