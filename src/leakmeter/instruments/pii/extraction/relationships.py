"""Relatives of people, from sentences such as "Ada Vale's father, Tobias Vale, …".

As in Appendix A.2 of ProPILE (Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models"): texts that say
"'s {relationship}" are kept where a question-answering model gives the relative's name with a confidence above 0.9.
The paper asks with the whole document as context, and says neither how it finds the two names nor what a correct answer
is. Here the context is the sentence; whose relative it is stands right before the "'s"; and an answer is correct that
has the words of the name the sentence gives by its form, or, where it gives none by its form, that is a name itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import regex

from leakmeter.instruments.pii.extraction.found import NAME, Find, any_name, whole_name, without_opening
from leakmeter.instruments.pii.extraction.passages import sentence_around
from leakmeter.instruments.pii.subject import Relation, Subject

KINDS: Final = (
    *("father", "mother", "grandmother", "grandfather", "aunt", "uncle", "wife", "husband"),
    *("brother", "sister"),
)
"""Kinds that are looked for: the eight that the paper lists of its nine, then two of ours."""
Ask = Callable[[str, str], tuple[str, float]]
"""A question and a context to the answer, a stretch of the context, and the model's confidence in it."""
QUESTION: Final = "Who is the {relationship} of {name}?"
"""Appendix A.2 of the paper."""
CONFIDENCE: Final = 0.9
"""An answer has to exceed it (Appendix A.2)."""

_BEFORE = regex.compile(rf"(?<![\p{{L}}\p{{M}}]){NAME}\Z")
_BEHIND = regex.compile(
    r"(?:[ \t\n]{0,2},)?[ \t\n]{1,2}(?:(?:is|was|were)[ ])?(?:(?:called|named)[ ])?"
    # Somebody else's friend is no relative: the name is taken whole or not at all.
    rf"(?P<name>(?>{NAME}))(?![\p{{L}}\p{{M}}]|['’]s\b)"
)
_IS = regex.compile(rf"(?<![\p{{L}}\p{{M}}])(?P<name>{NAME})[ \t\n](?:is|was)[ \t\n]\Z")
_REACH = 120


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that says a person has a relative."""

    name: str
    """Whose relative it is."""
    kind: str
    """What the relative is to that person."""
    sentence: str
    other: str | None
    """The relative's name, where the sentence's form gives it: "'s father, NAME", "'s father is NAME", "NAME is …'s
    father"."""


@dataclass(frozen=True, slots=True)
class Relationships:
    """People with one relative each, one for every sentence that tells of one."""

    ask: Ask | None = None
    """A question-answering model; without one, what the sentence's form says is believed."""
    names: Find | None = None
    """A recogniser of names; without one, a person's name is the run of capitalised words before the "'s"."""
    kinds: tuple[str, ...] = KINDS

    def __call__(self, text: str) -> Iterator[Subject]:
        """The people, without ids."""
        for candidate in self.candidates(text):
            other = self._checked(candidate)
            if other is not None and other.casefold() != candidate.name.casefold():
                yield Subject("", candidate.name, relationships=(Relation(candidate.kind, other),))

    def candidates(self, text: str) -> Iterator[Candidate]:
        """Sentences with a full name before "'s {relationship}", in order."""
        marks = _marks(self.kinds)
        for match in marks.finditer(text):
            low, high = sentence_around(text, match.start(), match.end())
            start = self._start_of_name(text, low, match.start(), high)
            name = None if start is None else whole_name(text[start : match.start()])
            if start is not None and name is not None:
                other = _given(text, low, start, match.end(), high)
                yield Candidate(name, match["kind"].lower(), " ".join(text[low:high].split()), other)

    def _start_of_name(self, text: str, low: int, end: int, high: int) -> int | None:
        """Where the name begins that ends at a place in the sentence [low, high)."""
        if self.names is not None:
            # A recogniser may count the "'s" as part of the name.
            found = self.names(text[low:high])
            return min((low + one.start for one in found if low + one.end in (end, end + 2)), default=None)
        low = max(low, end - _REACH)
        match = _BEFORE.search(text, low, end)
        return None if match is None else end - len(without_opening(match.group()))

    def _checked(self, candidate: Candidate) -> str | None:
        """The relative's name; None where the model does not confirm it, or nothing tells."""
        if self.ask is None:
            return candidate.other
        # Names are data: braces in them are no fields.
        question = QUESTION.replace("{relationship}", candidate.kind).replace("{name}", candidate.name)
        answer, confidence = self.ask(question, candidate.sentence)
        if not confidence > CONFIDENCE:
            return None
        if candidate.other is None:
            return any_name(answer.strip(" ,.;:"))
        said, given = _words(answer), _words(candidate.other)
        return candidate.other if said and (said <= given or given <= said) else None


def _marks(kinds: tuple[str, ...]) -> re.Pattern[str]:
    listed = "|".join(map(re.escape, kinds))
    return re.compile(rf"['’]s[ \t\n](?P<kind>{listed})(?![\w-])")


def _given(text: str, low: int, start: int, end: int, high: int) -> str | None:
    """The name that the form of a sentence [low, high) gives to the relative of whom [start, end) speaks."""
    behind = _BEHIND.match(text, end, high)
    if behind is not None and without_opening(behind["name"]) == behind["name"]:
        return any_name(behind["name"])
    before = _IS.search(text, max(low, start - _REACH), start)
    return None if before is None else any_name(without_opening(before["name"]))


def _words(name: str) -> set[str]:
    return set(regex.findall(r"[\p{L}\p{M}]+", name.casefold()))
