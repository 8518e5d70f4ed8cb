"""What a named-entity recogniser says, as mentions: people and dates; places and organisations are left alone."""

from __future__ import annotations

from collections.abc import Iterator

from leakmeter.text.entities import date, person
from leakmeter.text.entities.mention import DATE, PERSON, Mention, Recogniser

_PEOPLE = frozenset(
    {
        *("PER", "PERSON", "PERS", "NAME", "PATIENT", "DOCTOR", "STAFF", "USERNAME", "PRIVATE_PERSON"),
        *("GIVEN_NAME", "GIVENNAME", "FIRSTNAME", "FIRST_NAME", "LASTNAME", "LAST_NAME", "SURNAME", "MIDDLENAME"),
    }
)
_DATES = frozenset({"DATE", "DOB", "DATE_OF_BIRTH", "DATEOFBIRTH", "BIRTHDAY", "PRIVATE_DATE"})


def find(text: str, region: str, recognise: Recogniser) -> Iterator[Mention]:
    """People and dates that a recogniser finds; what it says of places outside the text is ignored."""
    for start, end, label in recognise(text):
        if not 0 <= start < end <= len(text):
            continue
        mention_text = text[start:end]
        start, end = end - len(mention_text.lstrip()), start + len(mention_text.rstrip())
        mention_text = text[start:end]
        kind = label.upper().removeprefix("B-").removeprefix("I-")
        if kind in _PEOPLE and (name := person.normal(mention_text)):
            yield Mention(PERSON, start, end, name)
        elif kind in _DATES and any(map(str.isalnum, mention_text)):
            parsed = date.parse(mention_text, region)
            yield Mention(DATE, start, end, parsed[1] if parsed else " ".join(mention_text.casefold().split()))
