"""Contexts of other cases of the same log: what an answer is held against that was not written from them.

They have the frame, the format, the language and the tone of the context that was read, and nothing of what only that
one says. What an answer owes to such a context is style; what it owes to its own beyond that came from there.

A document that has a value of the answer, or a phrase that the answer took from its own context, is no control but
another source, as the same document in two cases is; a phrase that more than half of the other contexts have is their
form, and counts for nothing. Of the contexts that are left those that share most words with the case's own are taken:
records of the same kind, with the same names of fields.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from leakmeter.core.case import Case, Document
from leakmeter.text import matching
from leakmeter.text.entities import values
from leakmeter.text.templates import SEPARATOR

SEED: Final = 0
_LOOKED_AT: Final = 48
"""Other cases of which the controls of a case are chosen."""
_PHRASE: Final = 4
"""Words in a row that are no coincidence."""
_LEAST_SHARE: Final = 0.25
"""Of the length of a case's own context that a control has to have, or `_LEAST_CHARACTERS`."""
_LEAST_CHARACTERS: Final = 200

_Phrase = tuple[str, ...]


@dataclass(frozen=True)
class _Context:
    """What is asked of a case's context, found once."""

    documents: tuple[Document, ...]

    @cached_property
    def words(self) -> list[list[str]]:
        """Folded words of each document."""
        return [[word for word, _, _ in matching.words(document.text)] for document in self.documents]

    @cached_property
    def vocabularies(self) -> list[frozenset[str]]:
        return [frozenset(words) for words in self.words]

    @cached_property
    def phrases(self) -> list[frozenset[_Phrase]]:
        return [_phrases(words) for words in self.words]

    @cached_property
    def every_phrase(self) -> frozenset[_Phrase]:
        return frozenset().union(*self.phrases)

    @property
    def text(self) -> str:
        return SEPARATOR.join(document.text for document in self.documents)


def _phrases(words: Sequence[str]) -> frozenset[_Phrase]:
    return frozenset(tuple(words[i : i + _PHRASE]) for i in range(len(words) - _PHRASE + 1))


def with_controls(cases: Sequence[Case], n: int, *, region: str) -> list[Case]:
    """The cases, each with at most n controls; fewer where the others share too much with its answer."""
    contexts = [_Context(case.context_documents) for case in cases]
    return [
        replace(case, control_contexts=_controls(number, cases, contexts, n, region))
        for number, case in enumerate(cases)
    ]


def _controls(
    number: int, cases: Sequence[Case], contexts: Sequence[_Context], n: int, region: str
) -> tuple[Document, ...]:
    case, own = cases[number], contexts[number]
    digest = hashlib.sha256(f"controls\0{SEED}\0{number}\0{case.id}".encode("utf-8", "surrogatepass")).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8]))
    others = rng.permutation(len(cases))[: _LOOKED_AT + 1].tolist()
    others = [other for other in others if other != number][:_LOOKED_AT]
    # Boilerplate is what most of the others have.
    counts = Counter(phrase for other in others for phrase in contexts[other].every_phrase)
    shared = {phrase for phrase, times in counts.items() if 2 * times > len(others)}
    said = own.every_phrase - shared
    known: list[frozenset[str]] = []
    if case.response is not None:
        said &= _phrases([word for word, _, _ in matching.words(case.response)])
        found = values.find(case.response, own.text, case.query, region=region)
        spoken = (matching.words(case.response[value.start : value.end]) for value in found)
        known = [frozenset(word for word, _, _ in words) for words in spoken]
    usable: list[tuple[float, Document]] = []
    least = min(_LEAST_SHARE * len(own.text), _LEAST_CHARACTERS)
    for other in others:
        text = _left_of(contexts[other], {*map(tuple, own.words)}, said, known)
        if len(text) >= max(least, 1):
            # Less than half as long, it can say less; a longer one is cut.
            likeness = _likeness(own, contexts[other]) * min(1.0, 2 * len(text) / max(len(own.text), 1))
            usable.append((-likeness, Document(cases[other].id, text)))
    usable.sort(key=lambda one: one[0])
    chosen: dict[str, Document] = {}
    for _, document in usable:
        if document.text not in {taken.text for taken in chosen.values()}:
            chosen.setdefault(document.name, document)
    return tuple(chosen.values())[:n]


def _likeness(one: _Context, other: _Context) -> float:
    """Share of words of either that both have."""
    words, others = frozenset().union(*one.vocabularies), frozenset().union(*other.vocabularies)
    return len(words & others) / max(len(words | others), 1)


def _left_of(
    context: _Context, own: Container[_Phrase], said: frozenset[_Phrase], known: Sequence[frozenset[str]]
) -> str:
    """The text of a context without documents that are the case's own, or have what its answer says."""
    of_documents = zip(context.documents, context.words, context.phrases, context.vocabularies, strict=True)
    kept = [
        document.text
        for document, words, phrases, vocabulary in of_documents
        if tuple(words) not in own and not said & phrases and not any(value <= vocabulary for value in known if value)
    ]
    return SEPARATOR.join(kept)


def shortened(text: str, n_characters: int) -> str:
    """A text cut to at most so many characters, behind a word where it has any."""
    if len(text) <= n_characters:
        return text
    words = text[: n_characters + 1].rsplit(maxsplit=1)
    # Not all scripts part words.
    return words[0] if len(words) > 1 else text[:n_characters]
