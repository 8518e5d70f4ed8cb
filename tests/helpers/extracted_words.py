"""An extractor that processes other than the tests' can import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from leakmeter.instruments.pii.subject import Subject


@dataclass(frozen=True)
class Words:
    """Everyone whose e-mail address a text says, by a form that costs nothing; a class of its own travels."""

    def __call__(self, text: str) -> Iterator[Subject]:
        for word in text.split():
            if "@" in word:
                yield Subject("", f"{word.partition('@')[0].title()} Vale", email=word)
