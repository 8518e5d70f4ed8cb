"""Where a text says a value again that is known from another place, in whatever form.

One value has many forms: a telephone number with and without its country, a date in words and in digits, base64, a part
of a name. What is held back in one of them, or cut, must not be left in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Self

from leakmeter.text.entities import copied, date, encoded, fields, person, phone
from leakmeter.text.entities.find import by_form, is_part_of_address
from leakmeter.text.entities.mention import ADDRESS, DATE, PERSON, PHONE, Mention
from leakmeter.text.escapes import as_meant, meant
from leakmeter.text.matching import Folded, folded
from leakmeter.text.structured import TextRange


@dataclass(frozen=True, slots=True)
class KnownValue:
    """A value, as one text says it."""

    type: str
    text: str
    normal: tuple[tuple[str, str], ...]
    """Types and normal forms that its form gives it."""

    @classmethod
    def of(cls, text: str, start: int, end: int, kind: str, region: str) -> Self:
        """What characters [start, end) of a text say; what stands around them tells their form."""
        first, last = _trimmed(text, start, end)
        known = (mention for mention in _by_form(text, region) if mention.start <= first and last <= mention.end)
        return cls(kind, as_meant(text, start, end), tuple(dict.fromkeys((each.type, each.value) for each in known)))

    def places(self, text: str, region: str) -> Iterator[TextRange]:
        """Characters of a text that say it, as it is or in another form; they may overlap. What many texts say, such as
        a short number or one ordinary word, is it in a code alone."""
        written = list(dict.fromkeys((self.text, *self._other_forms())))
        answer = Folded(text)
        for one in written:
            if not fields.is_weak(one):
                places = answer.places(one, in_words=True)
                is_number = folded(one).isdecimal()
                yield from (at for at in places if not is_number or copied.is_one_number(text[slice(*at)], one))
        copies = encoded.find(text, "\n\n".join(written), "", [(self.type, one) for one in written])
        yield from ((copy.start, copy.end) for copy in copies)
        if self.normal:
            yield from ((each.start, each.end) for each in _by_form(text, region) if self._is_said_by(each))
        if self.type == PERSON:
            names = person.said_again(text, [person.normal(self.text)], person.lowered_words(text))
            yield from ((name.start, name.end) for name in names)

    def _other_forms(self) -> Iterator[str]:
        for kind, value in self.normal:
            if kind == PHONE and phone.is_value(value):
                yield from (value.partition(";")[0], phone.national(value))
            elif kind == ADDRESS and any(map(str.isdigit, street := self.text.partition(",")[0])) and " " in street:
                yield street
            elif kind == DATE and date.is_value(value) and "x" not in value:
                yield value

    def _is_said_by(self, mention: Mention) -> bool:
        return any(mention.type == kind and _says(mention, value) for kind, value in self.normal)


def _says(mention: Mention, value: str) -> bool:
    """Whether a mention of the same type has a normal form that says a value, or more than it."""
    said = mention.value
    if mention.type == DATE and date.is_value(said) and date.is_value(value):
        return date.is_part(value, said)
    if mention.type == ADDRESS:
        return said == value or is_part_of_address(said, value) or is_part_of_address(value, said)
    if mention.type == PHONE:
        return said.partition(";")[0] == value.partition(";")[0]
    return said == value


def _by_form(text: str, region: str) -> Iterator[Mention]:
    """Mentions of what has a normal form; people have parts instead."""
    found = by_form(meant(text), region)
    return chain(found.emails, found.packed, found.addresses, found.dates, found.phones)


def _trimmed(text: str, start: int, end: int) -> TextRange:
    """Characters without the signs around them."""
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and not text[end - 1].isalnum():
        end -= 1
    return start, end
