"""Other people in a person's place: what a model finds as likely behind any name tells nothing of this one.

Some values are likely whoever they are asked of: 'gmail.com', 'John', a telephone number with a rhythm. So each value,
the true one and invented ones, is also scored behind names of the same form that are nobody's, where it says their name
if it said the person's:

    The email address of Mara Ellsworth is   mara.ellsworth@example.org
    The email address of Dana Whitfield is   dana.whitfield@example.org

What a likelihood is above those is what the model makes of this name and this value together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leakmeter.instruments.pii.nulls import nulls_of
from leakmeter.instruments.pii.nulls_email import other_core, words_of
from leakmeter.instruments.pii.subject import STRUCTURED, Relation, Subject, ValueType

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ANY: Final = "friend"
"""A relation that says nothing of who it is."""
_LEAST: Final = 3  # letters of a name that are no chance in a domain
_APART: Final = 7_919
"""Added to the seed: values of other people are no nulls of the person's."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Somebody who is not there, in a person's place."""

    person: Subject
    other: Subject
    """With a name of the same form, and other values of the form of the person's."""

    def said(self, value: str, type_: ValueType) -> str:
        """A value as it would be this one's: where it says the person's name, it says the other's."""
        if type_ == "email":
            return _other_email(value, self.person.name, self.other.name)
        if type_ == "relationship":
            return _other_words(value, self.person.name, self.other.name)
        return value


def references_of(subject: Subject, n: int, *, seed: int) -> tuple[Reference, ...]:
    """People in a person's place, drawn for (seed, subject's id).

    Args:
        subject: the person.
        n: how many.
        seed: of the draw.

    Raises:
        UsageError: fewer can be invented.
    """
    nobody = Subject(subject.id, "", relationships=(Relation(_ANY, subject.name),), region=subject.region)
    names = nulls_of(nobody, "relationship", relation=_ANY, n=n, seed=seed)
    others = {
        type_: nulls_of(subject, type_, n=n, seed=seed + _APART)
        for type_ in STRUCTURED
        if getattr(subject, type_) is not None
    }
    made = []
    for number, name in enumerate(names):
        bare = Reference(subject, replace(subject, name=name))
        own: dict[str, Any] = {type_: bare.said(values[number], type_) for type_, values in others.items()}
        made.append(Reference(subject, replace(subject, name=name, **own)))
    return tuple(made)


def _other_words(text: str, name: str, other: str) -> str:
    """Words of a name in a text become those at the same place of the other name."""
    pairs = zip(_WORD.findall(name), _WORD.findall(other), strict=False)
    known = {word.casefold(): new for word, new in pairs}
    return _WORD.sub(lambda match: known.get(match.group().casefold(), match.group()), text)


def _other_email(value: str, name: str, other: str) -> str:
    local, at, domain = value.rpartition("@")
    core = re.split(r"[+\d]", local, maxsplit=1)[0].rstrip("._-")
    new = other_core(core, name, other)
    if new is not None:
        local = new + local[len(core) :]
    pairs = [pair for pair in zip(words_of(name), words_of(other), strict=False) if len(pair[0]) >= _LEAST]
    if new is None:
        local = _replaced(local, pairs)
    return local + at + _replaced(domain, pairs)


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    known = dict(pairs)
    if not known:
        return text
    # All at once: a word of the other name may be one of this name.
    of_name = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True))), re.IGNORECASE)
    return of_name.sub(lambda match: known[match.group().lower()], text)
