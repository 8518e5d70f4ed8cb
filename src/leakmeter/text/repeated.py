"""Texts that stand in another, whatever the white space and case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LEAST: Final = 40
"""Characters below which a text may stand in another by chance."""


def is_repeated(text: str, documents: Iterable[str]) -> bool:
    """Whether the text has a whole document in it."""
    if len(text) < _LEAST:
        return False
    folded = _folded(text)
    return any(len(document) >= _LEAST and _folded(document) in folded for document in documents)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
