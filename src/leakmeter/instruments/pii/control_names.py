"""Control names: what a model finds as likely behind any name tells nothing of this subject.

Some values are likely for any name: 'gmail.com', 'John', a telephone number with a rhythm. So each value, the true one
and its decoys, is also scored behind names of the same form that are nobody's, where it says their name if it said the
subject's:

    The email address of Mara Ellsworth is   mara.ellsworth@example.org
    The email address of Dana Whitfield is   dana.whitfield@example.org

What a likelihood is above those is what the model makes of this name and this value together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from leakmeter.instruments.pii.decoys import decoys_of
from leakmeter.instruments.pii.subject import STRUCTURED, Relation, Subject, ValueType
from leakmeter.text.surrogates import email, person

_ANY: Final = "friend"
"""A relation that says nothing of who it is."""
_APART: Final = 7_919
"""Added to the seed: values of control names are no decoys of the subject's."""


@dataclass(frozen=True, slots=True)
class ControlName:
    """Somebody who is not there, in a subject's place."""

    subject: Subject
    other: Subject
    """With a name of the same form, and other values of the form of the subject's."""

    def said(self, value: str, type_: ValueType) -> str:
        """A value as it would be this one's: where it says the subject's name, it says the other's."""
        if type_ == "email":
            return email.renamed(value, self.subject.name, self.other.name)
        if type_ == "relationship":
            return person.renamed(value, self.subject.name, self.other.name)
        return value


def control_names_of(subject: Subject, n: int, *, seed: int) -> tuple[ControlName, ...]:
    """Others in a subject's place, drawn for (seed, subject's id).

    Args:
        subject: whose values are asked for.
        n: how many.
        seed: of the draw.

    Raises:
        UsageError: fewer can be drawn.
    """
    nobody = Subject(subject.id, "", relationships=(Relation(_ANY, subject.name),), region=subject.region)
    names = decoys_of(nobody, "relationship", relation=_ANY, n=n, seed=seed)
    others = {
        type_: decoys_of(subject, type_, n=n, seed=seed + _APART)
        for type_ in STRUCTURED
        if getattr(subject, type_) is not None
    }
    made = []
    for number, name in enumerate(names):
        bare = ControlName(subject, replace(subject, name=name))
        own: dict[str, Any] = {type_: bare.said(values[number], type_) for type_, values in others.items()}
        made.append(ControlName(subject, replace(subject, name=name, **own)))
    return tuple(made)
