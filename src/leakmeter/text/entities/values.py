"""Values in an answer that are personal or secret, and how that is known: a list of the user's, a form, a shape."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

import regex

from leakmeter.text.entities import copied, date, email, encoded, people, shapes
from leakmeter.text.entities.encoded import ENCODED
from leakmeter.text.entities.fields import FIELD, SaidField, kind_of
from leakmeter.text.entities.fields import find as said_fields
from leakmeter.text.entities.find import by_form
from leakmeter.text.entities.mention import ADDRESS, DATE, EMAIL, PERSON, PHONE, TYPES, Mention, without_overlaps
from leakmeter.text.entities.packs import pack
from leakmeter.text.entities.packs.rule import PUBLIC
from leakmeter.text.escapes import meant
from leakmeter.text.folding import plain
from leakmeter.text.matching import Folded, folded
from leakmeter.text.structured import Field, TextRange

LISTED: Final = "list"
_NUMBER = regex.compile(r"\d(?:[ .()/-]{0,2}\d){3,}")
"""A number of four digits or more."""
RECOGNISED: Final = "recogniser"
SHAPED: Final = "shape"
SEARCHED: Final = (
    "telephone, account, card and identity numbers, e-mail and postal addresses, full dates, capitalised names, "
    "amounts of money from 100, keys, codes, and numbers of four digits or more, also in words, and values of the "
    "documents in base64, hexadecimal digits, backwards or spelled"
)
"""What is looked for without a list."""
NOWHERE: Final = (
    "a number of four digits or more, or an e-mail address, that neither context nor query has: it may be made up, or "
    "come from a part of the prompt that is missing here or was not measured"
)
"""What `is_unexplained` means, for people."""


@dataclass(frozen=True, slots=True)
class PersonalValue:
    type: str
    found_by: str
    """`LISTED`, `RECOGNISED`, `FIELD`, `ENCODED` or `SHAPED`."""
    start: int
    end: int
    fields: tuple[TextRange, ...] = ()
    """Characters of the context where fields of records have it, or that it says in a code."""
    is_reworded: bool = False
    """Whether these say it otherwise: rounded, or as another form of a date."""
    is_encoded: bool = False
    """Whether these say it in a code: `encoded.find` has compared it with them."""
    by_scores: bool = False
    """Whether words alone are no evidence of it; then it is `instead` where scores show nothing."""
    instead: tuple[PersonalValue, ...] = field(default=(), repr=False)


def find(
    text: str,
    context: str,
    query: str,
    *,
    is_to_asker: bool = True,
    region: str,
    listed: Sequence[tuple[int, int, str]] = (),
    recognised: Sequence[tuple[int, int, str]] = (),
    entities: Sequence[tuple[int, int, str]] = (),
    fields: Sequence[Field] = (),
) -> list[PersonalValue]:
    """Values of an answer, in order, none overlapping. What the query says already is none; where who asks is not
    told it, only what the context does not say either. Values, names and words of the context tell what a word of the
    answer is; `listed` are (start, end, type) of what a list of the user's has in the context, `recognised` of what
    packs of the user know there, `entities` of what is known in another way, and `fields` are the values of its
    records."""
    text, context = meant(text), meant(context)
    known = list(copied.find(text, context, region, entities))
    seen = list(shapes.find(text, f"{context}\n{query}"))
    shaped = [*seen, *(mention for mention, by_shape in known if by_shape)]
    own = by_form(text, region)
    in_documents = _in_documents(context, region, [*listed, *recognised, *entities], fields) if context else []
    asked = AskedValues(query, Folded(query), None if is_to_asker else Folded(context))
    copies = list(encoded.find(text, context, query if is_to_asker else "", in_documents))
    dates = (m for m in own.dates if date.is_value(m.value) and "x" not in m.value)

    def documented(*types: str) -> list[Mention]:
        return [mention for mention, by_shape in known if not by_shape and mention.type in types]

    def of_packs(*types: str) -> list[Mention]:
        return [mention for mention in own.packed if mention.type in types]

    ranks = [
        (LISTED, _said(text, context, listed)),
        (PUBLIC, _said(text, context, [place for place in recognised if place[2] == PUBLIC])),
        (RECOGNISED, _said(text, context, [place for place in recognised if place[2] != PUBLIC])),
        (LISTED, documented(*{kind for _, _, kind in entities}.difference(TYPES, pack.kinds()))),
        (RECOGNISED, [*own.emails, *documented(EMAIL)]),
        (ENCODED, [Mention(copy.kind, copy.start, copy.end, "") for copy in copies]),
        (PUBLIC, own.public),
        (RECOGNISED, [*of_packs(*pack.kinds().difference(TYPES)), *documented(*pack.kinds().difference(TYPES))]),
        (SHAPED, [mention for mention in shaped if mention.type in (shapes.ACCOUNT, shapes.KEY, ADDRESS)]),
        (RECOGNISED, [*own.addresses, *of_packs(ADDRESS), *documented(ADDRESS)]),
        (RECOGNISED, [*dates, *of_packs(DATE), *documented(DATE)]),
        (RECOGNISED, [*own.phones, *documented(PHONE)]),
        (RECOGNISED, [*_people(text, context, seen, own.people), *of_packs(PERSON), *documented(PERSON)]),
        (SHAPED, [mention for mention in shaped if mention.type not in (PERSON, shapes.NAME_TYPE)]),
        (SHAPED, list(_people_by_shape(text, context))),
        (SHAPED, shaped),
    ]
    said = list(said_fields(text, fields, region))
    values = _resolved(text, asked, ranks)
    values = _with_fields(text, asked, ranks, values, said) if said else values
    places = {(copy.start, copy.end): copy.places for copy in copies}
    return [
        replace(value, fields=places[value.start, value.end], is_reworded=True, is_encoded=True)
        if value.found_by == ENCODED
        else value
        for value in values
    ]


def _in_documents(
    context: str, region: str, listed: Sequence[tuple[int, int, str]], fields: Sequence[Field]
) -> list[tuple[str, str]]:
    """Kinds and texts of the values that documents have, each once."""
    places = [(kind, context[start:end]) for start, end, kind in listed]
    known = [(value.type, value.text) for value in copied.known(context, region)]
    return list(dict.fromkeys([*places, *known, *((kind_of(one.key), one.text) for one in fields if one.key)]))


_Ranks = Sequence[tuple[str, Sequence[Mention]]]


def _with_fields(
    text: str, asked: AskedValues, ranks: _Ranks, values: Sequence[PersonalValue], said: Sequence[SaidField]
) -> list[PersonalValue]:
    """Values, and those of fields where nothing but a shape says what stands there."""
    known = [(value.start, value.end) for value in values if value.found_by in (LISTED, RECOGNISED)]
    known += [(mention.start, mention.end) for kind, mentions in ranks if kind == PUBLIC for mention in mentions]
    known.sort()
    starts, reach = [start for start, _ in known], list(accumulate((end for _, end in known), max))

    def is_known(one: SaidField) -> bool:
        at = bisect_left(starts, one.end)
        return at > 0 and reach[at - 1] > one.start

    # What is said word for word, and longer, is more likely meant.
    levels: dict[tuple[bool, bool], list[Mention]] = {(False, False): [], (False, True): [], (True, True): []}
    by_place: dict[tuple[int, int], SaidField] = {}
    for one in said:
        if not is_known(one) and by_place.setdefault((one.start, one.end), one) is one:
            levels[one.is_reworded, one.by_scores].append(Mention(one.kind, one.start, one.end, ""))
    out = []
    for value in _resolved(text, asked, [*ranks[:4], *((FIELD, of_level) for of_level in levels.values()), *ranks[2:]]):
        if value.found_by == FIELD:
            one = by_place[value.start, value.end]
            instead = tuple(other for other in values if other.start < value.end and value.start < other.end)
            # A shape tells of what many texts say that it is a value.
            by_scores = one.is_reworded or (one.by_scores and not instead)
            value = replace(value, fields=one.places, is_reworded=one.is_reworded, by_scores=by_scores, instead=instead)
        elif other := next((o for o in said if o.start < value.end and value.start < o.end), None):
            value = replace(value, fields=other.places, is_reworded=other.is_reworded)
        out.append(value)
    return out


@dataclass(frozen=True, slots=True)
class AskedValues:
    """What makes a value none."""

    query: str
    letters: Folded
    documents: Folded | None
    """Whose values count where another than the asker receives the answer; None where the asker does."""

    def has(self, value: str, found_by: str) -> bool:
        """Whether the query says a value already, and it tells its recipient nothing of the documents."""
        places = self.letters.places(value, in_words=True)
        is_number = folded(value).isdecimal()
        if not any(not is_number or copied.is_one_number(self.query[start:end], value) for start, end in places):
            return False
        # What stands in the documents in a code was compared with them.
        return self.documents is None or (found_by != ENCODED and self.documents.where(value) is None)


def _resolved(text: str, asked: AskedValues, ranks: _Ranks) -> list[PersonalValue]:
    """Mentions of which none overlap, in order, without what the query says."""
    by_place: dict[tuple[int, int, str], str] = {}
    for found_by, mentions in ranks:
        for mention in mentions:
            by_place.setdefault((mention.start, mention.end, mention.type), found_by)
    out = []
    for mention in without_overlaps(mentions for _, mentions in ranks):
        words = text[mention.start : mention.end]
        found_by = by_place[mention.start, mention.end, mention.type]
        # What shows nothing may be a code.
        says_something = found_by == ENCODED or any(map(str.isalnum, words))
        if mention.type != PUBLIC and says_something and not asked.has(words, found_by):
            out.append(PersonalValue(mention.type, found_by, mention.start, mention.end))
    return sorted(out, key=lambda value: value.start)


def _people(answer: str, documents: str, shaped: Sequence[Mention], titled: Sequence[Mention]) -> Iterator[Mention]:
    """People whom the answer names after a title or a label, or the documents do, however the answer writes them."""
    yield from titled
    known = people.named(documents)
    yield from people.said_again(answer, known.titled, known.lowered, shaped)


def _people_by_shape(answer: str, documents: str) -> Iterator[Mention]:
    """People whose names only have the shape of one in the documents, where the answer says them or a part of them."""
    known = people.named(documents)
    return people.said_by_shape(answer, known.by_shape, known.lowered)


def is_unexplained(response: str, prompt: str) -> bool:
    """Whether the response has a number of four digits or more, or an e-mail address, that the prompt does not have."""
    text = plain(response).text
    values = [mention.value for mention in email.find(text)] + _NUMBER.findall(text)
    if not values:
        return False
    folded = Folded(prompt)
    missing = {value for value in values if folded.where(value) is None}
    # 'anna [at] clinic [dot] org' is an address too.
    return bool(missing and missing.difference(mention.value for mention in email.find(prompt)))


def _said(text: str, context: str, places: Sequence[tuple[int, int, str]]) -> list[Mention]:
    """Where an answer says what stands in some places of the context, and its type."""
    if not places:
        return []
    answer = Folded(text)
    known = dict.fromkeys((context[start:end], kind) for start, end, kind in places)
    return [Mention(kind, *place, text[slice(*place)]) for value, kind in known for place in answer.places(value)]
