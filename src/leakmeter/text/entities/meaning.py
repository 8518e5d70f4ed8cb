"""What is sensitive by its meaning where it is said of a person: an illness, a debt, a dismissal.

A list of words and phrases (`packs/meaning.toml`) says what a text is about, in four languages. It is asked only of
what scores show to come from the documents, and counts only where a person is spoken of near by: "diabetes is a chronic
disease" is of nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import regex

from leakmeter.text.entities.packs import pack, search
from leakmeter.text.matching import Folded
from leakmeter.text.structured import TextRange

MEANING: Final = "meaning"
"""How it is known that a span is sensitive."""
_END = regex.compile(r"(?<!\b(?:Mr|Mrs|Ms|Dr|Sr|Fr|Hr))[.!?。！？](?=\s|\Z)|\n")
_MOST_NEAR: Final = 600
"""Characters of the two sentences in which a person may be named."""
_PERSONS: Final = (
    "he she him her hers his himself herself mr mrs ms mx wife husband son daughter mother father brother sister",
    "er ihm ihn ihr ihre ihrer ihren ihrem sein seine seiner seinen seinem herr herrn frau sohn tochter mutter vater",
    "bruder schwester ehefrau ehemann il elle lui sa ses madame monsieur mme mari femme fils fille mère père",
    "frère sœur él ella su señor señora sr sra esposa marido hijo hija madre padre hermano hermana",
)
_WORDS: Final = [word for words in _PERSONS for word in words.split()]
# 'ER' and 'IL-6' are nobody.
_PERSON = regex.compile(rf"(?<!\w)(?:{'|'.join([*_WORDS, *map(str.capitalize, _WORDS)])})(?!\w|-\d)")


@dataclass(frozen=True, slots=True)
class SpokenOf:
    """An answer and what it was written from, of which is asked what spans mean."""

    answer: str
    query: str
    context: str
    people: Sequence[TextRange]
    """Characters of the answer that name people."""
    names: Sequence[str]
    """Of people whom the context names."""

    def kind_of(self, start: int, end: int, sources: Sequence[TextRange]) -> str | None:
        """What characters [start, end) of the answer say of a person that is sensitive; None where nothing is, and of
        what the query says. `sources` are characters of the context that they came from."""
        first, last = _sentences(self.answer, start, end)
        phrases = [mention.shifted(first) for mention in search.find(self.answer[first:last], pack.meanings())]
        phrases = [phrase for phrase in phrases if phrase.start < end and start < phrase.end]
        if not phrases:
            return None
        asked = Folded(self.query)
        phrases = [phrase for phrase in phrases if asked.where(self.answer[phrase.start : phrase.end]) is None]
        is_of_person = _PERSON.search(self.answer, first, last) or any(first <= at < last for at, _ in self.people)
        if not phrases or not (is_of_person or any(map(self._is_of_person, sources))):
            return None
        return min(phrases, key=lambda phrase: (phrase.start - phrase.end, phrase.start, phrase.type)).type

    def _is_of_person(self, source: TextRange) -> bool:
        first, last = _sentences(self.context, *source)
        said = self.context[first:last]
        return _PERSON.search(said) is not None or any(name in said for name in self.names)


def _sentences(text: str, start: int, end: int) -> TextRange:
    """The sentences that characters stand in, and the one before them."""
    least = max(0, start - _MOST_NEAR)
    ends = [match.end() for match in _END.finditer(text, least, start)]
    behind = _END.search(text, end, min(len(text), end + _MOST_NEAR))
    return (ends[-2] if len(ends) > 1 else least), (behind.start() if behind else min(len(text), end + _MOST_NEAR))
