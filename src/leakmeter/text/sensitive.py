"""What a user calls personal or secret: values of a table, such as an export of customers, or patterns.

A run does not keep a list. It keeps the SHA-256 of the file, and the places of its values in each context, which has
them anyway.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

from leakmeter.core.files import read_text
from leakmeter.errors import DataError
from leakmeter.text import matching
from leakmeter.text.entities import pattern

SensitiveRange = tuple[int, int, str]
"""Characters [start, end) of a context, and the type of what stands there."""
_WHAT: Final = "file of sensitive values"
_DELIMITERS: Final = ",;\t|"
_LEAST_CHARACTERS: Final = 3
"""Letters and digits of a value: shorter ones stand in every text."""
_MOST_GROUPED: Final = 40
"""The same of a number or a code: what is longer is a text."""
TYPE: Final = re.compile(r"\w{1,24}")
"""Of a value: a heading of the table, or what stands before the pattern."""


@dataclass(frozen=True, slots=True)
class Sensitive:
    sha256: str
    by_first_word: dict[str, list[tuple[tuple[str, ...], str]]]
    """Values as folded words, longest first, with their types, by their first word."""
    grouped: dict[str, str]
    """Types of short values with digits, whose groups may be of any size, by their letters and digits."""
    patterns: tuple[pattern.Pattern, ...]

    def find(self, context: str) -> list[SensitiveRange]:
        """Where a context says any of it, in order; a value has to stand there in whole words."""
        mentions = (mention for user_pattern in self.patterns for mention in pattern.find(context, user_pattern))
        return sorted({*self._values(context), *((at.start, at.end, _type(at.type)) for at in mentions)})

    def _values(self, context: str) -> Iterator[SensitiveRange]:
        words = matching.words(context) if self.by_first_word or self.grouped else []
        for i, (first, start, _) in enumerate(words):
            for value, kind in self.by_first_word.get(first, ()):
                if tuple(word for word, _, _ in words[i : i + len(value)]) == value:
                    yield start, words[i + len(value) - 1][2], kind
                    break
            if (place := self._grouped(words, i)) is not None:
                yield place

    def _grouped(self, words: Sequence[tuple[str, int, int]], first: int) -> SensitiveRange | None:
        """The longest of `grouped` that begins with a word; None where none does."""
        place, letters = None, ""
        for word, _, end in words[first : first + _MOST_GROUPED] if self.grouped else ():
            letters += word
            if len(letters) > _MOST_GROUPED:
                break
            if kind := self.grouped.get(letters):
                place = words[first][1], end, kind
        return place


def read(path: str) -> Sensitive:
    """A '.csv' file with a line of headings, whose columns are types, or lines 'TYPE = REGEX'."""
    text = read_text(Path(path), _WHAT)
    return _read(text, path)


@lru_cache(maxsize=4)
def _read(text: str, path: str) -> Sensitive:
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    if Path(path).suffix.lower() != ".csv":
        return Sensitive(sha256, {}, {}, tuple(pattern.parse(text)))
    try:
        heading = text.partition("\n")[0]
        delimiter = max(_DELIMITERS, key=heading.count)
        rows = list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"{_WHAT} '{path}' is not a table: {error}") from None
    # A row may be longer or shorter than its headings.
    cells: Iterator[tuple[Any, Any]] = chain.from_iterable(row.items() for row in rows)
    values = {
        (tuple(word for word, _, _ in matching.words(value)), _type(column))
        for column, value in cells
        if isinstance(column, str) and isinstance(value, str)
    }
    by_first_word: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    grouped: dict[str, str] = {}
    for words, kind in sorted(values, key=lambda value: (-len(value[0]), value)):
        letters = "".join(words)
        if len(letters) < _LEAST_CHARACTERS:
            continue
        if len(letters) <= _MOST_GROUPED and any(map(str.isdigit, letters)):
            grouped.setdefault(letters, kind)
        else:
            by_first_word.setdefault(words[0], []).append((words, kind))
    if not (by_first_word or grouped):
        raise DataError(
            f"{_WHAT} '{path}' holds no value of {_LEAST_CHARACTERS} characters or more; give a table with a line of "
            "headings and a value in each column, or lines TYPE = REGEX in a file that is not called .csv"
        )
    return Sensitive(sha256, by_first_word, grouped, ())


def _type(column: str) -> str:
    """A heading as a type; what is called 'other' is sensitive all the same."""
    kind = re.sub(r"\W+", "_", column.strip().casefold())[:24] or "value"
    return "other_value" if kind == "other" else kind
