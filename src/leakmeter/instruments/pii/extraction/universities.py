"""People and the universities that are named with them.

As in Appendix A.2 of ProPILE (Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models"), which pairs the
names of people and of universities that stand in the same document. Here they stand in the same sentence unless asked
otherwise, since two names in one document seldom belong together; of several people one in the sentence is meant, and
the nearest. Either way this is a sign of an affiliation and no proof of one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from leakmeter.core.files import read_text
from leakmeter.data.records import read_csv
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.pii.extraction.found import Find, Found, Place, apart_from, whole_name, widest
from leakmeter.instruments.pii.extraction.passages import sentence_around
from leakmeter.instruments.pii.subject import Subject

Scope = Literal["sentence", "document"]
_WORD = re.compile(r"\w+")


class Universities:
    """People with one university each, as often as a text names one beside a person."""

    def __init__(self, listed: Iterable[str], names: Find, scope: Scope = "sentence") -> None:
        """Prepare a search.

        Args:
            listed: names of universities; they are found as they are written, whole words only, the longest first.
            names: a finder of people's names.
            scope: where a person's name has to stand.

        Raises:
            UsageError: no names, or another scope.
        """
        if scope not in get_args(Scope):
            raise UsageError(f"scope is '{scope}'; expected one of {', '.join(get_args(Scope))}")
        self._names = names
        self._scope = scope
        # By a name's first word: the lengths there are, longest first, and the names.
        self._listed: dict[str, tuple[list[int], set[str]]] = {}
        for name in map(_one_spaced, listed):
            if first := _WORD.match(name):
                self._listed.setdefault(first.group(), ([], set()))[1].add(name)
        for lengths, known in self._listed.values():
            lengths.extend(sorted({len(name) for name in known}, reverse=True))
        if not self._listed:
            raise UsageError("there are no names of universities; give at least one that begins with a letter or digit")

    def __call__(self, text: str) -> Iterator[Subject]:
        """The people, without ids; each pair once."""
        places = self.places(text)
        if not places:
            return
        everyone = self._people(text, 0, len(text), places) if self._scope == "document" else []
        told: set[tuple[str, str]] = set()
        people, low, high = everyone, 0, 0
        for place in places:
            if place.end > high:
                low, high = sentence_around(text, place.start, place.end)
                people = self._people(text, low, high, places) if self._scope == "sentence" else everyone
            if not people:
                continue
            person = min(people, key=lambda one: _distance(one, place, low, high))
            pair = whole_name(text[person.start : person.end]) or "", _one_spaced(text[place.start : place.end])
            if pair not in told:
                told.add(pair)
                yield Subject("", pair[0], university=pair[1])

    def places(self, text: str) -> list[Place]:
        """Where universities are named, in order; of names that share a beginning, the longest."""
        # A name may be wrapped at a line's end.
        text = text.replace("\n", " ")
        out: list[Place] = []
        end = 0
        for word in _WORD.finditer(text):
            start = word.start()
            if start < end or (entry := self._listed.get(word.group())) is None:
                continue
            lengths, known = entry
            for length in lengths:
                said = text[start : start + length]
                after = text[start + length : start + length + 1]
                if len(said) == length and said in known and not (after.isalnum() or after == "_"):
                    end = start + length
                    out.append(Place(start, end))
                    break
        return out

    def _people(self, text: str, low: int, high: int, places: Sequence[Found]) -> list[Found]:
        """Full names within [low, high) that are no part of a university's."""
        found = [Place(low + one.start, low + one.end) for one in self._names(text[low:high])]
        named = [one for one in widest(found, high) if whole_name(text[one.start : one.end])]
        first, behind = (bisect_left(places, at, key=lambda place: place.start) for at in (low, high))
        return apart_from(named, places[first:behind])


def _distance(one: Found, place: Found, low: int, high: int) -> tuple[bool, int]:
    """How far a person is from a university: outside its sentence [low, high) or not, then in characters."""
    return not low <= one.start < one.end <= high, max(one.start - place.end, place.start - one.end)


def load_names(path: str | Path, *, column: str = "name") -> tuple[str, ...]:
    """Names of a list: a CSV file's column, or the lines of any other file; each once, in order.

    Raises:
        DataError: not readable, no such column, or no names.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        rows = read_csv(path)
        if column not in rows[0]:
            raise DataError(f"CSV file '{path}' has no column '{column}'; it has {', '.join(map(repr, rows[0]))}")
        given = [row[column] for row in rows]
    else:
        given = read_text(path, "list of names").splitlines()
    names = tuple(dict.fromkeys(name for name in map(_one_spaced, given) if name))
    if not names:
        raise DataError(f"list of names '{path}' holds no name; expected one a line")
    return names


def _one_spaced(text: str) -> str:
    return " ".join(text.split())
