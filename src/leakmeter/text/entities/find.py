"""All detectors and a recogniser together, and mentions of one value or one person put together."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from leakmeter.text.entities import address, date, email, pattern, people, person, phone, shapes
from leakmeter.text.entities.mention import (
    ADDRESS,
    DATE,
    EMAIL,
    PERSON,
    PHONE,
    TYPES,
    Entity,
    Mention,
    Recogniser,
    is_free,
    without_overlaps,
)
from leakmeter.text.entities.packs import pack, search
from leakmeter.text.entities.packs.rule import PUBLIC, PackRule
from leakmeter.text.escapes import as_meant, meant
from leakmeter.text.folding import in_unescaped_text

_PEOPLE = frozenset(
    {
        *("PER", "PERSON", "PERS", "NAME", "PATIENT", "DOCTOR", "STAFF", "USERNAME", "PRIVATE_PERSON"),
        *("GIVEN_NAME", "GIVENNAME", "FIRSTNAME", "FIRST_NAME", "LASTNAME", "LAST_NAME", "SURNAME", "MIDDLENAME"),
    }
)
_DATES = frozenset({"DATE", "DOB", "DATE_OF_BIRTH", "DATEOFBIRTH", "BIRTHDAY", "PRIVATE_DATE"})
_BY_SHAPE: Final = "person by shape"
_KIND_OF_LABEL: Final = {
    label: kind
    for kind, labels in {
        ADDRESS: "ADDRESS PRIVATE_ADDRESS STREET STREET_ADDRESS",
        EMAIL: "EMAIL PRIVATE_EMAIL EMAIL_ADDRESS",
        PHONE: "PHONE PRIVATE_PHONE PHONE_NUMBER PHONENUMBER TELEPHONENUM",
        "account": "ACCOUNT ACCOUNT_NUMBER ACCOUNTNUM PRIVATE_ACCOUNT IBAN IBAN_CODE",
        "card number": "CREDIT_CARD CREDITCARD CREDITCARDNUMBER CREDIT_CARD_NUMBER",
        "key": "SECRET PASSWORD API_KEY PIN",
        "web address": "PRIVATE_URL",
        "identifier": "ID IDNUM ID_NUM IDCARDNUM SSN US_SSN SOCIALNUM TAXNUM PASSPORT PASSPORTNUM DRIVERLICENSENUM "
        "MEDICAL_RECORD LICENSE_PLATE VEHICLE IP IP_ADDRESS",
    }.items()
    for label in labels.split()
}
"""Labels of token classifiers of what is personal or secret. Places and organisations are neither by themselves."""


@in_unescaped_text
def find_recognised(text: str, region: str, recognise: Recogniser) -> Iterator[Mention]:
    """What a recogniser finds that is personal or secret; what it says of places outside the text is ignored."""
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
        elif kind in _KIND_OF_LABEL and any(map(str.isalnum, mention_text)):
            kind = _KIND_OF_LABEL[kind]
            # A telephone number has the normal form of its library, or is none.
            values = [mention.value for mention in phone.find(mention_text, region)] if kind == PHONE else []
            if kind != PHONE or values:
                yield Mention(kind, start, end, values[0] if values else " ".join(mention_text.casefold().split()))


@dataclass(frozen=True, slots=True)
class ByForm:
    """What a text says by its form alone, by who found it."""

    emails: Sequence[Mention]
    public: Sequence[Mention]
    packed: Sequence[Mention]
    addresses: Sequence[Mention]
    dates: Sequence[Mention]
    phones: Sequence[Mention]
    people: Sequence[Mention]


@lru_cache(maxsize=64)
def by_form(text: str, region: str) -> ByForm:
    """Kept for some texts: logs have one document in many cases, and answers are held against several contexts."""
    return ByForm(
        emails=tuple(email.find(text)),
        public=tuple(search.find(text, pack.public())),
        packed=tuple(search.find(text, pack.recognisers())),
        addresses=tuple(address.find(text, region)),
        dates=tuple(date.find(text, region)),
        phones=tuple(phone.find(text, region)),
        people=tuple(person.find(text)),
    )


def find(
    text: str,
    parts: Sequence[tuple[int, int]],
    *,
    region: str,
    patterns: Sequence[pattern.Pattern] = (),
    packs: Sequence[str] = (),
    recognise: Recogniser | None = None,
    by_shape: bool = True,
) -> list[Entity]:
    """Every value and person that a text says, in the order of first mention. `parts` are characters [start, end) of
    each document; no mention lies in two. `packs` are texts of packs of the user. With `by_shape`, a name that has only
    the shape of a person's is one too."""
    phone.check_region(region)
    given, text = text, meant(text)
    rules = [rule for rule in pack.rules_of(packs) if not rule.is_shape]
    shaped = sorted(shapes.names(text), key=lambda mention: mention.start) if by_shape else []
    starts = [mention.start for mention in shaped]

    def shaped_within(start: int, end: int) -> list[Mention]:
        of_part = shaped[bisect_left(starts, start) : bisect_left(starts, end)]
        return [mention.shifted(-start) for mention in of_part if mention.end <= end]

    told: list[Mention] = []
    mentions: list[Mention] = []
    for start, end in parts:
        of_part = [mention for mention in shaped_within(start, end) if mention.type == PERSON]
        found = _in_document(text[start:end], region, patterns, rules, recognise, of_part)
        for mention in (mention.shifted(start) for mention in found):
            told += [mention] if mention.type != _BY_SHAPE else []
            mentions.append(replace(mention, type=PERSON) if mention.type == _BY_SHAPE else mention)
    names = [group[0].value for group in _people(told)]
    shape_names = list(dict.fromkeys(mention.value for mention in shaped if mention.type == PERSON))
    places = sorted((mention.start, mention.end) for mention in mentions)
    lowered = person.lowered_words(text)
    for start, end in parts:
        in_document = people.said_again(text[start:end], names, lowered, shaped_within(start, end))
        in_document += people.said_by_shape(text[start:end], shape_names, lowered)
        again = [mention.shifted(start) for mention in without_overlaps([in_document])]
        mentions += [mention for mention in again if is_free(places, mention.start, mention.end)]
    groups = _people(mentions)
    groups += _grouped((m for m in mentions if m.type == DATE), _is_part_of_date)
    groups += _grouped((m for m in mentions if m.type == ADDRESS), is_part_of_address)
    groups += _grouped((m for m in mentions if m.type not in (PERSON, DATE, ADDRESS)), lambda some, more: False)
    entities = []
    for group in groups:
        fullest = group[0]
        places = sorted((mention.start, mention.end) for mention in group)
        entities.append(Entity(fullest.type, fullest.value, as_meant(given, fullest.start, fullest.end), tuple(places)))
    return sorted(entities, key=lambda entity: entity.mentions[0])


def _in_document(
    text: str,
    region: str,
    patterns: Sequence[pattern.Pattern],
    rules: Sequence[PackRule],
    recognise: Recogniser | None,
    shaped: Sequence[Mention],
) -> Iterable[Mention]:
    """`shaped` are people by the shape of their names."""
    seen = list(find_recognised(text, region, recognise)) if recognise else []
    own = by_form(text, region)
    found = without_overlaps(
        (
            [mention for user_pattern in patterns for mention in pattern.find(text, user_pattern)],
            list(search.find(text, rules)),
            own.emails,
            own.public,
            [mention for mention in own.packed if mention.type not in TYPES],
            [*own.addresses, *(mention for mention in own.packed if mention.type == ADDRESS)],
            [*own.dates, *(mention for mention in own.packed if mention.type == DATE)],
            own.phones,
            [*(mention for mention in (*seen, *own.packed) if mention.type == PERSON), *own.people],
            [mention for mention in seen if mention.type != PERSON],
            [replace(mention, type=_BY_SHAPE) for mention in shaped],
        )
    )
    return (mention for mention in found if mention.type != PUBLIC)


def _people(mentions: Iterable[Mention]) -> list[list[Mention]]:
    people = [mention for mention in mentions if mention.type == PERSON]
    # Titles keep apart what the words do not: 'Mr Ek' and 'Mrs Ek'.
    keyed = [replace(m, value=f"{m.value}\0{m.gender}") for m in people]
    groups = _grouped(keyed, _is_part_of_person)
    return [[replace(m, value=m.value.partition("\0")[0]) for m in group] for group in groups]


def _is_part_of_person(some: str, more: str) -> bool:
    name, _, gender = some.partition("\0")
    other, _, theirs = more.partition("\0")
    return not (gender and theirs and gender != theirs) and person.is_part(name, other)


def _is_part_of_date(some: str, more: str) -> bool:
    return date.is_value(some) and date.is_value(more) and date.is_part(some, more)


def is_part_of_address(some: str, more: str) -> bool:
    """Whether one normal form is a part of the other that is an address by itself."""
    # A street with its number; a town alone is no address.
    return some.count(" ") >= 1 and f" {some} " in f" {more} "


def _grouped(mentions: Iterable[Mention], is_part: Callable[[str, str], bool]) -> list[list[Mention]]:
    """Mentions of equal value together, and those of a part with the only value it can be a part of; the fullest first
    in each group."""
    by_value: dict[tuple[str, str], list[Mention]] = {}
    for mention in mentions:
        by_value.setdefault((mention.type, mention.value), []).append(mention)
    keys = sorted(by_value, key=lambda key: (_fullness(key[1]), by_value[key][0].start))
    groups: list[list[Mention]] = []
    fullest: list[str] = []
    # What a value is a part of has its longest word too.
    having: dict[str, list[int]] = {}
    for key in keys:
        words = _words(key[1])
        near = having.get(max(words, key=len), []) if words else []
        homes = [i for i in near if is_part(key[1], fullest[i])]
        if len(homes) == 1:
            groups[homes[0]] += by_value[key]
            continue
        for word in set(words):
            having.setdefault(word, []).append(len(groups))
        fullest.append(key[1])
        groups.append(list(by_value[key]))
    return groups


def _words(value: str) -> list[str]:
    """Words of a normal form, without what a date does not say."""
    return [word for word in re.split(r"[ -]", value.partition("\0")[0]) if word.strip("x")]


def _fullness(value: str) -> tuple[int, int]:
    """For sorting: what says most comes first."""
    name, _, gender = value.partition("\0")
    return (-len(name.split()), name.count("x") - len(name) - len(gender))
